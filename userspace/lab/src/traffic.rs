// SPDX-License-Identifier: MIT OR Apache-2.0

//! The flows of a run: from names and numbers to a workload on a fabric.

mod arrivals;
mod incasts;
mod pattern;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU8;

use anyhow::Result;
use weft_load::collective::{self, Collective};
use weft_load::deadlines::Deadlines;
use weft_load::framing::Framing;
use weft_load::generate::{Background, Until, Workload};
use weft_load::load::{Counted, Load, LoadOf, relaxation_s};
use weft_load::pairs::Pairs;
use weft_load::quantity;
use weft_load::record;
use weft_load::sizes::Sizes;
use weft_load::trace::{Trace, TraceFlow};
use weft_topo::{Kind, NodeId, Topology};
use weft_words::file::{MIB, SizeLimit};

use crate::error::usage;
use crate::topology::{self, file_hint, is_file};
pub use arrivals::Arrivals;
use arrivals::When;
pub use incasts::Incasts;
pub use pattern::Pattern;

/// A description of the flows.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// `None` if there are only incasts and added flows.
    pub background: Option<Origin>,
    /// Additional incasts.
    pub incasts: Option<Incasts>,
    /// Additional flows, such as `h1-h0:30MB@2ms` (see `weft run --add`).
    pub added: Vec<String>,
    /// The deadlines of all flows except added ones.
    pub deadlines: Option<Deadlines>,
    /// The number of priorities of all flows except added ones, 2 to 8.
    pub priorities: Option<NonZeroU8>,
    /// The number of flows, or the length of time.
    pub until: Until,
    /// The initial fraction that is not measured, from 0 to below 1. `None` for a default: with a
    /// load, additional flows for the time in which the link forgets that it was empty
    /// ([`relaxation_s`]), but not more than are measured; otherwise a tenth.
    pub warm_up: Option<f64>,
    /// Whether no other flows keep up the load until all measured flows have ended.
    pub no_cool_down: bool,
}

/// The flows of a run.
pub(crate) struct Planned {
    pub(crate) workload: Workload,
    /// Their description in results.
    pub(crate) said: record::Workload,
    /// The requested load, if there is one.
    pub(crate) load: Option<Load>,
}

/// Without a load: the initial fraction that is not measured.
const WARM_UP: f64 = 0.1;

/// The origin of the background flows.
#[derive(Clone, Debug)]
pub enum Origin {
    /// Random flows.
    Drawn(Drawn),
    /// Rounds of a collective.
    Collective(Collective),
    /// The lines of a file.
    Trace(String),
}

/// Flows with random sizes and times.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// A name of `weft workloads`, `fixed:SIZE`, `uniform:MIN-MAX`, or a CDF file.
    pub sizes: String,
    /// Offered load, above 0 to 1.
    pub load: f64,
    /// The links of which the load is a fraction.
    pub load_of: LoadLinks,
    /// The bytes that the load counts.
    pub counted: Counted,
    /// The starts of flows.
    pub arrivals: Arrivals,
    /// The senders and receivers.
    pub pairs: Pattern,
}

/// The links of which a load is a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadLinks {
    /// Those of the host with the largest load relative to their rate.
    Host,
    /// Those between the core and the rack with the largest load relative to their rate.
    Core,
}

/// Parses a workload's name, or reads its file.
///
/// # Errors
///
/// If there is no such workload or file, or the file is not a distribution: one sentence.
pub fn sizes(text: &str) -> Result<Sizes> {
    let sizes = if is_file(text) {
        Sizes::from_cdf(text, &read("--workload", text, CDF)?)
    } else {
        text.parse()
    };
    sizes.or_else(|error| usage(format!("{error}{}", file_hint(text, is_file))))
}

/// The largest file of flow sizes.
const CDF: SizeLimit = SizeLimit {
    kind: "a CDF file",
    bytes: MIB,
};
/// The largest file of pairs: of millions of them.
const PAIRS: SizeLimit = SizeLimit {
    kind: "a file of pairs",
    bytes: 64 * MIB,
};
/// The largest trace: of two million flows and more.
const TRACE: SizeLimit = SizeLimit {
    kind: "a trace",
    bytes: 64 * MIB,
};

fn read(option: &str, path: &str, limit: SizeLimit) -> Result<String> {
    match limit.read_text(path) {
        Ok(text) => Ok(text),
        Err(error) => usage(format!("{option} {path}: {error}")),
    }
}

fn refuse<T>(result: weft_load::Result<T>) -> Result<T> {
    result.or_else(|error| usage(error.to_string()))
}

