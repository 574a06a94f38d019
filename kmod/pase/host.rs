// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A flow at its host: the window, the reorder guard and the probes, which know of each other only
//! here.
//!
//! | what happens | window | guard | probes |
//! |---|---|---|---|
//! | a verdict | of the new queue, when the guard lets it | may have to hold | |
//! | an acknowledgement | Algorithm 2; one packet while the guard holds | ends when nothing is out | answered |
//! | a timeout | | | one, but for the top queue |
//!
//! While the guard holds, the window of one packet lets nothing new out, as at least one is in
//! flight. Once it is over, the arbitrators are to be asked again: what they said meanwhile was not
//! kept.

use super::{
    guard::Guard,
    probe::{Answer, Probing, Timeout},
    window::{Params, Window},
    Verdict, TOP,
};
use crate::common::window::Ack;

/// One flow's.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    window: Window,
    guard: Guard,
    probing: Probing,
    /// The arbitrators are to be asked.
    due: bool,
}

impl Host {
    /// A flow's, at its start, with its first verdict.
    pub fn new(params: Params, verdict: Verdict) -> Self {
        Self {
            window: Window::new(params, verdict),
            guard: Guard::new(verdict.queue),
            probing: Probing::default(),
            due: false,
        }
    }

    /// A new flow of the same connection begins, with its first verdict. Nothing is out.
    pub fn restart(&mut self, verdict: Verdict) {
        self.window.restart(verdict);
        self.guard = Guard::new(verdict.queue);
        self.due = false;
    }

    /// The arbitrators have answered. `settled`: all that was sent is acknowledged.
    pub fn arbitrate(&mut self, verdict: Verdict, settled: bool) {
        self.due = false;
        self.guard.arbitrate(verdict.queue, settled);
        if !self.guard.holding() {
            self.window.arbitrate(verdict);
        }
    }

    /// Whether the arbitrators are to be asked: a round-trip time is over, or what the guard waited
    /// for.
    pub fn due(&self) -> bool {
        self.due
    }

    /// The queue in which packets are sent now.
    pub fn queue(&self) -> u8 {
        self.guard.queue()
    }

    /// Whether the guard holds what is new.
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

    /// An acknowledgement of data, or none. `settled`: all that was sent is acknowledged.
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

    /// The retransmission timer fired: what to send. Without `probing` that is the packet in any
    /// queue, as in the top one (§4.3.2 compares the two).
    pub fn on_timeout(&mut self, probing: bool) -> Timeout {
        self.window.on_timeout();
        self.due = true;
        let queue = if probing { self.guard.queue() } else { TOP };
        self.probing.on_timeout(queue)
    }
}
