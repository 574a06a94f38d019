// SPDX-License-Identifier: MIT OR Apache-2.0

//! Results of a sweep over its options: a line for each scheme, with its intervals.

use anyhow::Result;
use weft_lab::results::{self, Estimate, Figure as Statistic, Group, Kind, Line, Sweep, What};

use super::{Figure, Key, Panel, panel};
use crate::compare::table::{OfRun, of_run};
use crate::report::chart::{Axis, Band, Chart, Name, Series, Shape};
use crate::report::ticks::{self, Scale};
use crate::report::words::capitalized;

/// From this ratio of the largest to the smallest value on, an axis is logarithmic.
const WIDE: f64 = 16.0;
/// Number of letters that fit below an axis.
const LETTERS: usize = 45;

/// The accessor of a column's measure.
type Of = Box<dyn Fn(&Group) -> Option<Estimate>>;

/// A measure to draw: its name, its axis, and its accessor.
struct Measure {
    title: String,
    label: &'static str,
    scale: Scale,
    name: fn(f64) -> String,
    reaches: &'static [f64],
    reference: Option<f64>,
    of: Of,
}

/// The figures of each axis: slowdowns, times, and figures of whole runs.
pub(in crate::report) fn sweeps(groups: &[Group], sweep: &Sweep) -> Result<Vec<Figure>> {
    let mut buckets = results::buckets(groups);
    let mut caption =
        "A band, or a bar at a single point, is the 95 % interval of the comparison below. "
            .to_owned();
    if sweep.axes.len() > 1 {
        caption.push_str(
            "Each plot has one value of each other varied option, and flows of all sizes. ",
        );
        // The bucket of all flows is the last.
        buckets.drain(..buckets.len().saturating_sub(1));
    }
    let mut figures = Vec::new();
    for (number, axis) in sweep.axes.iter().enumerate() {
        for (id, title, measures) in [
            ("slowdown", "Slowdown", slowdowns(&buckets)),
            ("fct", "Completion times", times(&buckets)),
            ("run", "Whole runs", of_runs()),
        ] {
            let mut panels = Vec::new();
            for measure in &measures {
                panels.extend(drawn(groups, sweep, number, measure)?);
            }
            figures.push(Figure {
                id: format!("sweep-{id}-{}", number + 1),
                title: format!("{title} by {}", axis.name),
                caption: format!("{caption}{}", Names::of(axis).caption),
                legend: legend(groups, sweep),
                panels,
            });
        }
    }
    Ok(figures)
}

fn slowdowns(buckets: &[String]) -> Vec<Measure> {
    let measure = |bucket: &String, name: &str, statistic| Measure {
        title: format!("{name} slowdown, {}", of_sizes(bucket)),
        label: "slowdown",
        scale: Scale::Log,
        name: ticks::number,
        reaches: &[1.0, 2.0],
        reference: Some(1.0),
        of: figure(What::Slowdown, bucket, statistic),
    };
    both(buckets, measure)
}

fn times(buckets: &[String]) -> Vec<Measure> {
    let measure = |bucket: &String, name: &str, statistic| Measure {
        title: format!("{name} time, {}", of_sizes(bucket)),
        label: "time",
        scale: Scale::Log,
        name: ticks::time,
        reaches: &[],
        reference: None,
        of: figure(What::Time, bucket, statistic),
    };
    both(buckets, measure)
}

/// Mean and 99th percentile of flows by size.
fn both(buckets: &[String], measure: impl Fn(&String, &str, Statistic) -> Measure) -> Vec<Measure> {
    let of_bucket = |bucket| {
        [
            measure(bucket, "Mean", Statistic::Mean),
            measure(bucket, "99th percentile of", Statistic::Percentile(0.99)),
        ]
    };
    buckets.iter().flat_map(of_bucket).collect()
}

fn figure(what: What, bucket: &str, statistic: Statistic) -> Of {
    let bucket = bucket.to_owned();
    Box::new(move |group| group.of(what, &bucket, statistic))
}

fn of_sizes(bucket: &str) -> String {
    match bucket {
        "all" => "all flows".to_owned(),
        sizes => format!("flows of {sizes}"),
    }
}

fn of_runs() -> Vec<Measure> {
    let measure = |figure: OfRun| Measure {
        title: capitalized(figure.title),
        label: match figure.unit {
            "" => figure.title,
            unit => unit,
        },
        scale: Scale::Linear,
        name: ticks::number,
        reaches: &[0.0],
        reference: None,
        of: Box::new(move |group| figure.of(group)),
    };
    of_run().map(measure).collect()
}

