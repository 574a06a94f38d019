// SPDX-License-Identifier: MIT OR Apache-2.0

//! A table as an SVG picture: a panel for each column, with a line for each row that has a dot at
//! its figure and a bar over its interval.

use anyhow::Result;
use maud::html;
use plotters::prelude::*;
use weft_lab::experiment::FilledTable;

use super::chart::{Area, Axis, LETTERS, axes_with_room, failed, px};
use super::palette::{INK, SCALE, STYLES};
use super::ticks::{self, Scale, Ticks};
use super::words::{listed, seeds};
use crate::compare::table::show;

/// Width of a panel without row names, height of a row, and space for axes and title.
const WIDTH: f64 = 220.0;
const ROW: f64 = 20.0;
const AXES: f64 = 70.0;
const TITLE: f64 = 24.0;
/// Approximate width of a letter relative to its height, and of a digit beside an axis.
const LETTER: f64 = 0.6;
/// Left margin of panels after the first one, which shows the row names.
const EDGE: f64 = 12.0;
const DOT: f64 = 4.0;
const WHISKER: f64 = 2.0;
/// From this ratio of the largest to the smallest value on, an axis is logarithmic.
const FAR: f64 = 5.0;

/// Draws the table as a standalone picture; `None` if it has no figure.
///
/// # Errors
///
/// Errors of the plotting library.
pub(crate) fn picture(table: &FilledTable) -> Result<Option<String>> {
    let columns = columns_with_figures(table);
    let Some((&first, others)) = columns.split_first() else {
        return Ok(None);
    };
    let (names, room) = row_names(table);
    let width = room + WIDTH + (WIDTH + EDGE) * others.len() as f64;
    svg(width, TITLE + height(table), |whole| {
        // Where it is shown may be dark.
        whole.fill(&WHITE).map_err(failed)?;
        let letters = ("sans-serif", LETTERS * SCALE * 1.24)
            .into_font()
            .color(&INK);
        let area = whole.titled(&table.title, letters).map_err(failed)?;
        let (left, mut rest) = area.split_horizontally(px(room + WIDTH));
        draw(table, first, Some((&names, room)), &left)?;
        for &column in others {
            let (panel, right) = rest.split_horizontally(px(WIDTH + EDGE));
            draw(table, column, None, &panel)?;
            rest = right;
        }
        Ok(())
    })
    .map(Some)
}

/// Draws each column that has figures as a picture for a page, which gives it its title and
/// background. Each dot has its figure in words. `count` is the number of the judgement's runs.
///
/// # Errors
///
/// Errors of the plotting library.
pub(super) fn panels(table: &FilledTable, count: usize) -> Result<Vec<String>> {
    let (names, room) = row_names(table);
    let panel = |column| {
        let svg = svg(room + WIDTH, height(table), |area| {
            draw(table, column, Some((&names, room)), area)
        })?;
        Ok(told(&svg, table, column, count))
    };
    columns_with_figures(table).into_iter().map(panel).collect()
}

/// Adds the figures in words to the dots, which are the picture's circles. The plotting library
/// has no elements with content.
fn told(svg: &str, table: &FilledTable, column: usize, count: usize) -> String {
    let heading = &table.head[table.head.len() - columns(table) + column];
    let mut rows = table.rows.iter().filter(|row| row.cells[column].is_some());
    let mut pieces = svg.split("<circle ");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (Some(row), Some((attributes, rest))) = (rows.next(), piece.split_once("/>")) else {
            text += "<circle ";
            text += piece;
            continue;
        };
        let runs = row.rests_on.get(column).map(|places| places.below(count));
        let runs = runs.unwrap_or_default();
        let title = html! {
            title { (row.labels.join(" ")) "\n" (heading) ": " (show(row.cells[column]))
                @if let Some(seeds) = seeds(runs.len()) { "\n" (seeds) } }
        };
        let runs = listed(&runs).map_or_else(String::new, |it| format!("data-runs=\"{it}\" "));
        text += &format!(
            "<circle class=\"point\" {runs}{attributes}>{}</circle>{rest}",
            title.into_string()
        );
    }
    text
}

