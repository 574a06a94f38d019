// SPDX-License-Identifier: MIT OR Apache-2.0

//! Figures of a run, from its flows and its summary.

mod ports;
mod receiver;

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Deserialize;
use weft_load::quantity;
use weft_load::record::{Class, Flow};
use weft_load::statistics::{Bucket, Sorted};

use super::results::Done;

/// What is measured.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measure {
    pub(crate) of: Of,
    /// Where there are many: which figure of them.
    #[serde(default)]
    statistic: Option<Statistic>,
    /// Only flows that are larger,
    #[serde(default)]
    above: Option<Bytes>,
    /// and at most so large.
    #[serde(default)]
    up_to: Option<Bytes>,
    /// Only flows of this class.
    #[serde(default)]
    class: Option<Only>,
    /// Only the ports of this node.
    #[serde(default)]
    node: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Of {
    /// Flows' times, divided by the best possible.
    Slowdown,
    /// Flows' times, in µs.
    Time,
    /// Flows' times less the best possible, in µs: for a flow of one packet, what it waited in queues.
    Delay,
    /// Flows' bytes over their times, as a share of what the receiver's link carries at best, in %. Of
    /// a flow that did not end, what was there when the run did.
    Throughput,
    /// Incasts' times from the first byte of any flow to the last of all, in µs.
    RequestTime,
    /// The share of packets that were dropped somewhere, in %.
    Loss,
    /// The goodput of the busiest receiver from its first flow's start to its last one's end, as a
    /// share of what its link carries at best, in %.
    Utilization,
    /// At the busiest receiver, from the end of a flow to that of the next, less the time for which
    /// the link is busy with the latter alone, in packet times. Flows that are served one after the
    /// other at full rate have 0; an idle link makes it more; what a flow got before its turn, less.
    SwitchOver,
    /// Segments sent again, per flow.
    Retransmissions,
    /// Timeouts, per flow.
    Timeouts,
    /// What is in all ports of a switch together, in kB, over time; see [`ports`].
    Buffer,
    /// Queues of a switch's port that have packets, over time; see [`ports`].
    OccupiedQueues,
    /// Of the times that a flow became active at a switch's port, the share in which its queue had
    /// packets of another, in %.
    Collisions,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Statistic {
    Mean,
    P50,
    P95,
    P99,
    P999,
    Max,
    /// Of values that may be below 0: the largest without their sign.
    Largest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Only {
    Background,
    Incast,
    Added,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Bytes(u64);

impl TryFrom<String> for Bytes {
    type Error = weft_load::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        quantity::bytes(&text).map(Self)
    }
}

impl Statistic {
    /// `None` of no numbers.
    fn of(self, values: impl IntoIterator<Item = f64>) -> Option<f64> {
        let sorted = Sorted::new(values);
        match self {
            Self::Mean => sorted.mean(),
            Self::P50 => sorted.percentile(0.5),
            Self::P95 => sorted.percentile(0.95),
            Self::P99 => sorted.percentile(0.99),
            Self::P999 => sorted.percentile(0.999),
            Self::Max => sorted.values().last().copied(),
            Self::Largest => {
                let sizes = sorted.values().iter().map(|value| value.abs());
                sizes.max_by(f64::total_cmp)
            }
        }
    }
}

impl Statistic {
    /// Of values that each last for some time. `None` of no time.
    fn over_time(self, mut values: Vec<Lasting>) -> Option<f64> {
        values.retain(|value| value.ns > 0);
        values.sort_by(|a, b| a.value.total_cmp(&b.value));
        let all: u64 = values.iter().map(|value| value.ns).sum();
        let share = match self {
            Self::Mean => {
                let sum: f64 = values.iter().map(|it| it.value * it.ns as f64).sum();
                return (all > 0).then(|| sum / all as f64);
            }
            Self::P50 => 0.5,
            Self::P95 => 0.95,
            Self::P99 => 0.99,
            Self::P999 => 0.999,
            Self::Max | Self::Largest => 1.0,
        };
        // The smallest value that it does not exceed for this share of the time.
        let asked = share * all as f64;
        let mut passed = 0;
        let found = values.iter().find(|value| {
            passed += value.ns;
            passed as f64 >= asked
        });
        found.map(|value| value.value)
    }
}

/// A value for so long.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lasting {
    value: f64,
    ns: u64,
}

impl Of {
    fn has_statistic(self) -> bool {
        use Of::{Delay, RequestTime, Slowdown, SwitchOver, Throughput, Time};
        let of_flows = matches!(self, Slowdown | Time | Delay | Throughput);
        of_flows || self.is_over_time() || matches!(self, RequestTime | SwitchOver)
    }

    /// Whether its values last.
    fn is_over_time(self) -> bool {
        matches!(self, Self::Buffer | Self::OccupiedQueues)
    }

    /// Whether it is of ports, so that nodes can be told apart.
    fn has_ports(self) -> bool {
        self.is_over_time() || self == Self::Collisions
    }

    /// Whether sizes and classes of flows can be told apart.
    fn has_flows(self) -> bool {
        use Of::{Delay, Retransmissions, Slowdown, Throughput, Time, Timeouts};
        matches!(
            self,
            Slowdown | Time | Delay | Throughput | Retransmissions | Timeouts
        )
    }

    /// Empty for a number.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Slowdown | Self::Retransmissions | Self::Timeouts => "",
            Self::Time | Self::Delay | Self::RequestTime => "µs",
            Self::Loss | Self::Utilization | Self::Throughput | Self::Collisions => "%",
            Self::Buffer => "kB",
            Self::OccupiedQueues => "queues",
            Self::SwitchOver => "packets",
        }
    }
}

