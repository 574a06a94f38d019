// SPDX-License-Identifier: MIT OR Apache-2.0

//! The pictures of an experiment as files.

use std::path::{Path, PathBuf};

use anyhow::Result;
use weft_lab::experiment::{Experiment, Judgement, Marks};

use crate::report::{self, Drawn};

/// A picture of each table that has figures; its name is the table's number.
///
/// # Errors
///
/// If one cannot be drawn.
pub(super) fn of_tables(judgement: &Judgement, marks: &Marks) -> Result<Vec<Drawn>> {
    let mut pictures = Vec::new();
    for (number, table) in (1..).zip(&judgement.tables) {
        if let Some(svg) = report::picture(&marks.table(table))? {
            pictures.push(Drawn {
                name: number.to_string(),
                title: marks.title(table),
                svg,
            });
        }
    }
    Ok(pictures)
}

/// The pictures that the experiment describes.
///
/// # Errors
///
/// If a picture has several figures for one point.
pub(super) fn described(
    experiment: &Experiment,
    judgement: &Judgement,
    marks: &Marks,
) -> Result<Vec<Drawn>> {
    let points = experiment.pictures(judgement)?;
    let points: Vec<_> = points.iter().map(|it| marks.picture(it)).collect();
    let curves = experiment.curves(judgement)?;
    let curves: Vec<_> = curves.iter().map(|it| marks.curves(it)).collect();
    Ok(report::pictures(&points, &curves, judgement.runs.len()))
}

/// The name of a picture's file.
pub(super) fn file(stem: &str, picture: &Drawn) -> String {
    format!("{stem}-{}.svg", picture.name)
}

/// Pictures as files of a folder.
pub(super) fn files(pictures: Vec<Drawn>, folder: &Path, stem: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let files = pictures.into_iter().map(|picture| {
        let path = folder.join(file(stem, &picture));
        (path, picture.svg.into_bytes())
    });
    files.collect()
}
