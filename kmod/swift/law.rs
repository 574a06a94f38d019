// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The window of a Swift flow, and its target delay (Algorithm 1 and §3.2).

use core::num::{NonZeroU32, NonZeroU64};

use crate::common::{
    pacing::window_rate,
    window::{Ack, LONGEST_TIMEOUT_US},
};

/// Windows and ratios are counted in 2^-20.
pub const FRACTION_BITS: u32 = 20;
/// The number 1 in that scale.
pub const ONE: u64 = 1 << FRACTION_BITS;

/// The largest window, in packets.
pub const LARGEST: u32 = u16::MAX as u32;
/// The largest increase in a round-trip time, in thousandths of a packet.
pub const LARGEST_AI: u32 = 16_000;
/// From this timeout in a row on, the window is the smallest one.
pub const RETX_RESET_THRESHOLD: u8 = 5;

/// The parameters of a flow. Values out of range are clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The base target, in µs, up to [`LONGEST_TIMEOUT_US`].
    pub base_target_us: u32,
    /// ħ: the target's part for each hop, in µs, up to [`LONGEST_TIMEOUT_US`].
    pub hop_us: u32,
    /// The number of hops, up to 255.
    pub hops: u32,
    /// The largest part of the target by flow scaling, in µs; 0: no flow scaling.
    pub fs_range_us: u32,
    /// The window with that largest part, in thousandths of a packet, at least 1.
    pub fs_min_milli: u32,
    /// The window from which on there is no flow scaling, in packets, up to [`LARGEST`].
    pub fs_max: u32,
    /// The additive increase, in thousandths of a packet, up to [`LARGEST_AI`].
    pub ai_milli: u32,
    /// The multiplicative decrease constant, in thousandths, up to 1000.
    pub beta_milli: u32,
    /// The largest decrease, in thousandths, up to 1000.
    pub max_mdf_milli: u32,
    /// The first window, in packets.
    pub initial: u32,
    /// The smallest window, in thousandths of a packet, from 1 to 1000.
    pub min_milli: u32,
    /// The largest window, in packets, from 1 to [`LARGEST`].
    pub max: u32,
}

impl Params {
    /// Values for a fabric of 100 Gbit/s, see the choices in [`super`].
    pub const PAPER: Self = Self {
        base_target_us: 25,
        hop_us: 2,
        hops: 5,
        fs_range_us: 100,
        fs_min_milli: 100,
        fs_max: 100,
        ai_milli: 1_000,
        beta_milli: 800,
        max_mdf_milli: 500,
        initial: 16,
        min_milli: 1,
        max: 1_024,
    };
}

/// Thousandths in 2^-20.
fn of_milli(milli: u32) -> u64 {
    (u64::from(milli) << FRACTION_BITS).wrapping_div(1_000)
}

/// 1 / √window in 2^-20. For the smallest window it is exact to 2^-24 of itself, for the largest
/// one to 2^-12.
fn inverse_root(window: u64) -> u64 {
    // √(2^60 / w) = 2^30 / √w, where √w is 2^10 times the root of the window in packets.
    root((1u64 << 60).wrapping_div(window.max(1)))
}

/// The square root, rounded down, a binary digit at a time. `u64::isqrt` could panic by the
/// kernel's checks of overflows.
pub fn root(square: u64) -> u64 {
    let mut rest = square;
    let mut root = 0_u64;
    let mut digit = 1_u64 << 62;
    while digit != 0 {
        // `root` has the digits so far, each in its place of the product with the rest.
        let with_digit = root | digit;
        root >>= 1;
        if rest >= with_digit {
            rest = rest.wrapping_sub(with_digit);
            root |= digit;
        }
        digit >>= 2;
    }
    root
}

/// One flow.
#[derive(Clone, Copy, Debug)]
pub struct Swift {
    /// The target without flow scaling, in ns.
    base_ns: u64,
    /// The largest part by flow scaling, in ns.
    range_ns: u64,
    /// `1 / √fs_max`, and how much larger `1 / √fs_min` is; both in 2^-20.
    scaled_from: u32,
    scaled_span: u32,
    /// In 2^-20.
    ai: u32,
    beta: u32,
    max_mdf: u32,
    min: u32,
    /// In packets.
    max: u32,
    /// In 2^-20 packets, from `min` to `max`.
    window: u64,
    /// When the window last shrank, in ns.
    decreased: Option<NonZeroU64>,
    /// The last delay, in µs; 0: none was measured.
    delay_us: u32,
    /// Timeouts in a row.
    timeouts: u8,
}

impl Swift {
    /// A new flow.
    pub fn new(params: Params) -> Self {
        let us = |us: u32| u64::from(us.min(LONGEST_TIMEOUT_US)).wrapping_mul(1_000);
        let max = params.max.clamp(1, LARGEST);
        let min = of_milli(params.min_milli.clamp(1, 1_000));
        let hops = us(params.hop_us).wrapping_mul(params.hops.min(255).into());
        let from = inverse_root(u64::from(params.fs_max.clamp(1, LARGEST)) << FRACTION_BITS);
        let to = inverse_root(of_milli(params.fs_min_milli.max(1)));
        Self {
            base_ns: us(params.base_target_us).wrapping_add(hops),
            range_ns: us(params.fs_range_us),
            // At most 2^25.
            scaled_from: from as u32,
            scaled_span: to.saturating_sub(from) as u32,
            ai: of_milli(params.ai_milli.min(LARGEST_AI)) as u32,
            beta: of_milli(params.beta_milli.min(1_000)) as u32,
            max_mdf: of_milli(params.max_mdf_milli.min(1_000)) as u32,
            min: min as u32,
            max,
            window: u64::from(params.initial.clamp(1, max)) << FRACTION_BITS,
            decreased: None,
            delay_us: 0,
            timeouts: 0,
        }
    }

