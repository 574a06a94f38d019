// SPDX-License-Identifier: MIT OR Apache-2.0

//! The best possible flow completion time, and how far from it a flow was.
//!
//! On an idle path of store-and-forward links, packet k ends on link j at
//!
//! ```text
//! end(k, j) = max(end(k-1, j), end(k, j-1) + delay(j-1)) + t(k, j)
//! ```
//!
//! where t(k, j) is the packet's serialization time. That is the longest path through a grid, and as
//! all packets but the last are full, it has a closed form. With K packets, T(j) the time of a full
//! one on link j and L(j) of the last:
//!
//! ```text
//! best = Σ delay + max over i of ( Σ_{j≤i} T(j) + (K-2) max_{j≤i} T(j) + Σ_{j≥i} L(j) )    K ≥ 2
//! best = Σ delay + Σ L(j)                                                                  K = 1
//! ```
//!
//! i is the link where the last packet catches up with the full ones. Connection set-up,
//! acknowledgements and the hosts' own time are not in it: it is what no transport can beat once the
//! sender may send and all packets go one way. Where they are sprayed, a short last packet may overtake
//! full ones between the first link and the last, and be there while the last link is still idle: a
//! flow of a few packets is then sooner there by up to the time that packet takes on one link.

use crate::error::{Result, invalid};
use crate::framing::Framing;

/// One link of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Bits per second, at least 1.
    pub rate: u64,
    /// Propagation (and what the far end adds) in ns.
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
    /// If there is no link, or one without a rate.
    pub fn new(links: Vec<Hop>, framing: Framing) -> Result<Self> {
        if links.is_empty() {
            return invalid("a path needs at least one link");
        }
        if links.iter().any(|link| link.rate == 0) {
            return invalid("a link's rate is at least 1 bit/s");
        }
        Ok(Self { links, framing })
    }

    /// The least time in ns, not rounded, from the first bit of a flow of `bytes` on the first link
    /// to its last bit at the far end of the last.
    #[must_use]
    pub fn best_ns(&self, bytes: u64) -> f64 {
        let time = |link: &Hop, wire_bytes: u64| wire_bytes as f64 * 8e9 / link.rate as f64;
        let full_bytes = self.framing.wire_bytes(self.framing.mss.get());
        let last_bytes = self.framing.wire_bytes(self.framing.last_payload(bytes));
        let delay: f64 = self.links.iter().map(|link| link.delay as f64).sum();
        // Σ_{j≥i} L(j), while i advances.
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

    /// Time divided by the best possible; at least 1 unless packets are sprayed or the measurement is
    /// wrong.
    #[must_use]
    pub fn slowdown(&self, bytes: u64, fct_ns: u64) -> f64 {
        fct_ns as f64 / self.best_ns(bytes)
    }

    /// Payload rate in bit/s that a long flow reaches at best.
    #[must_use]
    pub fn best_goodput(&self) -> f64 {
        let mss = self.framing.mss.get();
        let rate = self.links.iter().map(|link| link.rate).min().unwrap_or(0);
        rate as f64 * f64::from(mss) / self.framing.wire_bytes(mss) as f64
    }
}
