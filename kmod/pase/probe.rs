// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Timeouts: a retransmission in the top queue, a probe in the others (§3.2, "Loss Recovery").
//!
//! "For flows belonging to the top queue, we use existing loss recovery mechanisms (i.e., timeout
//! based retransmissions)." In the other queues a timeout means that a packet was lost, or that it
//! waits behind packets of higher queues; and "we use small probe packets instead of retransmitting
//! the entire packet":
//!
//! ```text
//!                 timeout: a probe
//!     ┌─────────┐      ┌─────────┐  its ACK, without the packet's   ┌───────────────┐
//!     │ waiting ├─────▶│ probing ├─────────────────────────────────▶│ packet sent   │
//!     └─────────┘      └─┬─▲───┬─┘      retransmit the packet       │ again         │
//!          ▲             └─┘   │                                    └─┬───────────┬─┘
//!          │  timeout: another │ the packet's ACK                     │           │ timeout: a probe
//!          │  probe, twice as  │                                      │           ▼
//!          └──── late ─────────┴──────────────────────────────────────┘
//! ```
//!
//! A packet and the probe after it wait in the same queue of each port, in order. So an ACK of the
//! probe without the packet's shows that the packet is lost.
//!
//! # Choices that the paper leaves open
//!
//! - **The timeout** is the caller's ("existing mechanisms"), doubled for each consecutive one as
//!   TCP's is: "we increase our timeout value (and resend another probe) just like we do this for
//!   successive losses for data packets".
//! - A flow whose queue became the top one after a probe sends the packet at the next timeout.

use super::TOP;

/// The packet that a timeout sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// The first packet that is not acknowledged.
    Packet,
    /// A header without data.
    Probe,
}

/// The meaning of an acknowledgement for the packet that timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The first packet arrived; if a probe was out, the packet was only delayed.
    Arrived,
    /// The first packet is lost and must be retransmitted.
    Lost,
    /// No news.
    Nothing,
}

/// The probes of one flow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Probing {
    /// Unanswered probes.
    unanswered: u8,
    timeouts: u16,
    probes: u16,
}

impl Probing {
    /// Timeouts since the start, saturating.
    pub fn timeouts(&self) -> u16 {
        self.timeouts
    }

    /// Probes since the start, saturating.
    pub fn probes(&self) -> u16 {
        self.probes
    }

    /// Whether a probe is out.
    pub fn probing(&self) -> bool {
        self.unanswered != 0
    }

    /// The retransmission timer of a flow in that queue fired.
    pub fn on_timeout(&mut self, queue: u8) -> Timeout {
        self.timeouts = self.timeouts.saturating_add(1);
        if queue <= TOP {
            self.unanswered = 0;
            return Timeout::Packet;
        }
        self.unanswered = self.unanswered.saturating_add(1);
        self.probes = self.probes.saturating_add(1);
        Timeout::Probe
    }

    /// An acknowledgement arrived. `arrived`: it acknowledges new data.
    pub fn on_ack(&mut self, arrived: bool) -> Answer {
        let probed = core::mem::take(&mut self.unanswered) != 0;
        match (arrived, probed) {
            (true, _) => Answer::Arrived,
            (false, true) => Answer::Lost,
            (false, false) => Answer::Nothing,
        }
    }
}
