// SPDX-License-Identifier: MIT OR Apache-2.0

//! The measures that a description may name.

use anyhow::Result;
use serde::Deserialize;
use weft_load::generate::MAX_PRIORITIES;
use weft_load::quantity;
use weft_load::record::{Class, Flow};
use weft_load::statistics::Bucket;
use weft_topo::{Delay, Topology};

use super::figure::{Asked, Of, Place, Subject, Where};
use super::statistic::Statistic;
use crate::results::Pooled;
use crate::topology;

/// A measure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measure {
    of: Of,
    /// For measures with many values: the figure of them.
    #[serde(default)]
    statistic: Option<Statistic>,
    /// Only flows that are larger than this,
    #[serde(default)]
    above: Option<Bytes>,
    /// and at most as large as this.
    #[serde(default)]
    up_to: Option<Bytes>,
    /// Only flows of this class.
    #[serde(default)]
    class: Option<Only>,
    /// Only flows of this priority.
    #[serde(default)]
    priority: Option<Priority>,
    /// Only flows from this host, or from a host of this group,
    #[serde(default)]
    from: Option<String>,
    /// and to this one.
    #[serde(default)]
    to: Option<String>,
    /// Only this port, `NODE:PORT`; without it, all ports of switches.
    #[serde(default)]
    at: Option<At>,
    /// For ports: after this time of the run (default: the first start),
    #[serde(default)]
    after: Option<Time>,
    /// and until this one (default: the last end).
    #[serde(default)]
    until: Option<Time>,
    /// The figure over several seeds.
    #[serde(default)]
    pub(crate) over_seeds: OverSeeds,
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
struct At(String, String);

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
    fn names(&self) -> (&str, &str) {
        (&self.0, &self.1)
    }
}

/// ns of the fabric.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Time(u64);

impl TryFrom<String> for Time {
    type Error = weft_topo::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse::<Delay>().map(|time| Self(time.ns()))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Only {
    Background,
    Incast,
    Added,
}

/// Less than [`MAX_PRIORITIES`].
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "i64")]
struct Priority(u8);

impl TryFrom<i64> for Priority {
    type Error = String;

    fn try_from(number: i64) -> Result<Self, Self::Error> {
        let priority = u8::try_from(number).ok();
        let priority = priority.filter(|it| *it < MAX_PRIORITIES).map(Self);
        priority.ok_or_else(|| format!("priority {number}: expected 0 to {}", MAX_PRIORITIES - 1))
    }
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

impl Measure {
    /// Empty for a number.
    pub(crate) fn unit(&self) -> &'static str {
        match self.statistic {
            Some(Statistic::Jain) => "",
            _ => self.of.unit(),
        }
    }

    /// Its name with its unit.
    pub(crate) fn label(&self, name: &str) -> String {
        match self.unit() {
            "" => name.to_owned(),
            unit => format!("{name} ({unit})"),
        }
    }

