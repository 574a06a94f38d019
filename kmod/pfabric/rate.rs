// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The rate control of a pFabric host: how many packets a flow may have in flight.
//!
//! M. Alizadeh, S. Yang, M. Sharif, S. Katti, N. McKeown, B. Prabhakar, S. Shenker: "pFabric:
//! Minimal Near-Optimal Datacenter Transport", SIGCOMM 2013, §4.2.
//!
//! # Vocabulary
//!
//! - **window**: the most packets that may be in flight, at least 1.
//! - **threshold**: the window at which slow start ends (`ssthresh`), at least 2.
//! - **acknowledged packet**: an ACK reports for the first time that it arrived, cumulatively or
//!   selectively.
//! - **limited flow**: it had more to send than the window allowed.
//! - **timeout**: the retransmission timer fires. Timeouts are *consecutive* until a packet is
//!   acknowledged.
//! - **probe**: a minimum-sized packet with one byte of the first unacknowledged packet.
//!
//! # Law
//!
//! ```text
//!                     ┌───────────────────────────────────────────────┐
//!     start ─────────▶│ additive increase                             │◀─┐
//!     window = W      │ each packet acknowledged: window += 1/window  │  │ window ≥ threshold
//!     threshold = W   └──────┬────────────────────────────────────────┘  │
//!                            │ timeout: threshold = window / 2           │
//!                            ▼          window = 1                       │
//!                     ┌───────────────────────────────────────────────┐  │
//!              ┌─────▶│ slow start                                    ├──┘
//!              │      │ each packet acknowledged: window += 1         │◀─┐
//!              │      └──────┬─────────────────────┬──────────────────┘  │
//!              │             │ timeout             │ timeout, the N-th   │ a packet is acknowledged:
//!              └─────────────┘                     ▼ in a row            │ window = 1
//!                     ┌───────────────────────────────────────────────┐  │
//!                     │ probe: each timeout sends one probe           ├──┘
//!                     └───────────────────────────────────────────────┘
//! ```
//!
//! The window grows only while it limits the flow. Nothing else changes it: no duplicate ACK, no
//! mark, no passage of time. The caller decides when the timer fires: the paper's timeout is fixed,
//! three times the fabric's round-trip time.
//!
//! # Choices that the paper leaves open
//!
//! - "For every packet acknowledgement we do additive increase as in standard TCP": each packet
//!   counts once, when it is first acknowledged, cumulatively or selectively. An ACK that
//!   acknowledges no packet, such as a duplicate without news, does not count.
//! - A flow that the window does not limit does not grow, as in Linux (`tcp_is_cwnd_limited`) and
//!   RFC 7661: it has not tested the window that it would exceed. The authors' ns-2 has no such
//!   rule, and needs none: there each flow has all of its data from its first packet on.
//! - "ssthresh is set to half the window size before the timeout occurred": before *that* timeout.
//!   So a second consecutive one, whose window is 1, sets the smallest threshold, which is 2 as in
//!   RFC 5681 and in ns-2, which the authors used. (RFC 5681 would keep the first one's.)
//! - A limit on packets in flight is not part of §4.2, but of any simulation: the authors set it to
//!   a queue's length minus one, 23.
//! - The packet that ends probe mode does not count: slow start begins "from a window of 1".
//! - A connection whose data is all sent and acknowledged restarts as a new flow when it has data
//!   again ([`RateControl::on_idle`]): in the paper each flow has its own connection.

pub use crate::common::window::Resend;
use crate::common::window::{Ack, WindowLaw};

/// The smallest threshold, in packets (RFC 5681, equation 4).
const LEAST_THRESHOLD: u32 = 2;

/// The parameters of a flow's rate control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// W, the window at a flow's start in packets: a bandwidth-delay product. At least 1; 0 counts
    /// as 1.
    pub initial_window: u32,
    /// The largest window in packets. At least 1; 0 counts as 1.
    pub max_window: u32,
    /// N, the number of consecutive timeouts that lead into probe mode; 0: never.
    pub probe_threshold: u32,
}

