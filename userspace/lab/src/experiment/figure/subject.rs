// SPDX-License-Identifier: MIT OR Apache-2.0

//! A run whose figures are computed.

use weft_load::framing::Framing;
use weft_load::record::Recorded;
use weft_topo::Topology;

use crate::topology;

/// A run's results, and its fabric.
pub(in crate::experiment) struct Subject<'a> {
    pub(in crate::experiment) run: &'a Recorded,
    /// The simulated fabric.
    pub(in crate::experiment) topology: &'a Topology,
    /// The framing of packets on its wires.
    pub(in crate::experiment) framing: Framing,
}

impl Subject<'_> {
    /// The rate of a host's link, in bit/s.
    pub(in crate::experiment) fn rate(&self, host: u32) -> Option<u64> {
        let id = self.topology.hosts().nth(host as usize)?;
        let rate = topology::rates(self.topology, id).next()?;
        Some(rate.bits_per_second())
    }
}
