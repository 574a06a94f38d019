// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft workloads`.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use weft_load::sizes::{Sizes, TABLES};

use crate::output;

/// List published flow-size distributions
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft workloads
  weft workloads web-search            its table, to plot or to change
  weft workloads ./my.cdf --json       a table of your own, with its mean
  weft run --workload ./my.cdf …       a table of your own")]
pub(crate) struct Args {
    /// Print the table of this workload: a name, fixed:SIZE, uniform:MIN-MAX or a CDF file
    workload: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Entry {
    name: String,
    mean_bytes: f64,
    median_bytes: f64,
    largest_bytes: f64,
    about: String,
    points: Vec<(f64, f64)>,
}

impl Entry {
    fn new(sizes: &Sizes, about: String) -> Self {
        Self {
            name: sizes.name().to_owned(),
            mean_bytes: sizes.mean(),
            median_bytes: sizes.quantile(0.5),
            largest_bytes: sizes.max(),
            about,
            points: sizes.points().collect(),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let published = |name: &str| TABLES.iter().find(|table| table.name == name);
    if let (Some(name), false) = (&args.workload, args.json) {
        output::print(match published(name) {
            Some(table) => table.text.trim_end().to_owned(),
            None => {
                let sizes = weft_lab::traffic::sizes(name)?;
                let lines = sizes
                    .points()
                    .map(|(size, share)| format!("{size} {share}"));
                lines.collect::<Vec<_>>().join("\n")
            }
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    let names = match &args.workload {
        Some(name) => vec![name.as_str()],
        None => TABLES.iter().map(|table| table.name).collect(),
    };
    let mut entries = Vec::new();
    for name in names {
        let about = published(name).map(|table| table.about().collect::<Vec<_>>().join(" "));
        let sizes = weft_lab::traffic::sizes(name)?;
        entries.push(Entry::new(&sizes, about.unwrap_or_default()));
    }
    if args.json {
        output::json(&entries)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = entries.iter().map(|entry| {
        vec![
            entry.name.clone(),
            bytes(entry.mean_bytes),
            bytes(entry.median_bytes),
            bytes(entry.largest_bytes),
        ]
    });
    output::print(output::table(
        ["workload", "mean", "median", "largest"],
        rows,
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// With a unit in powers of 1000 and three digits.
fn bytes(bytes: f64) -> String {
    let (unit, factor) = match bytes {
        0.0..1e3 => ("B", 1.0),
        1e3..1e6 => ("kB", 1e3),
        1e6..1e9 => ("MB", 1e6),
        _ => ("GB", 1e9),
    };
    let number = bytes / factor;
    let digits = if number < 10.0 {
        2
    } else {
        usize::from(number < 100.0)
    };
    format!("{number:.digits$} {unit}")
}
