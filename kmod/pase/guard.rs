// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The reorder guard: no packet overtakes packets sent earlier in a lower queue (§3.2).
//!
//! "When a flow from a low priority queue gets mapped to a higher priority queue, packet
//! re-ordering may occur as earlier packets may be buffered at the former queue. … we ensure that
//! when a flow moves to a higher priority queue, we wait for the ACKs of already sent packets to be
//! received before sending packets with the updated priority."
//!
//! ```text
//!                        verdict: a lower queue, or nothing is out
//!              ┌──────────────────────────────────────────────────────────┐
//!              ▼                                                          │
//!     ┌─────────────────┐   verdict: a higher queue, packets are out   ┌──┴─────────────────────────────┐
//!     │ sending in q    ├─────────────────────────────────────────────▶│ holding: retransmissions leave │
//!     │                 │◀─────────────────────────────────────────────┤ sent in q, nothing new is sent │
//!     └─────────────────┘  all that was sent is acknowledged           └────────────────────────────────┘
//! ```
//!
//! # Choices that the paper leaves open
//!
//! - **Nothing new is sent while the guard waits**, not even in the old queue: the guard would have
//!   to wait for those packets, too, and a flow with enough to send would wait for ever. Lost
//!   packets are retransmitted in the old queue.
//! - **A move to a lower queue** takes effect at once: packets sent before are ahead.
//! - While the guard waits, the last verdict counts: one for the old queue or a lower one ends the
//!   wait.

use super::TOP;

/// The guard of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The queue in which packets are sent.
    queue: u8,
    /// The queue to which the flow moves; higher or equal.
    wanted: u8,
}

impl Guard {
    /// A flow that has sent nothing.
    pub fn new(queue: u8) -> Self {
        let queue = queue.max(TOP);
        Self {
            queue,
            wanted: queue,
        }
    }

    /// The queue in which packets are sent now.
    pub fn queue(&self) -> u8 {
        self.queue
    }

    /// Whether new packets must wait.
    pub fn holding(&self) -> bool {
        self.wanted != self.queue
    }

    /// Maps the flow to a queue. `settled`: everything sent is acknowledged.
    pub fn arbitrate(&mut self, queue: u8, settled: bool) {
        self.wanted = queue.max(TOP);
        if self.wanted > self.queue || settled {
            self.queue = self.wanted;
        }
    }

    /// An acknowledgement arrived. Returns whether waiting packets may be sent now.
    pub fn on_ack(&mut self, settled: bool) -> bool {
        let ends = settled && self.holding();
        if ends {
            self.queue = self.wanted;
        }
        ends
    }
}
