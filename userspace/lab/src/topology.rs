// SPDX-License-Identifier: MIT OR Apache-2.0

//! Topologies by name, and their properties that schemes and measures use.

use std::num::NonZeroU32;

use anyhow::Result;
use weft_load::hosts::Hosts;
use weft_topo::{BestPaths, Kind, NodeId, Path, Rate, Spec, Topology};

use crate::error::usage;

/// A full Ethernet frame, of 1500 bytes of IP, on the wire, in bytes: for base round-trip
/// times.
pub const FRAME: u64 = 1538;
/// The shortest Ethernet frame on the wire, in bytes.
pub const SHORTEST_FRAME: u64 = 84;

/// Parses a topology from the command line.
///
/// # Errors
///
/// If the kind is unknown, an option is wrong, or the file is: one sentence.
pub fn parse(text: &str) -> Result<Topology> {
    match Spec::named(text) {
        Ok(spec) => Ok(spec.topology()),
        Err(error) => usage(format!("{error}{}", file_hint(text, Spec::is_file))),
    }
}

/// Slows a fabric.
///
/// # Errors
///
/// If a rate or a delay cannot be slowed this much.
pub fn dilate(topology: Topology, dilation: NonZeroU32) -> Result<Topology> {
    match topology.dilated(dilation) {
        Ok(topology) => Ok(topology),
        Err(error) => usage(format!("--dilation {dilation}: {error}")),
    }
}

/// A host's index among the hosts, by its name.
pub fn host(topology: &Topology, name: &str) -> Option<u32> {
    let mut hosts = topology.hosts();
    let place = hosts.position(|id| topology.node(id).name == name);
    place.map(|place| place as u32)
}

/// The indices of a host, or of a group's hosts, by name; none if there is neither.
pub fn hosts(topology: &Topology, name: &str) -> Vec<u32> {
    if let Some(place) = host(topology, name) {
        return vec![place];
    }
    let group = topology.groups().iter().find(|group| group.name == name);
    let hosts = group.map_or(&[][..], |group| &group.hosts);
    let places = topology.hosts().zip(0..);
    places
        .filter(|(id, _)| hosts.contains(id))
        .map(|(_, place)| place)
        .collect()
}

/// The names of its hosts in files of flows and of pairs.
pub(crate) fn names(topology: &Topology) -> Hosts {
    Hosts::named(topology.hosts().map(|id| topology.node(id).name.clone()))
}

/// Maxima over the best paths between hosts, each one over all pairs: one pair need not have all of
/// them. They are 0, except the packets, if no two hosts have a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathMaxima {
    /// The longest base round-trip time, in ns.
    pub base_rtt_ns: u64,
    /// The longest time that a full frame takes one way on an idle fabric, in ns.
    pub one_way_ns: u64,
    /// The largest bandwidth-delay product in full frames, rounded up, at least 1.
    pub bdp_packets: u64,
    /// The most links of a path.
    pub links: u64,
}

/// The time that a full frame takes on a host's link, in ns, without the link's delay; if rates
/// differ, on the slowest link.
pub fn frame_ns(topology: &Topology) -> u64 {
    let slowest = host_rates(topology).min();
    slowest.map_or(0, |rate| rate.serialization_ns(FRAME))
}

/// The time that a full frame takes from one switch to the next, in ns: on the link, and the
/// link's delay. If links differ, the longest; 0 if no link is between two switches.
pub fn switch_hop_ns(topology: &Topology) -> u64 {
    let is_switch = |id: NodeId| topology.node(id).kind == Kind::Switch;
    let links = topology.links().iter();
    let between = links.filter(|link| link.ends.iter().all(|end| is_switch(end.0)));
    let times = between.map(|link| link.wire.rate.serialization_ns(FRAME) + link.wire.delay.ns());
    times.max().unwrap_or(0)
}

