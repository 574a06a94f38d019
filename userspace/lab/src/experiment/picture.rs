// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pictures of one measure against another. A picture takes its figures from the tables, so a new
//! picture needs no new results.

use std::collections::BTreeMap;

use anyhow::Result;

use super::description::{AxisName, Description, Experiment, Picture, Table, Value, Where};
use super::judge::{FilledTable, Judgement, Places};
use super::kept::place;
use super::plan::folder;
use super::selected::selects;
use crate::error::usage;
use crate::results::Estimate;

/// A picture with its points.
#[derive(Clone, Debug, PartialEq)]
pub struct FilledPicture {
    /// The end of its file's name.
    pub name: String,
    /// One line.
    pub title: String,
    /// The horizontal axis.
    pub x: PictureAxis,
    /// The vertical axis.
    pub y: PictureAxis,
    /// The name of the value that distinguishes points, such as `scheme`.
    pub points: String,
    /// The name of the value to choose, if there is one.
    pub choose: Option<String>,
    /// One, or one for each value to choose from.
    pub choices: Vec<Choice>,
}

/// An axis of a picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureAxis {
    /// The measure.
    pub label: String,
    /// Its unit; empty for a number.
    pub unit: &'static str,
    /// Whether it is logarithmic.
    pub log: bool,
    /// Whether larger values are better.
    pub higher_is_better: bool,
}

/// The points that are shown together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Choice {
    /// The common value; `None` if there is nothing to choose.
    pub value: Option<String>,
    /// In the order of the tables.
    pub points: Vec<Point>,
    /// The names of points that lack a figure.
    pub missing: Vec<String>,
}

/// Two figures of the same runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The value that distinguishes it, such as a scheme.
    pub name: String,
    /// Its figure on the horizontal axis.
    pub x: Estimate,
    /// Its figure on the vertical axis.
    pub y: Estimate,
    /// The runs that each of the two rests on.
    pub rests_on: [Places; 2],
}

/// A figure of a table.
#[derive(Clone)]
pub(super) struct Cell {
    /// The values that the table states for it, by their names.
    pub(super) values: BTreeMap<String, Value>,
    pub(super) figure: Option<Estimate>,
    pub(super) rests_on: Places,
}

impl Cell {
    /// Whether both may be figures of the same runs.
    fn fits(&self, other: &Self) -> bool {
        let mut values = self.values.iter();
        values.all(|(name, value)| other.values.get(name).is_none_or(|it| it == value))
    }
}

impl Experiment {
    /// Its pictures with the figures of a judgement; without those that have no point.
    ///
    /// # Errors
    ///
    /// If a picture has several figures for one point.
    pub fn pictures(&self, judgement: &Judgement) -> Result<Vec<FilledPicture>> {
        let description = &self.description;
        let all = description.pictures.iter();
        let filled = all.map(|picture| filled(picture, description, judgement));
        let mut filled: Vec<FilledPicture> = filled.collect::<Result<_>>()?;
        filled.retain(|it| !it.choices.is_empty());
        Ok(filled)
    }
}

fn filled(
    picture: &Picture,
    description: &Description,
    judgement: &Judgement,
) -> Result<FilledPicture> {
    let axis = |measure: &str, label: &Option<String>, name: AxisName| PictureAxis {
        label: label.clone().unwrap_or_else(|| measure.to_owned()),
        unit: description.measures[measure].unit(),
        log: picture.log.as_slice().contains(&name),
        higher_is_better: picture.higher_is_better.as_slice().contains(&name),
    };
    let cells = |measure: &str| -> Vec<Cell> {
        let names: Vec<&String> = picture.names().collect();
        shown_cells(
            description,
            judgement,
            (measure, &names),
            &picture.selection,
        )
    };
    Ok(FilledPicture {
        name: picture.name.clone(),
        title: picture.title.clone(),
        x: axis(&picture.x, &picture.x_label, AxisName::X),
        y: axis(&picture.y, &picture.y_label, AxisName::Y),
        points: picture.points.clone(),
        choose: picture.choose.clone(),
        choices: choices(picture, [cells(&picture.x), cells(&picture.y)])?,
    })
}

