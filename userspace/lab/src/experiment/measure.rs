// SPDX-License-Identifier: MIT OR Apache-2.0

//! The measures that a description may name.

use serde::Deserialize;
use weft_load::quantity;
use weft_load::record::{Class, Flow};
use weft_load::statistics::{Bucket, Sorted};
use weft_topo::{Delay, Topology};

use crate::topology;

/// A measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measure {
    pub(crate) of: Of,
    /// For measures with many values: the figure of them.
    #[serde(default)]
    pub(super) statistic: Option<Statistic>,
    /// Only flows that are larger than this,
    #[serde(default)]
    above: Option<Bytes>,
    /// and at most as large as this.
    #[serde(default)]
    up_to: Option<Bytes>,
    /// Only flows of this class.
    #[serde(default)]
    class: Option<Only>,
    /// Only flows from this host, or from a host of this group,
    #[serde(default)]
    from: Option<String>,
    /// and to this one.
    #[serde(default)]
    to: Option<String>,
    /// Only this port, `NODE:PORT`; without it, all ports of switches.
    #[serde(default)]
    pub(super) at: Option<At>,
    /// For ports: after this time of the run (default: the first start),
    #[serde(default)]
    pub(super) after: Option<Time>,
    /// and until this one (default: the last end).
    #[serde(default)]
    pub(super) until: Option<Time>,
    /// The figure over several seeds.
    #[serde(default)]
    pub(crate) over_seeds: OverSeeds,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Of {
    /// Flows' times, divided by the best possible.
    Slowdown,
    /// Flows' times, in µs.
    Time,
    /// Flows' times minus the best possible, in µs: for a flow of one packet, its wait in queues.
    Delay,
    /// Flows' bytes over their times, as a share of the best goodput of the receiver's link, in %.
    /// For a flow that did not end, the bytes that had arrived at the end of the run.
    Throughput,
    /// Incasts' times from the first byte of any flow to the last of all, in µs.
    RequestTime,
    /// Times of a collective's rounds, or of the writing of a block, from the first byte of any
    /// flow to the last of all, in µs.
    RoundTime,
    /// The share of packets that were dropped somewhere, in %.
    Loss,
    /// The same for bytes, in %; only if all qdiscs that dropped packets report their bytes.
    LossOfBytes,
    /// The number of detours that ports made, as a share of the data packets that flows sent, in %:
    /// at least the share of detoured packets, including acknowledgements.
    Detours,
    /// The share of flows' packets that took more hops than a shortest path has, in %: needs
    /// `--hops`, and the count of all flows except at most one in a thousand.
    Detoured,
    /// Of all such packets, the share that belongs to these flows, in %.
    DetouredShare,
    /// The goodput of the busiest receiver from its first flow's start to its last one's end, as a
    /// share of the best goodput of its link, in %.
    Utilization,
    /// At the busiest receiver, the time from the end of a flow to that of the next, minus the time
    /// for which the latter alone keeps the link busy, in packet times. It is 0 for flows that are
    /// served one after the other at full rate; an idle link makes it larger; bytes that a flow
    /// received before its turn make it smaller.
    SwitchOver,
    /// Retransmitted segments, per flow.
    Retransmissions,
    /// Of these, segments that the receiver reported as duplicates, per flow: a lower bound.
    Spurious,
    /// Timeouts, per flow.
    Timeouts,
    /// Of the flows with a deadline, the share that met it, in %.
    Deadlines,
    /// Bytes that wait at a port, in kB.
    Backlog,
    /// Bytes that wait at all ports of a switch together, in kB.
    Buffer,
    /// Bytes in the longest queue of a port with per-hop flow control, in kB.
    Queue,
    /// Queues of such a port that have packets.
    Queues,
    /// Of the times that a flow became active at such a port, the share in which its queue had
    /// packets of another flow, in %.
    Collisions,
    /// The share of time in which no packet waits at a port, in %.
    Empty,
    /// The share of time in which a port's wire is busy, in %.
    Busy,
    /// The share of time in which it is not busy, in %.
    Idle,
    /// Pauses that a port sent to its neighbour, per ms.
    Pauses,
    /// The average time for which a port was paused after a pause had arrived, in µs.
    Paused,
    /// The unevenness of sending among hosts with flows under way: between two samples, the
    /// standard deviation of the amounts that they sent over their mean, in %.
    Unevenness,
    /// The time from a given time until a port's wire is busy for nine tenths of the time between
    /// two samples, in µs.
    Recovery,
}

