// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The window of a PASE host: how many packets a flow may have in flight, by its queue (§3.2,
//! Algorithm 2).
//!
//! # Law
//!
//! ```text
//!     top queue     window = Rref × RTT               "in order to reflect the reference rate"
//!     intermediate  from 1, each packet acknowledged: window += 1 / window        (equation 1)
//!     lowest        window = 1                                      "always remains one"
//!
//!     marked acknowledgement, once for each window: window × (1 - α/2)            (equation 2)
//! ```
//!
//! α is DCTCP's: "the weighted average of the fraction of marked packets", with a weight of a
//! sixteenth for each new window (M. Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010,
//! §3.1; RFC 8257).
//!
//! # Points that the paper leaves open, or contradicts itself on
//!
//! - **The increase**: Algorithm 2 prints `cwnd = 1 + 1/cwnd`, equation 1 `cwnd = cwnd + 1/cwnd`,
//!   which is DCTCP's and grows. This file uses equation 1.
//! - **Each marked acknowledgement** reduces the window in Algorithm 2; DCTCP's "decrease law",
//!   which it names, does so once for each window of data. This file uses DCTCP's. In the top queue
//!   the next unmarked acknowledgement restores the window, as printed.
//! - **When a verdict takes effect**: Algorithm 2 reads it with each acknowledgement. A new queue
//!   takes effect at once, because a flow with nothing in flight has no acknowledgement to wait
//!   for; a new rate in the top queue takes effect with the next unmarked acknowledgement.
//! - **RTT** is the smallest one measured: with the last one, a window that fills a queue would
//!   grow with it. Before the first measurement it is that of an idle fabric, a parameter.
//! - **A packet** of `Rref × RTT` is as many bytes as a full packet occupies on the wire. The
//!   window is rounded up, and at least one packet, as is the base rate's.
//! - **A single queue** is the top one; of two, the second is the lowest.
//! - α begins as 1, as in Linux: the first mark halves the window.
//! - A flow that has not filled its window does not grow (RFC 7661 gives the reasons).
//! - **Loss** does not affect §3.2's window; it only names "existing loss recovery mechanisms". A
//!   timeout makes the window of an intermediate queue one packet, as in TCP.

use core::num::{NonZeroU16, NonZeroU32};

use super::{ceil_div, Verdict, TOP};
use crate::common::window::{Ack, Resend, WindowLaw};

/// The largest window, in packets.
pub const LARGEST: u16 = u16::MAX;

/// α is counted in 2^-10, as in Linux.
pub const ALPHA_ONE: u16 = 1 << 10;

/// The weight of the last window in α is 2^-4, DCTCP's g.
const G_SHIFT: u32 = 4;

/// The parameters of a flow's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The round-trip time of an idle fabric in µs, until one is measured.
    pub rtt_us: NonZeroU32,
    /// The bytes that a full packet occupies on the wire, as the rates count them.
    pub packet: NonZeroU16,
    /// The number of queues.
    pub queues: u8,
    /// The top queue has a reference rate. Without (`PASE-DCTCP`, §4.3.2) "all flows behave as
    /// DCTCP sources".
    pub guided: bool,
}

/// The effect of an acknowledgement on the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The reference rate determines the window.
    Guided,
    /// DCTCP's law.
    SelfAdjusting,
    /// No effect: the window is one packet.
    Lowest,
}

/// The window of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    params: Params,
    /// The last verdict, as two fields: a `Verdict` would take half as much space again.
    rate: u64,
    queue: u8,
    /// The smallest measured round-trip time, in µs.
    least_us: Option<NonZeroU32>,
    /// 1 to [`LARGEST`].
    window: u16,
    /// Packets acknowledged since the window last grew, below it.
    credit: u16,
    /// Packets acknowledged, and how many of them were marked, since α was last averaged; both
    /// saturate.
    acked: u16,
    marked: u16,
    /// Packets to be acknowledged until α is averaged, and the window may be reduced again.
    left: u16,
    alpha: u16,
    reduced: bool,
}

impl Window {
    /// A flow's window at its start, with its first verdict.
    pub fn new(params: Params, verdict: Verdict) -> Self {
        let mut new = Self {
            params,
            rate: verdict.rate,
            queue: verdict.queue,
            least_us: None,
            window: 1,
            credit: 0,
            acked: 0,
            marked: 0,
            left: 1,
            alpha: ALPHA_ONE,
            reduced: false,
        };
        new.enter();
        new
    }

    /// The next data is a new flow of the same connection, with its first verdict. The path is the
    /// same, so the round-trip time and α stay.
    pub fn restart(&mut self, verdict: Verdict) {
        (self.queue, self.rate) = (verdict.queue, verdict.rate);
        self.enter();
    }

    /// The most packets that may be in flight, at least 1.
    pub fn packets(&self) -> u32 {
        self.window.into()
    }

    /// DCTCP's α in 2^-10, 0 to [`ALPHA_ONE`].
    pub fn alpha(&self) -> u16 {
        self.alpha
    }