impl Measure {
    /// What does not go together.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let of_flows = self.above.is_some() || self.up_to.is_some() || self.class.is_some();
        if self.of.has_statistic() && self.statistic.is_none() {
            Some("it needs a statistic: mean, p50, p95, p99, p999, max or largest")
        } else if !self.of.has_statistic() && self.statistic.is_some() {
            Some("there is one number of it, and no statistic")
        } else if of_flows && !self.of.has_flows() {
            Some("above, up_to and class are for figures of flows")
        } else if self.node.is_some() && !self.of.has_ports() {
            Some("node is for figures of ports")
        } else if self.of.is_over_time() && self.statistic == Some(Statistic::Largest) {
            Some("it is never below 0: write max for largest")
        } else {
            None
        }
    }

    fn takes(&self, flow: &Flow) -> bool {
        let bucket = Bucket {
            above: self.above.map_or(0, |bytes| bytes.0),
            up_to: self.up_to.map(|bytes| bytes.0),
        };
        let class = match self.class {
            None => true,
            Some(Only::Background) => flow.class == Class::Background,
            Some(Only::Incast) => matches!(flow.class, Class::Incast { .. }),
            Some(Only::Added) => flow.class == Class::Added,
        };
        !flow.warm_up && bucket.contains(flow.size) && class
    }

    /// Of one run. `None`: there is nothing to measure.
    ///
    /// # Errors
    ///
    /// If the results have hosts that the topology has not.
    pub(crate) fn of_run(&self, done: &Done<'_>) -> Result<Option<f64>> {
        let flows = || done.run.flows.iter().filter(|flow| self.takes(flow));
        let statistic = self.statistic.unwrap_or(Statistic::Mean);
        let per_flow = |count: fn(&Flow) -> u64| {
            let counts = flows().map(|flow| count(flow) as f64);
            Statistic::Mean.of(counts)
        };
        Ok(match self.of {
            Of::Slowdown => statistic.of(flows().filter_map(|flow| flow.slowdown)),
            Of::Time => {
                let times = flows().filter_map(|flow| flow.fct_ns);
                statistic.of(times.map(|ns| ns as f64 / 1e3))
            }
            Of::Delay => {
                let delays = flows().filter_map(|flow| {
                    let ns = flow.fct_ns? as f64;
                    Some((ns - ns / flow.slowdown?) / 1e3)
                });
                statistic.of(delays)
            }
            Of::Throughput => {
                let shares = receiver::throughputs(done, flows())?;
                statistic.of(shares.into_iter().map(|share| 100.0 * share))
            }
            Of::RequestTime => statistic.of(requests_ns(&done.run.flows).map(|ns| ns as f64 / 1e3)),
            Of::Loss => {
                let loss = done.run.summary.as_ref().and_then(|summary| summary.loss);
                loss.map(|loss| 100.0 * loss)
            }
            Of::Utilization => receiver::utilization(done)?.map(|share| 100.0 * share),
            Of::SwitchOver => statistic.of(receiver::switch_overs(done)?),
            Of::Retransmissions => per_flow(|flow| flow.retransmissions),
            Of::Timeouts => per_flow(|flow| flow.timeouts),
            Of::Buffer => statistic.over_time(ports::buffers_kb(done, self.node.as_deref())),
            Of::OccupiedQueues => {
                statistic.over_time(ports::occupied_queues(done, self.node.as_deref()))
            }
            Of::Collisions => {
                ports::collisions(done, self.node.as_deref()).map(|share| 100.0 * share)
            }
        })
    }
}

