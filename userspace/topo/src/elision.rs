// SPDX-License-Identifier: MIT OR Apache-2.0

//! Between which ports of a switch there is to be no backpressure, so that it goes round no circle
//! (P. Goyal et al., "Backpressure flow control", NSDI 2022, Appendix B).
//!
//! Where each switch pushes back the one before it, packets that wait for each other in a circle
//! wait for ever. Packets come in by a port and leave by another: a **turn**. Backpressure is free
//! of deadlocks if no circle of turns has it all the way round, whatever the routes are: "even
//! under link failures or routing errors".
//!
//! Switches have an order: those farther from a host are higher, and of two that are equally far
//! the later one. A turn that comes down to a switch and goes up again, from one higher switch to
//! another or back to the same, is elided. Proof: a circle of turns has a lowest switch, and the
//! two switches next to it on the circle are higher, or it would not be the lowest (no link leads
//! from a switch to itself). So its turn there is elided. Hosts never forward, and are on no
//! circle.
//!
//! In a Clos topology these are "packets that are coming from a higher layer and going back to a
//! higher layer"; no shortest path has such a turn, so nothing is lost. Elsewhere a shortest path
//! may have one: there the switch's buffer takes what backpressure would have kept away.

use std::collections::VecDeque;

use crate::topology::{Kind, NodeId, Topology};

/// A topology's turns without backpressure.
#[derive(Clone, Debug)]
pub struct Elision<'a> {
    topology: &'a Topology,
    /// Links to the nearest host, by node; most for those that none can be reached from.
    distances: Vec<u32>,
}

impl Topology {
    /// Which turns are to have no backpressure.
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
    /// The ports of `node`, by place, whose packets push nobody back when they leave by its port at
    /// place `egress`. That port itself is among them: such packets go back to where they came
    /// from.
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