/// The figure over several seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum OverSeeds {
    /// Their mean.
    #[default]
    Mean,
    /// Their standard deviation (that of a sample: over n - 1).
    Deviation,
}

/// A port: its node and its name.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct At(String, String);

impl TryFrom<String> for At {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.split_once(':') {
            Some((node, port)) => Ok(Self(node.to_owned(), port.to_owned())),
            None => Err(format!("`{text}`: expected NODE:PORT, such as switch2:h4")),
        }
    }
}

impl At {
    pub(super) fn names(&self) -> (&str, &str) {
        (&self.0, &self.1)
    }
}

/// ns of the fabric.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Time(pub(super) u64);

impl TryFrom<String> for Time {
    type Error = weft_topo::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse::<Delay>().map(|time| Self(time.ns()))
    }
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
    /// For values that may be below 0: the largest absolute value.
    Largest,
    /// Jain's index of fairness, a number: the square of the values' sum over n times the sum of
    /// their squares. It is 1 if all are equal, and 1/n if all but one are 0 (R. Jain et al.,
    /// DEC-TR-301, 1984).
    Jain,
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
    /// For a percentile, the share of numbers that are at most as large as it.
    pub(super) fn percentile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            Self::Mean | Self::Max | Self::Largest | Self::Jain => None,
        }
    }

    /// The figure for values that each hold for a time. A percentile is the smallest value that
    /// holds, together with those below it, for that share of the time. `None` if there is no time.
    pub(super) fn over_time(self, mut levels: Vec<(f64, f64)>) -> Option<f64> {
        if self == Self::Largest {
            levels
                .iter_mut()
                .for_each(|(value, _)| *value = value.abs());
        }
        levels.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        let time: f64 = levels.iter().map(|(_, time)| time).sum();
        let percentile = |p: f64| {
            let mut below = 0.0;
            let found = levels.iter().find(|(_, share)| {
                below += share;
                below >= p * time
            });
            found.or(levels.last()).map(|(value, _)| *value)
        };
        match self {
            Self::Mean => {
                let sum: f64 = levels.iter().map(|(value, time)| value * time).sum();
                (time > 0.0).then(|| sum / time)
            }
            Self::P50 => percentile(0.5),
            Self::P95 => percentile(0.95),
            Self::P99 => percentile(0.99),
            Self::P999 => percentile(0.999),
            Self::Max | Self::Largest => levels.last().map(|(value, _)| *value),
            // The index is for shares, which do not hold for a time.
            Self::Jain => None,
        }
    }

    /// `None` if there are no numbers.
    pub(super) fn of(self, values: impl IntoIterator<Item = f64>) -> Option<f64> {
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
            Self::Jain => {
                let values = sorted.values();
                let (sum, squares): (f64, f64) = values
                    .iter()
                    .fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
                (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
            }
        }
    }
}

impl Of {
    fn has_statistic(self) -> bool {
        use Of::{Backlog, Buffer, Queue, Queues, Unevenness};
        use Of::{Delay, RequestTime, RoundTime, Slowdown, SwitchOver, Throughput, Time};
        matches!(self, Slowdown | Time | Delay | Throughput)
            || matches!(self, RequestTime | RoundTime | SwitchOver)
            || matches!(self, Backlog | Buffer | Queue | Queues | Unevenness)
    }

    /// Whether it is a measure of ports.
    fn has_ports(self) -> bool {
        use Of::{Backlog, Buffer, Busy, Collisions, Empty, Idle};
        use Of::{Paused, Pauses, Queue, Queues, Recovery, Unevenness};
        matches!(self, Backlog | Buffer | Queue | Queues | Collisions)
            || matches!(
                self,
                Empty | Busy | Idle | Pauses | Paused | Recovery | Unevenness
            )
    }

    /// Whether it can be restricted to sizes, classes and hosts of flows.
    fn has_flows(self) -> bool {
        use Of::{Deadlines, Delay, Retransmissions, Slowdown, Throughput, Time, Timeouts};
        matches!(self, Slowdown | Time | Delay | Throughput)
            || matches!(
                self,
                Retransmissions | Self::Spurious | Timeouts | Deadlines
            )
            || matches!(self, Self::Detoured | Self::DetouredShare)
    }

