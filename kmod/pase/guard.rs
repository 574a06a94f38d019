// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The reorder guard: no packet overtakes those that were sent before it in a lower queue (§3.2).
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
//!     │ sending in q    ├─────────────────────────────────────────────▶│ holding: what is sent again is │
//!     │                 │◀─────────────────────────────────────────────┤ sent in q, nothing new is sent │
//!     └─────────────────┘  all that was sent is acknowledged           └────────────────────────────────┘
//! ```
//!
//! # What was filled in
//!
//! - **Nothing new is sent while it waits**, in the old queue neither: that would have to be waited
//!   for, too, and a flow with enough to send would wait for ever. What is lost is sent again in
//!   the old queue.
//! - **A move to a lower queue** takes effect at once: what was sent before is ahead.
//! - While it waits the last verdict counts: one for the old queue or a lower one ends it.

use super::TOP;

/// One flow's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// In which packets are sent.
    queue: u8,
    /// In which they are to be; higher or equal.
    wanted: u8,
}

impl Guard {
    /// A flow of which nothing was sent.
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

    /// Whether nothing new may be sent.
    pub fn holding(&self) -> bool {
        self.wanted != self.queue
    }

    /// The flow is mapped to a queue. `settled`: all that was sent is acknowledged.
    pub fn arbitrate(&mut self, queue: u8, settled: bool) {
        self.wanted = queue.max(TOP);
        if self.wanted > self.queue || settled {
            self.queue = self.wanted;
        }
    }

    /// An acknowledgement arrived. Whether what waited for it may be sent now.
    pub fn on_ack(&mut self, settled: bool) -> bool {
        let ends = settled && self.holding();
        if ends {
            self.queue = self.wanted;
        }
        ends
    }
}