/// The selected figures of a measure in the tables that state the values of these names.
pub(super) fn shown_cells(
    description: &Description,
    judgement: &Judgement,
    (measure, names): (&str, &[&String]),
    selection: &Where,
) -> Vec<Cell> {
    let pairs = description.tables.iter().zip(&judgement.tables);
    let label = description.measures[measure].label(measure);
    pairs
        // A kept judgement may have other tables.
        .filter(|(table, filled)| table.title == filled.title && table.shows(measure, names))
        .flat_map(|(table, filled)| cells(table, filled, &label))
        .map(|mut cell| {
            if cell.rests_on == Places::default() {
                cell.rests_on = runs_of(&cell.values, judgement);
            }
            cell
        })
        .filter(|cell| selects(selection, &cell.values))
        .collect()
}

/// The runs with these values, for a table that does not state its runs. Their results are in a
/// folder that the values name; none is there if the table does not state all values.
fn runs_of(values: &BTreeMap<String, Value>, judgement: &Judgement) -> Places {
    let Some(scheme) = values.get("scheme") else {
        return Places::default();
    };
    let folder = folder(values).unwrap_or_else(|| judgement.experiment.clone());
    let file = format!("{scheme}-seed");
    let is = |at: (&str, &str)| at.0 == folder && at.1.starts_with(&file);
    let runs = judgement.runs.iter().enumerate();
    let found = runs.filter(|(_, run)| place(run).is_some_and(is));
    Places::new(found.map(|(number, _)| number).collect())
}

/// The value to choose, and the name of the point.
type Key = (Option<String>, String);

/// The one at a place, or without a place a new last one.
pub(super) fn at_or_new<T>(
    all: &mut Vec<T>,
    place: Option<usize>,
    new: impl FnOnce() -> T,
) -> &mut T {
    let place = place.unwrap_or_else(|| {
        all.push(new());
        all.len() - 1
    });
    &mut all[place]
}

/// Joins the figures of the two axes.
fn choices(picture: &Picture, axes: [Vec<Cell>; 2]) -> Result<Vec<Choice>> {
    let mut points: Vec<(Key, [Option<Cell>; 2])> = Vec::new();
    for (axis, cells) in axes.into_iter().enumerate() {
        for cell in cells {
            let Some(name) = cell.values.get(&picture.points) else {
                continue;
            };
            let choice = picture.choose.as_ref();
            let choice = choice.and_then(|choose| cell.values.get(choose));
            if choice.is_none() && picture.choose.is_some() {
                continue;
            }
            let key = (choice.map(|it| it.0.clone()), name.0.clone());
            let place = points.iter().position(|(other, _)| *other == key);
            let (_, found) = at_or_new(&mut points, place, || (key, [None, None]));
            let is_another = |it: &Cell| !it.fits(&cell) || it.figure != cell.figure;
            let other = found[1 - axis].as_ref();
            if found[axis].as_ref().is_some_and(is_another)
                || other.is_some_and(|it| !it.fits(&cell))
            {
                return usage(format!(
                    "picture {}: there are several figures for one point: select in `where` or `choose` what they differ in",
                    picture.name
                ));
            }
            found[axis].get_or_insert(cell);
        }
    }
    let mut choices: Vec<Choice> = Vec::new();
    for ((value, name), [x, y]) in points {
        let place = choices.iter().position(|choice| choice.value == value);
        let choice = at_or_new(&mut choices, place, || Choice {
            value,
            ..Choice::default()
        });
        let figures = x.zip(y).and_then(|(x, y)| {
            let rests_on = [x.rests_on, y.rests_on];
            Some((x.figure?, y.figure?, rests_on))
        });
        match figures {
            Some((x, y, rests_on)) => choice.points.push(Point {
                name,
                x,
                y,
                rests_on,
            }),
            None => choice.missing.push(name),
        }
    }
    choices.retain(|choice| !choice.points.is_empty());
    Ok(choices)
}

