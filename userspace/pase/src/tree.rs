// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fabric as a tree of links, for its arbitrators.
//!
//! ```text
//!              core                 nobody arbitrates in here
//!          ═════╪═════              trunk of a pod: all its links to the core, together
//!           agg   agg
//!          ═╪═     ═╪═              trunk of a rack: all its links to the pod
//!          edge   edge              a rack's arbitrators are at its switch
//!          │  │   │  │              a host's link: to the switch its own, from the switch the rack's
//!          h  h   h  h
//! ```
//!
//! A **rack** is a switch with hosts. Higher switches are merged as seen from below: switches from
//! which the same racks are reachable downwards are one, and their links up are one link, a
//! **trunk**, with the sum of the rates. That is accurate as long as packets spread over the links
//! evenly. The first rack below a trunk arbitrates it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use weft_topo::{Kind, NodeId, Topology};

/// A direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Half {
    /// From the sender to the root.
    Up,
    /// From the root to the receiver.
    Down,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Its name, which is also that of its switch's port.
    pub name: String,
    /// Its addresses in the format of messages, of both families.
    pub addresses: [[u8; 16]; 2],
    /// The index of its rack.
    pub rack: usize,
    /// The rate of its link in bytes/s.
    pub rate: u64,
}

/// A group of links up, treated as one link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// The racks below.
    pub racks: BTreeSet<usize>,
    /// In bytes/s.
    pub rate: u64,
}

impl Trunk {
    /// The rack that arbitrates it.
    pub fn leader(&self) -> usize {
        self.racks.first().copied().unwrap_or(0)
    }
}

/// A switch with hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rack {
    /// The switch's name.
    pub switch: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// The trunks upwards from the rack's own. Each has more racks below than the previous one, and
    /// none has all.
    pub trunks: Vec<Trunk>,
}

/// The whole fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// In the fabric's order.
    pub hosts: Vec<Host>,
    /// In the fabric's order.
    pub racks: Vec<Rack>,
}

/// A link on a flow's path, and the rack that arbitrates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// 0: the receiver's own link; otherwise the number of the trunk, counted from below.
    pub level: usize,
    /// The rack that arbitrates it.
    pub at: usize,
}

fn mapped(v4: Ipv4Addr, v6: Ipv6Addr) -> [[u8; 16]; 2] {
    [v4.to_ipv6_mapped().octets(), v6.octets()]
}

impl Tree {
    /// The tree of a fabric.
    pub fn new(topology: &Topology) -> Self {
        let level = levels(topology);
        let switches = topology.switches();
        let with_hosts = |&id: &NodeId| level[id.index()] == Some(1);
        let racks: Vec<NodeId> = switches.filter(with_hosts).collect();
        let reach = reach(topology, &level, &racks);
        let hosts = topology.hosts().filter_map(|id| {
            let node = topology.node(id);
            let port = node.ports.first()?;
            Some(Host {
                name: node.name.clone(),
                addresses: mapped(node.address.v4(), node.address.v6()),
                rack: racks.iter().position(|&rack| rack == port.peer)?,
                rate: topology.links()[port.link].wire.rate.bits_per_second() / 8,
            })
        });
        let hosts = hosts.collect();
        let trunks = trunks(topology, &reach, racks.len());
        let racks = racks.iter().enumerate().map(|(place, &id)| {
            let node = topology.node(id);
            Rack {
                switch: node.name.clone(),
                address: node.address.v4(),
                trunks: chain(&trunks, place),
            }
        });
        Self {
            hosts,
            racks: racks.collect(),
        }
    }

    /// The index of the host with this address.
    pub fn host(&self, address: &[u8; 16]) -> Option<usize> {
        let mut hosts = self.hosts.iter();
        hosts.position(|host| host.addresses.contains(address))
    }

    /// The links of half the path between two hosts, from below, without the sender's own. If
    /// trunks of several racks are `delegated`, each rack has its share of them.
    pub fn half(&self, from: usize, to: usize, half: Half, delegated: bool) -> Vec<Step> {
        let (from, to) = (self.hosts[from].rack, self.hosts[to].rack);
        let (near, far) = match half {
            Half::Up => (from, to),
            Half::Down => (to, from),
        };
        let own = (half == Half::Down).then_some(Step { level: 0, at: to });
        let trunks = self.racks[near].trunks.iter().enumerate();
        let crossed = trunks.take_while(|(_, trunk)| !trunk.racks.contains(&far));
        let crossed = crossed.map(|(place, trunk)| Step {
            level: place + 1,
            at: if delegated { near } else { trunk.leader() },
        });
        own.into_iter().chain(crossed).collect()
    }
}

/// Each node's distance in links from the nearest host; hosts are 0.
fn levels(topology: &Topology) -> Vec<Option<u32>> {
    let mut levels = vec![None; topology.nodes().len()];
    let mut line: Vec<NodeId> = topology.hosts().collect();
    let mut level = 0;
    while !line.is_empty() {
        let mut next = Vec::new();
        for id in line {
            if levels[id.index()].is_none() {
                levels[id.index()] = Some(level);
                let ports = topology.node(id).ports.iter();
                next.extend(ports.map(|port| port.peer));
            }
        }
        next.retain(|id| topology.node(*id).kind == Kind::Switch);
        line = next;
        level += 1;
    }
    levels
}