/// Each host's rack: the switch of its first port.
fn racks(topology: &Topology) -> Vec<u32> {
    let first = |host: NodeId| topology.node(host).ports.first().map(|port| port.peer);
    topology
        .hosts()
        .map(|host| match first(host) {
            Some(peer) if topology.node(peer).kind == Kind::Switch => peer.index() as u32,
            _ => host.index() as u32,
        })
        .collect()
}

fn host(topology: &Topology, name: &str) -> Result<u32> {
    match topology::host(topology, name) {
        Some(place) => Ok(place),
        None => usage(format!("there is no host `{name}` in {}", topology.title())),
    }
}

/// A host's index, or those of a group.
fn hosts(topology: &Topology, name: &str) -> Result<Vec<u32>> {
    match topology::hosts(topology, name) {
        places if places.is_empty() => usage(format!(
            "there is no host or group `{name}` in {}",
            topology.title()
        )),
        places => Ok(places),
    }
}

/// The indices on both sides of `FROM-TO`: names may also have hyphens.
fn between(topology: &Topology, text: &str) -> Result<(Vec<u32>, Vec<u32>)> {
    let splits = || {
        let hyphens = text.match_indices('-');
        hyphens.map(|(place, _)| (&text[..place], &text[place + 1..]))
    };
    let is = |name: &str| !topology::hosts(topology, name).is_empty();
    let mut known = splits().filter(|(from, to)| is(from) && is(to));
    let (from, to) = match (known.next(), known.next()) {
        (Some((from, to)), Some((other, another))) => {
            return usage(format!(
                "{text} is from {from} to {to} as well as from {other} to {another}: give one of them another name"
            ));
        }
        (Some(both), None) => both,
        // The caller reports unknown names.
        (None, _) => splits()
            .find(|(from, to)| is(from) || is(to))
            .or_else(|| splits().next())
            .unwrap_or((text, "")),
    };
    Ok((hosts(topology, from)?, hosts(topology, to)?))
}

/// The maximum number of flows of one `--add`.
const MAX_ADDED: usize = 10_000;

/// Parses `h1-h0:30MB`, `h1-h0:30MB@2ms`, `h1-h0:20x30MB@2ms` or `rack0-h0:30MB`.
fn added(topology: &Topology, text: &str) -> Result<Vec<TraceFlow>> {
    let unfit = || {
        usage(format!(
            "--add {text}: expected FROM-TO:SIZE, FROM-TO:NxSIZE or one of both with @TIME, for example h1-h0:30MB@2ms"
        ))
    };
    let (flow, start) = match text.split_once('@') {
        Some((flow, start)) => (flow, start),
        None => (text, "0ns"),
    };
    let Some((pair, size)) = flow.split_once(':').filter(|(pair, _)| pair.contains('-')) else {
        return unfit();
    };
    let Ok(start) = start.parse::<weft_topo::Delay>() else {
        return unfit();
    };
    let (count, size) = match size.split_once('x') {
        Some((count, size)) => (count.parse().ok(), size),
        None => (Some(1), size),
    };
    let (from, to) = between(topology, pair)?;
    let pairs = from
        .iter()
        .flat_map(|src| to.iter().map(move |dst| (src, dst)));
    // A host in both groups sends to the others; a pair of the same single host is refused later.
    let alone = from.len() == 1 && to.len() == 1;
    let pairs: Vec<_> = pairs.filter(|(src, dst)| alone || src != dst).collect();
    let all = count.and_then(|count: usize| count.checked_mul(pairs.len()));
    let (Some(count), Some(1..=MAX_ADDED)) = (count, all) else {
        return usage(format!(
            "--add {text}: expected 1 to {MAX_ADDED} flows, for example h1-h0:20x30MB"
        ));
    };
    let size = refuse(quantity::bytes(size))?;
    let flows = pairs.into_iter().map(|(&src, &dst)| TraceFlow {
        start_ns: start.ns(),
        src,
        dst,
        size,
    });
    Ok(flows.flat_map(|flow| vec![flow; count]).collect())
}

impl Traffic {
    /// The files that it names.
    pub(crate) fn files(&self) -> impl Iterator<Item = &str> {
        let (sizes, pairs, trace) = match &self.background {
            Some(Origin::Drawn(drawn)) => {
                let pairs = match &drawn.pairs {
                    Pattern::List(file) => Some(file.as_str()),
                    _ => None,
                };
                (Some(drawn.sizes.as_str()), pairs, None)
            }
            Some(Origin::Trace(file)) => (None, None, Some(file.as_str())),
            Some(Origin::Collective(_)) | None => (None, None, None),
        };
        let sizes = sizes.filter(|text| is_file(text));
        sizes.into_iter().chain(pairs).chain(trace)
    }