/// A table's figures of the measure with this label.
fn cells(table: &Table, filled: &FilledTable, label: &str) -> Vec<Cell> {
    let rows = table.rows.as_slice();
    let selected = table.selection.keys();
    let common: BTreeMap<String, Value> = selected
        .filter_map(|name| Some((name.clone(), table.selected(name)?.clone())))
        .collect();
    let mut cells = Vec::new();
    for row in &filled.rows {
        let mut values = common.clone();
        let known = rows.iter().zip(&row.labels);
        let known = known.filter(|(_, value)| !value.is_empty());
        values.extend(known.map(|(name, value)| (name.clone(), Value(value.clone()))));
        let mut add = |place: usize, values| {
            if let Some(figure) = row.cells.get(place) {
                cells.push(Cell {
                    values,
                    figure: *figure,
                    rests_on: row.rests_on.get(place).cloned().unwrap_or_default(),
                });
            }
        };
        match &table.columns {
            Some(column) => {
                if row.labels.get(rows.len()).is_none_or(|it| it != label) {
                    continue;
                }
                for (place, value) in filled.head.iter().skip(rows.len() + 1).enumerate() {
                    let mut values = values.clone();
                    values.insert(column.clone(), Value(value.clone()));
                    add(place, values);
                }
            }
            None => {
                let place = filled.head.iter().skip(rows.len());
                if let Some(place) = place.clone().position(|head| *head == label) {
                    add(place, values);
                }
            }
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EXPERIMENT: &str = r#"
title = "t"
source = "s"
about = "a"
[[runs]]
name = "web"
options = "{scheme} {load}"
each.load = [0.4, 0.6]
each.scheme = ["a", "b", "c"]
[[runs]]
name = "incast"
options = "{scheme}"
each.scheme = ["a", "b", "c"]
[measures]
delay = { of = "delay", statistic = "mean" }
loss = { of = "loss" }
[[tables]]
title = "delay"
measures = "delay"
rows = "load"
columns = "scheme"
where = { runs = "web" }
[[tables]]
title = "loss"
measures = ["loss", "delay"]
rows = ["load", "scheme"]
where = { runs = "web" }
[[tables]]
title = "incast"
measures = ["delay", "loss"]
rows = "scheme"
where = { runs = "incast" }
[[pictures]]
name = "p"
title = "Loss against delay"
x = "delay"
y = "loss"
y_label = "Lost packets"
log = "x"
[[claims]]
says = "none"
paper = "0"
measure = "loss"
at_most = 0
"#;

    fn judgement() -> Judgement {
        let exact = |value: f64| json!({"value": value});
        let row = |labels: &[&str], cells: &[Option<f64>], rests_on: &[&str]| {
            let cells: Vec<_> = cells.iter().map(|it| it.map(exact)).collect();
            json!({"labels": labels, "cells": cells, "rests_on": rests_on})
        };
        let run = |file: &str| json!({"file": format!("results/e/{file}"), "command": "", "sha256": "", "valid": true, "reasons": []});
        let runs = [
            "incast/b-seed1.jsonl",
            "incast/a-seed1.jsonl",
            "web-load-0.4/a-seed1.jsonl",
            "incast/a-seed2.jsonl",
            "incast/a-b-seed2.jsonl",
        ];
        let tables = json!([
            {"title": "delay", "head": ["load", "scheme", "a", "b"], "rows": [
                row(&["0.4", "delay (µs)"], &[Some(1.0), Some(2.0)], &["0-2", "3-5"]),
                row(&["0.6", "delay (µs)"], &[Some(3.0), Some(4.0)], &["6-8", "9-11"]),
            ]},
            {"title": "loss", "head": ["load", "scheme", "loss (%)", "delay (µs)"], "rows": [
                row(&["0.4", "a"], &[Some(0.0), Some(1.0)], &["0-2", "0-2"]),
                row(&["0.4", "b"], &[Some(0.1), Some(2.0)], &["3-5", "3-5"]),
                row(&["0.6", "a"], &[Some(0.2), Some(3.0)], &["6-8", "6-8"]),
                row(&["0.6", "b"], &[None, Some(4.0)], &["9-11", "9-11"]),
            ]},
            {"title": "incast", "head": ["scheme", "delay (µs)", "loss (%)"], "rows": [
                row(&["a"], &[Some(7.0), Some(8.0)], &[]),
            ]},
        ]);
        let judgement = json!({
            "experiment": "e", "title": "t", "source": "s", "holds": true, "missing": 0, "seeds": [1], "flows": null,
            "offered": null, "claims": [], "tables": tables, "runs": runs.map(run),
        });
        serde_json::from_value(judgement).unwrap()
    }

    /// The picture of the experiment with more in its description.
    fn picture(more: &str) -> Result<FilledPicture> {
        let text = EXPERIMENT.replace("log = \"x\"", &format!("log = \"x\"\n{more}"));
        let description = Experiment::parse("e", "e.toml", &text)?.description;
        filled(&description.pictures[0], &description, &judgement())
    }

    fn points(choice: &Choice) -> Vec<(&str, f64, f64)> {
        let points = choice.points.iter();
        points
            .map(|it| (it.name.as_str(), it.x.value, it.y.value))
            .collect()
    }

    #[test]
    fn a_point_has_the_figures_of_its_runs_from_several_tables() {
        let picture = picture("where = { runs = \"web\", load = 0.6 }").unwrap();
        assert_eq!((picture.x.label.as_str(), picture.x.unit), ("delay", "µs"));
        assert_eq!(
            (picture.y.label.as_str(), picture.y.unit),
            ("Lost packets", "%")
        );
        assert_eq!((picture.x.log, picture.y.log), (true, false));
        let [choice] = &picture.choices[..] else {
            panic!("{:?}", picture.choices)
        };
        assert_eq!(points(choice), [("a", 3.0, 0.2)]);
        assert_eq!(choice.missing, ["b"]);
        let runs = choice.points[0].rests_on.each_ref();
        assert_eq!(runs.map(|it| it.below(100)), [[6, 7, 8], [6, 7, 8]]);
        assert_eq!(runs[0].below(8), [6, 7]);
    }

    #[test]
    fn each_value_to_choose_has_its_own_points() {
        let choices = |more: &str| picture(more).unwrap().choices;
        let loads = choices("choose = \"load\"\nwhere = { runs = \"web\" }");
        let values: Vec<_> = loads.iter().map(|it| it.value.as_deref()).collect();
        assert_eq!(values, [Some("0.4"), Some("0.6")]);
        assert_eq!(points(&loads[0]), [("a", 1.0, 0.0), ("b", 2.0, 0.1)]);
        assert_eq!(points(&loads[1]), [("a", 3.0, 0.2)]);
        let runs = choices("choose = \"runs\"\nwhere = { runs = \"incast\" }");
        assert_eq!(points(&runs[0]), [("a", 7.0, 8.0)]);
        // The table does not state its runs, but their folder does.
        assert_eq!(runs[0].points[0].rests_on[0].below(100), [1, 3]);
        let loads = choices("points = \"load\"\nwhere = { scheme = \"a\", runs = \"web\" }");
        assert_eq!(points(&loads[0]), [("0.4", 1.0, 0.0), ("0.6", 3.0, 0.2)]);
    }

    #[test]
    fn several_figures_for_one_point_are_an_error() {
        for more in [
            "",
            "where = { runs = \"web\" }",
            "choose = \"runs\"",
            "where = { load = [0.4, 0.6] }",
        ] {
            let error = picture(more).unwrap_err().to_string();
            assert!(error.contains("several figures"), "{more}: {error}");
        }
    }

    #[test]
    fn a_kept_table_with_another_title_is_not_used() {
        let text = EXPERIMENT.replace("title = \"incast\"", "title = \"renamed\"");
        let text = text.replace("log = \"x\"", "where = { runs = \"incast\" }");
        let experiment = Experiment::parse("e", "e.toml", &text).unwrap();
        let description = &experiment.description;
        let picture = filled(&description.pictures[0], description, &judgement()).unwrap();
        assert_eq!(picture.choices, []);
    }
}
