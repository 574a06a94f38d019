// SPDX-License-Identifier: MIT OR Apache-2.0

//! One plot, as SVG: lines over two axes.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::palette::{GRID, INK, SCALE, STYLES};
use super::ticks::{Scale, Ticks};

/// Width and height on a wide page.
const SIZE: (f64, f64) = (460.0, 290.0);
/// Height of letters.
pub(super) const LETTERS: f64 = 13.0;
/// Space for labels of the y axis.
const ROOM: f64 = 76.0;
const LINE: f64 = 1.8;
const MARKER: f64 = 3.6;
/// Opacity of a band.
const SHADE: f64 = 0.18;

/// The label of a value on an axis.
pub(super) type Name = Box<dyn Fn(f64) -> String>;

/// The content of an axis.
pub(super) struct Axis {
    pub(super) label: String,
    pub(super) scale: Scale,
    /// The label of a value.
    pub(super) name: Name,
    /// Values that the axis includes even if no point has them.
    pub(super) reaches: Vec<f64>,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A thin line: it has many points.
    Line,
    /// A line with a marker at each point.
    Marked,
    /// The area below a line.
    Area,
}

/// Points of one scheme.
pub(super) struct Series {
    /// The column whose style it has.
    pub(super) column: usize,
    pub(super) shape: Shape,
    pub(super) points: Vec<(f64, f64)>,
    /// Intervals of the points, if known: at an x, from one y to another.
    pub(super) bands: Vec<Band>,
}

/// An interval at an x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Band {
    pub(super) x: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

pub(super) struct Chart {
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// A horizontal line across the chart, below all series.
    pub(super) reference: Option<f64>,
    pub(super) series: Vec<Series>,
}

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(super) fn px(length: f64) -> i32 {
    (length * SCALE).round() as i32
}

pub(super) fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing: {error}")
}

impl Chart {
    fn ticks(&self, axis: &Axis, value: fn(&(f64, f64)) -> f64) -> Option<Ticks> {
        let points = self.series.iter().flat_map(|series| &series.points);
        points.clone().next()?;
        let bands = self.series.iter().flat_map(|series| &series.bands);
        let ends = bands.flat_map(|band| [(band.x, band.low), (band.x, band.high)]);
        let points = points.copied().chain(ends);
        let values = points.map(|point| value(&point));
        Ticks::new(axis.scale, values.chain(axis.reaches.iter().copied()))
    }

    /// Draws the chart; `None` if there is no point.
    ///
    /// # Errors
    ///
    /// Errors of the plotting library.
    pub(super) fn svg(&self) -> Result<Option<String>> {
        let ticks = (
            self.ticks(&self.x, |point| point.0),
            self.ticks(&self.y, |point| point.1),
        );
        let (Some(x), Some(y)) = ticks else {
            return Ok(None);
        };
        let mut svg = String::new();
        let size = (px(SIZE.0) as u32, px(SIZE.1) as u32);
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        self.draw(&area, x, y)?;
        drop(area);
        Ok(Some(svg))
    }

