// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The window of a BFC host: how many packets a flow may have in flight.
//!
//! P. Goyal, P. Shah, K. Zhao, G. Nikolaidis, M. Alizadeh, T. E. Anderson: "Backpressure Flow
//! Control", NSDI 2022, Appendix A.1 (Algorithm 1), §5 "Incremental Deployment" and Appendix A.8.
//!
//! # Vocabulary
//!
//! - **window**: the most packets that may be in flight, at least 1.
//! - **BDP**: the bandwidth-delay product from host to host, in packets.
//! - **RTT target**: the round-trip time that the delay law maintains, in the paper 2.5 times that
//!   of an idle fabric.
//! - **limited**: a flow that had more to send than the window allowed.
//!
//! # Law
//!
//! ```text
//!     start ──▶ window = BDP
//!
//!     each packet acknowledged, after a round-trip time RTT:
//!         delay   window += (target - RTT) / RTT       down to 1; growing if the flow is limited
//!         cap     window stays
//!
//!     timeout ──▶ window = 1; each packet acknowledged: window += 1, until window = BDP
//! ```
//!
//! Both branches of Algorithm 1 are that one addition. Within a round-trip time, a window of
//! packets, "the window of a sender roughly goes from w to w × target/RTT": on an idle fabric to
//! 2.5 times the window.
//!
//! The delay law ("BFC 32 (CC)", Figures 15 and 16) is for hosts that obey backpressure. The cap
//! ("BFC - NIC", Figure 25) is for hosts that do not, where only switches run BFC.
//!
//! # Choices that the paper leaves open
//!
//! - "For each Acknowledgement": each packet counts once, when it is first acknowledged,
//!   cumulatively or selectively. An ACK of several packets counts for each, with one RTT.
//! - The smallest window is one packet.
//! - A flow that is not limited does not grow, because its RTT says nothing about a window that it
//!   does not fill (RFC 7661 gives the reasons). Otherwise a flow that sends little could
//!   accumulate any window.
//! - Loss, as BFC has none. A timeout restarts the flow from one packet, as RFC 5681 demands
//!   (§3.1), up to a BDP, where flows start. A loss detected from ACKs changes nothing.
//! - A connection whose data is all sent and acknowledged restarts as a new flow when it has data
//!   again ([`Window::on_idle`]): in the paper each flow has its own connection.

use core::num::{NonZeroU32, NonZeroU64};

use crate::common::window::{Ack, Resend, WindowLaw};

/// Windows are counted in fractions of a packet: 2^-16.
const FRACTION_BITS: u32 = 16;
const ONE: u32 = 1 << FRACTION_BITS;

/// The largest window in packets: with 1500 bytes each, it fills a wire of 400 Gbit/s and 1.9 ms.
pub const LARGEST: u32 = u32::MAX >> FRACTION_BITS;

/// The parameters of a flow's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The bandwidth-delay product in packets, 1..=[`LARGEST`]; other values are clamped to that
    /// range.
    pub bdp: u32,
    /// The RTT target in µs; 0: the window is a plain cap of one BDP.
    pub rtt_target_us: u32,
}

impl Params {
    /// The paper's simulations: 100 Gbit/s, a base RTT of 8 µs, packets of 1 kB (§6.2.1), and a
    /// target of "2.5 × Base RTT".
    pub const PAPER: Self = Self {
        bdp: 100,
        rtt_target_us: 20,
    };
}

/// The effect of an ACK on the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Algorithm 1.
    Delay,
    /// The window grows by one for each packet, from one after a timeout to a BDP.
    SlowStart,
    /// No effect: the window is a BDP.
    Cap,
}

/// The window of one flow.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    params: Params,
    /// In 2^-16 packets, at least [`ONE`].
    window: u32,
    slow_start: bool,
    timeouts: u32,
}

impl Window {
    /// A flow's window at its start.
    pub fn new(params: Params) -> Self {
        let bdp = params.bdp.clamp(1, LARGEST);
        Self {
            params: Params { bdp, ..params },
            window: bdp << FRACTION_BITS,
            slow_start: false,
            timeouts: 0,
        }
    }

    /// The most packets that may be in flight: the window in whole packets, at least 1.
    pub fn packets(&self) -> u32 {
        self.window >> FRACTION_BITS
    }

    /// The slow start threshold, in packets.
    pub fn threshold(&self) -> u32 {
        self.params.bdp
    }

    /// The RTT target in µs; 0 if there is none.
    pub fn rtt_target_us(&self) -> u32 {
        self.params.rtt_target_us
    }

    /// The effect of the next ACK.
    pub fn phase(&self) -> Phase {
        match (self.slow_start, self.params.rtt_target_us) {
            (true, _) => Phase::SlowStart,
            (false, 0) => Phase::Cap,
            (false, _) => Phase::Delay,
        }
    }

    /// Timeouts since the start, saturating.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    /// An ACK acknowledges `packets`, the last of them `rtt_us` after it was sent; `None` if that
    /// packet was sent more than once and it is unknown which transmission arrived. `limited`:
    /// whether the flow is.
    pub fn on_ack(&mut self, packets: u32, rtt_us: Option<NonZeroU32>, limited: bool) {
        match self.phase() {
            Phase::Cap => {}
            Phase::SlowStart => {
                let missing = self.params.bdp.saturating_sub(self.packets());
                let grown = packets.min(missing) << FRACTION_BITS;
                self.window = self.window.saturating_add(grown);
                self.slow_start = packets < missing;
            }
            Phase::Delay => {
                if let Some(rtt_us) = rtt_us {
                    self.follow(packets, rtt_us, limited);
                }
            }
        }
    }

    /// Algorithm 1's step, once for each packet.
    fn follow(&mut self, packets: u32, rtt_us: NonZeroU32, limited: bool) {
        let target = self.params.rtt_target_us;
        let off = u64::from(target.abs_diff(rtt_us.get())) << FRACTION_BITS;
        let step = (off / NonZeroU64::from(rtt_us)).saturating_mul(packets.into());
        let window = u64::from(self.window);
        let window = if rtt_us.get() > target {
            window.saturating_sub(step).max(ONE.into())
        } else if limited {
            window.saturating_add(step)
        } else {
            window
        };
        self.window = u32::try_from(window).unwrap_or(u32::MAX);
    }

    /// The retransmission timer fired.
    pub fn on_timeout(&mut self) {
        self.window = ONE;
        self.slow_start = self.params.bdp > 1;
        self.timeouts = self.timeouts.saturating_add(1);
    }

    /// All data is acknowledged: the next data is a new flow. Counters stay.
    pub fn on_idle(&mut self) {
        *self = Self {
            timeouts: self.timeouts,
            ..Self::new(self.params)
        };
    }
}

impl WindowLaw for Window {
    fn window(&self) -> u32 {
        self.packets()
    }

    fn threshold(&self) -> u32 {
        self.threshold()
    }

    fn on_ack(&mut self, ack: Ack) {
        self.on_ack(ack.packets, ack.rtt_us, ack.limited);
    }

    fn on_timeout(&mut self) -> Resend {
        self.on_timeout();
        Resend::Packet
    }

    fn on_idle(&mut self) {
        self.on_idle();
    }
}
