// SPDX-License-Identifier: MIT OR Apache-2.0

//! Queues over time, one panel for each scheme.

use std::collections::BTreeSet;

use anyhow::Result;
use weft_load::record::{PortSample, Recorded};

use super::{Figure, panel};
use crate::report::chart::{Axis, Chart, Series, Shape};
use crate::report::ticks::{self, Scale};
use weft_lab::results::Group;

/// Number of intervals in a panel.
const BINS: u64 = 300;

/// The queues of a run's switch ports: for each interval the longest, and the mean of those that
/// are not empty.
#[derive(Debug, PartialEq)]
struct Queues {
    /// At the interval's middle in ns of fabric time; bytes.
    longest: Vec<(f64, f64)>,
    mean: Vec<(f64, f64)>,
}

fn of_switches(run: &Recorded) -> impl Iterator<Item = &PortSample> {
    run.ports.iter().filter(|sample| !sample.host)
}

/// The queues in an interval.
#[derive(Clone, Copy, Default)]
struct Bin {
    longest: u64,
    sum: u64,
    queues: u64,
}

impl Queues {
    /// `None` without samples of switches. Only ports with a backlog are recorded: a missing port
    /// was empty.
    fn new(run: &Recorded, until: u64) -> Option<Self> {
        of_switches(run).next()?;
        // At least two samples, so that no interval is without one.
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

/// The time between samples: the median of the differences between recorded samples.
fn interval(run: &Recorded) -> u64 {
    let times: BTreeSet<u64> = run.ports.iter().map(|sample| sample.time_ns).collect();
    let pairs = times.iter().zip(times.iter().skip(1));
    let mut between: Vec<u64> = pairs.map(|(a, b)| b - a).collect();
    between.sort_unstable();
    between.get(between.len() / 2).copied().unwrap_or(0)
}

/// For each group's first run, all with the same axes.
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
                name: Box::new(ticks::number),
                reaches: vec![0.0, until.unwrap_or(0) as f64 / 1e6],
            },
            y: Axis {
                label: "queue (kB)".to_owned(),
                scale: Scale::Linear,
                name: Box::new(ticks::number),
                reaches: vec![highest],
            },
            reference: None,
            series: vec![
                Series {
                    column,
                    shape: Shape::Area,
                    points: points(&queues.mean),
                    bands: Vec::new(),
                },
                Series {
                    column,
                    shape: Shape::Line,
                    points: points(&queues.longest),
                    bands: Vec::new(),
                },
            ],
        };
        panels.extend(panel(super::of_first_run(group), &chart)?);
    }
    Ok(Figure {
        id: "queues".to_owned(),
        title: "Queues over time".to_owned(),
        caption:
            "Line: the longest queue of all switch ports; area: the mean of the queues that are \
                  not empty. Times are the fabric's."
                .to_owned(),
        legend: Vec::new(),
        panels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::sample;

    /// Samples every 10 ns: node, time, bytes.
    fn run(samples: &[(&str, u64, u64)]) -> Recorded {
        let sample = sample("dctcp", 1, 10, 2.0);
        let template = sample.ports[0].clone();
        let port = |&(node, time_ns, backlog_bytes): &(&str, u64, u64)| PortSample {
            node: node.to_owned(),
            host: node.starts_with('h'),
            time_ns,
            backlog_packets: backlog_bytes.div_ceil(1500),
            backlog_bytes,
            ..template.clone()
        };
        Recorded {
            header: sample.header,
            flows: Vec::new(),
            ports: samples.iter().map(port).collect(),
            path: None,
            summary: None,
        }
    }

    #[test]
    fn the_longest_and_the_mean_queue_are_of_switches_that_hold_packets() {
        let run = run(&[
            ("edge0", 0, 3_000),
            ("edge1", 0, 1_000),
            ("h0", 0, 90_000),
            ("edge0", 10, 2_000),
            ("h0", 20, 90_000),
            // It dropped a packet, and its queue is empty.
            ("edge1", 30, 0),
            ("h0", 40, 90_000),
            ("h0", 50, 90_000),
            ("edge1", 60, 6_000),
        ]);
        let queues = Queues::new(&run, 60).unwrap();
        // Intervals of two samples each. In the second no switch has a backlog, and in the third no
        // switch is recorded.
        assert_eq!(
            queues.longest,
            [(10.0, 3_000.0), (30.0, 0.0), (50.0, 0.0), (70.0, 6_000.0)]
        );
        assert_eq!(
            queues.mean,
            [(10.0, 2_000.0), (30.0, 0.0), (50.0, 0.0), (70.0, 6_000.0)]
        );
    }

    #[test]
    fn many_samples_are_thinned_out_without_losing_a_peak() {
        let mut samples: Vec<(&str, u64, u64)> =
            (0..100_000).map(|n| ("edge0", 10 * n, 1_500)).collect();
        samples[77_777].2 = 150_000;
        let queues = Queues::new(&run(&samples), 999_990).unwrap();
        assert!(
            queues.longest.len() <= BINS as usize + 1,
            "{}",
            queues.longest.len()
        );
        let peaks = queues
            .longest
            .iter()
            .filter(|(_, bytes)| *bytes == 150_000.0);
        assert_eq!(peaks.count(), 1);
    }

    #[test]
    fn samples_of_hosts_alone_make_no_figure() {
        assert_eq!(Queues::new(&run(&[("h0", 0, 1_500)]), 10), None);
    }
}
