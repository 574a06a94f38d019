// SPDX-License-Identifier: MIT OR Apache-2.0

//! Backpressure elision: the pairs of a switch's ports without backpressure, so that backpressure
//! cannot form a cycle (P. Goyal et al., "Backpressure flow control", NSDI 2022, Appendix B).
//!
//! If each switch pauses the previous one, packets that wait for each other in a cycle wait for
//! ever. A packet enters a switch by a port and leaves by another: a **turn**. Backpressure is free
//! of deadlocks if every cycle of turns has a turn without it, whatever the routes are: "even under
//! link failures or routing errors".
//!
//! Switches are ordered: a switch farther from a host is higher, and of two at equal distance the
//! later one. A turn that comes down to a switch and goes up again, from one higher switch to
//! another or back to the same, is elided. Proof: a cycle of turns has a lowest switch, and the two
//! switches next to it on the cycle are higher, or it would not be the lowest (no link leads from a
//! switch to itself). So its turn there is elided. Hosts never forward, so no cycle contains them.
//!
//! In a Clos topology these are "packets that are coming from a higher layer and going back to a
//! higher layer". No shortest path there has such a turn, so elision costs nothing. In other
//! topologies a shortest path may have one; there the switch's buffer absorbs the packets that
//! backpressure would have held back.

use std::collections::VecDeque;

use crate::topology::{Kind, NodeId, Topology};

/// A topology's turns without backpressure.
#[derive(Clone, Debug)]
pub struct Elision<'a> {
    topology: &'a Topology,
    /// Number of links to the nearest host, by node; `u32::MAX` if no host can be reached.
    distances: Vec<u32>,
}

impl Topology {
    /// The turns that must have no backpressure.
    pub fn elision(&self) -> Elision<'_> {
        let mut distances = vec![u32::MAX; self.nodes().len()];
        let mut queue: VecDeque<NodeId> = self.hosts().collect();
        for host in &queue {
            distances[host.index()] = 0;
        }
        while let Some(id) = queue.pop_front() {
            let next = distances[id.index()] + 1;
            for port in &self.node(id).ports {
                let distance = &mut distances[port.peer.index()];
                if *distance == u32::MAX {
                    *distance = next;
                    queue.push_back(port.peer);
                }
            }
        }
        Elision {
            topology: self,
            distances,
        }
    }
}

impl Elision<'_> {
    /// The ports of `node`, by index, whose packets cause no backpressure when they leave by its
    /// port `egress`. They include that port itself: such packets return to where they came from.
    ///
    /// # Panics
    ///
    /// If the topology has no such node, or the node no such port.
    pub fn ingresses(&self, node: NodeId, egress: usize) -> Vec<usize> {
        let ports = &self.topology.node(node).ports;
        if !self.leads_up(node, ports[egress].peer) {
            return Vec::new();
        }
        let ports = ports.iter().enumerate();
        let up = ports.filter(|(_, port)| self.leads_up(node, port.peer));
        up.map(|(place, _)| place).collect()
    }

    /// Whether a link leads from a switch to a higher one.
    fn leads_up(&self, node: NodeId, peer: NodeId) -> bool {
        let is_switch = |id: NodeId| self.topology.node(id).kind == Kind::Switch;
        let height = |id: NodeId| (self.distances[id.index()], id);
        is_switch(node) && is_switch(peer) && height(peer) > height(node)
    }
}
