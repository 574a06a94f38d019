// SPDX-License-Identifier: MIT OR Apache-2.0

//! The figures of a kept judgement that rest on results that may have changed.

use super::curves::{FilledCurves, Knot};
use super::fingerprint::State;
use super::judge::{FilledTable, Judged, Judgement, Row};
use super::picture::{FilledPicture, Point};

/// Follows each figure that is not known to be current.
pub const MARK: &str = "†";

/// The marks of a judgement.
pub struct Marks {
    /// For each run, whether it is not known to be current.
    stale: Vec<bool>,
    /// How many runs are current by a sample.
    sampled: usize,
}

impl Marks {
    /// For a judgement whose runs have these states.
    pub fn new(states: &[State]) -> Self {
        Self {
            stale: states.iter().map(|state| !state.is_current()).collect(),
            sampled: states.iter().filter(|it| **it == State::Sampled).count(),
        }
    }

    /// For a judgement whose runs have just been made.
    pub fn none(judgement: &Judgement) -> Self {
        Self {
            stale: vec![false; judgement.runs.len()],
            sampled: 0,
        }
    }

    /// How many runs are not known to be current.
    pub fn count(&self) -> usize {
        self.stale.iter().filter(|stale| **stale).count()
    }

    /// How many runs are current by a sample.
    pub fn sampled(&self) -> usize {
        self.sampled
    }

    /// Whether a table's figure rests on such a run.
    pub fn of_cell(&self, row: &Row, place: usize) -> bool {
        let cell = row.rests_on.get(place);
        // The figure does not list its runs, so it may rest on any.
        cell.map_or_else(|| self.count() > 0, |places| places.any(&self.stale))
    }

    fn of_row(&self, row: &Row) -> bool {
        let mut places = (0..row.cells.len()).filter(|&place| row.cells[place].is_some());
        places.clone().next().is_some() && places.all(|place| self.of_cell(row, place))
    }

    /// A table's title, with a mark if all of its figures are stale.
    pub fn title(&self, table: &FilledTable) -> String {
        marked(&table.title, self.of_table(table))
    }

    /// The table for a picture: its title and labels are marked.
    pub fn table(&self, table: &FilledTable) -> FilledTable {
        let mut marked = table.clone();
        marked.title = self.title(table);
        for (row, to) in table.rows.iter().zip(&mut marked.rows) {
            to.labels = self.labels(table, row);
        }
        marked
    }

    fn of_table(&self, table: &FilledTable) -> bool {
        !table.rows.is_empty() && table.rows.iter().all(|row| self.of_row(row))
    }

    /// A row's labels; the last one is marked if all of the row is stale, but not all of the table.
    pub fn labels(&self, table: &FilledTable, row: &Row) -> Vec<String> {
        let mut labels = row.labels.clone();
        if !self.of_table(table)
            && self.of_row(row)
            && let Some(last) = labels.last_mut()
        {
            *last = marked(last, true);
        }
        labels
    }

    /// A figure, marked if it is stale and the rest of its row is not.
    pub fn cell(&self, row: &Row, place: usize, shown: &str) -> String {
        marked(shown, !self.of_row(row) && self.of_cell(row, place))
    }

    /// Whether a point of a picture rests on such a run.
    pub fn of_point(&self, point: &Point) -> bool {
        self.count() > 0 && point.rests_on.iter().any(|places| places.any(&self.stale))
    }

    /// The picture to draw: its title is marked if all points are stale, otherwise the stale ones.
    pub fn picture(&self, picture: &FilledPicture) -> FilledPicture {
        let mut picture = picture.clone();
        let mut points = picture.choices.iter().flat_map(|it| &it.points);
        if points.all(|point| self.of_point(point)) {
            picture.title = marked(&picture.title, self.count() > 0);
            return picture;
        }
        let points = picture.choices.iter_mut().flat_map(|it| &mut it.points);
        for point in points {
            point.name = marked(&point.name, self.of_point(point));
        }
        picture
    }

    /// The same for a picture with lines: a line is marked if one of its points rests on such a
    /// run.
    pub fn curves(&self, curves: &FilledCurves) -> FilledCurves {
        let mut curves = curves.clone();
        let is_stale = |point: &Knot| self.count() > 0 && point.rests_on.any(&self.stale);
        let lines = || curves.choices.iter().flat_map(|it| &it.lines);
        if lines().flat_map(|line| &line.points).all(is_stale) {
            curves.title = marked(&curves.title, self.count() > 0);
            return curves;
        }
        for line in curves.choices.iter_mut().flat_map(|it| &mut it.lines) {
            line.name = marked(&line.name, line.points.iter().any(is_stale));
        }
        curves
    }

