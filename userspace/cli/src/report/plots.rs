// SPDX-License-Identifier: MIT OR Apache-2.0

//! The report's plots, as SVG.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use weft_load::statistics::Sorted;

use crate::results::Group;

const SIZE: (u32, u32) = (920, 420);
/// Okabe and Ito's, which people tell apart whatever colours they see.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];

/// A line, its name if the legend has it, and whether it is dashed.
struct Line {
    name: Option<String>,
    colour: RGBColor,
    dashed: bool,
    points: Vec<(f64, f64)>,
}

struct Axes {
    x: &'static str,
    y: &'static str,
    log_x: bool,
    log_y: bool,
}

fn colour(index: usize) -> RGBColor {
    COLOURS[index % COLOURS.len()]
}

/// Mean and 99th percentile of slowdowns of flows of like size: ten sets with equally many flows.
/// `None` without flows.
pub(super) fn slowdown_by_size(groups: &[Group]) -> Result<Option<String>> {
    const SETS: usize = 10;
    let mut lines = Vec::new();
    for (index, group) in groups.iter().enumerate() {
        let flows = group.runs.iter().flat_map(|run| &run.flows);
        let mut flows: Vec<(u64, f64)> = flows
            .filter(|flow| !flow.warm_up)
            .filter_map(|flow| Some((flow.size, flow.slowdown?)))
            .collect();
        flows.sort_by_key(|(size, _)| *size);
        let (mut means, mut tails) = (Vec::new(), Vec::new());
        for set in flows.chunks(flows.len().div_ceil(SETS).max(1)) {
            let middle = set[set.len() / 2].0 as f64;
            let slowdowns = Sorted::new(set.iter().map(|(_, slowdown)| *slowdown));
            means.extend(slowdowns.mean().map(|mean| (middle, mean)));
            tails.extend(slowdowns.percentile(0.99).map(|tail| (middle, tail)));
        }
        for (points, dashed) in [(means, false), (tails, true)] {
            lines.push(Line {
                name: (!dashed).then(|| group.name.clone()),
                colour: colour(index),
                dashed,
                points,
            });
        }
    }
    draw(
        &lines,
        &Axes {
            x: "flow size (bytes)",
            y: "slowdown",
            log_x: true,
            log_y: true,
        },
    )
}

/// The distribution of flow completion times. `None` without flows.
pub(super) fn completion_times(groups: &[Group]) -> Result<Option<String>> {
    const POINTS: usize = 400;
    let line = |(index, group): (usize, &Group)| {
        let flows = group.runs.iter().flat_map(|run| &run.flows);
        let times = flows
            .filter(|flow| !flow.warm_up)
            .filter_map(|flow| Some(flow.fct_ns? as f64 / 1e3));
        Line {
            name: Some(group.name.clone()),
            colour: colour(index),
            dashed: false,
            points: Sorted::new(times).cdf(POINTS),
        }
    };
    let lines: Vec<Line> = groups.iter().enumerate().map(line).collect();
    draw(
        &lines,
        &Axes {
            x: "flow completion time (µs)",
            y: "share of flows",
            log_x: true,
            log_y: false,
        },
    )
}

/// The longest queue over time, of each group's first run. `None` if no port was sampled.
pub(super) fn queues(groups: &[Group]) -> Result<Option<String>> {
    let line = |(index, group): (usize, &Group)| {
        let mut longest: BTreeMap<u64, u64> = BTreeMap::new();
        for sample in &group.runs[0].ports {
            let entry = longest.entry(sample.time_ns).or_default();
            *entry = (*entry).max(sample.backlog_packets);
        }
        Line {
            name: Some(group.name.clone()),
            colour: colour(index),
            dashed: false,
            points: longest
                .into_iter()
                .map(|(time, packets)| (time as f64 / 1e6, packets as f64))
                .collect(),
        }
    };
    let lines: Vec<Line> = groups.iter().enumerate().map(line).collect();
    draw(
        &lines,
        &Axes {
            x: "time (ms)",
            y: "packets",
            log_x: false,
            log_y: false,
        },
    )
}

/// The smallest and the largest of all coordinates.
fn range(values: impl Iterator<Item = f64>, log: bool) -> (f64, f64) {
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
    if log {
        (low.max(f64::MIN_POSITIVE), (high * 1.1).max(low * 2.0))
    } else {
        (low.min(0.0), high.max(low + 1e-9) * 1.05)
    }
}

/// Draws lines; `None` if there is no point.
fn draw(lines: &[Line], axes: &Axes) -> Result<Option<String>> {
    let points = || lines.iter().flat_map(|line| &line.points);
    if points().next().is_none() {
        return Ok(None);
    }
    let (x0, x1) = range(points().map(|point| point.0), axes.log_x);
    let (y0, y1) = range(points().map(|point| point.1), axes.log_y);
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut builder = ChartBuilder::on(&area);
        builder
            .margin(10)
            .x_label_area_size(45)
            .y_label_area_size(65);
        // Another scale is another type: the three that are needed.
        macro_rules! chart {
            ($x:expr, $y:expr) => {{
                let mut chart = builder.build_cartesian_2d($x, $y).map_err(failed)?;
                chart
                    .configure_mesh()
                    .x_desc(axes.x)
                    .y_desc(axes.y)
                    .x_label_formatter(&|value| short(*value))
                    .y_label_formatter(&|value| short(*value))
                    .light_line_style(WHITE.mix(0.0))
                    .draw()
                    .map_err(failed)?;
                for line in lines {
                    let style = line.colour.stroke_width(2);
                    let points = line.points.iter().copied();
                    let series = if line.dashed {
                        chart.draw_series(DashedLineSeries::new(points, 6, 4, style))
                    } else {
                        chart.draw_series(LineSeries::new(points, style))
                    };
                    let series = series.map_err(failed)?;
                    if let Some(name) = &line.name {
                        let colour = line.colour;
                        series.label(name).legend(move |(x, y)| {
                            PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2))
                        });
                    }
                }
                chart
                    .configure_series_labels()
                    .position(SeriesLabelPosition::UpperLeft)
                    .background_style(WHITE.mix(0.8))
                    .border_style(BLACK.mix(0.2))
                    .draw()
                    .map_err(failed)?;
            }};
        }
        match (axes.log_x, axes.log_y) {
            (true, true) => chart!((x0..x1).log_scale(), (y0..y1).log_scale()),
            (true, false) => chart!((x0..x1).log_scale(), y0..y1),
            (false, _) => chart!(x0..x1, y0..y1),
        }
        area.present().map_err(failed)?;
    }
    Ok(Some(svg))
}

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("drawing: {error}")
}

/// 1500, 20k, 3M, 0.25.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        it if it >= 1e9 => format!("{}G", trim(value / 1e9)),
        it if it >= 1e6 => format!("{}M", trim(value / 1e6)),
        it if it >= 1e4 => format!("{}k", trim(value / 1e3)),
        _ => trim(value),
    }
}

fn trim(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
