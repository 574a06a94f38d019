// SPDX-License-Identifier: MIT OR Apache-2.0

//! A table as a picture, as SVG: a panel for each column, in it a line for each row with a dot where its figure is,
//! and how far its interval reaches.

use anyhow::Result;
use plotters::prelude::*;
use weft_lab::experiment::FilledTable;

use super::chart::{Axis, axes, failed, px};
use super::palette::{INK, SCALE, STYLES};
use super::ticks::{self, Scale, Ticks};

/// Width of a panel, height of a row, and what axes need.
const WIDTH: f64 = 300.0;
const ROW: f64 = 20.0;
const AXES: f64 = 70.0;
const DOT: f64 = 4.0;
const WHISKER: f64 = 2.0;
/// From such a quotient of the largest to the least on, an axis has factors and no differences.
const FAR: f64 = 5.0;

/// Draws it, to stand alone; `None` if it has no figure.
///
/// # Errors
///
/// What the plotting library says.
pub(crate) fn picture(table: &FilledTable) -> Result<Option<String>> {
    let columns: Vec<usize> = (0..columns(table))
        .filter(|&column| figures(table, column).next().is_some())
        .collect();
    if columns.is_empty() {
        return Ok(None);
    }
    let size = (
        px(WIDTH * columns.len() as f64),
        px(AXES + ROW * table.rows.len() as f64),
    );
    let mut svg = String::new();
    let area =
        SVGBackend::with_string(&mut svg, (size.0 as u32, size.1 as u32)).into_drawing_area();
    // It may come to stand on a dark page.
    area.fill(&WHITE).map_err(failed)?;
    for (&column, panel) in columns.iter().zip(area.split_evenly((1, columns.len()))) {
        draw(table, column, &panel)?;
    }
    area.present().map_err(failed)?;
    drop(area);
    let drawn = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    let (width, height) = (f64::from(size.0) / SCALE, f64::from(size.1) / SCALE);
    let shown = format!("width=\"{width}\" height=\"{height}\"");
    Ok(Some(svg.replacen(&drawn, &shown, 1)))
}

/// How many columns have figures: they are the last.
fn columns(table: &FilledTable) -> usize {
    table.rows.first().map_or(0, |row| row.cells.len())
}

/// The ends of a column's intervals, and what is between.
fn figures(table: &FilledTable, column: usize) -> impl Iterator<Item = f64> {
    let cells = table.rows.iter().filter_map(move |row| row.cells[column]);
    cells.flat_map(|cell| {
        [Some(cell.value), cell.low, cell.high]
            .into_iter()
            .flatten()
    })
}

/// Factors, if figures are far from each other and none is 0.
fn scale(table: &FilledTable, column: usize) -> Scale {
    let least = figures(table, column).fold(f64::INFINITY, f64::min);
    let most = figures(table, column).fold(0.0, f64::max);
    if least > 0.0 && most > FAR * least {
        Scale::Log
    } else {
        Scale::Linear
    }
}

fn draw(table: &FilledTable, column: usize, area: &super::chart::Area<'_>) -> Result<()> {
    let scale = scale(table, column);
    let Some(x) = Ticks::new(scale, figures(table, column)) else {
        return Ok(());
    };
    let (left, right) = (x.from, x.to);
    let of_x = Axis {
        label: table.head[table.head.len() - columns(table) + column].clone(),
        scale,
        name: Box::new(ticks::number),
        reaches: Vec::new(),
    };
    let top = table.rows.len() - 1;
    let names: Vec<String> = table.rows.iter().map(|row| row.labels.join(" ")).collect();
    let of_y = Axis {
        label: String::new(),
        scale: Scale::Linear,
        name: Box::new(move |y| names[top - (y as usize).min(top)].clone()),
        reaches: Vec::new(),
    };
    let mut chart = axes(area, (x, &of_x), (Ticks::rows(table.rows.len()), &of_y))?;
    let colour = STYLES[0].colour;
    for (place, row) in table.rows.iter().enumerate() {
        let Some(cell) = row.cells[column] else {
            continue;
        };
        let y = (top - place) as f64 + 0.5;
        if let Some((low, high)) = cell.low.zip(cell.high) {
            let ends = vec![(low.max(left), y), (high.min(right), y)];
            let line = INK.stroke_width(px(WHISKER) as u32);
            chart
                .draw_series([PathElement::new(ends, line)])
                .map_err(failed)?;
        }
        let dot = Circle::new((cell.value, y), px(DOT), colour.filled());
        chart.draw_series([dot]).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use weft_lab::experiment::Row;
    use weft_lab::results::Estimate;

    use super::*;

    fn table(cells: &[[Option<f64>; 2]]) -> FilledTable {
        let row = |(number, cells): (usize, &[Option<f64>; 2])| Row {
            labels: vec!["fat-tree".into(), format!("scheme{number}")],
            cells: cells.iter().map(|it| it.map(Estimate::alone)).collect(),
        };
        FilledTable {
            title: "Slowdown".into(),
            head: ["runs", "scheme", "mean", "loss (%)"]
                .map(String::from)
                .to_vec(),
            rows: cells.iter().enumerate().map(row).collect(),
        }
    }

    #[test]
    fn each_figure_is_a_dot_in_its_columns_panel() {
        let table = table(&[
            [Some(1.0), Some(0.0)],
            [Some(30.0), None],
            [Some(2.0), Some(3.0)],
        ]);
        let svg = picture(&table).unwrap().unwrap();
        assert_eq!(svg.matches("<circle").count(), 5);
        for name in ["fat-tree scheme0", "fat-tree scheme2", "mean", "loss (%)"] {
            assert!(svg.contains(name), "{name}");
        }
        assert!(svg.contains("width=\"600\" height=\"130\""), "{svg:.200}");
        assert_eq!(
            [0, 1].map(|column| scale(&table, column)),
            [Scale::Log, Scale::Linear]
        );
    }

    #[test]
    fn a_column_without_figures_has_no_panel_and_a_table_without_no_picture() {
        let half = table(&[[None, Some(1.0)], [None, Some(2.0)]]);
        assert!(
            picture(&half)
                .unwrap()
                .unwrap()
                .contains("width=\"300\" height=\"110\"")
        );
        assert_eq!(picture(&table(&[[None, None]])).unwrap(), None);
        assert_eq!(picture(&table(&[])).unwrap(), None);
    }
}