    /// A contradiction in the description.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let sizes = self.above.is_some() || self.up_to.is_some();
        let hosts = self.from.is_some() || self.to.is_some();
        let of_flows = sizes || hosts || self.class.is_some() || self.priority.is_some();
        let of_ports = self.at.is_some() || self.after.is_some() || self.until.is_some();
        let takes = self.of.takes();
        if takes.statistic && self.statistic.is_none() {
            Some("it needs a statistic: mean, p50, p95, p99, p999, max or largest")
        } else if !takes.statistic && self.statistic.is_some() {
            Some("there is one number of it, and no statistic")
        } else if self.statistic == Some(Statistic::Jain) && !takes.jain {
            Some("jain is of flows' shares: of = \"throughput\"")
        } else if of_flows && !takes.flows {
            Some("above, up_to, class, priority, from and to are for figures of flows")
        } else if takes.ports == Where::OnePort && (self.at.is_none() || self.after.is_none()) {
            Some("it needs at and after: of which port, since when")
        } else if takes.ports == Where::AllHosts && self.at.is_some() {
            Some("it is of all hosts that send, and of no one port")
        } else if of_ports && takes.ports == Where::Nowhere {
            Some("at, after and until are for figures of ports")
        } else if is_empty(self.above.map(|it| it.0), self.up_to.map(|it| it.0)) {
            Some("no size is above `above` and at most `up_to`")
        } else if is_empty(self.after.map(|it| it.0), self.until.map(|it| it.0)) {
            Some("`until` is not after `after`")
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

    /// The value of one run. `None` if there is nothing to measure.
    ///
    /// # Errors
    ///
    /// If the results have hosts that are not in the topology.
    pub(super) fn of_run(&self, run: &Subject<'_>) -> Result<Option<f64>> {
        let takes = self.takes(run.topology);
        self.of.value(&Asked {
            subject: run,
            statistic: self.statistic.unwrap_or(Statistic::Mean),
            takes: &takes,
            place: Place {
                at: self.at.as_ref().map(At::names),
                after: self.after.map(|time| time.0),
                until: self.until.map(|time| time.0),
            },
        })
    }

    /// The figure of several runs' flows together, and the percentile that it is. `None` if it is
    /// not a percentile of flows.
    pub(super) fn pooled(&self, runs: &[Subject<'_>]) -> Option<(Pooled, f64)> {
        let p = self.statistic?.percentile()?;
        let value = self.of.of_flow()?;
        let takes = self.takes(runs.first()?.topology);
        let flows = runs.iter().map(|run| run.run.flows.as_slice());
        let taken = |flow: &Flow| takes(flow).then(|| value(flow)).flatten();
        Some((Pooled::new(flows, |flow| !flow.warm_up, taken)?, p))
    }

    /// Whether it includes a flow. Names are looked up once, not for each flow.
    fn takes(&self, topology: &Topology) -> impl Fn(&Flow) -> bool {
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
            let priority = self
                .priority
                .is_none_or(|only| flow.priority == Some(only.0));
            let hosts = is(&from, flow.src) && is(&to, flow.dst);
            !flow.warm_up && bucket.contains(flow.size) && class && priority && hosts
        }
    }
}

/// Whether nothing is above the first number and at most the second.
fn is_empty(above: Option<u64>, up_to: Option<u64>) -> bool {
    above
        .zip(up_to)
        .is_some_and(|(above, up_to)| above >= up_to)
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
            priority: None,
            slowdown: None,
            retransmissions: 0,
            spurious: Some(0),
            timeouts: Some(0),
            hops: None,
            partial: None,
        }
    }

    #[test]
    fn an_error_names_a_place_that_the_topology_lacks() {
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
    fn sizes_classes_priorities_and_hosts_choose_flows() {
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
        let second = measure("of = \"timeouts\"\npriority = 1").unwrap();
        assert_eq!(second.fault(), None);
        for (priority, taken) in [(None, false), (Some(0), false), (Some(1), true)] {
            flow.priority = priority;
            assert_eq!(second.takes(&rack)(&flow), taken, "{priority:?}");
        }
        for (from, to, taken) in [("h1", "h0", true), ("h0", "h0", false), ("h1", "h2", false)] {
            let text = format!("of = \"timeouts\"\nfrom = \"{from}\"\nto = \"{to}\"");
            assert_eq!(measure(&text).unwrap().takes(&rack)(&flow), taken, "{text}");
        }
        flow.warm_up = true;
        assert!(!incast.takes(&rack)(&flow));
    }

    #[test]
    fn options_that_do_not_fit_a_measure_are_refused() {
        for text in [
            "of = \"slowdown\"",
            "of = \"loss\"\nstatistic = \"mean\"",
            "of = \"utilization\"\nup_to = \"1kB\"",
            "of = \"busy\"\nto = \"h0\"",
            "of = \"loss\"\npriority = 1",
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
        for number in ["8", "-1", "300"] {
            let refused = measure(&format!("of = \"timeouts\"\npriority = {number}"));
            let refused = refused.unwrap_err().to_string();
            let expected = format!("priority {number}: expected 0 to 7");
            assert!(refused.contains(&expected), "{refused}");
        }
    }
}
