// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pictures with a line for each scheme, or other value: a measure against a value in which runs
//! differ, or several measures side by side. The figures come from the tables, as in all pictures.

use anyhow::Result;

use super::description::{AxisName, Curves, Description, Experiment};
use super::judge::{Judgement, Places, distinct};
use super::picture::{Cell, PictureAxis, at_or_new, shown_cells};
use crate::error::usage;
use crate::results::Estimate;

/// A picture with its lines.
#[derive(Clone, Debug, PartialEq)]
pub struct FilledCurves {
    /// The end of its file's name.
    pub name: String,
    /// One line.
    pub title: String,
    /// The horizontal axis in words; empty if its names say enough.
    pub x_label: String,
    /// Whether it is logarithmic.
    pub x_log: bool,
    /// The places along it, from left to right.
    pub along: Vec<Along>,
    /// The vertical axis.
    pub y: PictureAxis,
    /// The name of the value to choose, if there is one.
    pub choose: Option<String>,
    /// One, or one for each value to choose from.
    pub choices: Vec<Lines>,
}

/// A place on the horizontal axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Along {
    /// The value, or the measure.
    pub name: String,
    /// Where it is; `None` for all if a value is not a number.
    pub number: Option<f64>,
}

/// The lines that are shown together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lines {
    /// The common value; `None` if there is nothing to choose.
    pub value: Option<String>,
    /// In the order of the tables.
    pub lines: Vec<Curve>,
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The value that distinguishes it, such as a scheme.
    pub name: String,
    /// From left to right.
    pub points: Vec<Knot>,
}

/// A point of a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Knot {
    /// Its place in [`FilledCurves::along`].
    pub along: usize,
    /// Its figure.
    pub figure: Estimate,
    /// The runs that this rests on.
    pub rests_on: Places,
}

impl Experiment {
    /// Its pictures with lines, with the figures of a judgement; without those that have no point.
    ///
    /// # Errors
    ///
    /// If a line has several figures at one place.
    pub fn curves(&self, judgement: &Judgement) -> Result<Vec<FilledCurves>> {
        let description = &self.description;
        let all = description.curves.iter();
        let filled = all.map(|curves| filled(curves, description, judgement));
        let mut filled: Vec<FilledCurves> = filled.collect::<Result<_>>()?;
        filled.retain(|it| !it.choices.is_empty());
        Ok(filled)
    }
}

fn filled(
    curves: &Curves,
    description: &Description,
    judgement: &Judgement,
) -> Result<FilledCurves> {
    let measures = curves.y.as_slice();
    let names: Vec<&String> = curves.names().collect();
    let mut cells: Vec<(String, Cell)> = Vec::new();
    for measure in measures {
        let shown = (measure.as_str(), names.as_slice());
        let found = shown_cells(description, judgement, shown, &curves.selection);
        cells.extend(found.into_iter().filter_map(|cell| {
            let along = match &curves.x {
                Some(x) => cell.values.get(x)?.0.clone(),
                None => measure.clone(),
            };
            Some((along, cell))
        }));
    }
    let along = along(curves, &cells);
    let mut choices: Vec<Lines> = Vec::new();
    for (name, cell) in cells {
        if let Some(place) = along.iter().position(|it| it.name == name) {
            add(curves, &mut choices, cell, place)?;
        }
    }
    for curve in choices.iter_mut().flat_map(|it| &mut it.lines) {
        curve.points.sort_by_key(|point| point.along);
    }
    Ok(FilledCurves {
        name: curves.name.clone(),
        title: curves.title.clone(),
        x_label: match (&curves.x_label, &curves.x) {
            (Some(label), _) => label.clone(),
            (None, Some(x)) => x.clone(),
            (None, None) => String::new(),
        },
        x_log: curves.log.as_slice().contains(&AxisName::X),
        along,
        y: PictureAxis {
            label: curves
                .y_label
                .clone()
                .unwrap_or_else(|| measures[0].clone()),
            unit: description.measures[&measures[0]].unit(),
            log: curves.log.as_slice().contains(&AxisName::Y),
            higher_is_better: curves.higher_is_better,
        },
        choose: curves.choose.clone(),
        choices,
    })
}

/// The places along the horizontal axis: in ascending order if they are numbers, otherwise in that
/// of the tables.
fn along(curves: &Curves, cells: &[(String, Cell)]) -> Vec<Along> {
    let names = distinct(cells.iter().map(|(name, _)| name.clone()));
    let number = |name: &String| Some((name.clone(), name.parse().ok()?));
    let numbers: Option<Vec<(String, f64)>> = names.iter().map(number).collect();
    let Some(mut numbers) = numbers.filter(|_| curves.x.is_some()) else {
        let places = names.into_iter().map(|name| Along { name, number: None });
        return places.collect();
    };
    numbers.sort_by(|a, b| a.1.total_cmp(&b.1));
    let places = numbers.into_iter().map(|(name, number)| Along {
        name,
        number: Some(number),
    });
    places.collect()
}

