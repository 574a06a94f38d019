// SPDX-License-Identifier: MIT OR Apache-2.0

//! A map over time, as SVG: a row for each of several things, darker for larger values.

use anyhow::Result;
use plotters::prelude::*;

use super::chart::{Axis, axes, failed, px};
use super::palette::{INK, STYLES};
use super::ticks::{Scale, Ticks};

/// Width on a wide page, height of a row, and space for axes; a map with few rows has a minimum
/// height.
const WIDTH: f64 = 460.0;
const ROW: f64 = 15.0;
const AXES: f64 = 60.0;
const LEAST: f64 = 260.0;
/// Number of shades.
const SHADES: f64 = 8.0;
/// Height of a mark relative to its row.
const MARK: f64 = 0.3;

pub(super) struct Row {
    pub(super) name: String,
    /// From one x to another: the share of the darkest shade.
    pub(super) cells: Vec<(f64, f64, f64)>,
    /// From one x to another: an event happened.
    pub(super) marks: Vec<(f64, f64)>,
}

pub(super) struct Map {
    pub(super) x: Axis,
    /// The column whose colour it has.
    pub(super) column: usize,
    /// The name of the things in rows.
    pub(super) of: &'static str,
    /// From the top.
    pub(super) rows: Vec<Row>,
}

impl Map {
    /// Draws the map; `None` if there is no row, or its axis is empty.
    ///
    /// # Errors
    ///
    /// Errors of the plotting library.
    pub(super) fn svg(self) -> Result<Option<String>> {
        let Some(x) = Ticks::new(self.x.scale, self.x.reaches.iter().copied()) else {
            return Ok(None);
        };
        if self.rows.is_empty() {
            return Ok(None);
        }
        let height = (AXES + ROW * self.rows.len() as f64).max(LEAST);
        let mut svg = String::new();
        let size = (px(WIDTH) as u32, px(height) as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let top = self.rows.len() - 1;
        let names: Vec<String> = self.rows.iter().map(|row| row.name.clone()).collect();
        let y = Axis {
            label: self.of.to_owned(),
            scale: Scale::Linear,
            name: Box::new(move |y| names[top - (y as usize).min(top)].clone()),
            reaches: Vec::new(),
        };
        let mut chart = axes(&area, (x, &self.x), (Ticks::rows(self.rows.len()), &y))?;
        let colour = STYLES[self.column].colour;
        for (place, row) in self.rows.iter().enumerate() {
            let bottom = (top - place) as f64;
            let cells = shaded(&row.cells).into_iter().map(|(from, to, share)| {
                let corners = [(from, bottom + 0.05), (to, bottom + 0.95)];
                Rectangle::new(corners, colour.mix(share).filled())
            });
            chart.draw_series(cells).map_err(failed)?;
            let marks = row.marks.iter().map(|&(from, to)| {
                let corners = [(from, bottom + 0.05), (to, bottom + 0.05 + MARK)];
                Rectangle::new(corners, INK.filled())
            });
            chart.draw_series(marks).map_err(failed)?;
        }
        area.present().map_err(failed)?;
        drop(chart);
        drop(area);
        Ok(Some(svg))
    }
}

/// Merges adjacent cells of the same shade; drops empty ones.
fn shaded(cells: &[(f64, f64, f64)]) -> Vec<(f64, f64, f64)> {
    let mut pieces: Vec<(f64, f64, f64)> = Vec::new();
    for &(from, to, share) in cells {
        // Even the smallest value is visible.
        let shade = (share.clamp(0.0, 1.0) * SHADES).ceil() / SHADES;
        match pieces.last_mut() {
            Some((_, end, last)) if *end == from && *last == shade => *end = to,
            _ => pieces.push((from, to, shade)),
        }
    }
    pieces.retain(|(_, _, shade)| *shade > 0.0);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_shade_are_one_piece() {
        let cells = [
            (0.0, 1.0, 0.0),
            (1.0, 2.0, 0.01),
            (2.0, 3.0, 0.125),
            (3.0, 4.0, 0.126),
            (5.0, 6.0, 0.25),
            (6.0, 7.0, 7.0),
        ];
        let expected = [
            (1.0, 3.0, 0.125),
            (3.0, 4.0, 0.25),
            (5.0, 6.0, 0.25),
            (6.0, 7.0, 1.0),
        ];
        assert_eq!(shaded(&cells), expected);
    }
}
