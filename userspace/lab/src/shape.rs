// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fabric as described by a few numbers: the range of its hosts' addresses, and its numbers of
//! ways up. For an irregular fabric, the largest of each.

use std::net::Ipv4Addr;

use weft_topo::{Kind, Node, Topology};

use crate::variables::Variables;

/// The numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The address of the first host of the first switch of the first pod.
    pub(crate) first: Ipv4Addr,
    /// The address of the last host.
    pub(crate) last: Ipv4Addr,
    /// The most hosts of a switch.
    pub(crate) hosts: u32,
    /// The most such switches of a pod.
    pub(crate) racks: u32,
    /// Pods with hosts.
    pub(crate) pods: u32,
    /// Ways up from a host's switch.
    pub(crate) edge_ways: u32,
    /// Ways up from the switches above it.
    pub(crate) core_ways: u32,
}

/// Whether it is the switch of a host.
pub(crate) fn is_edge(topology: &Topology, node: &Node) -> bool {
    let mut peers = node.ports.iter().map(|port| topology.node(port.peer).kind);
    node.kind == Kind::Switch && peers.any(|kind| kind == Kind::Host)
}

impl Shape {
    pub(crate) fn of(topology: &Topology) -> Self {
        let hosts = || topology.nodes().iter().filter(|it| it.kind == Kind::Host);
        let most = |number: fn(&Node) -> u8| hosts().map(|it| u32::from(number(it))).max();
        // The number of ports by which a switch leads to switches that are not `down`.
        let ways = |node: &Node, down: fn(&Topology, &Node) -> bool| {
            let peers = node.ports.iter().map(|port| topology.node(port.peer));
            let up = peers.filter(|peer| peer.kind == Kind::Switch && !down(topology, peer));
            up.count() as u32
        };
        let edges = || topology.nodes().iter().filter(|it| is_edge(topology, it));
        let above = topology.nodes().iter().filter(|it| {
            let mut peers = it.ports.iter().map(|port| topology.node(port.peer));
            it.kind == Kind::Switch
                && !is_edge(topology, it)
                && peers.any(|peer| is_edge(topology, peer))
        });
        let edge_ways = edges().map(|it| ways(it, |_, _| false)).max();
        let core_ways = above.map(|it| ways(it, is_edge)).max();
        let first = Ipv4Addr::new(10, 0, 0, 2);
        Self {
            first,
            last: hosts().next_back().map_or(first, |it| it.address.v4()),
            hosts: most(|it| it.address.id).map_or(1, |id| id.saturating_sub(1).max(1)),
            racks: most(|it| it.address.switch).map_or(1, |switch| switch + 1),
            pods: most(|it| it.address.pod).map_or(1, |pod| pod + 1),
            edge_ways: edge_ways.unwrap_or(1).max(1),
            core_ways: core_ways.unwrap_or(1).max(1),
        }
    }

    /// Sets the variable of each number.
    pub(crate) fn set(&self, variables: &mut Variables) {
        variables.set("first_host", self.first.to_string());
        variables.set("last_host", self.last.to_string());
        for (name, number) in [
            ("rack_hosts", self.hosts),
            ("pod_racks", self.racks),
            ("pods", self.pods),
            ("edge_ways", self.edge_ways),
            ("core_ways", self.core_ways),
        ] {
            variables.set(name, number.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_the_numbers_of_hosts_racks_pods_and_paths() {
        for (text, [hosts, racks, pods, edge_ways, core_ways], last) in [
            ("fat-tree:k=4", [2, 2, 4, 2, 2], [10, 3, 1, 3]),
            ("fat-tree:k=6", [3, 3, 6, 3, 3], [10, 5, 2, 4]),
            (
                "leaf-spine:leaves=3,spines=4,hosts=5",
                [5, 3, 1, 4, 1],
                [10, 0, 2, 6],
            ),
            ("rack:hosts=9", [9, 1, 1, 1, 1], [10, 0, 0, 10]),
        ] {
            let topology = crate::topology::parse(text).unwrap();
            let expected = Shape {
                first: Ipv4Addr::new(10, 0, 0, 2),
                last: last.into(),
                hosts,
                racks,
                pods,
                edge_ways,
                core_ways,
            };
            assert_eq!(Shape::of(&topology), expected, "{text}");
            // With these addresses the hosts are the endpoints, in their order.
            let addresses = weft_mechanisms::fastpass::address::Addresses {
                first: expected.first.into(),
                hosts,
                racks,
                pods,
            };
            let endpoints = topology.hosts().map(|id| topology.node(id).address.v4());
            let endpoints = endpoints.map(|address| addresses.endpoint(address.into()));
            let all = (0..addresses.count() as u16).map(Some);
            assert!(endpoints.eq(all), "{text}");
        }
    }
}