    /// The arbitrators' last verdict.
    pub fn verdict(&self) -> Verdict {
        Verdict {
            queue: self.queue,
            rate: self.rate,
        }
    }

    /// The round-trip time used in computations, in µs.
    pub fn rtt_us(&self) -> u32 {
        self.least_us.unwrap_or(self.params.rtt_us).get()
    }

    /// The effect of the next acknowledgement.
    pub fn phase(&self) -> Phase {
        if !self.params.guided {
            Phase::SelfAdjusting
        } else if self.queue <= TOP {
            Phase::Guided
        } else if self.queue < self.params.queues {
            Phase::SelfAdjusting
        } else {
            Phase::Lowest
        }
    }

    /// Arbitrators have answered.
    pub fn arbitrate(&mut self, verdict: Verdict) {
        let before = self.phase();
        (self.queue, self.rate) = (verdict.queue, verdict.rate);
        if self.phase() != before {
            self.enter();
        }
    }

    /// The window of a newly entered queue.
    fn enter(&mut self) {
        self.credit = 0;
        self.window = match self.phase() {
            Phase::Guided => self.guided(),
            Phase::SelfAdjusting | Phase::Lowest => 1,
        };
        self.begin_round();
    }

    /// `Rref × RTT` in packets.
    fn guided(&self) -> u16 {
        let bytes = match self.rate.checked_mul(self.rtt_us().into()) {
            Some(product) => ceil_div(product, 1_000_000),
            None => None,
        };
        let packet = self.params.packet.get().into();
        let packets = bytes.and_then(|bytes| ceil_div(bytes, packet));
        let packets = packets.unwrap_or(u64::MAX);
        packets.max(1).min(LARGEST.into()) as u16
    }

    /// An acknowledgement arrived. Returns whether a window of packets has been acknowledged since
    /// this last returned true: a round-trip time has passed.
    pub fn on_ack(&mut self, ack: Ack) -> bool {
        if let Some(rtt_us) = ack.rtt_us {
            self.least_us = Some(self.least_us.map_or(rtt_us, |least| least.min(rtt_us)));
        }
        if ack.packets == 0 {
            return false;
        }
        let packets = u16::try_from(ack.packets).unwrap_or(u16::MAX);
        let marked = u16::try_from(ack.marked).unwrap_or(u16::MAX).min(packets);
        self.acked = self.acked.saturating_add(packets);
        self.marked = self.marked.saturating_add(marked);
        if marked == 0 {
            self.follow(packets, ack.limited);
        } else if !self.reduced {
            self.reduce();
        }
        self.left = self.left.saturating_sub(packets);
        let over = self.left == 0;
        if over {
            self.average();
        }
        over
    }

    /// An acknowledgement without a mark.
    fn follow(&mut self, packets: u16, limited: bool) {
        match self.phase() {
            Phase::Guided => self.window = self.guided(),
            Phase::Lowest => self.window = 1,
            Phase::SelfAdjusting if limited => {
                self.credit = self.credit.saturating_add(packets);
                while self.window < LARGEST && self.credit >= self.window {
                    self.credit = self.credit.saturating_sub(self.window);
                    self.window = self.window.saturating_add(1);
                }
                if self.window == LARGEST {
                    self.credit = 0;
                }
            }
            Phase::SelfAdjusting => {}
        }
    }

    /// Equation 2.
    fn reduce(&mut self) {
        // Below 2^16 times 2^10; the part is half the window at most.
        let part = self.packets().wrapping_mul(self.alpha.into()) >> 11;
        self.window = self.window.saturating_sub(part as u16).max(1);
        self.credit = 0;
        self.reduced = true;
    }

    /// A window of packets was acknowledged: updates α.
    fn average(&mut self) {
        // At most 2^10, as no more packets were marked than acknowledged.
        let marked = u32::from(self.marked).wrapping_mul(ALPHA_ONE.into());
        let fraction = marked.checked_div(self.acked.into()).unwrap_or(0) as u16;
        // As in Linux: a small α loses at least one each time, and reaches 0.
        let old = self.alpha.saturating_sub((self.alpha >> G_SHIFT).max(1));
        self.alpha = old.saturating_add(fraction >> G_SHIFT).min(ALPHA_ONE);
        self.begin_round();
    }

    fn begin_round(&mut self) {
        (self.acked, self.marked, self.reduced) = (0, 0, false);
        self.left = self.window;
    }

    /// The retransmission timer fired.
    pub fn on_timeout(&mut self) {
        if self.phase() == Phase::SelfAdjusting {
            self.window = 1;
            self.credit = 0;
            self.begin_round();
        }
    }
}

impl WindowLaw for Window {
    fn window(&self) -> u32 {
        self.packets()
    }

    /// There is no slow start.
    fn threshold(&self) -> u32 {
        self.packets()
    }

    fn on_ack(&mut self, ack: Ack) {
        self.on_ack(ack);
    }

    fn on_timeout(&mut self) -> Resend {
        self.on_timeout();
        Resend::Packet
    }

    /// A new flow begins with a verdict: see [`Window::restart`].
    fn on_idle(&mut self) {}
}