    /// Whether the flows depend on the seed.
    pub(crate) fn is_random(&self) -> bool {
        let background = match &self.background {
            Some(Origin::Drawn(_)) => true,
            Some(Origin::Collective(it)) => it.kind == collective::Kind::Replicate,
            _ => false,
        };
        background || self.incasts.is_some()
    }

    /// The workload on a fabric (with dilation 1), and its description in results. `untagged` is
    /// the framing without the scheme's tag.
    ///
    /// # Errors
    ///
    /// If a value is out of range or does not fit: one sentence.
    pub(crate) fn workload(
        &self,
        topology: &Topology,
        framing: &Framing,
        untagged: &Framing,
        seed: u64,
    ) -> Result<Planned> {
        let hosts = topology.hosts().count() as u32;
        let mut said = record::Workload::default();
        let mut load = None;
        let background = match &self.background {
            Some(Origin::Trace(file)) => {
                said.arrivals = format!("trace:{file}");
                let text = read("--trace", file, TRACE)?;
                let trace = refuse(Trace::parse(file, &text, &topology::names(topology)))?;
                check_length(&trace)?;
                Some(Background::Trace(trace))
            }
            Some(Origin::Collective(collective)) => {
                said.collective = Some(collective.to_string());
                Some(Background::Collective(*collective))
            }
            Some(Origin::Drawn(drawn)) => {
                Some(drawn.background(topology, framing, seed, &mut said, &mut load)?)
            }
            None => None,
        };
        let incasts = self.incasts.as_ref();
        let incast = incasts.map(|it| it.on(topology)).transpose()?;
        said.incast = incast.as_ref().map(ToString::to_string);
        let added = self.added.iter().map(|text| added(topology, text));
        let added = added.collect::<Result<Vec<_>>>()?.concat();
        said.added.clone_from(&self.added);
        said.deadline = self.deadlines.as_ref().map(ToString::to_string);
        said.priorities = self.priorities.map(NonZeroU8::get);
        let warmed = |drawn: &Drawn| {
            let Some(Background::Open {
                sizes, pairs, rate, ..
            }) = &background
            else {
                return None;
            };
            // The number of flows is the same for every scheme: the rate of a load of payload does
            // not depend on the scheme, and that of a load of wire bytes changes with the framing.
            let framing = match drawn.counted {
                Counted::Payload => untagged,
                Counted::Wire => framing,
            };
            let seconds = drawn.relaxation_s(topology, pairs, *rate, sizes, framing);
            Some((seconds, *rate))
        };
        let drawn = match &self.background {
            Some(Origin::Drawn(drawn)) => Some(drawn),
            _ => None,
        };
        let (until, warm_up) = match (self.warm_up, drawn.and_then(warmed)) {
            (Some(fraction), _) => (self.until, fraction),
            (None, Some((seconds, rate))) => with_warm_up(self.until, seconds, rate),
            (None, None) => (self.until, WARM_UP),
        };
        said.warm_up = warm_up;
        said.no_cool_down = self.no_cool_down;
        let workload = Workload {
            hosts,
            background,
            incast,
            added,
            until,
            warm_up,
            deadlines: self.deadlines.clone(),
            priorities: self.priorities,
            seed,
        };
        // A refused workload must not cause any weaving.
        refuse(workload.flows())?;
        Ok(Planned {
            workload,
            said,
            load,
        })
    }
}

/// Refuses a trace that is longer than a run: its idle times also take a simulation's time.
fn check_length(trace: &Trace) -> Result<()> {
    /// That of drawn flows.
    const LONGEST_S: u64 = 100_000;
    let last = trace.flows().iter().map(|flow| flow.start_ns).max();
    let seconds = last.unwrap_or(0) / 1_000_000_000;
    match seconds >= LONGEST_S {
        true => usage(format!(
            "{}: the last flow starts after {seconds} s, but a run has at most {LONGEST_S} s of the fabric; starts \
             are in ns",
            trace.name()
        )),
        false => Ok(()),
    }
}

/// The measured amount, plus this many seconds of flows before it, but at most doubled; and the
/// fraction that comes before.
fn with_warm_up(until: Until, seconds: f64, rate: f64) -> (Until, f64) {
    let with = |measured: u64, before: f64| {
        let before = (before.ceil() as u64).min(measured);
        let all = measured.saturating_add(before);
        (all, before as f64 / all.max(1) as f64)
    };
    match until {
        Until::Flows(n) => {
            let (all, fraction) = with(n, seconds * rate);
            (Until::Flows(all), fraction)
        }
        Until::Time(ns) => {
            let (all, fraction) = with(ns, seconds * 1e9);
            (Until::Time(all), fraction)
        }
        Until::Rounds(_) | Until::TraceEnd => (until, WARM_UP),
    }
}

