// SPDX-License-Identifier: MIT OR Apache-2.0

//! The backlog of switches over time, and when they detoured packets: one panel for each scheme, a
//! row for each switch (as in K. Zarifis et al., DIBS, EuroSys 2014, Figure 2).

use std::collections::BTreeMap;

use anyhow::Result;
use weft_lab::results::Group;
use weft_load::record::{PortSample, Recorded};
use weft_words::order::natural;

use super::{Figure, Panel};
use crate::report::chart::Axis;
use crate::report::map::{Map, Row};
use crate::report::ticks::{self, Scale};

/// Number of intervals in a panel.
const BINS: u64 = 120;
/// Maximum of switches in a panel.
const ROWS: usize = 16;

/// A switch over the intervals.
#[derive(Debug, PartialEq)]
struct Switch<'a> {
    name: &'a str,
    /// The maximum backlog of all its ports together, in bytes.
    held: Vec<u64>,
    /// Packets that it detoured.
    detoured: Vec<u64>,
}

impl<'a> Switch<'a> {
    /// Computed from the samples of one switch, in order of time. A port keeps the backlog of its
    /// last sample until its next one, or until the run's last sample, `until`.
    fn new(name: &'a str, samples: &[&PortSample], width: u64, bins: usize, until: u64) -> Self {
        let mut switch = Self {
            name,
            held: vec![0; bins],
            detoured: vec![0; bins],
        };
        let mut ports: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        let moments = samples.chunk_by(|a, b| a.time_ns == b.time_ns);
        let ends = moments.clone().skip(1).map(|it| it[0].time_ns);
        let last = (until / width + 1).saturating_mul(width);
        for (moment, end) in moments.zip(ends.chain([last])) {
            let from = (moment[0].time_ns / width) as usize;
            for sample in moment {
                let port = ports.entry(&sample.port).or_default();
                let detours = sample.detours.map_or(0, |detours| detours.sent);
                if let Some(bin) = switch.detoured.get_mut(from) {
                    *bin += detours.saturating_sub(port.1);
                }
                *port = (sample.backlog_bytes, detours);
            }
            let held: u64 = ports.values().map(|port| port.0).sum();
            let to = (end.saturating_sub(1) / width) as usize;
            for bin in switch.held.iter_mut().take(to + 1).skip(from) {
                *bin = held.max(*bin);
            }
        }
        switch
    }

    fn most(&self) -> u64 {
        self.held.iter().copied().max().unwrap_or(0)
    }
}

/// The switches with the largest backlogs, in the order of their names.
fn switches(run: &Recorded, width: u64, bins: usize) -> Vec<Switch<'_>> {
    let mut nodes: BTreeMap<&str, Vec<&PortSample>> = BTreeMap::new();
    for sample in run.ports.iter().filter(|sample| !sample.host) {
        nodes.entry(&sample.node).or_default().push(sample);
    }
    let until = run.ports.iter().map(|sample| sample.time_ns).max();
    let until = until.unwrap_or_default();
    let mut switches: Vec<Switch<'_>> = nodes
        .into_iter()
        .map(|(name, mut samples)| {
            samples.sort_by_key(|sample| sample.time_ns);
            Switch::new(name, &samples, width, bins, until)
        })
        .filter(|switch| switch.most() > 0)
        .collect();
    switches.sort_by_key(|switch| std::cmp::Reverse(switch.most()));
    switches.truncate(ROWS);
    switches.sort_by_key(|switch| natural(switch.name));
    switches
}