/// The rate of a host's link in bit/s; if rates differ, the highest.
pub fn host_bits(topology: &Topology) -> u64 {
    let fastest = host_rates(topology).max();
    fastest.map_or(0, Rate::bits_per_second)
}

/// The rates of a node's links.
pub(crate) fn rates(topology: &Topology, id: NodeId) -> impl Iterator<Item = Rate> {
    let ports = topology.node(id).ports.iter();
    ports.map(|port| topology.links()[port.link].wire.rate)
}

/// The rates of all hosts' links.
pub(crate) fn host_rates(topology: &Topology) -> impl Iterator<Item = Rate> {
    topology.hosts().flat_map(|id| rates(topology, id))
}

/// The first switch whose links up carry less than its links down, if there are links up, with
/// both sums: `leaf0 has 40 Gbit/s down and 20 Gbit/s up`. Switches of one layer count as one above
/// the other, in the order of their names.
pub fn oversubscribed(topology: &Topology) -> Option<String> {
    let sum = |id: NodeId, end: usize| {
        let links = topology.links().iter();
        let ours = links.filter(|link| link.ends[end].0 == id);
        ours.map(|link| link.wire.rate.bits_per_second())
            .sum::<u64>()
    };
    let switches = topology
        .ids()
        .filter(|&id| topology.node(id).kind == Kind::Switch);
    let mut sums = switches.map(|id| (id, sum(id, 1), sum(id, 0)));
    let (id, down, up) = sums.find(|(_, down, up)| *up > 0 && up < down)?;
    let [down, up] = [down, up].map(|bits| bits as f64 / 1e9);
    let name = &topology.node(id).name;
    Some(format!("{name} has {down} Gbit/s down and {up} Gbit/s up"))
}

impl PathMaxima {
    /// The maxima on a fabric, in one pass over its pairs of hosts: for k=24 a pass takes seconds
    /// without optimization.
    ///
    /// Two hosts of each switch represent all of them: they have equal links, except in a file.
    /// There are two because the largest product of an oversubscribed fabric is that of neighbours.
    pub fn of(topology: &Topology) -> Self {
        const MANY: usize = 64;
        let mut hosts: Vec<NodeId> = topology.hosts().collect();
        if hosts.len() > MANY {
            let mut seen = vec![0; topology.nodes().len()];
            hosts.retain(|&host| {
                let ports = &topology.node(host).ports;
                ports.first().is_none_or(|port| {
                    let seen = &mut seen[port.peer.index()];
                    *seen += 1;
                    *seen <= 2
                })
            });
        }
        // One search per host, not per pair: for k=16 the latter would take seconds.
        let paths: Vec<BestPaths<'_>> = hosts.iter().map(|&to| topology.best_paths(to)).collect();
        let ends: Vec<_> = hosts.iter().zip(&paths).collect();
        let mut maxima = Self {
            base_rtt_ns: 0,
            one_way_ns: 0,
            bdp_packets: 1,
            links: 0,
        };
        for (place, (one, to_one)) in ends.iter().enumerate() {
            for (other, to_other) in &ends[..place] {
                if let (Some(there), Some(back)) = (to_other.from(**one), to_one.from(**other)) {
                    maxima.include(&there, &back);
                    maxima.include(&back, &there);
                }
            }
        }
        maxima
    }

    fn include(&mut self, there: &Path, back: &Path) {
        let one_way_ns = there.one_way_ns(FRAME);
        let rtt_ns = one_way_ns.saturating_add(back.one_way_ns(SHORTEST_FRAME));
        let bdp_packets = there.carries_bytes(rtt_ns).div_ceil(FRAME);
        self.base_rtt_ns = self.base_rtt_ns.max(rtt_ns);
        self.one_way_ns = self.one_way_ns.max(one_way_ns);
        self.bdp_packets = self.bdp_packets.max(bdp_packets);
        self.links = self.links.max(there.wires.len() as u64);
    }
}