fn legend(groups: &[Group], sweep: &Sweep) -> Vec<Key> {
    let key = |line: &Line| Key {
        name: line.name.clone(),
        valid: line.points.iter().all(|it| groups[it.column].valid()),
    };
    sweep.lines.iter().map(key).collect()
}

/// A measure over an axis, once for each combination of the other axes' values.
fn drawn(groups: &[Group], sweep: &Sweep, axis: usize, measure: &Measure) -> Result<Vec<Panel>> {
    let mut others: Vec<Vec<usize>> = Vec::new();
    for point in sweep.lines.iter().flat_map(|line| &line.points) {
        let other = without(&point.at, axis);
        if !others.contains(&other) {
            others.push(other);
        }
    }
    others.sort();
    let mut panels = Vec::new();
    for other in &others {
        let values = sweep.axes.iter().enumerate().filter(|(it, _)| *it != axis);
        let values = values
            .zip(other)
            .map(|((_, axis), at)| format!(", {} {}", axis.name, axis.values[*at].0));
        let title = format!("{}{}", measure.title, values.collect::<String>());
        let series = sweep.lines.iter().enumerate().map(|(column, line)| {
            let points = line
                .points
                .iter()
                .filter(|it| without(&it.at, axis) == *other);
            let mut found: Vec<(f64, Estimate)> = points
                .filter_map(|it| {
                    let (_, x) = sweep.axes[axis].values[it.at[axis]];
                    Some((x, (measure.of)(&groups[it.column])?))
                })
                .collect();
            found.sort_by(|a, b| a.0.total_cmp(&b.0));
            let band = |&(x, it): &(f64, Estimate)| {
                let (low, high) = it.low.zip(it.high)?;
                Some(Band { x, low, high })
            };
            Series {
                column,
                shape: Shape::Marked,
                points: found.iter().map(|(x, it)| (*x, it.value)).collect(),
                bands: found.iter().filter_map(band).collect(),
            }
        });
        let names = Names::of(&sweep.axes[axis]);
        let chart = Chart {
            x: Axis {
                label: names.label,
                scale: names.scale,
                name: names.name,
                // All plots of a figure have the same axis.
                reaches: sweep.axes[axis].values.iter().map(|it| it.1).collect(),
            },
            y: Axis {
                label: measure.label.to_owned(),
                scale: measure.scale,
                name: Box::new(measure.name),
                reaches: measure.reaches.to_vec(),
            },
            reference: measure.reference,
            series: series.collect(),
        };
        panels.extend(panel(title, &chart)?);
    }
    Ok(panels)
}

fn without(at: &[usize], axis: usize) -> Vec<usize> {
    let others = at.iter().enumerate().filter(|(it, _)| *it != axis);
    others.map(|(_, value)| *value).collect()
}

/// The labels of an axis of values.
struct Names {
    label: String,
    scale: Scale,
    name: Name,
    /// The meaning of short labels, if the values are too long.
    caption: String,
}

impl Names {
    fn of(axis: &results::Axis) -> Self {
        let scale = match (axis.values.first(), axis.values.last()) {
            (Some((_, low)), Some((_, high))) if *low > 0.0 && high / low >= WIDE => Scale::Log,
            _ => Scale::Linear,
        };
        let plain = |name: fn(f64) -> String, unit: &str| Self {
            label: format!("{}{unit}", axis.name),
            scale,
            name: Box::new(name),
            caption: String::new(),
        };
        match axis.kind {
            Kind::Number => plain(ticks::number, ""),
            Kind::Time => plain(ticks::time, ""),
            Kind::Rate => plain(ticks::number, " (bit/s)"),
            Kind::Words => Self::words(axis),
        }
    }

    fn words(axis: &results::Axis) -> Self {
        let words: Vec<String> = axis.values.iter().map(|it| it.0.clone()).collect();
        let longest = words.iter().map(|it| it.chars().count()).max();
        let numbers: Vec<String> = (1..=words.len()).map(|it| it.to_string()).collect();
        let (shown, caption) = match longest.unwrap_or(0) * words.len() <= LETTERS {
            true => (words, String::new()),
            false => {
                let pairs = numbers.iter().zip(&words);
                let pairs: Vec<String> = pairs.map(|(n, it)| format!("{n}: {it}")).collect();
                (
                    numbers,
                    format!("{} {}.", capitalized(&axis.name), pairs.join(", ")),
                )
            }
        };
        Self {
            label: axis.name.clone(),
            scale: Scale::Steps,
            name: Box::new(move |at| shown.get(at as usize).cloned().unwrap_or_default()),
            caption,
        }
    }
}