/// Draws an SVG of a size on the page.
fn svg(width: f64, height: f64, draw: impl FnOnce(&Area<'_>) -> Result<()>) -> Result<String> {
    let size = (px(width), px(height));
    let mut svg = String::new();
    let area =
        SVGBackend::with_string(&mut svg, (size.0 as u32, size.1 as u32)).into_drawing_area();
    draw(&area)?;
    area.present().map_err(failed)?;
    drop(area);
    let drawn = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
    let (width, height) = (f64::from(size.0) / SCALE, f64::from(size.1) / SCALE);
    let shown = format!("width=\"{width}\" height=\"{height}\"");
    Ok(svg.replacen(&drawn, &shown, 1))
}

/// The columns that have figures.
fn columns_with_figures(table: &FilledTable) -> Vec<usize> {
    (0..columns(table))
        .filter(|&column| figures(table, column).next().is_some())
        .collect()
}

/// The names of the rows, and the space for them beside a panel.
fn row_names(table: &FilledTable) -> (Vec<String>, f64) {
    let names: Vec<String> = table.rows.iter().map(|row| row.labels.join(" ")).collect();
    let longest = names.iter().map(|name| name.chars().count()).max();
    let room = longest.unwrap_or(0) as f64 * LETTERS * LETTER + EDGE;
    (names, room)
}

/// The height of a panel.
fn height(table: &FilledTable) -> f64 {
    AXES + ROW * table.rows.len() as f64
}

/// The number of columns with figures: they are the last.
fn columns(table: &FilledTable) -> usize {
    table.rows.first().map_or(0, |row| row.cells.len())
}

/// The values of a column, with the ends of their intervals.
fn figures(table: &FilledTable, column: usize) -> impl Iterator<Item = f64> {
    let cells = table.rows.iter().filter_map(move |row| row.cells[column]);
    cells.flat_map(|cell| {
        [Some(cell.value), cell.low, cell.high]
            .into_iter()
            .flatten()
    })
}

/// Logarithmic if figures are far apart and none is 0.
fn scale(table: &FilledTable, column: usize) -> Scale {
    let least = figures(table, column).fold(f64::INFINITY, f64::min);
    let most = figures(table, column).fold(0.0, f64::max);
    if least > 0.0 && most > FAR * least {
        Scale::Log
    } else {
        Scale::Linear
    }
}

/// Draws a panel, with the names of the rows if requested.
fn draw(
    table: &FilledTable,
    column: usize,
    names: Option<(&[String], f64)>,
    area: &Area<'_>,
) -> Result<()> {
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
    let (names, room) = names.map_or((Vec::new(), EDGE), |(names, room)| (names.to_vec(), room));
    let of_y = Axis {
        label: String::new(),
        scale: Scale::Linear,
        name: Box::new(move |y| {
            let name = names.get(top - (y as usize).min(top));
            name.cloned().unwrap_or_default()
        }),
        reaches: Vec::new(),
    };
    let rows = Ticks::rows(table.rows.len());
    let mut chart = axes_with_room(area, (x, &of_x), (rows, &of_y), room)?;
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
            rests_on: Vec::new(),
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
        // The first panel shows the row names.
        for name in [
            "fat-tree scheme0",
            "fat-tree scheme2",
            "mean",
            "loss (%)",
            "Slowdown",
        ] {
            assert_eq!(svg.matches(&format!("\n{name}\n")).count(), 1, "{name}");
        }
        // 16 letters of 7.8, two panels and three edges.
        assert!(
            svg.contains("width=\"588.75\" height=\"154\""),
            "{svg:.200}"
        );
        assert_eq!(
            [0, 1].map(|column| scale(&table, column)),
            [Scale::Log, Scale::Linear]
        );
    }

    #[test]
    fn a_column_without_figures_has_no_panel_and_a_table_without_any_has_no_picture() {
        let half = table(&[[None, Some(1.0)], [None, Some(2.0)]]);
        assert!(picture(&half).unwrap().unwrap().contains(" height=\"134\""));
        assert_eq!(picture(&table(&[[None, None]])).unwrap(), None);
        assert_eq!(picture(&table(&[])).unwrap(), None);
        let panels = panels(&half, 0).unwrap();
        assert_eq!(panels.len(), 1);
        for said in [
            "><title>fat-tree scheme0\nloss (%): 1</title></circle>",
            "><title>fat-tree scheme1\nloss (%): 2</title></circle>",
        ] {
            assert!(panels[0].contains(said), "{}", panels[0]);
        }
        assert!(panels[0].contains(" height=\"110\""), "{:.200}", panels[0]);
    }
}