    /// Empty for a number.
    fn unit(self) -> &'static str {
        match self {
            Self::Slowdown | Self::Retransmissions | Self::Spurious => "",
            Self::Timeouts | Self::Queues => "",
            Self::Time | Self::Delay | Self::RequestTime | Self::RoundTime => "µs",
            Self::Paused | Self::Recovery => "µs",
            Self::Loss | Self::LossOfBytes | Self::Detours => "%",
            Self::Detoured | Self::DetouredShare => "%",
            Self::Utilization | Self::Throughput | Self::Collisions => "%",
            Self::Deadlines => "%",
            Self::Empty | Self::Busy | Self::Idle | Self::Unevenness => "%",
            Self::SwitchOver => "packets",
            Self::Backlog | Self::Buffer | Self::Queue => "kB",
            Self::Pauses => "per ms",
        }
    }
}

impl Measure {
    /// Empty for a number.
    pub(crate) fn unit(&self) -> &'static str {
        match self.statistic {
            Some(Statistic::Jain) => "",
            _ => self.of.unit(),
        }
    }

    /// A contradiction in the description.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let sizes = self.above.is_some() || self.up_to.is_some();
        let hosts = self.from.is_some() || self.to.is_some();
        let of_flows = sizes || hosts || self.class.is_some();
        let of_ports = self.at.is_some() || self.after.is_some() || self.until.is_some();
        if self.of.has_statistic() && self.statistic.is_none() {
            Some("it needs a statistic: mean, p50, p95, p99, p999, max or largest")
        } else if !self.of.has_statistic() && self.statistic.is_some() {
            Some("there is one number of it, and no statistic")
        } else if self.statistic == Some(Statistic::Jain) && self.of != Of::Throughput {
            Some("jain is of flows' shares: of = \"throughput\"")
        } else if of_flows && !self.of.has_flows() {
            Some("above, up_to, class, from and to are for figures of flows")
        } else if self.of == Of::Recovery && (self.at.is_none() || self.after.is_none()) {
            Some("it needs at and after: of which port, since when")
        } else if self.of == Of::Unevenness && self.at.is_some() {
            Some("it is of all hosts that send, and of no one port")
        } else if of_ports && !self.of.has_ports() {
            Some("at, after and until are for figures of ports")
        } else {
            None
        }
    }

    /// A host or port that it names and the topology lacks: one sentence.
    pub(crate) fn lacking(&self, topology: &Topology) -> Option<String> {
        let is_host = |name: &&String| !topology::hosts(topology, name).is_empty();
        let mut hosts = self.from.iter().chain(&self.to);
        if let Some(name) = hosts.find(|name| !is_host(name)) {
            return Some(format!("there is no host or group `{name}`"));
        }
        let at = self.at.as_ref().map(At::names)?;
        (!is_there(topology, at)).then(|| format!("there is no port `{}:{}`", at.0, at.1))
    }

    /// Whether it includes a flow. Names are looked up once, not for each flow.
    pub(super) fn takes(&self, topology: &Topology) -> impl Fn(&Flow) -> bool {
        let places = |name: &Option<String>| {
            let name = name.as_ref()?;
            Some(topology::hosts(topology, name))
        };
        let (from, to) = (places(&self.from), places(&self.to));
        let bucket = Bucket {
            above: self.above.map_or(0, |bytes| bytes.0),
            up_to: self.up_to.map(|bytes| bytes.0),
        };
        move |flow| {
            let is = |places: &Option<Vec<u32>>, place| {
                let places = places.as_ref();
                places.is_none_or(|places| places.contains(&place))
            };
            let class = match self.class {
                None => true,
                Some(Only::Background) => flow.class == Class::Background,
                Some(Only::Incast) => matches!(flow.class, Class::Incast { .. }),
                Some(Only::Added) => flow.class == Class::Added,
            };
            let hosts = is(&from, flow.src) && is(&to, flow.dst);
            !flow.warm_up && bucket.contains(flow.size) && class && hosts
        }
    }
}

