// SPDX-License-Identifier: MIT OR Apache-2.0

//! Figures of ports, from their samples: between two samples, a port is assumed to stay as in the
//! former, and its counters of busy time and pauses to grow evenly.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use weft_load::record::{Backpressure, Flow, PortSample, measured};
use weft_topo::{Kind, Topology};

use super::subject::Subject;

/// The place and time of a measurement.
#[derive(Clone, Copy, Debug)]
pub(in crate::experiment) struct Place<'a> {
    /// Node and port; `None` for all ports of switches.
    pub(in crate::experiment) at: Option<(&'a str, &'a str)>,
    /// ns since the run began; `None` for the first start of a measured flow.
    pub(in crate::experiment) after: Option<u64>,
    /// `None` for the last end, or for endless flows the last sample.
    pub(in crate::experiment) until: Option<u64>,
}

/// A port's samples by time.
type History<'a> = Vec<&'a PortSample>;

/// Some ports in an interval of time.
pub(super) struct Ports<'a> {
    ports: Vec<History<'a>>,
    /// The node of each of them; ports of a node are adjacent.
    nodes: Vec<&'a str>,
    begin: u64,
    end: u64,
}

/// A value, and for how many ns it lasted.
pub(super) type Level = (f64, f64);

impl<'a> Ports<'a> {
    /// `None` if there are no samples, no such port, or no such time.
    pub(super) fn new(subject: &'a Subject<'_>, place: Place<'a>) -> Option<Self> {
        let run = subject.run;
        Self::of(subject.topology, &run.flows, &run.ports, place)
    }

    fn of(
        topology: &'a Topology,
        flows: &[Flow],
        samples: &'a [PortSample],
        place: Place<'a>,
    ) -> Option<Self> {
        let last = samples.iter().map(|sample| sample.time_ns).max()?;
        let measured = || measured(flows);
        let first = measured().map(|flow| flow.start_ns).min();
        let ends = flows.iter().map(|flow| Some(flow.start_ns + flow.fct_ns?));
        let ended = ends.collect::<Option<Vec<u64>>>();
        let ended = ended.and_then(|ends| ends.into_iter().max());
        let begin = place.after.or(first).unwrap_or(0);
        let end = place.until.or(ended).unwrap_or(last).min(last);
        let mut found: BTreeMap<(&str, &str), History<'a>> = BTreeMap::new();
        for (node, port) in ports(topology, place.at) {
            found.insert((node, port), Vec::new());
        }
        for sample in samples {
            let name = (sample.node.as_str(), sample.port.as_str());
            if let Some(history) = found.get_mut(&name) {
                history.push(sample);
            }
        }
        (begin < end && !found.is_empty()).then(|| Self {
            nodes: found.keys().map(|(node, _)| *node).collect(),
            ports: found.into_values().collect(),
            begin,
            end,
        })
    }

    /// A value of a sample, at all times of all ports; before a port's first sample it is 0. `None`
    /// if a sample has no such value.
    pub(super) fn levels(&self, value: impl Fn(&PortSample) -> Option<f64>) -> Option<Vec<Level>> {
        self.levels_from(0.0, value)
    }

    /// The same, with another initial value.
    pub(super) fn levels_from(
        &self,
        first: f64,
        value: impl Fn(&PortSample) -> Option<f64>,
    ) -> Option<Vec<Level>> {
        let mut levels = Vec::new();
        for history in &self.ports {
            let (mut now, mut since) = (first, 0);
            let mut last = |now: f64, since: u64, until: u64| {
                let (begin, end) = (since.max(self.begin), until.min(self.end));
                if begin < end {
                    levels.push((now, (end - begin) as f64));
                }
            };
            for sample in history {
                last(now, since, sample.time_ns);
                (now, since) = (value(sample)?, sample.time_ns);
            }
            last(now, since, self.end);
        }
        Some(levels)
    }

