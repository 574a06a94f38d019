// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The rate of a TIMELY sender (Algorithm 1).

use core::num::NonZeroU32;

use crate::common::window::LONGEST_TIMEOUT_US;

/// Differences in µs, and parts of the rate, are counted in 2^-20.
const FRACTION_BITS: u32 = 20;
const ONE: i64 = 1 << FRACTION_BITS;

/// HAI begins with this negative gradient in a row.
pub const HAI_EVENTS: u8 = 5;
/// N of HAI.
const HAI_STEPS: u64 = 5;

/// The parameters of a flow. Values out of range are clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The line rate in kbit/s, at least 1.
    pub line_kbit: u32,
    /// The smallest rate in kbit/s, at least 1.
    pub least_kbit: u32,
    /// δ in kbit/s.
    pub delta_kbit: u32,
    /// T_low in µs.
    pub t_low_us: u32,
    /// T_high in µs.
    pub t_high_us: u32,
    /// The round-trip time of an idle fabric, in µs, at least 1.
    pub min_rtt_us: u32,
    /// α, the weight of a new difference, in thousandths, up to 1000.
    pub alpha_milli: u32,
    /// β in thousandths, up to 1000.
    pub beta_milli: u32,
    /// The bytes of a segment, at least 1.
    pub segment: u32,
}

impl Params {
    /// The values of the paper, see the choices in [`super`].
    pub const PAPER: Self = Self {
        line_kbit: 10_000_000,
        least_kbit: 10_000,
        delta_kbit: 10_000,
        t_low_us: 50,
        t_high_us: 500,
        min_rtt_us: 20,
        alpha_milli: 875,
        beta_milli: 800,
        segment: 16_384,
    };

    fn line(&self) -> u64 {
        u64::from(self.line_kbit.max(1)).wrapping_mul(1_000)
    }

    fn least(&self) -> u64 {
        u64::from(self.least_kbit.max(1))
            .wrapping_mul(1_000)
            .min(self.line())
    }

    fn delta(&self) -> u64 {
        u64::from(self.delta_kbit).wrapping_mul(1_000)
    }
}

/// The branch of Algorithm 1 that an event took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Below T_low, or none yet.
    Low,
    /// Above T_high.
    High,
    /// The gradient is not positive.
    Increase,
    /// The same, with HAI.
    HyperIncrease,
    /// The gradient is positive.
    Decrease,
}

/// One flow.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    params: Params,
    /// In bit/s, from the smallest rate to the line rate.
    rate: u64,
    /// The averaged difference, in 2^-20 µs, below 2^47 either way.
    diff: i64,
    /// The last round-trip time in µs.
    previous: Option<NonZeroU32>,
    /// Bytes since the last event, at most a segment.
    bytes: u32,
    /// Negative gradients in a row; saturates.
    negatives: u8,
    phase: Phase,
}

/// 1 in thousandths, the unit of α and β.
const MILLI: i64 = 1_000;

impl Rate {
    /// A flow that starts at the line rate.
    pub fn new(params: Params) -> Self {
        Self {
            params,
            rate: params.line(),
            diff: 0,
            previous: None,
            bytes: 0,
            negatives: 0,
            phase: Phase::Low,
        }
    }

    /// In bit/s.
    pub fn rate(&self) -> u64 {
        self.rate
    }

    /// The branch of the last event.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The gradient in thousandths; 0 if it is not positive.
    pub fn gradient_milli(&self) -> u32 {
        // Below 2^47 times 2^10.
        let least = i64::from(self.params.min_rtt_us.clamp(1, LONGEST_TIMEOUT_US));
        let gradient = self.diff.wrapping_mul(MILLI).checked_div(least);
        u32::try_from(gradient.unwrap_or(0) >> FRACTION_BITS).unwrap_or(0)
    }

    /// The last round-trip time that counted, in µs; 0 if there was none.
    pub fn rtt_us(&self) -> u32 {
        self.previous.map_or(0, NonZeroU32::get)
    }

    /// An acknowledgement of `bytes` arrived, the last of them after `rtt_us`.
    pub fn on_ack(&mut self, bytes: u64, rtt_us: Option<NonZeroU32>) {
        let segment = self.params.segment.max(1);
        let bytes = bytes.saturating_add(self.bytes.into());
        match rtt_us {
            Some(rtt_us) if bytes >= segment.into() => {
                // Below the segment.
                self.bytes = bytes.checked_rem(segment.into()).unwrap_or(0) as u32;
                self.complete(rtt_us);
            }
            _ => self.bytes = bytes.min(segment.into()) as u32,
        }
    }

    /// A completion event.
    fn complete(&mut self, rtt_us: NonZeroU32) {
        let rtt_us = rtt_us.min(NonZeroU32::new(LONGEST_TIMEOUT_US).unwrap_or(NonZeroU32::MAX));
        let rtt = i64::from(rtt_us.get());
        if let Some(previous) = self.previous {
            let new = rtt.wrapping_sub(previous.get().into()) << FRACTION_BITS;
            let alpha = i64::from(self.params.alpha_milli).min(MILLI);
            // Each product is below 2^47 times 2^10, and their sum is an average.
            let old = self.diff.wrapping_mul(MILLI.wrapping_sub(alpha));
            // Rounded towards 0, so that a steady time ends with no gradient.
            self.diff = old
                .wrapping_add(new.wrapping_mul(alpha))
                .wrapping_div(MILLI);
        }
        self.previous = Some(rtt_us);
        self.negatives = if self.diff < 0 {
            self.negatives.saturating_add(1)
        } else {
            0
        };
        let beta = i64::from(self.params.beta_milli).min(MILLI);
        let (low, high) = (self.params.t_low_us, self.params.t_high_us);
        self.phase = if rtt_us.get() < low {
            self.increase(1);
            Phase::Low
        } else if rtt_us.get() > high {
            // β (RTT - T_high) / RTT: below 2^27 times 2^20 times 2^10.
            let excess = i64::from(rtt_us.get().saturating_sub(high)) << FRACTION_BITS;
            let part = excess.wrapping_mul(beta).checked_div(rtt).unwrap_or(0);
            self.decrease(part);
            Phase::High
        } else if self.diff > 0 {
            // β diff / minRTT: below 2^47 times 2^10.
            let least = i64::from(self.params.min_rtt_us.clamp(1, LONGEST_TIMEOUT_US));
            let part = self.diff.wrapping_mul(beta).checked_div(least).unwrap_or(0);
            self.decrease(part);
            Phase::Decrease
        } else if self.negatives >= HAI_EVENTS {
            self.increase(HAI_STEPS);
            Phase::HyperIncrease
        } else {
            self.increase(1);
            Phase::Increase
        };
    }

    fn increase(&mut self, steps: u64) {
        // Below 2^42 times 5.
        let gain = self.params.delta().wrapping_mul(steps);
        self.rate = self.rate.saturating_add(gain).min(self.params.line());
    }

    /// Takes that part of the rate off, in thousandths of 2^-20.
    fn decrease(&mut self, part: i64) {
        let kept = ONE.wrapping_sub(part.wrapping_div(MILLI)).clamp(0, ONE);
        // Below 2^42 times 2^20.
        let rate = self.rate.wrapping_mul(kept.unsigned_abs()) >> FRACTION_BITS;
        self.rate = rate.max(self.params.least());
    }
}
