// SPDX-License-Identifier: MIT OR Apache-2.0

//! The flows of a run: from names and numbers to a workload on a fabric.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::num::NonZeroU32;
use std::str::FromStr;

use anyhow::Result;
use weft_load::arrivals::Process;
use weft_load::collective::{self, Collective};
use weft_load::deadlines::Deadlines;
use weft_load::framing::Framing;
use weft_load::generate::{Background, Until, Workload};
use weft_load::incast::{Incast, IncastBytes};
use weft_load::load::{Counted, Load, LoadOf, relaxation_s};
use weft_load::pairs::Pairs;
use weft_load::quantity;
use weft_load::record;
use weft_load::sizes::Sizes;
use weft_load::trace::{Trace, TraceFlow};
use weft_topo::{Kind, NodeId, Topology};

use crate::error::usage;
use crate::topology::{self, file_hint, is_file};

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

/// The starts of flows. It is read from `poisson`, `balanced`, `lognormal[:SIGMA]` or `closed[:N]`,
/// and results repeat the original text.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    text: String,
    when: When,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum When {
    /// At times that do not depend on the ends of other flows.
    Open(Process),
    /// This many at a time for each pair: the end of one starts the next.
    Closed(NonZeroU32),
}

/// The pairs of sender and receiver. It is read from, and written as, `uniform`, `permutation`,
/// `intra-rack`, `all-to-one[:HOST]`, `without:HOST`, `FROM-TO`, or the path of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// From any host to any other.
    Uniform,
    /// From each host to one other, which is the same in the whole run.
    Permutation,
    /// From any host to any other of its rack.
    IntraRack,
    /// From all hosts to this one; `None` for the first.
    AllToOne(Option<String>),
    /// From any host to any other, except this one, which has no flows.
    Without(String),
    /// `FROM-TO`: from any host of a group to any of another; either may be a single host.
    Between(String),
    /// Any pair in a file.
    List(String),
}

/// The links of which a load is a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadLinks {
    /// Those of the host with the largest load relative to their rate.
    Host,
    /// Those between the core and the rack with the largest load relative to their rate.
    Core,
}

/// Many simultaneous flows to one host.
#[derive(Clone, Debug)]
pub struct Incasts {
    /// The number of flows of one incast.
    pub fan_in: NonZeroU32,
    /// Their sizes.
    pub bytes: IncastBytes,
    /// Incasts per second of the fabric.
    pub rate: f64,
    /// The times between them.
    pub process: Process,
    /// The receiver of all; `None` for a new one each time.
    pub to: Option<String>,
    /// The number of sending hosts; `None` if each flow comes from a different host.
    pub senders: Option<NonZeroU32>,
}

/// Parses a workload's name, or reads its file.
///
/// # Errors
///
/// If there is no such workload or file, or the file is not a distribution: one sentence.
pub fn sizes(text: &str) -> Result<Sizes> {
    let sizes = if is_file(text) {
        Sizes::from_cdf(text, &read("--workload", text)?)
    } else {
        text.parse()
    };
    sizes.or_else(|error| usage(format!("{error}{}", file_hint(text))))
}