    /// The sum of a value over all ports of a node, at all times of all nodes; before a port's
    /// first sample it is 0.
    pub(super) fn of_nodes(&self, value: impl Fn(&PortSample) -> f64) -> Vec<Level> {
        let mut levels = Vec::new();
        let mut ports = self.nodes.iter().zip(&self.ports).peekable();
        while let Some(&(node, _)) = ports.peek() {
            // The changes of the sum, by time.
            let mut changes: Vec<(u64, f64)> = Vec::new();
            while let Some((_, history)) = ports.next_if(|(next, _)| *next == node) {
                let mut before = 0.0;
                for sample in history {
                    let now = value(sample);
                    changes.push((sample.time_ns, now - before));
                    before = now;
                }
            }
            changes.sort_by_key(|(time, _)| *time);
            let (mut sum, mut since) = (0.0, self.begin);
            for (time, change) in changes.into_iter().chain([(self.end, 0.0)]) {
                let time = time.clamp(self.begin, self.end);
                if since < time {
                    levels.push((sum, (time - since) as f64));
                }
                (sum, since) = (sum + change, time);
            }
        }
        levels
    }

    /// The increase of a counter, over all ports. `None` if a sample has no such counter.
    pub(super) fn count(&self, value: impl Fn(&PortSample) -> Option<f64>) -> Option<f64> {
        let mut count = 0.0;
        for history in &self.ports {
            let counts = history
                .iter()
                .map(|sample| Some((sample.time_ns, value(sample)?)));
            let points: Vec<Count> = counts.collect::<Option<_>>()?;
            count += counted(&points, self.end) - counted(&points, self.begin);
        }
        Some(count)
    }

    /// The share of time in which wires send, in %.
    ///
    /// # Errors
    ///
    /// If the samples at the beginning and the end are so far apart that the share is known to less
    /// than 1 %: a port in which no packet waits is not sampled unless all are.
    pub(super) fn busy(&self) -> Result<f64> {
        let (mut sent, mut unknown) = (0.0, 0.0);
        for history in &self.ports {
            let counts = history
                .iter()
                .map(|sample| (sample.time_ns, sample.busy_ns as f64));
            let points: Vec<Count> = counts.collect();
            sent += counted(&points, self.end) - counted(&points, self.begin);
            unknown += uncertainty(&points, self.end) + uncertainty(&points, self.begin);
        }
        let (share, unknown) = (100.0 * sent / self.time(), 100.0 * unknown / self.time());
        ensure!(
            unknown <= 1.0,
            "between {} and {} µs a link is busy for {:.0} to {:.0} % of the time: there are too few samples to say \
             more. Run with --sample-all, which samples every port each time, and see --sample for how often",
            self.begin / 1000,
            self.end / 1000,
            (share - unknown).max(0.0),
            (share + unknown).min(100.0),
        );
        Ok(share)
    }

    /// The time, in ns, from the beginning until a wire sends for at least this share of the time
    /// between two samples. `None` if none does.
    pub(super) fn sends_again(&self, share: f64) -> Option<u64> {
        let begins = |history: &History<'_>| {
            let later = history.iter().filter(|it| it.time_ns >= self.begin);
            let pairs = later.clone().zip(later.skip(1));
            let mut busy = pairs.filter(|(a, b)| {
                let (time, sent) = (b.time_ns - a.time_ns, b.busy_ns - a.busy_ns);
                time > 0 && sent as f64 >= share * time as f64
            });
            busy.next().map(|(a, _)| a.time_ns - self.begin)
        };
        self.ports.iter().filter_map(begins).min()
    }

    /// The time in ns, summed over all ports.
    pub(super) fn time(&self) -> f64 {
        (self.end - self.begin) as f64 * self.ports.len() as f64
    }

    /// The length in ns.
    pub(super) fn length(&self) -> f64 {
        (self.end - self.begin) as f64
    }
}

/// The names of nodes and ports.
fn ports<'a>(
    topology: &'a Topology,
    at: Option<(&'a str, &'a str)>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let nodes = topology.nodes().iter();
    let all = nodes.flat_map(|node| node.ports.iter().map(move |port| (node, port)));
    all.filter(move |(node, port)| match at {
        None => node.kind == Kind::Switch,
        Some(at) => at == (node.name.as_str(), port.name.as_str()),
    })
    .map(|(node, port)| (node.name.as_str(), port.name.as_str()))
}

