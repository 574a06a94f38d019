// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pairs of sender and receiver.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;

use chacha20::rand_core::Rng;

use crate::error::{Result, invalid};
use crate::hosts::Hosts;
use crate::lines::{empty, lines};
use crate::random::{self, Stream};

/// A distribution over ordered pairs of different hosts, numbered from 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    hosts: u32,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
enum Kind {
    Uniform,
    /// The receiver of each host.
    Permutation(Vec<u32>),
    AllToOne(u32),
    /// Each host that has neighbours in its group, and the group.
    IntraGroup(Vec<(u32, Vec<u32>)>),
    Local(Local),
    List {
        name: String,
        pairs: Vec<(u32, u32)>,
    },
}

const NO_NEIGHBOURS: &str = "no rack has two hosts, so none can send within it";

impl Pairs {
    /// Any two different hosts.
    ///
    /// # Errors
    ///
    /// If there are fewer than 2 hosts.
    pub fn uniform(hosts: u32) -> Result<Self> {
        Self::new(hosts, Kind::Uniform)
    }

    /// Each host sends to one other host and receives from one: a permutation without a fixed
    /// point, drawn uniformly from the seed.
    ///
    /// # Errors
    ///
    /// Those of [`Pairs::uniform`].
    pub fn permutation(hosts: u32, seed: u64) -> Result<Self> {
        let mut pairs = Self::new(hosts, Kind::Uniform)?;
        let mut rng = random::stream(seed, Stream::Pairs);
        let mut to: Vec<u32> = (0..hosts).collect();
        // A shuffle has no fixed point with a probability of about 1/e (1/3 at worst, with 3
        // hosts), and all such permutations are equally likely.
        loop {
            for end in (1..hosts).rev() {
                // `end` is at least 1, so `end + 1` is not 0.
                let count = NonZeroU32::MIN.saturating_add(end);
                to.swap(end as usize, random::below(&mut rng, count) as usize);
            }
            if (0..hosts).zip(&to).all(|(host, to)| host != *to) {
                break;
            }
        }
        pairs.kind = Kind::Permutation(to);
        Ok(pairs)
    }

    /// All hosts send to one of them.
    ///
    /// # Errors
    ///
    /// Those of [`Pairs::uniform`]; also if the receiver does not exist.
    pub fn all_to_one(hosts: u32, receiver: u32) -> Result<Self> {
        if receiver >= hosts {
            return invalid(format!(
                "there is no host h{receiver}: the fabric has {hosts}"
            ));
        }
        Self::new(hosts, Kind::AllToOne(receiver))
    }

    /// Any host that has neighbours, and any of its neighbours: the hosts of the same group, which
    /// is a rack. `groups` has each host's group.
    ///
    /// # Errors
    ///
    /// Those of [`Pairs::uniform`]; also if no group has two hosts.
    pub fn intra_group(groups: &[u32]) -> Result<Self> {
        let hosts = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        let with_neighbours: Vec<_> = (0..hosts)
            .zip(groups)
            .map(|(host, group)| {
                let others = (0..hosts).zip(groups);
                let others = others.filter(|(other, its)| *other != host && *its == group);
                (host, others.map(|(other, _)| other).collect::<Vec<_>>())
            })
            .filter(|(_, others)| !others.is_empty())
            .collect();
        if with_neighbours.is_empty() {
            return invalid(NO_NEIGHBOURS);
        }
        Self::new(hosts, Kind::IntraGroup(with_neighbours))
    }

    /// Any host sends this fraction of its flows, above 0 and below 1, to any other host of its
    /// group, which is a rack, and the rest to any host of another group (BFC, NSDI 2022, Appendix
    /// A.5). `groups` has each host's group.
    ///
    /// # Errors
    ///
    /// If the fraction is out of range, no group has two hosts, there is only one group, or a host
    /// is alone in its group: all of its flows would leave the group, so that a smaller fraction of
    /// all flows would stay.
    pub fn local(groups: &[u32], fraction: f64) -> Result<Self> {
        let hosts = u32::try_from(groups.len()).unwrap_or(u32::MAX);
        Self::new(hosts, Kind::Local(Local::new(groups, fraction)?))
    }

    /// Lines `SRC DST` with equal probability, hosts by name or by place (from 0); a pair on
    /// several lines has a multiple of it. `#` begins a comment.
    ///
    /// # Errors
    ///
    /// Those of [`Pairs::uniform`]; with the line's number, if a line is not two different hosts of
    /// `hosts`; also if there is no pair.
    pub fn from_list(name: &str, text: &str, hosts: &Hosts) -> Result<Self> {
        let mut pairs = Vec::new();
        for line in lines(name, text) {
            let [src, dst] = line.exactly("`SRC DST`")?;
            pairs.push(line.pair(src, dst, hosts)?);
        }
        Self::listed(name, pairs, hosts.count())
    }

