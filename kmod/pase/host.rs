// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A flow at its host: this file connects the window, the reorder guard and the probes.
//!
//! | event | window | guard | probes |
//! |---|---|---|---|
//! | a verdict | of the new queue, if the guard allows it | may have to hold | |
//! | an acknowledgement | Algorithm 2; one packet while the guard holds | ends when nothing is out | answered |
//! | a timeout | | | one, except in the top queue |
//!
//! While the guard holds, the window of one packet allows nothing new, as at least one packet is in
//! flight. When it ends, the arbitrators must be asked again, because their verdicts in the
//! meantime were not kept.

use super::{
    guard::Guard,
    probe::{Answer, Probing, Timeout},
    window::{Params, Window},
    Verdict, TOP,
};
use crate::common::window::Ack;

/// The state of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    window: Window,
    guard: Guard,
    probing: Probing,
    /// The arbitrators must be asked.
    due: bool,
}

impl Host {
    /// A flow at its start, with its first verdict.
    pub fn new(params: Params, verdict: Verdict) -> Self {
        Self {
            window: Window::new(params, verdict),
            guard: Guard::new(verdict.queue),
            probing: Probing::default(),
            due: false,
        }
    }

    /// A new flow of the same connection begins, with its first verdict. Nothing is in flight.
    pub fn restart(&mut self, verdict: Verdict) {
        self.window.restart(verdict);
        self.guard = Guard::new(verdict.queue);
        self.due = false;
    }

    /// The arbitrators have answered. `settled`: everything sent is acknowledged.
    pub fn arbitrate(&mut self, verdict: Verdict, settled: bool) {
        self.due = false;
        self.guard.arbitrate(verdict.queue, settled);
        if !self.guard.holding() {
            self.window.arbitrate(verdict);
        }
    }

    /// Whether to ask the arbitrators: a round-trip time has passed, or the guard has ended.
    pub fn due(&self) -> bool {
        self.due
    }

    /// The queue in which packets are sent now.
    pub fn queue(&self) -> u8 {
        self.guard.queue()
    }

    /// Whether the guard holds new packets.
    pub fn holding(&self) -> bool {
        self.guard.holding()
    }

    /// The window's law.
    pub fn law(&self) -> &Window {
        &self.window
    }

    /// Timeouts, and probes.
    pub fn probing(&self) -> &Probing {
        &self.probing
    }

    /// An acknowledgement, with or without new data. `settled`: everything sent is acknowledged.
    pub fn acknowledged(&mut self, ack: Ack, settled: bool) -> Answer {
        let round = self.window.on_ack(ack);
        let released = self.guard.on_ack(settled);
        self.due |= round || released;
        self.probing.on_ack(ack.packets != 0)
    }

    /// The most packets that may be in flight, at least 1.
    pub fn packets(&self) -> u32 {
        if self.guard.holding() {
            1
        } else {
            self.window.packets()
        }
    }

    /// The retransmission timer fired: returns what to send. Without `probing` that is the packet
    /// in every queue, as in the top one (§4.3.2 compares the two).
    pub fn on_timeout(&mut self, probing: bool) -> Timeout {
        self.window.on_timeout();
        self.due = true;
        let queue = if probing { self.guard.queue() } else { TOP };
        self.probing.on_timeout(queue)
    }
}