fn read(option: &str, path: &str) -> Result<String> {
    match fs::read_to_string(path) {
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
                Some(Background::Trace(refuse(Trace::parse(
                    file,
                    &read("--trace", file)?,
                    &topology::names(topology),
                ))?))
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

impl FromStr for Arrivals {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let when = if let Some(rest) = text.strip_prefix("closed") {
            let outstanding = match rest.strip_prefix(':') {
                None if rest.is_empty() => Some(NonZeroU32::MIN),
                None => None,
                Some(number) => number.parse().ok(),
            };
            match outstanding {
                Some(outstanding) => When::Closed(outstanding),
                None => {
                    return usage(format!(
                        "--arrivals {text}: expected closed or closed:N with N from 1"
                    ));
                }
            }
        } else if ["poisson", "balanced", "lognormal"]
            .iter()
            .any(|it| text.starts_with(it))
        {
            When::Open(refuse(text.parse())?)
        } else {
            return usage(format!(
                "--arrivals {text}: expected poisson, balanced, lognormal[:SIGMA] or closed[:N]"
            ));
        };
        Ok(Self {
            text: text.to_owned(),
            when,
        })
    }
}

impl FromStr for Pattern {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "uniform" => Self::Uniform,
            "permutation" => Self::Permutation,
            "intra-rack" => Self::IntraRack,
            "all-to-one" => Self::AllToOne(None),
            _ => match text.strip_prefix("all-to-one:") {
                Some(name) => Self::AllToOne(Some(name.to_owned())),
                None if text.starts_with("without:") => {
                    Self::Without(text.trim_start_matches("without:").to_owned())
                }
                None if is_file(text) => Self::List(text.to_owned()),
                None if text.contains('-') => Self::Between(text.to_owned()),
                None => {
                    return usage(format!(
                        "--pairs {text}: expected uniform, permutation, all-to-one[:hN], without:hN, intra-rack, FROM-TO or a file{}",
                        file_hint(text)
                    ));
                }
            },
        })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Permutation => f.write_str("permutation"),
            Self::IntraRack => f.write_str("intra-rack"),
            Self::AllToOne(None) => f.write_str("all-to-one"),
            Self::AllToOne(Some(host)) => write!(f, "all-to-one:{host}"),
            Self::Without(host) => write!(f, "without:{host}"),
            Self::Between(text) | Self::List(text) => f.write_str(text),
        }
    }
}

impl Pattern {
    fn on(&self, topology: &Topology, seed: u64) -> Result<Pairs> {
        let hosts = topology.hosts().count() as u32;
        refuse(match self {
            Self::Uniform => Pairs::uniform(hosts),
            Self::Permutation => Pairs::permutation(hosts, seed),
            Self::IntraRack => Pairs::intra_group(&racks(topology)),
            Self::AllToOne(None) => Pairs::all_to_one(hosts, 0),
            Self::AllToOne(Some(name)) => Pairs::all_to_one(hosts, host(topology, name)?),
            Self::Without(name) => {
                let idle = host(topology, name)?;
                let others = || (0..hosts).filter(move |it| *it != idle);
                let pairs = others().flat_map(|src| {
                    let others = others().filter(move |dst| *dst != src);
                    others.map(move |dst| (src, dst))
                });
                Pairs::listed(&self.to_string(), pairs.collect(), hosts)
            }
            Self::Between(text) => {
                let (senders, receivers) = between(topology, text)?;
                let pairs = senders.iter().flat_map(|src| {
                    let others = receivers.iter().filter(move |dst| *dst != src);
                    others.map(move |dst| (*src, *dst))
                });
                Pairs::listed(text, pairs.collect(), hosts)
            }
            Self::List(file) => {
                Pairs::from_list(file, &read("--pairs", file)?, &topology::names(topology))
            }
        })
    }
}

impl Incasts {
    /// `text` is for example `40x20kB@300` or `100:20MB@5`, and `arrivals` gives the times between
    /// incasts in the form that [`Process`] reads. The receiver is any host, and each flow has a
    /// different sender.
    ///
    /// # Errors
    ///
    /// If one of them is invalid: one sentence.
    pub fn new(text: &str, arrivals: &str) -> Result<Self> {
        let parsed = text.split_once('@').and_then(|(what, rate)| {
            let (fan_in, bytes, all) = match what.split_once('x') {
                Some((fan_in, bytes)) => (fan_in, bytes, false),
                None => what
                    .split_once(':')
                    .map(|(fan_in, bytes)| (fan_in, bytes, true))?,
            };
            Some((
                fan_in.parse::<NonZeroU32>().ok()?,
                bytes,
                all,
                rate.parse::<f64>().ok()?,
            ))
        });
        let Some((fan_in, bytes, all, rate)) = parsed else {
            return usage(format!(
                "--incast {text}: expected SENDERSxSIZE@PER_SECOND or SENDERS:TOTAL@PER_SECOND, for example 40x20kB@300"
            ));
        };
        let bytes = refuse(quantity::bytes(bytes))?;
        Ok(Self {
            fan_in,
            bytes: if all {
                IncastBytes::Aggregate(bytes)
            } else {
                IncastBytes::PerSender(bytes)
            },
            rate,
            process: refuse(arrivals.parse())?,
            to: None,
            senders: None,
        })
    }

