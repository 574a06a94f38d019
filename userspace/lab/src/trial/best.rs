// SPDX-License-Identifier: MIT OR Apache-2.0

//! The shortest possible times between hosts.

use weft_load::framing::Framing;
use weft_load::slowdown::{Hop, IdlePath, best_ns, lower_bound_ns};
use weft_topo::{NodeId, Topology, Wire};

/// Best possible times between hosts.
pub(crate) struct Best<'a> {
    topology: &'a Topology,
    framing: Framing,
    hosts: Vec<NodeId>,
    /// By sender and receiver, cached.
    paths: Vec<Option<Paths>>,
}

/// The paths from one host to another.
#[derive(Clone)]
struct Paths {
    /// The distinct ones.
    distinct: Vec<IdlePath>,
    /// Whether there are several, even if they are equal.
    several: bool,
}

impl<'a> Best<'a> {
    pub(crate) fn new(topology: &'a Topology, framing: Framing) -> Self {
        let hosts: Vec<NodeId> = topology.hosts().collect();
        Self {
            topology,
            framing,
            paths: vec![None; hosts.len() * hosts.len()],
            hosts,
        }
    }

    fn paths(&mut self, src: u32, dst: u32) -> Option<&Paths> {
        let (src, dst) = (src as usize, dst as usize);
        let place = src * self.hosts.len() + dst;
        if self.paths.get(place)?.is_none() {
            let (from, to) = (self.hosts[src], self.hosts[dst]);
            let hops = |wires: Vec<Wire>| {
                let hop = |wire: &Wire| Hop {
                    rate: wire.rate.bits_per_second(),
                    delay: wire.delay.ns(),
                };
                IdlePath::new(wires.iter().map(hop).collect(), self.framing).ok()
            };
            let paths = self.topology.wires(from, to).into_iter().filter_map(hops);
            self.paths[place] = Some(Paths {
                distinct: paths.collect(),
                several: self.topology.path_count(from, to) > 1,
            });
        }
        self.paths[place].as_ref()
    }

    /// The time by the fastest path for the size, in ns of the fabric. `None` if there is no path.
    pub(crate) fn time_ns(&mut self, src: u32, dst: u32, bytes: u64) -> Option<f64> {
        best_ns(&self.paths(src, dst)?.distinct, bytes)
    }

    /// A lower bound of the time that holds even for spraying, in ns of the fabric.
    pub(super) fn lower_bound_ns(&mut self, src: u32, dst: u32, bytes: u64) -> Option<f64> {
        let paths = self.paths(src, dst)?;
        lower_bound_ns(&paths.distinct, paths.several, bytes)
    }
}