    fn draw(&self, area: &Area<'_>, x: Ticks, y: Ticks) -> Result<()> {
        let (left, right, bottom, top) = (x.from, x.to, y.from, y.to);
        let mut chart = axes(area, (x, &self.x), (y, &self.y))?;
        if let Some(value) = self.reference {
            let ends = vec![(left, value), (right, value)];
            let line = PathElement::new(ends, INK.stroke_width(px(1.0) as u32));
            chart.draw_series([line]).map_err(failed)?;
        }
        // Below all lines.
        for series in &self.series {
            let colour = STYLES[series.column].colour;
            let within = |it: f64| it.clamp(bottom, top);
            let low = series.bands.iter().map(|it| (it.x, within(it.low)));
            let high = series.bands.iter().map(|it| (it.x, within(it.high)));
            let drawn = match series.bands.as_slice() {
                [] => continue,
                [_] => {
                    let ends: Vec<_> = low.chain(high).collect();
                    let width = px(LINE / 2.0) as u32;
                    chart.draw_series([PathElement::new(ends, colour.stroke_width(width))])
                }
                _ => {
                    let corners: Vec<_> = low.chain(high.rev()).collect();
                    chart.draw_series([Polygon::new(corners, colour.mix(SHADE).filled())])
                }
            };
            drawn.map_err(failed)?;
        }
        for series in &self.series {
            let style = &STYLES[series.column];
            let line = style.colour.stroke_width(px(LINE) as u32);
            let points = series.points.clone();
            match series.shape {
                Shape::Line | Shape::Marked => {
                    chart
                        .draw_series([PathElement::new(points, line)])
                        .map_err(failed)?;
                }
                Shape::Area => {
                    let ends = points.first().zip(points.last());
                    let ends = ends.map(|(first, last)| [(last.0, bottom), (first.0, bottom)]);
                    let corners: Vec<_> = points
                        .into_iter()
                        .chain(ends.into_iter().flatten())
                        .collect();
                    chart
                        .draw_series([Polygon::new(corners, style.colour.filled())])
                        .map_err(failed)?;
                }
            }
            if series.shape == Shape::Marked {
                let marker = |point: &(f64, f64)| {
                    EmptyElement::at(*point) + marker(style.marker, style.colour)
                };
                let markers = series.points.iter().map(marker);
                chart.draw_series(markers).map_err(failed)?;
            }
        }
        area.present().map_err(failed)
    }
}

type Drawn<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Ticks, Ticks>>;

/// Draws two axes with their captions.
pub(super) fn axes<'a, 'b>(
    area: &'a Area<'b>,
    x: (Ticks, &Axis),
    y: (Ticks, &Axis),
) -> Result<Drawn<'a, 'b>> {
    axes_with_room(area, x, y, ROOM)
}

/// Draws two axes with a given space for labels of the y axis.
pub(super) fn axes_with_room<'a, 'b>(
    area: &'a Area<'b>,
    (x, of_x): (Ticks, &Axis),
    (y, of_y): (Ticks, &Axis),
    room: f64,
) -> Result<Drawn<'a, 'b>> {
    // The library divides by 1.24.
    let letters = ("sans-serif", LETTERS * SCALE * 1.24)
        .into_font()
        .color(&INK);
    let mut chart = ChartBuilder::on(area)
        .margin(px(4.0))
        .margin_right(px(16.0))
        .margin_top(px(8.0))
        .x_label_area_size(px(44.0))
        .y_label_area_size(px(room))
        .build_cartesian_2d(x, y)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc(&of_x.label)
        .y_desc(&of_y.label)
        .x_label_formatter(&|value| (of_x.name)(*value))
        .y_label_formatter(&|value| (of_y.name)(*value))
        .label_style(letters.clone())
        .axis_desc_style(letters)
        .axis_style(INK.stroke_width(px(1.0) as u32))
        .bold_line_style(GRID.stroke_width(px(0.75) as u32))
        .light_line_style(TRANSPARENT)
        .set_all_tick_mark_size(px(4.0))
        .draw()
        .map_err(failed)?;
    Ok(chart)
}

fn marker(corners: &[(f64, f64)], colour: RGBColor) -> Polygon<(i32, i32)> {
    let corners = corners.iter();
    let corners = corners.map(|(x, y)| (px(x * MARKER), px(y * MARKER)));
    Polygon::new(corners.collect::<Vec<_>>(), colour.filled())
}

/// The key beside a scheme's name in a legend.
///
/// # Errors
///
/// Errors of the plotting library.
pub(super) fn key(column: usize) -> Result<String> {
    let style = &STYLES[column];
    let (width, height) = (px(38.0), px(12.0));
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (width as u32, height as u32)).into_drawing_area();
    let ends = vec![(0, height / 2), (width, height / 2)];
    let line = style.colour.stroke_width(px(LINE) as u32);
    area.draw(&PathElement::new(ends, line)).map_err(failed)?;
    let middle = EmptyElement::at((width / 2, height / 2));
    area.draw(&(middle + marker(style.marker, style.colour)))
        .map_err(failed)?;
    area.present().map_err(failed)?;
    drop(area);
    Ok(svg)
}