/// For each group's first run, all with the same axis and shades.
pub(in crate::report) fn held_by_switches(groups: &[Group]) -> Result<Figure> {
    let runs = || groups.iter().map(|group| &group.runs[0]);
    let samples = runs()
        .flat_map(|run| &run.ports)
        .filter(|sample| !sample.host);
    let until = samples.map(|sample| sample.time_ns).max().unwrap_or(0);
    let width = (until / BINS).max(1);
    let bins = (until / width) as usize + 1;
    let all: Vec<Vec<Switch<'_>>> = runs().map(|run| switches(run, width, bins)).collect();
    let most = all.iter().flatten().map(Switch::most).max().unwrap_or(0);
    let any_detours = all
        .iter()
        .flatten()
        .any(|switch| switch.detoured.iter().any(|count| *count > 0));
    let ms = |bin: usize| (bin as u64 * width) as f64 / 1e6;
    let mut panels = Vec::new();
    for (column, (group, switches)) in groups.iter().zip(&all).enumerate() {
        let rows = switches.iter().map(|switch| Row {
            name: switch.name.to_owned(),
            cells: (0..bins)
                .map(|bin| (ms(bin), ms(bin + 1), switch.held[bin] as f64 / most as f64))
                .collect(),
            marks: (0..bins)
                .filter(|bin| switch.detoured[*bin] > 0)
                .map(|bin| (ms(bin), ms(bin + 1)))
                .collect(),
        });
        let map = Map {
            x: Axis {
                label: "time (ms)".to_owned(),
                scale: Scale::Linear,
                name: Box::new(ticks::number),
                reaches: vec![0.0, until as f64 / 1e6],
            },
            column,
            of: "switch",
            rows: rows.collect(),
        };
        let title = super::of_first_run(group);
        panels.extend(map.svg()?.map(|svg| Panel { title, svg }));
    }
    let detours = match any_detours {
        true => " A mark at a row's foot: the switch detoured packets.",
        false => "",
    };
    Ok(Figure {
        id: "switches".to_owned(),
        title: "What switches held".to_owned(),
        caption: format!(
            "All ports of a switch together, of at most {ROWS} that held the most; the darkest is {}.{detours} \
             Times are the fabric's.",
            ticks::bytes(rounded(most as f64))
        ),
        legend: Vec::new(),
        panels,
    })
}

/// Rounds to three digits.
fn rounded(value: f64) -> f64 {
    let unit = 10_f64.powf(value.max(1.0).log10().floor() - 2.0);
    (value / unit).round() * unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::sample;
    use weft_load::record::Detours;

    /// Node, port, time, bytes, detours.
    type Said = (&'static str, &'static str, u64, u64, Option<u64>);

    fn run(said: &[Said]) -> Recorded {
        let sample = sample("dibs", 1, 10, 2.0);
        let template = sample.ports[0].clone();
        let port = |&(node, port, time_ns, backlog_bytes, detours): &Said| PortSample {
            node: node.to_owned(),
            port: port.to_owned(),
            host: node.starts_with('h'),
            time_ns,
            backlog_bytes,
            detours: detours.map(|sent| Detours { sent, received: 0 }),
            ..template.clone()
        };
        Recorded {
            header: sample.header,
            flows: Vec::new(),
            ports: said.iter().map(port).collect(),
            path: None,
            summary: None,
        }
    }

    #[test]
    fn a_port_keeps_its_backlog_until_the_next_sample_and_ports_add_up() {
        let run = run(&[
            ("edge0", "a", 5, 100, Some(2)),
            ("edge0", "b", 5, 10, None),
            // For a moment, within an interval.
            ("edge0", "b", 12, 1_000, None),
            ("edge0", "b", 13, 20, None),
            ("edge0", "a", 35, 0, Some(9)),
            ("h0", "x", 40, 7, None),
            ("edge0", "b", 45, 0, None),
        ]);
        let found = switches(&run, 10, 6);
        let expected = Switch {
            name: "edge0",
            held: vec![110, 1_100, 120, 120, 20, 0],
            detoured: vec![2, 0, 0, 7, 0, 0],
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_switch_holds_nothing_after_the_last_sample_of_its_run() {
        // As at a time limit: the queue's end is not sampled.
        let run = run(&[
            ("edge0", "a", 5, 100, None),
            ("edge0", "b", 12, 50, None),
            ("h0", "x", 24, 7, None),
        ]);
        let found = switches(&run, 10, 6);
        assert_eq!(found[0].held, [100, 150, 150, 0, 0, 0]);
    }

    #[test]
    fn the_fullest_are_shown_by_number() {
        let names: Vec<String> = (0..40).map(|n| format!("edge{n}")).collect();
        let mut run = run(&[]);
        let template = sample("dibs", 1, 10, 2.0).ports[0].clone();
        run.ports = names
            .iter()
            .zip(0..)
            .map(|(node, n)| PortSample {
                node: node.clone(),
                host: false,
                time_ns: 1,
                // 7 and the last ones have the most; 3 has nothing.
                backlog_bytes: if n == 7 {
                    1_000
                } else if n == 3 {
                    0
                } else {
                    n
                },
                ..template.clone()
            })
            .collect();
        let found = switches(&run, 1, 2);
        let names: Vec<&str> = found.iter().map(|switch| switch.name).collect();
        assert_eq!(names.len(), ROWS);
        assert_eq!(names[..3], ["edge7", "edge25", "edge26"]);
        assert_eq!(names[ROWS - 1], "edge39");
    }
}