impl Params {
    /// The paper's simulations: "12 packets", "5 in our current implementation", and the authors'
    /// largest window.
    pub const PAPER: Self = Self {
        initial_window: 12,
        max_window: 23,
        probe_threshold: 5,
    };
}

/// The effect of an ACK on the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The window grows by a packet each round-trip time.
    AdditiveIncrease,
    /// The window doubles each round-trip time.
    SlowStart,
    /// Only probes are sent.
    Probe,
}

/// The rate control of one flow.
#[derive(Clone, Copy, Debug)]
pub struct RateControl {
    params: Params,
    /// 1..=`params.max_window`.
    window: u32,
    threshold: u32,
    /// Packets acknowledged since additive increase last added one, below `window`.
    credit: u32,
    /// Timeouts since a packet was last acknowledged.
    in_a_row: u32,
    probing: bool,
    timeouts: u32,
    probes: u32,
}

impl RateControl {
    /// A flow's rate control at its start.
    pub fn new(params: Params) -> Self {
        let max_window = params.max_window.max(1);
        let initial_window = params.initial_window.clamp(1, max_window);
        Self {
            params: Params {
                initial_window,
                max_window,
                ..params
            },
            window: initial_window,
            threshold: initial_window,
            credit: 0,
            in_a_row: 0,
            probing: false,
            timeouts: 0,
            probes: 0,
        }
    }

    /// The most packets that may be in flight, at least 1.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// The slow start threshold, in packets.
    pub fn threshold(&self) -> u32 {
        self.threshold
    }

    /// The effect of the next ACK.
    pub fn phase(&self) -> Phase {
        if self.probing {
            Phase::Probe
        } else if self.window < self.threshold.min(self.params.max_window) {
            Phase::SlowStart
        } else {
            Phase::AdditiveIncrease
        }
    }

    /// Timeouts since a packet was last acknowledged.
    pub fn timeouts_in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// Timeouts since the start, saturating.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// Probes since the start, saturating.
    pub fn probes(&self) -> u32 {
        self.probes
    }

    /// An ACK acknowledges `packets`; 0 is an ACK without news. `limited`: the flow had more to
    /// send than the window allowed.
    pub fn on_ack(&mut self, packets: u32, limited: bool) {
        if packets == 0 {
            return;
        }
        self.in_a_row = 0;
        if self.probing {
            self.probing = false;
            return;
        }
        if !limited {
            return;
        }
        let max = self.params.max_window;
        let slow_start = self.threshold.min(max).saturating_sub(self.window);
        let fast = packets.min(slow_start);
        self.window = self.window.saturating_add(fast);
        self.credit = self.credit.saturating_add(packets.saturating_sub(fast));
        while self.window < max && self.credit >= self.window {
            self.credit = self.credit.saturating_sub(self.window);
            self.window = self.window.saturating_add(1);
        }
        if self.window >= max {
            self.credit = 0;
        }
    }

    /// The retransmission timer fired: returns what to retransmit.
    pub fn on_timeout(&mut self) -> Resend {
        self.threshold = (self.window / 2).max(LEAST_THRESHOLD);
        self.window = 1;
        self.credit = 0;
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.timeouts = self.timeouts.saturating_add(1);
        let threshold = self.params.probe_threshold;
        self.probing = threshold != 0 && self.in_a_row >= threshold;
        if self.probing {
            self.probes = self.probes.saturating_add(1);
            Resend::Probe
        } else {
            Resend::Packet
        }
    }

    /// All data is acknowledged: the next data is a new flow. Counters stay.
    pub fn on_idle(&mut self) {
        *self = Self {
            timeouts: self.timeouts,
            probes: self.probes,
            ..Self::new(self.params)
        };
    }
}

impl WindowLaw for RateControl {
    fn window(&self) -> u32 {
        self.window()
    }

    fn threshold(&self) -> u32 {
        self.threshold()
    }

    fn on_ack(&mut self, ack: Ack) {
        self.on_ack(ack.packets, ack.limited);
    }

    fn on_timeout(&mut self) -> Resend {
        self.on_timeout()
    }

    fn on_idle(&mut self) {
        self.on_idle();
    }
}