/// A counter at a time.
type Count = (u64, f64);

/// The last count before `at`, and the next one from then on. The first count is 0 at 0.
fn around(points: &[Count], at: u64) -> (Count, Option<Count>) {
    let (before, from) = points.split_at(points.partition_point(|(time, _)| *time < at));
    let before = before.last().copied().unwrap_or((0, 0.0));
    (before, from.first().copied())
}

/// A counter at a time; it grows evenly between its samples.
fn counted(points: &[Count], at: u64) -> f64 {
    let (before, next) = around(points, at);
    let Some(next) = next else {
        return before.1;
    };
    let share = (at - before.0) as f64 / ((next.0 - before.0).max(1)) as f64;
    before.1 + share * (next.1 - before.1)
}

/// How far the true busy time at `at` may be from [`counted`], in ns. In a time a wire sends for at
/// most that time.
fn uncertainty(points: &[Count], at: u64) -> f64 {
    let ((last, before), Some((next, total))) = around(points, at) else {
        // It has sent nothing since its last sample.
        return 0.0;
    };
    let least = before.max(total - (next - at) as f64);
    let most = total.min(before + (at - last) as f64);
    let between = counted(points, at);
    (most - between).max(between - least).max(0.0)
}

/// A figure of a port with per-hop flow control.
pub(super) fn backpressure(
    value: impl Fn(&Backpressure) -> f64,
) -> impl Fn(&PortSample) -> Option<f64> {
    move |sample| sample.backpressure.as_ref().map(&value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topology() -> Topology {
        crate::topology::parse("rack:hosts=2").unwrap()
    }

    fn sample(port: &str, time_ns: u64, backlog_bytes: u64, busy_ns: u64) -> PortSample {
        PortSample {
            time_ns,
            node: "tor0".into(),
            port: port.into(),
            backlog_packets: backlog_bytes.div_ceil(1500),
            backlog_bytes,
            busy_ns,
            ..PortSample::default()
        }
    }

    const ALL: Place<'_> = Place {
        at: None,
        after: None,
        until: None,
    };

    fn samples() -> [PortSample; 5] {
        [
            sample("h0", 100, 3000, 50),
            sample("h0", 200, 1500, 150),
            sample("h1", 200, 9000, 40),
            sample("h0", 300, 0, 250),
            sample("h1", 1000, 0, 80),
        ]
    }

    #[test]
    fn a_port_has_the_values_of_its_last_sample_and_is_empty_before_the_first() {
        let (topology, samples) = (topology(), samples());
        let place = Place {
            at: Some(("tor0", "h0")),
            after: Some(50),
            until: Some(400),
        };
        let ports = Ports::of(&topology, &[], &samples, place).unwrap();
        let levels = ports.levels(|sample| Some(sample.backlog_bytes as f64));
        let expected = vec![(0.0, 50.0), (3000.0, 100.0), (1500.0, 100.0), (0.0, 100.0)];
        assert_eq!(levels, Some(expected));
        assert_eq!((ports.time(), ports.length()), (350.0, 350.0));
        assert_eq!(ports.levels(|_| None), None);
    }

    #[test]
    fn without_a_place_a_figure_covers_all_ports_of_switches_until_the_last_sample() {
        let (topology, samples) = (topology(), samples());
        let ports = Ports::of(&topology, &[], &samples, ALL).unwrap();
        assert_eq!((ports.time(), ports.length()), (2000.0, 1000.0));
        let levels = ports.levels(|sample| Some(sample.backlog_bytes as f64));
        let total: f64 = levels.unwrap().iter().map(|(_, ns)| ns).sum();
        assert_eq!(total, 2000.0);
        assert_eq!(ports.count(|it| Some(it.busy_ns as f64)), Some(330.0));
    }

    #[test]
    fn a_switch_holds_the_sum_of_its_ports() {
        let (topology, samples) = (topology(), samples());
        let of = |after, until| {
            let place = Place {
                after: Some(after),
                until: Some(until),
                ..ALL
            };
            let ports = Ports::of(&topology, &[], &samples, place).unwrap();
            ports.of_nodes(|sample| sample.backlog_bytes as f64)
        };
        let all = [
            (0.0, 100.0),
            (3000.0, 100.0),
            (10_500.0, 100.0),
            (9000.0, 700.0),
        ];
        assert_eq!(of(0, 1000), all);
        assert_eq!(of(150, 250), [(3000.0, 50.0), (10_500.0, 50.0)]);
        let fabric = crate::topology::parse("leaf-spine:leaves=3,spines=2,hosts=2").unwrap();
        let idle = Ports::of(&fabric, &[], &samples, ALL).unwrap();
        let switches = fabric.switches().count() as f64;
        let levels = idle.of_nodes(|sample| sample.backlog_bytes as f64);
        assert_eq!(levels.len() as f64, switches, "one level of each");
        assert!(levels.iter().all(|level| *level == (0.0, 1000.0)));
    }

    #[test]
    fn a_wire_has_resumed_if_it_is_busy_between_two_samples() {
        let topology = topology();
        let at = |time_ns, busy_ns| sample("h0", time_ns, 1500, busy_ns);
        let samples = [
            at(0, 0),
            at(100, 100),
            at(200, 110),
            at(300, 150),
            at(400, 245),
            at(500, 250),
        ];
        let from = |begin, share| {
            let place = Place {
                at: Some(("tor0", "h0")),
                after: Some(begin),
                until: None,
            };
            let ports = Ports::of(&topology, &[], &samples, place).unwrap();
            ports.sends_again(share)
        };
        assert_eq!(from(0, 0.9), Some(0));
        assert_eq!(from(90, 0.9), Some(210));
        assert_eq!(from(90, 0.96), None);
    }

    #[test]
    fn counters_rise_linearly_between_samples() {
        let points = [(100, 50.0), (200, 150.0)];
        for (at, expected) in [
            (0, 0.0),
            (50, 25.0),
            (100, 50.0),
            (150, 100.0),
            (900, 150.0),
        ] {
            assert_eq!(counted(&points, at), expected, "{at}");
        }
        assert_eq!(counted(&[(0, 0.0), (10, 4.0)], 0), 0.0);
    }

    #[test]
    fn a_share_that_the_samples_do_not_show_is_refused() {
        let topology = topology();
        let busy = |samples: &[PortSample], after| {
            let place = Place {
                at: Some(("tor0", "h0")),
                after: Some(after),
                until: None,
            };
            let ports = Ports::of(&topology, &[], samples, place).unwrap();
            ports.busy().map_err(|error| error.to_string())
        };
        let at = |time_ns, busy_ns| sample("h0", time_ns, 0, busy_ns);
        // It was busy for 4 of 8 µs, and nobody knows when.
        let sparse = [at(1000, 1000), at(9000, 5000), at(11_000, 5000)];
        let error = busy(&sparse, 5000).unwrap_err();
        assert!(error.contains("busy for 0 to 67 %"), "{error}");
        assert!(error.contains("--sample-all"), "{error}");
        // A port that sent all the time, or never, did so then as well.
        assert_eq!(busy(&[at(1000, 1000), at(9000, 9000)], 5000), Ok(100.0));
        assert_eq!(busy(&[at(1000, 0), at(9000, 0)], 5000), Ok(0.0));
        // A sample at the time itself, and one so near that it changes little.
        assert_eq!(busy(&[at(5000, 0), at(9000, 1000)], 5000), Ok(25.0));
        let near = [at(4990, 0), at(5010, 10), at(9000, 10)];
        assert!(busy(&near, 5000).is_ok_and(|share| share < 0.2));
    }

    #[test]
    fn a_statistic_without_samples_is_not_measured() {
        let (topology, samples) = (topology(), samples());
        assert!(Ports::of(&topology, &[], &[], ALL).is_none());
        let nowhere = Some(("tor0", "h2"));
        assert!(Ports::of(&topology, &[], &samples, Place { at: nowhere, ..ALL }).is_none());
        let late = Some(1000);
        assert!(Ports::of(&topology, &[], &samples, Place { after: late, ..ALL }).is_none());
    }
}
