// SPDX-License-Identifier: MIT OR Apache-2.0

//! Shortest paths between hosts, and the best times on them.

use crate::route::UNREACHED;
use crate::topology::{Link, NodeId, Port, Topology, Wire};
use crate::units::Rate;

/// A path from one host to another: the wires that a packet crosses, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// From the sender's link to the receiver's; never empty.
    pub wires: Vec<Wire>,
    /// The nodes on the path, including sender and receiver.
    pub nodes: Vec<NodeId>,
}

impl Path {
    /// The rate of the slowest wire.
    pub fn bottleneck(&self) -> Rate {
        self.wires
            .iter()
            .map(|wire| wire.rate)
            .min()
            .unwrap_or(Rate::MAX)
    }

    /// The sum of the delays in ns: a bit's time without serialization.
    pub fn propagation_ns(&self) -> u64 {
        self.wires.iter().map(|wire| wire.delay.ns()).sum()
    }

    /// The time of one frame on an idle fabric, in ns, with store and forward: each switch receives
    /// the whole frame before it sends it on. `bytes` is the frame on the wire, with all its
    /// headers.
    pub fn one_way_ns(&self, bytes: u64) -> u64 {
        let serialization = self
            .wires
            .iter()
            .map(|wire| wire.rate.serialization_ns(bytes));
        serialization.fold(self.propagation_ns(), u64::saturating_add)
    }

    /// Bytes that the slowest wire carries in `ns`, rounded up.
    pub fn carries_bytes(&self, ns: u64) -> u64 {
        let rate = self.bottleneck().bytes_per_second();
        let bytes = (u128::from(rate) * u128::from(ns)).div_ceil(1_000_000_000);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// The best paths to one node from all others, found in one search; see
/// [`Topology::best_paths`].
#[derive(Clone, Debug)]
pub struct BestPaths<'a> {
    topology: &'a Topology,
    to: NodeId,
    /// The port of each node on its path, by node.
    ports: Vec<Option<&'a Port>>,
}

impl BestPaths<'_> {
    /// The path from one of them. `None` if there is no path or `from` is the node itself.
    pub fn from(&self, from: NodeId) -> Option<Path> {
        let mut at = self.ports[from.index()].map(|_| from)?;
        let mut path = Path {
            wires: Vec::new(),
            nodes: vec![from],
        };
        while at != self.to {
            let port = self.ports[at.index()]?;
            path.wires.push(self.topology.links()[port.link].wire);
            path.nodes.push(port.peer);
            at = port.peer;
        }
        Some(path)
    }
}

impl Topology {
    /// The number of links between two nodes: 2 under one switch, 4 over a spine, 6 over a core; 0
    /// from a node to itself; `None` if there is no path.
    pub fn hops(&self, from: NodeId, to: NodeId) -> Option<u32> {
        Some(self.distances(to)[from.index()]).filter(|&hops| hops != UNREACHED)
    }

    /// The number of shortest paths between two nodes, 1 from a node to itself, 0 if there is no
    /// path. Parallel links count separately.
    pub fn path_count(&self, from: NodeId, to: NodeId) -> u64 {
        let distances = self.distances(to);
        let mut order: Vec<NodeId> = self.ids().collect();
        order.sort_by_key(|id| distances[id.index()]);
        let mut counts = vec![0_u64; self.nodes().len()];
        counts[to.index()] = 1;
        for id in order.into_iter().filter(|&id| id != to) {
            let ways = self.ways(id, to, &distances);
            let peers = ways.map(|port| counts[self.node(id).ports[port].peer.index()]);
            counts[id.index()] = peers.fold(0, u64::saturating_add);
        }
        counts[from.index()]
    }

    /// The wires of all shortest paths between two nodes. Each distinct sequence occurs once; the
    /// order has no meaning. Empty if there is no path or `from` is `to`.
    pub fn wires(&self, from: NodeId, to: NodeId) -> Vec<Vec<Wire>> {
        let distances = self.distances(to);
        if from == to || distances[from.index()] == UNREACHED {
            return Vec::new();
        }
        let nearer = distances[from.index()];
        let mut order: Vec<NodeId> = self.ids().collect();
        order.retain(|id| *id == from || distances[id.index()] < nearer);
        order.sort_by_key(|id| distances[id.index()]);
        // The sequences from each node to the destination.
        let mut sequences: Vec<Vec<Vec<Wire>>> = vec![Vec::new(); self.nodes().len()];
        sequences[to.index()].push(Vec::new());
        for id in order.into_iter().filter(|&id| id != to) {
            let mut own: Vec<Vec<Wire>> = Vec::new();
            for way in self.ways(id, to, &distances) {
                let port = &self.node(id).ports[way];
                let wire = self.links()[port.link].wire;
                for rest in &sequences[port.peer.index()] {
                    let mut wires = vec![wire];
                    wires.extend(rest);
                    if !own.contains(&wires) {
                        own.push(wires);
                    }
                }
            }
            sequences[id.index()] = own;
        }
        std::mem::take(&mut sequences[from.index()])
    }

    /// The shortest path on which a frame of 1538 bytes (1500 bytes of IP, its Ethernet header,
    /// frame check sequence, preamble and gap) is fastest. Among equally fast paths, the one with
    /// the first ports. `None` if there is no path or `from` is `to`.
    pub fn best_path(&self, from: NodeId, to: NodeId) -> Option<Path> {
        self.best_paths(to).from(from)
    }

    /// [`Topology::best_path`] from every other node to one node.
    pub fn best_paths(&self, to: NodeId) -> BestPaths<'_> {
        const FRAME: u64 = 1538;
        let distances = self.distances(to);
        let mut order: Vec<NodeId> = self
            .ids()
            .filter(|&id| id != to && distances[id.index()] != UNREACHED)
            .collect();
        order.sort_by_key(|id| distances[id.index()]);
        let mut times = vec![u64::MAX; self.nodes().len()];
        let mut ports = vec![None; self.nodes().len()];
        times[to.index()] = 0;
        for id in order {
            for way in self.ways(id, to, &distances) {
                let port = &self.node(id).ports[way];
                let Link { wire, .. } = self.links()[port.link];
                let time = wire.rate.serialization_ns(FRAME) + wire.delay.ns();
                let time = time.saturating_add(times[port.peer.index()]);
                if time < times[id.index()] {
                    times[id.index()] = time;
                    ports[id.index()] = Some(port);
                }
            }
        }
        BestPaths {
            topology: self,
            to,
            ports,
        }
    }

    /// The round-trip time between two hosts on an idle fabric, in ns: a frame of `data` bytes to
    /// `to` and one of `ack` bytes back on the best paths. Time in the hosts is only what the
    /// links' delays contain. `None` as for [`Topology::best_path`].
    pub fn base_rtt_ns(&self, from: NodeId, to: NodeId, data: u64, ack: u64) -> Option<u64> {
        let there = self.best_path(from, to)?.one_way_ns(data);
        let back = self.best_path(to, from)?.one_way_ns(ack);
        Some(there.saturating_add(back))
    }

    /// The bandwidth-delay product between two hosts, in bytes, rounded up: the bytes that the
    /// slowest wire carries in [`Topology::base_rtt_ns`]. `None` as for [`Topology::best_path`].
    pub fn bdp_bytes(&self, from: NodeId, to: NodeId, data: u64, ack: u64) -> Option<u64> {
        let rtt = self.base_rtt_ns(from, to, data, ack)?;
        Some(self.best_path(from, to)?.carries_bytes(rtt))
    }
}