/// Adds a figure to its line.
fn add(curves: &Curves, choices: &mut Vec<Lines>, cell: Cell, along: usize) -> Result<()> {
    let choice = curves.choose.as_ref().map(|choose| cell.values.get(choose));
    let (Some(name), Some(figure)) = (cell.values.get(&curves.lines), cell.figure) else {
        return Ok(());
    };
    let value = match choice {
        Some(None) => return Ok(()),
        Some(Some(value)) => Some(value.0.clone()),
        None => None,
    };
    let place = choices.iter().position(|it| it.value == value);
    let choice = at_or_new(choices, place, || Lines {
        value,
        ..Lines::default()
    });
    let place = choice.lines.iter().position(|line| line.name == name.0);
    let line = at_or_new(&mut choice.lines, place, || Curve {
        name: name.0.clone(),
        points: Vec::new(),
    });
    match line.points.iter().find(|point| point.along == along) {
        // Two tables may have the same figure.
        Some(other) if other.figure == figure => {}
        Some(_) => {
            return usage(format!(
                "picture {}: there are several figures for one point: select in `where` or `choose` what they differ in",
                curves.name
            ));
        }
        None => line.points.push(Knot {
            along,
            figure,
            rests_on: cell.rests_on,
        }),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EXPERIMENT: &str = r#"
title = "t"
[[runs]]
options = "{scheme} {load} {hosts}"
each.load = [0.6, 0.2]
each.hosts = [4, 8]
each.scheme = ["a", "b"]
[measures]
small = { of = "slowdown", statistic = "mean", up_to = "1kB" }
large = { of = "slowdown", statistic = "mean", above = "1kB" }
loss = { of = "loss" }
[[tables]]
title = "by load"
measures = ["small", "large", "loss"]
rows = ["hosts", "load", "scheme"]
[[curves]]
name = "load"
title = "Slowdown against load"
x = "load"
y = "small"
choose = "hosts"
[[curves]]
name = "sizes"
title = "Slowdown by size"
y = ["small", "large"]
y_label = "Mean slowdown"
log = "y"
where = { load = 0.2, hosts = 4 }
"#;

    fn judgement() -> Judgement {
        let row = |(hosts, load, scheme, small): (&str, &str, &str, f64)| {
            let cells = [small, small + 1.0, 0.5].map(|value| json!({"value": value}));
            json!({"labels": [hosts, load, scheme], "cells": cells, "rests_on": ["0", "1", "2"]})
        };
        let rows = [
            ("4", "0.6", "a", 3.0),
            ("4", "0.2", "a", 2.0),
            ("4", "0.2", "b", 1.0),
            ("8", "0.2", "b", 7.0),
        ];
        let table = json!({
            "title": "by load",
            "head": ["hosts", "load", "scheme", "small", "large", "loss (%)"],
            "rows": rows.map(row),
        });
        let judgement = json!({
            "experiment": "e", "title": "t", "source": "", "holds": true, "missing": 0, "seeds": [1], "flows": null,
            "offered": null, "claims": [], "tables": [table], "runs": [],
        });
        serde_json::from_value(judgement).unwrap()
    }

    fn curves(text: &str) -> Result<Vec<FilledCurves>> {
        Experiment::parse("e", "e.toml", text)?.curves(&judgement())
    }

    fn shown(choice: &Lines) -> Vec<(&str, Vec<(usize, f64)>)> {
        let points = |line: &Curve| -> Vec<_> {
            let points = line.points.iter();
            points.map(|it| (it.along, it.figure.value)).collect()
        };
        let lines = choice.lines.iter();
        lines
            .map(|line| (line.name.as_str(), points(line)))
            .collect()
    }

    #[test]
    fn a_line_has_the_figures_of_its_runs_in_the_order_of_the_axis() {
        let all = curves(EXPERIMENT).unwrap();
        let load = &all[0];
        let along: Vec<_> = load.along.iter().map(|it| (&*it.name, it.number)).collect();
        assert_eq!(along, [("0.2", Some(0.2)), ("0.6", Some(0.6))]);
        assert_eq!(
            (load.x_label.as_str(), load.y.label.as_str()),
            ("load", "small")
        );
        let values: Vec<_> = load.choices.iter().map(|it| it.value.as_deref()).collect();
        assert_eq!(values, [Some("4"), Some("8")]);
        let first = [("a", vec![(0, 2.0), (1, 3.0)]), ("b", vec![(0, 1.0)])];
        assert_eq!(shown(&load.choices[0]), first);
        assert_eq!(shown(&load.choices[1]), [("b", vec![(0, 7.0)])]);
        assert_eq!(load.choices[0].lines[0].points[0].rests_on.below(9), [0]);
    }

    #[test]
    fn measures_stand_side_by_side() {
        let all = curves(EXPERIMENT).unwrap();
        let sizes = &all[1];
        let along: Vec<_> = sizes
            .along
            .iter()
            .map(|it| (&*it.name, it.number))
            .collect();
        assert_eq!(along, [("small", None), ("large", None)]);
        assert_eq!((sizes.y.log, sizes.x_label.as_str()), (true, ""));
        let expected = [
            ("a", vec![(0, 2.0), (1, 3.0)]),
            ("b", vec![(0, 1.0), (1, 2.0)]),
        ];
        assert_eq!(shown(&sizes.choices[0]), expected);
    }

    #[test]
    fn mistakes_are_named() {
        for (from, to, expected) in [
            ("choose = \"hosts\"", "", "several figures for one point"),
            ("x = \"load\"\n", "", "expected x, or several measures y"),
            ("y = \"small\"", "y = []", "y is empty"),
            (
                "y = \"small\"",
                "y = [\"small\", \"large\"]",
                "expected x and one measure y",
            ),
            (
                "\"large\"]\ny_label",
                "\"loss\"]\ny_label",
                "its measures have different units",
            ),
            (
                "y = \"small\"",
                "y = \"tall\"",
                "there is no measure `tall`",
            ),
            ("x = \"load\"", "x = \"lod\"", "runs do not differ in `lod`"),
            (
                "name = \"sizes\"",
                "name = \"load\"",
                "there is another of that name",
            ),
            (
                "rows = [\"hosts\", \"load\"",
                "rows = [\"hosts\"",
                "no table has `small` by load",
            ),
        ] {
            assert!(EXPERIMENT.contains(from), "{from}");
            let error = curves(&EXPERIMENT.replacen(from, to, 1)).unwrap_err();
            assert!(error.to_string().contains(expected), "{to}: {error}");
        }
    }
}