    /// The verdict on a claim.
    pub fn verdict(&self, claim: &Judged, shown: &str) -> String {
        marked(shown, claim.rests_on.any(&self.stale))
    }
}

fn marked(text: &str, is: bool) -> String {
    match is {
        true => format!("{text} {MARK}"),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::experiment::picture::{Choice, PictureAxis};
    use crate::results::Estimate;

    fn table(rests_on: [[&str; 2]; 2]) -> FilledTable {
        let figure = json!({"value": 1.0, "half_width": null, "low": null, "high": null});
        let row = |(label, rests_on): (&str, [&str; 2])| json!({"labels": [label], "cells": [figure, figure], "rests_on": rests_on});
        let rows: Vec<_> = ["a", "b"].into_iter().zip(rests_on).map(row).collect();
        serde_json::from_value(json!({"title": "t", "head": ["x", "y", "z"], "rows": rows}))
            .unwrap()
    }

    fn shown(table: &FilledTable, stale: [bool; 4]) -> Vec<String> {
        let marks = Marks {
            stale: stale.to_vec(),
            sampled: 0,
        };
        let mut all = vec![marks.title(table)];
        for row in &table.rows {
            all.extend(marks.labels(table, row));
            all.extend((0..2).map(|place| marks.cell(row, place, "1")));
        }
        all
    }

    #[test]
    fn a_mark_covers_the_largest_part_of_a_table_that_is_stale() {
        let table = table([["0", "1"], ["2", "3"]]);
        let (yes, no) = (true, false);
        for (stale, expected) in [
            ([no, no, no, no], ["t", "a", "1", "1", "b", "1", "1"]),
            ([no, yes, no, no], ["t", "a", "1", "1 †", "b", "1", "1"]),
            ([no, no, yes, yes], ["t", "a", "1", "1", "b †", "1", "1"]),
            ([yes, yes, yes, no], ["t", "a †", "1", "1", "b", "1 †", "1"]),
            ([yes, yes, yes, yes], ["t †", "a", "1", "1", "b", "1", "1"]),
        ] {
            assert_eq!(shown(&table, stale), expected, "{stale:?}");
        }
    }

    #[test]
    fn stale_points_are_marked_or_the_title_if_all_are() {
        let [exact, other] = [1.0, 2.0].map(Estimate::alone);
        let point = |(name, places): (&str, &str)| Point {
            name: name.to_owned(),
            x: exact,
            y: other,
            rests_on: [places, "0"].map(|it| serde_json::from_value(json!(it)).unwrap()),
        };
        let axis = PictureAxis {
            label: "x".to_owned(),
            unit: "",
            log: false,
            higher_is_better: false,
        };
        let picture = FilledPicture {
            name: "p".to_owned(),
            title: "t".to_owned(),
            x: axis.clone(),
            y: axis,
            points: "scheme".to_owned(),
            choose: None,
            choices: vec![Choice {
                points: [("a", "0-1"), ("b", "2")].map(point).to_vec(),
                ..Choice::default()
            }],
        };
        let (yes, no) = (true, false);
        for (stale, expected) in [
            ([no, no, no], ["t", "a", "b"]),
            ([no, yes, no], ["t", "a †", "b"]),
            ([no, no, yes], ["t", "a", "b †"]),
            ([yes, no, no], ["t †", "a", "b"]),
        ] {
            let stale = stale.to_vec();
            let marked = Marks { stale, sampled: 0 }.picture(&picture);
            let points = &marked.choices[0].points;
            let shown = [&marked.title, &points[0].name, &points[1].name];
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn a_malformed_range_of_runs_means_all_runs() {
        let of = |places: &str| table([[places, places], ["3", "3"]]);
        let (yes, no) = (true, false);
        assert_eq!(shown(&of("0-1,3"), [no, yes, no, no])[1], "a †");
        assert_eq!(shown(&of("0-1,3"), [no, no, yes, no])[1], "a");
        for all in ["", "x", "9", "2-7"] {
            assert_eq!(shown(&of(all), [yes, no, no, no])[1], "a †", "{all}");
        }
    }
}
