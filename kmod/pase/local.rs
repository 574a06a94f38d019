// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The arbitrator of a host's own link, asked by its own flows: "This functionality can be
//! implemented at the end-hosts themselves (e.g., for their own links to the switch)" (§1). "New
//! flows start sending traffic at line rate based on the information (priority and reference rate)
//! from their local arbitrator" (§4.2.2).

use super::{
    arbiter::{Arbiter, Link},
    criterion::{About, Criterion},
    Flow, Verdict, MAX_RATE,
};
use crate::common::store::Store;

/// The most arbitrated flows of one host; others are in its lowest queue.
pub const FLOWS: u32 = 1024;

/// A host's link to its switch.
pub struct Local<S: Store> {
    arbiter: Arbiter<S>,
    /// The last flow's number.
    last: u32,
}

impl<S: Store> Local<S> {
    /// For a host without flows. `secret`: a random number.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(secret: u64) -> Result<Self, S::Error> {
        let link = Link {
            rate: 0,
            queues: 1,
            lifetime: 0,
        };
        Ok(Self {
            arbiter: Arbiter::new(FLOWS, link, secret)?,
            last: 0,
        })
    }

    /// A new flow's number: not 0, and different from the last 2^32 numbers.
    pub fn number(&mut self) -> u32 {
        self.last = self.last.wrapping_add(1).max(1);
        self.last
    }

    /// A flow asks, for a link with the given parameters.
    pub fn ask(&mut self, flow: &Flow, link: Link, now: u64) -> Verdict {
        self.arbiter.set_link(link);
        self.arbiter.update(flow, now)
    }

    /// A flow has ended.
    pub fn end(&mut self, number: u32) {
        self.arbiter.remove(number.into());
    }

    /// Number of flows.
    pub fn len(&self) -> u32 {
        self.arbiter.len()
    }

    /// Whether there is no flow.
    pub fn is_empty(&self) -> bool {
        self.arbiter.is_empty()
    }
}

/// The request of a flow to its host's link of `rate` bytes/s.
pub fn flow(
    number: u32,
    about: &About,
    criterion: Criterion,
    rtt_us: u32,
    rate: u64,
    now: u64,
) -> Flow {
    Flow {
        id: number.into(),
        urgency: criterion.urgency(about, now),
        demand: if about.sized {
            demand(about.remaining, rtt_us, rate)
        } else {
            rate
        },
    }
}

/// The rate that a flow of a known size can use, in bytes/s: its link's rate, or its remaining data
/// within a round-trip time ("Rref is generally equal to the access link capacity unless flows have
/// smaller sizes", §3.2).
pub fn demand(remaining: u64, rtt_us: u32, rate: u64) -> u64 {
    // A flow of more than 2^43 bytes is long.
    let remaining = remaining.min(MAX_RATE).wrapping_mul(1_000_000);
    let within = remaining.checked_div(rtt_us.max(1).into()).unwrap_or(0);
    within.min(rate).min(MAX_RATE)
}
