// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues over time, one panel for each scheme.

use std::collections::BTreeSet;

use anyhow::Result;
use weft_load::record::{PortSample, Run};

use super::{Figure, panel};
use crate::report::chart::{Axis, Chart, Series, Shape};
use crate::report::ticks::{self, Scale};
use crate::results::Group;

/// A panel tells so many moments apart.
const BINS: u64 = 300;

/// The queues of a run's switch ports: in a stretch of time the longest, and the mean of those that
/// are not empty.
#[derive(Debug, PartialEq)]
struct Queues {
    /// At its middle, in ns of the fabric; bytes.
    longest: Vec<(f64, f64)>,
    mean: Vec<(f64, f64)>,
}

fn of_switches(run: &Run) -> impl Iterator<Item = &PortSample> {
    run.ports.iter().filter(|sample| !sample.host)
}

/// What a stretch of time has.
#[derive(Clone, Copy, Default)]
struct Bin {
    longest: u64,
    sum: u64,
    queues: u64,
}

impl Queues {
    /// `None` without samples of switches. Only ports that hold something are recorded: what is not
    /// there was empty.
    fn new(run: &Run, until: u64) -> Option<Self> {
        of_switches(run).next()?;
        // Two samples at least: so no stretch of time is without one.
        let width = (until / BINS).max(2 * interval(run)).max(1);
        let mut bins = vec![Bin::default(); (until / width) as usize + 1];
        for sample in of_switches(run).filter(|sample| sample.backlog_packets > 0) {
            if let Some(bin) = bins.get_mut((sample.time_ns / width) as usize) {
                bin.longest = bin.longest.max(sample.backlog_bytes);
                bin.sum += sample.backlog_bytes;
                bin.queues += 1;
            }
        }
        let points = |bytes: fn(&Bin) -> f64| {
            let middles = (0..bins.len()).map(|place| (place as f64 + 0.5) * width as f64);
            middles.zip(bins.iter().map(bytes)).collect()
        };
        Some(Self {
            longest: points(|bin| bin.longest as f64),
            mean: points(|bin| bin.sum as f64 / bin.queues.max(1) as f64),
        })
    }
}

/// The time between samples: the median of what lies between those that were recorded.
fn interval(run: &Run) -> u64 {
    let times: BTreeSet<u64> = run.ports.iter().map(|sample| sample.time_ns).collect();
    let pairs = times.iter().zip(times.iter().skip(1));
    let mut between: Vec<u64> = pairs.map(|(a, b)| b - a).collect();
    between.sort_unstable();
    between.get(between.len() / 2).copied().unwrap_or(0)
}

/// Of each group's first run, all with the same axes.
pub(in crate::report) fn queues(groups: &[Group]) -> Result<Figure> {
    let runs = || groups.iter().map(|group| &group.runs[0]);
    let until = runs().flat_map(of_switches).map(|it| it.time_ns).max();
    let all: Vec<Option<Queues>> = runs()
        .map(|run| Queues::new(run, until.unwrap_or(0)))
        .collect();
    let highest = all.iter().flatten().flat_map(|queues| &queues.longest);
    let highest = highest.map(|(_, bytes)| bytes / 1e3).fold(0.0, f64::max);
    let mut panels = Vec::new();
    for (column, (group, queues)) in groups.iter().zip(&all).enumerate() {
        let Some(queues) = queues else { continue };
        let points = |points: &[(f64, f64)]| {
            let points = points.iter();
            points.map(|(ns, bytes)| (ns / 1e6, bytes / 1e3)).collect()
        };
        let chart = Chart {
            x: Axis {
                label: "time (ms)".to_owned(),
                scale: Scale::Linear,
                name: ticks::number,
                reaches: vec![0.0, until.unwrap_or(0) as f64 / 1e6],
            },
            y: Axis {
                label: "queue (kB)".to_owned(),
                scale: Scale::Linear,
                name: ticks::number,
                reaches: vec![highest],
            },
            reference: None,
            series: vec![
                Series {
                    column,
                    shape: Shape::Area,
                    points: points(&queues.mean),
                },
                Series {
                    column,
                    shape: Shape::Line,
                    points: points(&queues.longest),
                },
            ],
        };
        let mut title = group.name.clone();
        if group.runs.len() > 1 {
            title.push_str(&format!(", seed {}", group.runs[0].header.seed));
        }
        if !group.valid() {
            title.push_str(" (INVALID)");
        }
        panels.extend(panel(title, &chart)?);
    }
    Ok(Figure {
        id: "queues",
        title: "Queues over time",
        caption:
            "Line: the longest queue of all switch ports; area: the mean of the queues that are \
                  not empty. Times are the fabric's."
                .to_owned(),
        one_each: true,
        panels,
    })
}