    fn on(&self, topology: &Topology) -> Result<Incast> {
        let to = self.to.as_ref();
        Ok(Incast {
            fan_in: self.fan_in,
            bytes: self.bytes,
            senders: self.senders,
            process: self.process,
            rate: self.rate,
            receiver: to.map(|name| host(topology, name)).transpose()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Vec<(u32, u32)> {
        let topology = topology::parse("bfc-testbed:sender1=2,sender3=3").unwrap();
        let flows = added(&topology, text).unwrap();
        flows.iter().map(|flow| (flow.src, flow.dst)).collect()
    }

    fn drawn(load: f64, pairs: &str) -> Drawn {
        Drawn {
            sizes: "fixed:1MB".to_owned(),
            load,
            load_of: LoadLinks::Host,
            counted: Counted::Wire,
            arrivals: "poisson".parse().unwrap(),
            pairs: pairs.parse().unwrap(),
        }
    }

    /// One of three hosts has a link with a tenth of the rate.
    #[test]
    fn a_load_is_of_the_links_that_have_most_to_carry() {
        let link = |(n, rate): (usize, &str)| {
            format!("[[link]]\nends = [\"h{n}\", \"s\"]\nrate = \"{rate}\"\ndelay = \"1us\"\n")
        };
        let links: String = ["10gbit", "1gbit", "10gbit"]
            .into_iter()
            .enumerate()
            .map(link)
            .collect();
        let text = "hosts = [\"h0\", \"h1\", \"h2\"]\nswitches = [\"s\"]\n".to_owned() + &links;
        let path = std::env::temp_dir().join(format!("weft-unequal-{}.toml", std::process::id()));
        fs::write(&path, text).unwrap();
        let topology = topology::parse(path.to_str().unwrap());
        fs::remove_file(&path).unwrap();
        let topology = topology.unwrap();
        let of = |pairs: &str| {
            let drawn = drawn(0.5, pairs);
            drawn.load_of(&topology, &drawn.pairs.on(&topology, 1).unwrap())
        };
        let (rate, share) = (1e9, 1.0 / 3.0);
        match of("uniform") {
            LoadOf::Host { rate: r, share: s } => assert!(r == rate && (s - share).abs() < 1e-12),
            LoadOf::Core { .. } => panic!(),
        }
        // Half of the flows are from h1, whose link has five times the load of the receiver's.
        let slow = LoadOf::Host { rate, share: 0.5 };
        assert_eq!(of("all-to-one:h2"), slow);
    }

    /// The load of the core that `pairs` cause on a dumbbell with three hosts on the left and two
    /// on the right.
    fn of_core(pairs: &str) -> (f64, f64) {
        let topology = topology::parse("dumbbell:left=3,right=2").unwrap();
        let drawn = Drawn {
            load_of: LoadLinks::Core,
            ..drawn(0.5, pairs)
        };
        match drawn.load_of(&topology, &drawn.pairs.on(&topology, 1).unwrap()) {
            LoadOf::Core { rate, share } => (rate, share),
            LoadOf::Host { .. } => panic!(),
        }
    }

    #[test]
    fn a_load_of_the_core_is_of_the_busiest_direction() {
        let is = |pairs, rate, share: f64| {
            let (r, s) = of_core(pairs);
            assert!(r == rate && (s - share).abs() < 1e-12, "{pairs}: {r} {s}");
        };
        // One rack sends, and the other one's uplink is idle.
        is("left-right", 10e9, 1.0);
        is("h4-left", 10e9, 1.0);
        // Three of the four senders are on the other side, and none sends in the other direction.
        is("all-to-one:h3", 10e9, 0.75);
        // The same in both directions.
        is("uniform", 20e9, 0.6);
    }

    /// 20 hosts of 1 Gbit/s are on each side of a link of 10 Gbit/s, so hosts have half the load.
    /// At 90 %, the time is half a flow's time on that link over (1 - √0.9)², 189.9 flows' times,
    /// of which 170.9 have arrivals; at 40 % hosts take longer: 1.636 of their flows' times, each
    /// of which has 4 arrivals.
    #[test]
    fn a_warm_up_is_of_the_links_that_take_longest() {
        let spec = "dumbbell:left=20,right=20,host-rate=1gbit,bottleneck-rate=10gbit";
        let topology = topology::parse(spec).unwrap();
        let framing = Framing::ethernet_tcp(1500, true).unwrap();
        let all = |load| {
            let traffic = Traffic {
                background: Some(Origin::Drawn(Drawn {
                    load_of: LoadLinks::Core,
                    ..drawn(load, "left-right")
                })),
                incasts: None,
                added: Vec::new(),
                deadlines: None,
                until: Until::Flows(1000),
                warm_up: None,
                no_cool_down: false,
            };
            let planned = traffic.workload(&topology, &framing, &framing, 1).unwrap();
            planned.workload.flows().unwrap().count()
        };
        assert_eq!(all(0.9), 1171);
        assert_eq!(all(0.4), 1007);
    }

    /// Flows of one size at 50 %: the time is half a flow's time over (1 - √½)², 5.83 flows' times,
    /// of which 2.91 have arrivals.
    #[test]
    fn a_warm_up_is_as_long_as_the_link_needs_and_no_longer_than_what_is_measured() {
        let topology = topology::parse("rack:hosts=2").unwrap();
        let framing = Framing::ethernet_tcp(1500, true).unwrap();
        let traffic = |warm_up, until| Traffic {
            background: Some(Origin::Drawn(drawn(0.5, "all-to-one"))),
            incasts: None,
            added: Vec::new(),
            deadlines: None,
            until,
            warm_up,
            no_cool_down: false,
        };
        let flows = |warm_up, until| {
            let planned = traffic(warm_up, until)
                .workload(&topology, &framing, &framing, 1)
                .unwrap();
            let flows: Vec<_> = planned.workload.flows().unwrap().collect();
            (
                flows.len(),
                flows.iter().filter(|flow| flow.warm_up).count(),
            )
        };
        assert_eq!(flows(None, Until::Flows(100)), (103, 3));
        assert_eq!(flows(None, Until::Flows(2)), (4, 2));
        assert_eq!(flows(Some(0.1), Until::Flows(100)), (100, 10));
        assert_eq!(flows(Some(0.0), Until::Flows(100)), (100, 0));
    }

    #[test]
    fn schemes_with_and_without_a_tag_have_the_same_flows_of_a_load_of_payload() {
        let topology = topology::parse("rack:hosts=4").unwrap();
        let [untagged, tagged] =
            [false, true].map(|tagged| Framing::ethernet_tcp(1500, tagged).unwrap());
        let flows = |counted, until, framing| {
            let drawn = Drawn {
                sizes: "web-search".to_owned(),
                counted,
                ..drawn(0.8, "uniform")
            };
            let traffic = Traffic {
                background: Some(Origin::Drawn(drawn)),
                incasts: None,
                added: Vec::new(),
                deadlines: None,
                until,
                warm_up: None,
                no_cool_down: false,
            };
            let planned = traffic.workload(&topology, framing, &untagged, 1).unwrap();
            planned.workload.flows().unwrap().collect::<Vec<_>>()
        };
        for until in [Until::Flows(5000), Until::Time(2_000_000_000)] {
            let [one, other] = [&untagged, &tagged].map(|it| flows(Counted::Payload, until, it));
            assert_eq!(one, other);
        }
        // The warm-up has the same number of flows, and their rate is what the wire has time for.
        let [one, other] =
            [&untagged, &tagged].map(|it| flows(Counted::Wire, Until::Flows(5000), it));
        assert_eq!(one.len(), other.len());
        assert!(one[one.len() - 1].start_ns < other[other.len() - 1].start_ns);
    }

    #[test]
    fn a_group_is_each_of_its_hosts() {
        assert_eq!(pairs("h0-h1:1MB"), [(0, 1)]);
        assert_eq!(pairs("sender1-receiver2:1MB"), [(0, 7), (1, 7)]);
        assert_eq!(
            pairs("sender3-h0:2x1MB"),
            [3, 3, 4, 4, 5, 5].map(|src| (src, 0))
        );
        assert_eq!(pairs("sender1-sender1:1MB"), [(0, 1), (1, 0)]);
        assert_eq!(pairs("sender1-h1:1MB"), [(0, 1)]);
    }

    /// Hosts around one switch, from a file of this name.
    fn star(file: &str, hosts: &[&str]) -> Topology {
        let link = |host: &&str| {
            format!("[[link]]\nends = [\"{host}\", \"s\"]\nrate = \"10gbit\"\ndelay = \"1us\"\n")
        };
        let links: String = hosts.iter().map(link).collect();
        let path = in_a_file(
            &format!("{file}.toml"),
            &format!("hosts = {hosts:?}\nswitches = [\"s\"]\n{links}"),
        );
        let topology = topology::parse(&path);
        fs::remove_file(path).unwrap();
        topology.unwrap()
    }

    fn in_a_file(name: &str, text: &str) -> String {
        let name = format!("weft-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn of_a_list(topology: &Topology, text: &str) -> Result<Vec<(u32, u32)>> {
        // Tests run at the same time, so each needs its own file.
        let path = in_a_file(&format!("{:?}.txt", std::thread::current().id()), text);
        let pairs = path.parse::<Pattern>().unwrap().on(topology, 1);
        fs::remove_file(path).unwrap();
        Ok(pairs?.all().into_iter().map(|(pair, _)| pair).collect())
    }

    #[test]
    fn files_have_hosts_names_or_their_places() {
        let topology = star("names", &["h1", "h2", "h3", "a-b"]);
        let path = in_a_file("trace.txt", "0 h1 h2 1000\n5 h2 a-b 10\n9 1 3 10\n");
        let traffic = Traffic {
            background: Some(Origin::Trace(path.clone())),
            incasts: None,
            added: Vec::new(),
            deadlines: None,
            until: Until::TraceEnd,
            warm_up: None,
            no_cool_down: false,
        };
        let framing = Framing::ethernet_tcp(1500, true).unwrap();
        let planned = traffic.workload(&topology, &framing, &framing, 1).unwrap();
        fs::remove_file(path).unwrap();
        let flows = planned.workload.flows().unwrap();
        let pairs: Vec<_> = flows.map(|flow| (flow.src, flow.dst)).collect();
        assert_eq!(pairs, [(0, 1), (1, 3), (1, 3)]);
        let pairs = of_a_list(&topology, "h3 h1\n0 3\n").unwrap();
        assert_eq!(pairs, [(2, 0), (0, 3)]);
        let refused = |text| of_a_list(&topology, text).unwrap_err().to_string();
        let expected = "there is no host `h0`: expected a name such as h1, or a place from 0 to 3";
        assert!(
            refused("h1 h0\n").ends_with(expected),
            "{}",
            refused("h1 h0\n")
        );
        // Generated fabrics name hosts by index.
        let rack = topology::parse("rack:hosts=4").unwrap();
        assert_eq!(of_a_list(&rack, "h3 0\n1 h2\n").unwrap(), [(3, 0), (1, 2)]);
    }

    #[test]
    fn names_of_both_ends_may_have_a_hyphen() {
        let topology = star("hyphens", &["a-b", "c", "rack-1-h0", "a"]);
        let of = |text: &str| {
            let flows = added(&topology, &format!("{text}:1MB"))?;
            let pairs = text.parse::<Pattern>()?.on(&topology, 1)?.all();
            let flows: Vec<_> = flows.iter().map(|flow| (flow.src, flow.dst)).collect();
            let pairs: Vec<_> = pairs.into_iter().map(|(pair, _)| pair).collect();
            assert_eq!(flows, pairs);
            anyhow::Ok(flows)
        };
        assert_eq!(of("a-b-c").unwrap(), [(0, 1)]);
        assert_eq!(of("c-a-b").unwrap(), [(1, 0)]);
        assert_eq!(of("rack-1-h0-a-b").unwrap(), [(2, 0)]);
        assert_eq!(of("a-b-rack-1-h0").unwrap(), [(0, 2)]);
        assert_eq!(of("c-a").unwrap(), [(1, 3)]);
        let refused = |text| of(text).unwrap_err().to_string();
        assert!(
            refused("rack-1-h0-d").contains("no host or group `d`"),
            "{}",
            refused("rack-1-h0-d")
        );
        assert!(
            refused("d-a-b").contains("no host or group `d`"),
            "{}",
            refused("d-a-b")
        );
        let topology = star("both", &["a", "b-c", "a-b", "c"]);
        let error = added(&topology, "a-b-c:1MB").unwrap_err().to_string();
        let expected =
            "a-b-c is from a to b-c as well as from a-b to c: give one of them another name";
        assert!(error.ends_with(expected), "{error}");
    }

    #[test]
    fn patterns_are_written_as_they_are_read() {
        for text in [
            "uniform",
            "permutation",
            "intra-rack",
            "all-to-one",
            "all-to-one:h3",
            "without:h3",
            "left-right",
            "h1-rack0",
            "./mine",
            "pairs.txt",
        ] {
            assert_eq!(text.parse::<Pattern>().unwrap().to_string(), text);
        }
        assert!("everybody".parse::<Pattern>().is_err());
    }

    #[test]
    fn a_host_without_flows_is_in_no_pair_and_all_others_are() {
        let topology = topology::parse("rack:hosts=4").unwrap();
        let on = |text: &str| text.parse::<Pattern>().unwrap().on(&topology, 1);
        let mut pairs = on("without:h1").unwrap().all();
        pairs.sort_by_key(|(pair, _)| *pair);
        let expected = [(0, 2), (0, 3), (2, 0), (2, 3), (3, 0), (3, 2)];
        let all: Vec<_> = pairs.iter().map(|(pair, _)| *pair).collect();
        assert_eq!(all, expected);
        assert!(
            pairs
                .iter()
                .all(|(_, share)| (share - 1.0 / 6.0).abs() < 1e-12)
        );
        assert!(on("without:h9").is_err());
    }

    #[test]
    fn arrivals_are_open_or_closed() {
        let of = |text: &str| text.parse::<Arrivals>().map(|it| it.when);
        assert_eq!(of("poisson").unwrap(), When::Open(Process::Poisson));
        assert_eq!(of("balanced").unwrap(), When::Open(Process::Balanced));
        let lognormal = When::Open(Process::LogNormal { sigma: 1.5 });
        assert_eq!(of("lognormal:1.5").unwrap(), lognormal);
        assert_eq!(of("closed").unwrap(), When::Closed(NonZeroU32::MIN));
        let three = NonZeroU32::new(3).unwrap();
        assert_eq!(of("closed:3").unwrap(), When::Closed(three));
        for text in ["closed:0", "closed3", "often", "lognormal:x", "poissonian"] {
            assert!(of(text).is_err(), "{text}");
        }
    }
}