impl Drawn {
    fn background(
        &self,
        topology: &Topology,
        framing: &Framing,
        seed: u64,
        said: &mut record::Workload,
        asked: &mut Option<Load>,
    ) -> Result<Background> {
        let sizes = sizes(&self.sizes)?;
        let pairs = self.pairs.on(topology, seed)?;
        said.sizes = sizes.name().to_owned();
        said.pairs = self.pairs.to_string();
        said.arrivals.clone_from(&self.arrivals.text);
        let process = match self.arrivals.when {
            When::Open(process) => process,
            When::Closed(_) if matches!(self.pairs, Pattern::Local(_)) => {
                return usage(format!(
                    "--pairs {}: with --arrivals closed all pairs have equally many flows",
                    self.pairs
                ));
            }
            When::Closed(outstanding) => {
                return Ok(Background::Closed {
                    sizes,
                    pairs,
                    outstanding,
                });
            }
        };
        let load = Load {
            fraction: self.load,
            of: self.load_of(topology, &pairs),
            counted: self.counted,
        };
        said.load = Some(load.to_string());
        *asked = Some(load);
        let rate = refuse(load.per_second(load.counted.mean_bits(&sizes, framing)))?;
        Ok(Background::Open {
            sizes,
            pairs,
            process,
            rate,
        })
    }

    fn load_of(&self, topology: &Topology, pairs: &Pairs) -> LoadOf {
        match self.load_of {
            LoadLinks::Host => busiest_host(topology, pairs),
            LoadLinks::Core => {
                let mut rates = BTreeMap::new();
                for (rack, rate) in uplinks(topology) {
                    *rates.entry(rack).or_insert(0.0) += rate;
                }
                let (rate, share) = pairs.busiest_crossing(&racks(topology), &rates);
                LoadOf::Core { rate, share }
            }
        }
    }

    /// The time, in s, in which the links that it loads with `rate` flows per second forget that
    /// they were empty.
    fn relaxation_s(
        &self,
        topology: &Topology,
        pairs: &Pairs,
        rate: f64,
        sizes: &Sizes,
        framing: &Framing,
    ) -> f64 {
        let of = |load, links: Vec<f64>| {
            let slowest = links.into_iter().fold(f64::INFINITY, f64::min);
            relaxation_s(load, self.counted, sizes, framing, slowest)
        };
        let hosts = host_links(topology);
        match self.load_of {
            LoadLinks::Host => of(self.load, hosts),
            LoadLinks::Core => {
                let on_hosts = Load {
                    fraction: self.load,
                    of: busiest_host(topology, pairs),
                    counted: self.counted,
                };
                let bits = rate * self.counted.mean_bits(sizes, framing);
                let on_hosts = on_hosts.offered(bits, 1e9).unwrap_or(0.0);
                let core = uplinks(topology).map(|(_, rate)| rate).collect();
                f64::max(of(self.load, core), of(on_hosts, hosts))
            }
        }
    }
}

/// A link's rate in bit/s.
fn rate_of(topology: &Topology, link: usize) -> f64 {
    topology.links()[link].wire.rate.bits_per_second() as f64
}

/// The sum of the rates of each host's links, in bit/s.
fn host_links(topology: &Topology) -> Vec<f64> {
    let of = |id: NodeId| {
        let ports = topology.node(id).ports.iter();
        ports.map(|port| rate_of(topology, port.link)).sum()
    };
    topology.hosts().map(of).collect()
}

fn busiest_host(topology: &Topology, pairs: &Pairs) -> LoadOf {
    let hosts = host_links(topology).into_iter().zip(pairs.shares());
    let busiest = hosts.max_by(|(a, x), (b, y)| (x / a).total_cmp(&(y / b)));
    let (rate, share) = busiest.unwrap_or((f64::NAN, 0.0));
    LoadOf::Host { rate, share }
}

/// Each link from a host's switch to another switch: its rack, and its rate in bit/s.
fn uplinks(topology: &Topology) -> impl Iterator<Item = (u32, f64)> {
    let leaves: BTreeSet<u32> = racks(topology).into_iter().collect();
    let switches = topology.switches().map(|id| (id.index() as u32, id));
    let up = switches.filter(move |(rack, _)| leaves.contains(rack));
    up.flat_map(move |(rack, id)| {
        let ports = topology.node(id).ports.iter();
        let ports = ports.filter(|port| topology.node(port.peer).kind == Kind::Switch);
        ports.map(move |port| (rack, rate_of(topology, port.link)))
    })
}