/// Whether a topology has a port.
fn is_there(topology: &Topology, (node, port): (&str, &str)) -> bool {
    let id = topology.find(node);
    id.is_some_and(|id| topology.node(id).ports.iter().any(|it| it.name == port))
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
            deadline_ns: None,
            slowdown: None,
            retransmissions: 0,
            spurious: Some(0),
            timeouts: Some(0),
            hops: None,
            partial: None,
        }
    }

    #[test]
    fn the_largest_is_told_without_its_sign() {
        let values = [-7.0, 2.0, 3.0];
        assert_eq!(Statistic::Largest.of(values), Some(7.0));
        assert_eq!(Statistic::Max.of(values), Some(3.0));
        assert_eq!(Statistic::P50.of(values), Some(2.0));
        assert_eq!(Statistic::Largest.of([]), None);
    }

    #[test]
    fn jains_index_is_1_of_equal_shares_and_the_share_of_those_that_have_all() {
        let of = |values: &[f64]| Statistic::Jain.of(values.iter().copied());
        assert_eq!(of(&[7.0; 5]), Some(1.0));
        assert_eq!(of(&[0.0, 3.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(of(&[3.0, 0.0, 3.0, 0.0]), Some(0.5));
        // (1 + 2 + 3)² / (3 · 14)
        assert_eq!(of(&[1.0, 2.0, 3.0]), Some(36.0 / 42.0));
        assert_eq!((of(&[]), of(&[0.0, 0.0])), (None, None));
    }

    #[test]
    fn over_time_each_value_counts_for_as_long_as_it_holds() {
        let levels = || vec![(5.0, 10.0), (1.0, 80.0), (3.0, 10.0)];
        let of = |statistic: Statistic| statistic.over_time(levels());
        assert_eq!(of(Statistic::Mean), Some(1.6));
        assert_eq!(of(Statistic::P50), Some(1.0));
        assert_eq!(of(Statistic::P95), Some(5.0));
        assert_eq!(of(Statistic::Max), Some(5.0));
        assert_eq!(Statistic::Mean.over_time(Vec::new()), None);
        assert_eq!(Statistic::P99.over_time(Vec::new()), None);
    }

    #[test]
    fn what_a_topology_lacks_is_named() {
        let rack = crate::topology::parse("rack:hosts=2").unwrap();
        let lacking = |text: &str| measure(text).unwrap().lacking(&rack);
        assert_eq!(lacking("of = \"busy\"\nat = \"tor0:h1\""), None);
        let expected = "there is no port `tor0:h2`".to_owned();
        assert_eq!(lacking("of = \"busy\"\nat = \"tor0:h2\""), Some(expected));
        let expected = "there is no host or group `h9`".to_owned();
        assert_eq!(lacking("of = \"timeouts\"\nto = \"h9\""), Some(expected));
    }

    fn measure(text: &str) -> Result<Measure, toml::de::Error> {
        toml::from_str(text)
    }

    #[test]
    fn sizes_and_classes_choose_flows() {
        let short = measure("of = \"slowdown\"\nstatistic = \"mean\"\nup_to = \"100kB\"").unwrap();
        assert_eq!(short.fault(), None);
        let rack = crate::topology::parse("rack:hosts=4").unwrap();
        let mut flow = flow(None, 0, None);
        for (size, taken) in [(1, true), (100_000, true), (100_001, false)] {
            flow.size = size;
            assert_eq!(short.takes(&rack)(&flow), taken, "{size}");
        }
        flow.size = 1;
        let incast = measure("of = \"timeouts\"\nclass = \"incast\"").unwrap();
        assert!(!incast.takes(&rack)(&flow));
        flow.class = Class::Incast { event: 0 };
        assert!(incast.takes(&rack)(&flow));
        for (from, to, taken) in [("h1", "h0", true), ("h0", "h0", false), ("h1", "h2", false)] {
            let text = format!("of = \"timeouts\"\nfrom = \"{from}\"\nto = \"{to}\"");
            assert_eq!(measure(&text).unwrap().takes(&rack)(&flow), taken, "{text}");
        }
        flow.warm_up = true;
        assert!(!incast.takes(&rack)(&flow));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        for text in [
            "of = \"slowdown\"",
            "of = \"loss\"\nstatistic = \"mean\"",
            "of = \"utilization\"\nup_to = \"1kB\"",
            "of = \"busy\"\nto = \"h0\"",
            "of = \"recovery\"\nat = \"tor0:h0\"",
            "of = \"recovery\"\nafter = \"1us\"",
            "of = \"backlog\"",
            "of = \"backlog\"\nstatistic = \"jain\"",
            "of = \"loss\"\nat = \"tor0:h0\"",
            "of = \"timeouts\"\nafter = \"1us\"",
        ] {
            assert!(measure(text).unwrap().fault().is_some(), "{text}");
        }
        for text in [
            "of = \"speed\"",
            "of = \"timeouts\"\nabove = \"many\"",
            "of = \"loss\"\nx = 1",
            "of = \"busy\"\nat = \"tor0\"",
            "of = \"busy\"\nafter = \"soon\"",
        ] {
            assert!(measure(text).is_err(), "{text}");
        }
    }
}