/// For each switch, the racks that are reachable downwards.
fn reach(
    topology: &Topology,
    levels: &[Option<u32>],
    racks: &[NodeId],
) -> BTreeMap<usize, BTreeSet<usize>> {
    let mut switches: Vec<NodeId> = topology.switches().collect();
    switches.sort_by_key(|id| levels[id.index()]);
    let mut reach: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for id in switches {
        let own = racks.iter().position(|&rack| rack == id);
        let mut below: BTreeSet<usize> = own.into_iter().collect();
        for port in &topology.node(id).ports {
            if levels[port.peer.index()] < levels[id.index()] {
                below.extend(reach.get(&port.peer.index()).into_iter().flatten());
            }
        }
        reach.insert(id.index(), below);
    }
    reach
}

/// The trunks: links up of all switches that reach the same racks. Switches that reach all racks
/// have none.
fn trunks(
    topology: &Topology,
    reach: &BTreeMap<usize, BTreeSet<usize>>,
    racks: usize,
) -> Vec<Trunk> {
    let mut rates: BTreeMap<&BTreeSet<usize>, u64> = BTreeMap::new();
    for id in topology.switches() {
        let below = &reach[&id.index()];
        for port in &topology.node(id).ports {
            let up = reach.get(&port.peer.index());
            if up.is_some_and(|up| !up.is_subset(below)) && below.len() < racks {
                let rate = topology.links()[port.link].wire.rate.bits_per_second() / 8;
                *rates.entry(below).or_default() += rate;
            }
        }
    }
    let trunks = rates.into_iter().map(|(racks, rate)| Trunk {
        racks: racks.clone(),
        rate,
    });
    trunks.collect()
}

/// The trunks above a rack, from below: each has all racks of the previous one.
fn chain(trunks: &[Trunk], rack: usize) -> Vec<Trunk> {
    let mut own: Vec<&Trunk> = trunks
        .iter()
        .filter(|it| it.racks.contains(&rack))
        .collect();
    own.sort_by_key(|trunk| trunk.racks.len());
    let mut chain: Vec<Trunk> = Vec::new();
    for trunk in own {
        if chain
            .last()
            .is_none_or(|last| last.racks.is_subset(&trunk.racks))
        {
            chain.push(trunk.clone());
        }
    }
    chain
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_topo::Spec;

    fn tree(text: &str) -> Tree {
        Tree::new(&text.parse::<Spec>().unwrap().topology())
    }

    /// Levels and racks of half a path.
    fn steps(tree: &Tree, from: usize, to: usize, half: Half) -> Vec<(usize, usize)> {
        let steps = tree.half(from, to, half, false).into_iter();
        steps.map(|step| (step.level, step.at)).collect()
    }

    #[test]
    fn within_a_rack_the_path_is_the_receivers_link_alone() {
        let tree = tree("rack:hosts=4,rate=1gbit");
        assert_eq!(tree.racks.len(), 1);
        assert_eq!(tree.racks[0].trunks, []);
        assert_eq!(tree.hosts[3].rate, 125_000_000);
        assert_eq!(steps(&tree, 0, 3, Half::Up), []);
        assert_eq!(steps(&tree, 0, 3, Half::Down), [(0, 0)]);
    }

    #[test]
    fn links_of_switches_that_reach_the_same_racks_are_one_trunk() {
        let tree = tree("fat-tree:k=4,rate=10gbit");
        assert_eq!(tree.racks.len(), 8);
        let [own, pod] = &tree.racks[3].trunks[..] else {
            panic!("{:?}", tree.racks[3]);
        };
        let rates = (own.rate, pod.rate);
        assert_eq!(rates, (2_500_000_000, 5_000_000_000));
        assert_eq!(own.racks, [3].into());
        assert_eq!(pod.racks, [2, 3].into());
        // Within the rack, within the pod, and beyond. Two hosts per rack.
        assert_eq!(steps(&tree, 6, 7, Half::Up), []);
        assert_eq!(steps(&tree, 6, 4, Half::Up), [(1, 3)]);
        assert_eq!(steps(&tree, 6, 0, Half::Up), [(1, 3), (2, 2)]);
        assert_eq!(steps(&tree, 0, 6, Half::Down), [(0, 3), (1, 3), (2, 2)]);
        // With delegation, the rack arbitrates its own share of its pod's trunk.
        let own = tree.half(0, 6, Half::Down, true);
        assert!(own.iter().all(|step| step.at == 3), "{own:?}");
    }

    #[test]
    fn in_a_leaf_spine_and_a_dumbbell_each_rack_has_one_trunk() {
        for (text, rate) in [
            (
                "leaf-spine:leaves=3,spines=2,hosts=4,host-rate=10gbit,fabric-rate=40gbit",
                10_000_000_000,
            ),
            (
                "dumbbell:left=2,right=2,host-rate=1gbit,bottleneck-rate=100mbit",
                12_500_000,
            ),
        ] {
            let tree = tree(text);
            for (place, rack) in tree.racks.iter().enumerate() {
                let [trunk] = &rack.trunks[..] else {
                    panic!("{text}: {rack:?}");
                };
                assert_eq!((trunk.leader(), trunk.rate), (place, rate), "{text}");
            }
        }
    }

    #[test]
    fn hosts_are_known_by_both_addresses() {
        let tree = tree("rack:hosts=2");
        let v4 = Ipv4Addr::new(10, 0, 0, 3).to_ipv6_mapped().octets();
        assert_eq!(tree.host(&v4), Some(1));
        let v6: Ipv6Addr = "fd77:6566:7400::2".parse().unwrap();
        assert_eq!(tree.host(&v6.octets()), Some(0));
        assert_eq!(tree.host(&[0; 16]), None);
    }
}
