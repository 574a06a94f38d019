// SPDX-License-Identifier: MIT OR Apache-2.0

//! The best possible flow completion time, and a flow's slowdown relative to it.
//!
//! On an idle path of store-and-forward links, packet k ends on link j at
//!
//! ```text
//! end(k, j) = max(end(k-1, j), end(k, j-1) + delay(j-1)) + t(k, j)
//! ```
//!
//! where t(k, j) is the packet's serialization time. That is the longest path through a grid. As
//! all packets except the last are full, it has a closed form. With K packets, T(j) the time of a
//! full packet on link j and L(j) that of the last packet:
//!
//! ```text
//! best = Σ delay + max over i of ( Σ_{j≤i} T(j) + (K-2) max_{j≤i} T(j) + Σ_{j≥i} L(j) )    K ≥ 2
//! best = Σ delay + Σ L(j)                                                                  K = 1
//! ```
//!
//! i is the link where the last packet catches up with the full ones. Connection set-up,
//! acknowledgements and the hosts' processing time are excluded: no transport can beat this time
//! once the sender may send and all packets take one path.
//!
//! Where there are several paths, the best time is that of the fastest path for the size
//! ([`best_ns`]). Where packets are sprayed over them, a short last packet may overtake full ones
//! between the first link and the last, and arrive while the last link is still idle. A flow of a
//! few packets then ends earlier by up to the time of that packet on one link, and its slowdown is
//! below 1 by as much. [`lower_bound_ns`] is the time on the first and the last link alone: a
//! shorter time is a measurement error.

use crate::error::{Result, invalid};
use crate::framing::Framing;

/// One link of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Bits per second, at least 1.
    pub rate: u64,
    /// Propagation delay (and what the far end adds) in ns.
    pub delay: u64,
}

/// The links from a sender to a receiver, and how packets are framed on them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdlePath {
    links: Vec<Hop>,
    framing: Framing,
}

impl IdlePath {
    /// # Errors
    ///
    /// If there is no link, or a link without a rate.
    pub fn new(links: Vec<Hop>, framing: Framing) -> Result<Self> {
        if links.is_empty() {
            return invalid("a path needs at least one link");
        }
        if links.iter().any(|link| link.rate == 0) {
            return invalid("a link's rate is at least 1 bit/s");
        }
        Ok(Self { links, framing })
    }

    /// The shortest time in ns, not rounded, from the first bit of a flow of `bytes` on the first
    /// link to its last bit at the far end of the last link.
    #[must_use]
    pub fn best_ns(&self, bytes: u64) -> f64 {
        let time = |link: &Hop, wire_bytes: u64| wire_bytes as f64 * 8e9 / link.rate as f64;
        let full_bytes = self.framing.wire_bytes(self.framing.mss.get());
        let last_bytes = self.framing.wire_bytes(self.framing.last_payload(bytes));
        let delay: f64 = self.links.iter().map(|link| link.delay as f64).sum();
        // Σ_{j≥i} L(j), updated as i advances.
        let mut rest: f64 = self.links.iter().map(|link| time(link, last_bytes)).sum();
        let Some(between) = self.framing.packets(bytes).checked_sub(2) else {
            return delay + rest;
        };
        let (mut full, mut slowest, mut longest) = (0.0, 0.0_f64, 0.0_f64);
        for link in &self.links {
            let t = time(link, full_bytes);
            full += t;
            slowest = slowest.max(t);
            longest = longest.max(full + between as f64 * slowest + rest);
            rest -= time(link, last_bytes);
        }
        delay + longest
    }

    /// A lower bound in ns for a flow of `bytes`, whichever path each packet takes between the
    /// first link and the last one. All packets share both links and leave the first in order. The
    /// first link is busy until the last packet has left, which then takes the shortest time on the
    /// others; the last link is busy from the earliest arrival of the shortest packet.
    #[must_use]
    fn ends_ns(&self, bytes: u64) -> f64 {
        let time = |link: &Hop, wire_bytes: u64| wire_bytes as f64 * 8e9 / link.rate as f64;
        let full_bytes = self.framing.wire_bytes(self.framing.mss.get());
        let last_bytes = self.framing.wire_bytes(self.framing.last_payload(bytes));
        let before = (self.framing.packets(bytes) - 1) as f64;
        let alone: f64 = self
            .links
            .iter()
            .map(|link| link.delay as f64 + time(link, last_bytes))
            .sum();
        let ends = [self.links.first(), self.links.last()];
        let slowest = ends
            .into_iter()
            .flatten()
            .map(|link| before * time(link, full_bytes));
        alone + slowest.fold(0.0, f64::max)
    }

    /// Time divided by the best possible; at least 1 unless packets are sprayed or the measurement
    /// is wrong.
    #[must_use]
    pub fn slowdown(&self, bytes: u64, fct_ns: u64) -> f64 {
        fct_ns as f64 / self.best_ns(bytes)
    }
}

/// The best possible time in ns of a flow of `bytes` on the fastest of these paths. `None` without
/// a path.
#[must_use]
pub fn best_ns(paths: &[IdlePath], bytes: u64) -> Option<f64> {
    paths
        .iter()
        .map(|path| path.best_ns(bytes))
        .min_by(f64::total_cmp)
}

/// A lower bound in ns for a flow of `bytes` whose packets may take any of these paths, which share
/// the first and the last link. It is the best possible time if there are not `several` of them
/// (equal paths count as one here). `None` without a path.
#[must_use]
pub fn lower_bound_ns(paths: &[IdlePath], several: bool, bytes: u64) -> Option<f64> {
    if !several {
        return best_ns(paths, bytes);
    }
    paths
        .iter()
        .map(|path| path.ends_ns(bytes))
        .min_by(f64::total_cmp)
}