    /// These pairs of places with equal probability; a pair that occurs several times has a
    /// multiple of it.
    ///
    /// # Errors
    ///
    /// Those of [`Pairs::uniform`]; also if there is no pair, or one is not two different ones of
    /// `hosts` hosts.
    pub fn listed(name: &str, pairs: Vec<(u32, u32)>, hosts: u32) -> Result<Self> {
        if pairs.is_empty() {
            return Err(empty(name, "pairs: expected lines `SRC DST`"));
        }
        let is_pair = |(src, dst): &(u32, u32)| src != dst && *src.max(dst) < hosts;
        if !pairs.iter().all(is_pair) {
            return invalid(format!(
                "{name}: a pair is of two different ones of {hosts} hosts"
            ));
        }
        let name = name.to_owned();
        Self::new(hosts, Kind::List { name, pairs })
    }

    fn new(hosts: u32, kind: Kind) -> Result<Self> {
        if hosts < 2 {
            return invalid(format!("{hosts} hosts: a flow needs two"));
        }
        Ok(Self { hosts, kind })
    }

    /// Number of hosts in the fabric, at least 2.
    #[must_use]
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// Draws a sender and a receiver.
    pub fn sample(&self, rng: &mut impl Rng) -> (u32, u32) {
        match &self.kind {
            Kind::Uniform => {
                let src = below(rng, self.hosts);
                (src, other(src, below(rng, self.hosts - 1)))
            }
            Kind::Permutation(to) => {
                let src = below(rng, self.hosts);
                (src, to[src as usize])
            }
            Kind::AllToOne(receiver) => (other(*receiver, below(rng, self.hosts - 1)), *receiver),
            Kind::IntraGroup(hosts) => {
                let (src, others) = pick(rng, hosts);
                (*src, *pick(rng, others))
            }
            Kind::Local(local) => local.sample(rng),
            Kind::List { pairs, .. } => *pick(rng, pairs),
        }
    }

    /// Every pair that occurs and its probability; a list's pairs as often as the list has them.
    #[must_use]
    pub fn all(&self) -> Vec<((u32, u32), f64)> {
        let hosts = 0..self.hosts;
        let mut all = match &self.kind {
            Kind::Uniform => hosts
                .flat_map(|src| (0..self.hosts - 1).map(move |n| ((src, other(src, n)), 1.0)))
                .collect(),
            Kind::Permutation(to) => hosts.zip(to).map(|(src, dst)| ((src, *dst), 1.0)).collect(),
            Kind::AllToOne(receiver) => (0..self.hosts - 1)
                .map(|n| ((other(*receiver, n), *receiver), 1.0))
                .collect(),
            Kind::IntraGroup(hosts) => hosts
                .iter()
                .flat_map(|(src, others)| {
                    let share = 1.0 / others.len() as f64;
                    others.iter().map(move |dst| ((*src, *dst), share))
                })
                .collect(),
            Kind::Local(local) => hosts
                .flat_map(|src| {
                    let receivers = local.receivers(src);
                    receivers.map(move |(dst, share)| ((src, dst), share))
                })
                .collect(),
            Kind::List { pairs, .. } => pairs.iter().map(|pair| (*pair, 1.0)).collect::<Vec<_>>(),
        };
        let total: f64 = all.iter().map(|(_, weight)| weight).sum();
        for (_, weight) in &mut all {
            *weight /= total;
        }
        all
    }

    /// For each host, the share of flows that it sends or receives, whichever is larger.
    #[must_use]
    pub fn shares(&self) -> Vec<f64> {
        let mut sent = vec![0.0; self.hosts as usize];
        let mut received = sent.clone();
        for ((src, dst), probability) in self.all() {
            sent[src as usize] += probability;
            received[dst as usize] += probability;
        }
        sent.into_iter()
            .zip(received)
            .map(|(a, b)| f64::max(a, b))
            .collect()
    }

    /// The largest share of flows that any one host sends or receives.
    #[must_use]
    pub fn busiest_share(&self) -> f64 {
        self.shares().into_iter().fold(0.0, f64::max)
    }

    /// The load on the links between groups (racks). `groups` has each host's group, and `rates`
    /// the sum of the rates of each group's links, in bit/s in one direction; a group that is
    /// missing from it has no links.
    ///
    /// A group and a direction, outwards or inwards, have the largest share per rate. Returns the
    /// rate in bit/s and the share of all flows, summed over all groups with the same share per
    /// rate.
    #[must_use]
    pub fn busiest_crossing(&self, groups: &[u32], rates: &BTreeMap<u32, f64>) -> (f64, f64) {
        let group = |host: u32| groups.get(host as usize);
        let mut crossing = self.all();
        crossing.retain(|((src, dst), _)| group(*src) != group(*dst));
        let towards = |end: fn((u32, u32)) -> u32| {
            let mut loads: BTreeMap<u32, f64> = rates.keys().map(|group| (*group, 0.0)).collect();
            let of = |pair| group(end(pair)).copied();
            for (pair, probability) in &crossing {
                if let Some(group) = of(*pair)
                    && let Some(load) = loads.get_mut(&group)
                {
                    *load += probability / rates[&group];
                }
            }
            let most = loads.values().copied().fold(0.0, f64::max);
            // Equal sums may differ in their last digits.
            loads.retain(|_, load| *load >= most * (1.0 - 1e-9));
            let rate: f64 = loads.keys().map(|group| rates[group]).sum();
            let is_busiest = |pair| of(pair).is_some_and(|group| loads.contains_key(&group));
            let share = crossing.iter().filter(|(pair, _)| is_busiest(*pair));
            (most, rate, share.map(|(_, probability)| probability).sum())
        };
        let (out, into) = (towards(|(src, _)| src), towards(|(_, dst)| dst));
        let (_, rate, share) = if into.0 > out.0 { into } else { out };
        (rate, share)
    }
}