/// The times of incasts of which all flows ended and none is outside of statistics.
fn requests_ns(flows: &[Flow]) -> impl Iterator<Item = u64> {
    // Start and end by incast; without an end, one of its flows has none.
    let mut requests: BTreeMap<u64, (u64, Option<u64>)> = BTreeMap::new();
    for flow in flows.iter().filter(|flow| !flow.warm_up) {
        let Class::Incast { event } = flow.class else {
            continue;
        };
        let end = flow.fct_ns.map(|ns| flow.start_ns + ns);
        let entry = requests.entry(event).or_insert((flow.start_ns, Some(0)));
        entry.0 = entry.0.min(flow.start_ns);
        entry.1 = entry.1.zip(end).map(|(a, b)| a.max(b));
    }
    requests
        .into_values()
        .filter_map(|(start, end)| Some(end? - start))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(event: Option<u64>, start_ns: u64, fct_ns: Option<u64>) -> Flow {
        Flow {
            id: 0,
            src: 1,
            dst: 0,
            class: match event {
                Some(event) => Class::Incast { event },
                None => Class::Background,
            },
            warm_up: false,
            start_ns,
            size: 1000,
            fct_ns,
            slowdown: None,
            retransmissions: 0,
            timeouts: 0,
            partial: None,
        }
    }

    #[test]
    fn a_request_lasts_from_the_first_start_to_the_last_end() {
        let mut warm_up = flow(Some(4), 0, Some(1));
        warm_up.warm_up = true;
        let flows = [
            flow(Some(1), 100, Some(50)),
            flow(Some(1), 90, Some(20)),
            flow(Some(2), 200, Some(5)),
            flow(Some(3), 300, Some(5)),
            flow(Some(3), 300, None),
            flow(None, 0, Some(9999)),
            warm_up,
        ];
        assert_eq!(requests_ns(&flows).collect::<Vec<_>>(), [60, 5]);
    }

    #[test]
    fn the_largest_is_told_without_its_sign() {
        let values = [-7.0, 2.0, 3.0];
        assert_eq!(Statistic::Largest.of(values), Some(7.0));
        assert_eq!(Statistic::Max.of(values), Some(3.0));
        assert_eq!(Statistic::P50.of(values), Some(2.0));
        assert_eq!(Statistic::Largest.of([]), None);
    }

    fn measure(text: &str) -> Result<Measure, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn sizes_and_classes_choose_flows() {
        let short = measure("of = \"slowdown\"\nstatistic = \"mean\"\nup_to = \"100kB\"").unwrap();
        assert_eq!(short.fault(), None);
        let mut flow = flow(None, 0, None);
        for (size, taken) in [(1, true), (100_000, true), (100_001, false)] {
            flow.size = size;
            assert_eq!(short.takes(&flow), taken, "{size}");
        }
        flow.size = 1;
        let incast = measure("of = \"timeouts\"\nclass = \"incast\"").unwrap();
        assert!(!incast.takes(&flow));
        flow.class = Class::Incast { event: 0 };
        assert!(incast.takes(&flow));
        flow.warm_up = true;
        assert!(!incast.takes(&flow));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for text in [
            "of = \"slowdown\"",
            "of = \"loss\"\nstatistic = \"mean\"",
            "of = \"utilization\"\nup_to = \"1kB\"",
        ] {
            assert!(measure(text).unwrap().fault().is_some(), "{text}");
        }
        for text in [
            "of = \"speed\"",
            "of = \"timeouts\"\nabove = \"many\"",
            "of = \"loss\"\nx = 1",
        ] {
            assert!(measure(text).is_err(), "{text}");
        }
    }
}