    /// The window in 2^-20 packets.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The most packets that may be in flight: the window in whole packets, at least 1.
    pub fn packets(&self) -> u32 {
        // At most 2^16.
        ((self.window >> FRACTION_BITS) as u32).max(1)
    }

    /// The last delay in µs; 0 if none was measured.
    pub fn delay_us(&self) -> u32 {
        self.delay_us
    }

    /// Timeouts in a row, at most 255.
    pub fn timeouts(&self) -> u8 {
        self.timeouts
    }

    /// The rate of the next packets in bytes of payload a second, if they are paced: "if cwnd < 1,
    /// pacing_delay = rtt / cwnd". Before the first delay is known, the target stands in for it.
    pub fn pacing(&self, mss: u32) -> Option<u64> {
        let delay_us = match self.delay_us {
            0 => u32::try_from(self.target_ns().wrapping_div(1_000)).unwrap_or(u32::MAX),
            delay_us => delay_us,
        };
        (self.window < ONE).then(|| window_rate(self.window, FRACTION_BITS, mss, delay_us))
    }

    /// The target delay in ns.
    pub fn target_ns(&self) -> u64 {
        self.base_ns.wrapping_add(self.flow_scaling())
    }

    /// `max(0, min(α / √window + β, fs_range))`, in ns.
    fn flow_scaling(&self) -> u64 {
        let above = inverse_root(self.window).saturating_sub(self.scaled_from.into());
        // At most 2^37 ns times 2^25.
        self.range_ns
            .wrapping_mul(above)
            .checked_div(self.scaled_span.into())
            .unwrap_or(0)
            .min(self.range_ns)
    }

    /// Whether a round-trip time has passed since the window last shrank.
    fn can_decrease(&self, now: u64) -> bool {
        let rtt_ns = u64::from(self.delay_us).wrapping_mul(1_000);
        self.decreased
            .is_none_or(|at| now.saturating_sub(at.get()) >= rtt_ns)
    }

    /// An acknowledgement arrived at `now`.
    pub fn on_ack(&mut self, ack: Ack, now: u64) {
        if ack.packets == 0 {
            return;
        }
        self.timeouts = 0;
        let Some(rtt_us) = ack.rtt_us else {
            return;
        };
        self.delay_us = rtt_us.get();
        let delay = u64::from(rtt_us.get()).wrapping_mul(1_000);
        match delay.checked_sub(self.target_ns()) {
            None if ack.limited => self.increase(ack.packets),
            None => {}
            Some(excess) => self.decrease(self.part(excess, rtt_us), now),
        }
    }

    fn increase(&mut self, packets: u32) {
        let packets = u64::from(packets.min(LARGEST));
        // At most 2^24 times 2^16.
        let gain = u64::from(self.ai).wrapping_mul(packets);
        let gain = if self.window >= ONE {
            (gain << FRACTION_BITS)
                .checked_div(self.window)
                .unwrap_or(0)
        } else {
            gain
        };
        let max = u64::from(self.max) << FRACTION_BITS;
        self.window = self.window.wrapping_add(gain).min(max);
    }

    /// `min(β' × (delay - target) / delay, max_mdf)` in 2^-20.
    fn part(&self, excess_ns: u64, delay_us: NonZeroU32) -> u64 {
        // The excess is below the delay, at most 2^32 µs: 2^42 ns times 2^20.
        let delay_ns = u64::from(delay_us.get()).wrapping_mul(1_000);
        let part = excess_ns
            .wrapping_mul(self.beta.into())
            .checked_div(delay_ns)
            .unwrap_or(0);
        part.min(self.max_mdf.into())
    }

    /// Takes that part of the window off, if a round-trip time has passed since the last time.
    fn decrease(&mut self, part: u64, now: u64) {
        if self.can_decrease(now) {
            // At most 2^36 times 2^20.
            let kept = self.window.wrapping_mul(ONE.saturating_sub(part)) >> FRACTION_BITS;
            self.shrink(kept, now);
        }
    }

    fn shrink(&mut self, window: u64, now: u64) {
        let window = window.max(self.min.into());
        if window < self.window {
            self.window = window;
            self.decreased = NonZeroU64::new(now.max(1));
        }
    }

    /// Losses were found by acknowledgements.
    pub fn on_fast_recovery(&mut self, now: u64) {
        self.timeouts = 0;
        self.decrease(self.max_mdf.into(), now);
    }

    /// The retransmission timer fired.
    pub fn on_timeout(&mut self, now: u64) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts >= RETX_RESET_THRESHOLD {
            self.shrink(self.min.into(), now);
        } else {
            self.decrease(self.max_mdf.into(), now);
        }
    }
}