/// Groups of hosts, and the fraction of flows that stay in the sender's group.
#[derive(Clone, Debug, PartialEq)]
struct Local {
    /// Above 0 and below 1.
    fraction: f64,
    /// The hosts of each group, in order: at least two groups of at least two hosts.
    groups: Vec<Vec<u32>>,
    /// For each host, the index of its group and its place in it.
    places: Vec<(usize, u32)>,
}

impl Local {
    /// `groups` has each host's group.
    fn new(groups: &[u32], fraction: f64) -> Result<Self> {
        if !(fraction > 0.0 && fraction < 1.0) {
            return invalid(format!(
                "a fraction of {fraction} within racks: expected above 0 and below 1"
            ));
        }
        let mut members: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (host, group) in (0..).zip(groups) {
            members.entry(*group).or_default().push(host);
        }
        let groups: Vec<Vec<u32>> = members.into_values().collect();
        if groups.iter().all(|group| group.len() < 2) {
            return invalid(NO_NEIGHBOURS);
        }
        if groups.len() < 2 {
            return invalid("there is only one rack, so no flow can leave it");
        }
        if let Some([host]) = groups.iter().map(Vec::as_slice).find(|it| it.len() == 1) {
            return invalid(format!(
                "host {host} is alone in its rack, so none of its flows can stay there"
            ));
        }
        let mut places = vec![(0, 0); groups.iter().map(Vec::len).sum()];
        for (index, group) in groups.iter().enumerate() {
            for (place, host) in (0..).zip(group) {
                places[*host as usize] = (index, place);
            }
        }
        Ok(Self {
            fraction,
            groups,
            places,
        })
    }

    /// The group of a host, and the host's place in it.
    fn of(&self, host: u32) -> (&[u32], u32) {
        let (group, place) = self.places[host as usize];
        (&self.groups[group], place)
    }

    /// Every receiver of a host, with its probability.
    fn receivers(&self, src: u32) -> impl Iterator<Item = (u32, f64)> {
        let (group, place) = self.of(src);
        let (near, hosts) = (group.len() as u32 - 1, self.places.len() as u32);
        let far = hosts - group.len() as u32;
        let neighbours = (0..near).map(move |n| group[other(place, n) as usize]);
        let neighbours = neighbours.map(move |dst| (dst, self.fraction / f64::from(near)));
        let others =
            (0..far).map(move |n| (outside(group, n), (1.0 - self.fraction) / f64::from(far)));
        neighbours.chain(others)
    }

    fn sample(&self, rng: &mut impl Rng) -> (u32, u32) {
        let hosts = self.places.len() as u32;
        let src = below(rng, hosts);
        let (group, place) = self.of(src);
        let size = group.len() as u32;
        let dst = if random::unit(rng) < self.fraction {
            group[other(place, below(rng, size - 1)) as usize]
        } else {
            outside(group, below(rng, hosts - size))
        };
        (src, dst)
    }
}

/// A number in 0..`n`; every caller has `n` above 0.
fn below(rng: &mut impl Rng, n: u32) -> u32 {
    random::below(rng, NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN))
}

/// The `n`th of the hosts other than `host`.
fn other(host: u32, n: u32) -> u32 {
    outside(&[host], n)
}

/// The `n`th of the hosts that are not in `group`, whose hosts are in order.
fn outside(group: &[u32], n: u32) -> u32 {
    group.iter().fold(n, |n, host| n + u32::from(n >= *host))
}

/// An element of `list`, which holds fewer than 2^32 hosts or pairs and is not empty.
fn pick<'a, T>(rng: &mut impl Rng, list: &'a [T]) -> &'a T {
    &list[below(rng, u32::try_from(list.len()).unwrap_or(u32::MAX)) as usize]
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Uniform => f.write_str("uniform"),
            Kind::Permutation(_) => f.write_str("permutation"),
            Kind::AllToOne(receiver) => write!(f, "all-to-one:h{receiver}"),
            Kind::IntraGroup(_) => f.write_str("intra-rack"),
            Kind::Local(local) => write!(f, "local:{}", local.fraction),
            Kind::List { name, .. } => write!(f, "list:{name}"),
        }
    }
}