/// A suffix for "there is no `text`" if there is a file of that name that the option does not take
/// for one: `is_file` says which words it does. Each takes one with a `/`.
pub(crate) fn file_hint(text: &str, is_file: impl Fn(&str) -> bool) -> String {
    match !is_file(text) && std::path::Path::new(text).is_file() {
        true => format!("; for the file {text} write ./{text}"),
        false => String::new(),
    }
}

pub(crate) fn is_file(text: &str) -> bool {
    text.contains('/')
        || std::path::Path::new(text)
            .extension()
            .is_some_and(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_maximum_is_over_all_pairs() {
        // All hosts, and those that represent them.
        for text in [
            "fat-tree:k=4",
            "dumbbell:left=2,right=2,host-rate=1gbit,bottleneck-rate=100mbit",
            "fat-tree:k=8,oversubscription=4",
        ] {
            let topology = parse(text).unwrap();
            let hosts: Vec<NodeId> = topology.hosts().collect();
            let most = |of: &dyn Fn(NodeId, NodeId) -> Option<u64>| {
                let pairs = hosts
                    .iter()
                    .flat_map(|&to| [(hosts[0], to), (to, hosts[0])]);
                pairs.filter_map(|(from, to)| of(from, to)).max().unwrap()
            };
            let path = |from, to| topology.best_path(from, to);
            let bytes = most(&|from, to| topology.bdp_bytes(from, to, FRAME, SHORTEST_FRAME));
            let expected = PathMaxima {
                base_rtt_ns: most(&|from, to| {
                    topology.base_rtt_ns(from, to, FRAME, SHORTEST_FRAME)
                }),
                one_way_ns: most(&|from, to| Some(path(from, to)?.one_way_ns(FRAME))),
                bdp_packets: bytes.div_ceil(FRAME),
                links: most(&|from, to| Some(path(from, to)?.wires.len() as u64)),
            };
            assert_eq!(PathMaxima::of(&topology), expected, "{text}");
        }
    }

    #[test]
    fn a_switch_with_less_rate_up_than_down_is_oversubscribed() {
        let found = |text: &str| oversubscribed(&parse(text).unwrap());
        for whole in [
            "rack:hosts=9",
            "fat-tree:k=4",
            "leaf-spine:leaves=2,spines=4,hosts=4,rate=10gbit",
            "leaf-spine:leaves=9,spines=4,hosts=16",
        ] {
            assert_eq!(found(whole), None, "{whole}");
        }
        assert_eq!(
            found("leaf-spine:leaves=2,spines=2,hosts=4,rate=10gbit").as_deref(),
            Some("leaf0 has 40 Gbit/s down and 20 Gbit/s up")
        );
        for less in [
            "fat-tree:k=4,oversubscription=2",
            "fat-tree:k=4,core-rate=1gbit",
            "dumbbell:left=2,right=2,host-rate=1gbit,bottleneck-rate=1gbit",
        ] {
            assert!(found(less).is_some(), "{less}");
        }
    }

    #[test]
    fn times_of_links_are_those_of_the_slowest_link() {
        let fabric = parse("leaf-spine:leaves=2,spines=2,hosts=2,rate=10gbit,delay=200ns").unwrap();
        // 1538 bytes at 1.25 bytes a ns are 1,230.4 ns, rounded up; four links from rack to rack.
        assert_eq!(frame_ns(&fabric), 1231);
        assert_eq!(switch_hop_ns(&fabric), 1431);
        assert_eq!(PathMaxima::of(&fabric).one_way_ns, 4 * 1431);
        let dumbbell = "dumbbell:left=2,right=2,host-rate=10gbit,bottleneck-rate=1gbit";
        let dumbbell = parse(dumbbell).unwrap();
        assert_eq!(frame_ns(&dumbbell), 1231);
        assert!(switch_hop_ns(&dumbbell) > 12_304);
        // A rack has no link between switches.
        assert_eq!(switch_hop_ns(&parse("rack:hosts=2").unwrap()), 0);
    }
}
