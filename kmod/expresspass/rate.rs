// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Credit feedback control: the rate of a flow's credits, by their loss (Algorithm 1).
//!
//! Rates are shares of the maximum, the rate at which credits let full frames fill the link. Shares
//! and losses are in units of 2^-20, so the law is the same at any link rate and any dilation.

/// The whole, of a rate, a loss or an aggressiveness.
pub const ONE: u64 = 1 << BITS;
const BITS: u32 = 20;

/// `w_min`: 0.01.
pub const W_MIN: u64 = ONE.div_ceil(100);
/// `w_max`: 0.5.
pub const W_MAX: u64 = ONE / 2;

/// Bits of a time's fraction of a nanosecond.
pub const FRACTION: u32 = 8;

/// The longest gap between two credits, in 2^-8 ns: over an hour.
const MAX_GAP: u64 = 1 << 50;

/// The step by which the aggressiveness grows in the authors' simulator.
const W_STEP: u64 = ONE / 20;

/// Which form of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// Algorithm 1.
    Paper,
    /// The law of the authors' simulator (`xpass.cc`, `credit_feedback_control`).
    Simulator,
}

crate::choice!(Form { Paper, Simulator });

/// The constants of the law.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// Its form.
    pub form: Form,
    /// The initial rate of a flow.
    pub alpha: u64,
    /// The initial aggressiveness.
    pub w_init: u64,
    /// The target loss.
    pub target: u64,
    /// How many frames wait at least at the sender of a flow that begins with all of `alpha`.
    pub full: u32,
    /// The gap between two credits at the maximum rate, in 2^-8 ns.
    pub gap: u64,
}

/// A part of a whole, as a share.
fn part(of: u64, whole: u64) -> u64 {
    let bits = u64::BITS.wrapping_sub(of.leading_zeros());
    let excess = bits.saturating_sub(u64::BITS - BITS);
    let of = of.wrapping_shr(excess).wrapping_shl(BITS);
    of.checked_div(whole.wrapping_shr(excess)).unwrap_or(ONE)
}

/// The product of a share that is at most 2 and a share that is at most 2.
fn times(a: u64, b: u64) -> u64 {
    a.wrapping_mul(b) >> BITS
}

/// The rate of a flow's credits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    /// `cur_rate`, as a share of the maximum.
    share: u64,
    /// `w`, the aggressiveness.
    w: u64,
    /// Whether the last phase was an increasing one.
    was_increasing: bool,
    /// Credits of this period that came back or were lost.
    known: u32,
    /// Credits of this period that were lost.
    lost: u32,
    /// The beginning of this period.
    since: u64,
    /// The round-trip time; 0 as long as it is unknown.
    rtt: u64,
}

impl Rate {
    /// The rate of a flow that begins now, with this many frames waiting.
    pub fn new(law: &Law, waiting: u16, now: u64) -> Self {
        let full = u64::from(law.full.max(1));
        let waiting = u64::from(waiting).max(1).min(full);
        let share = law.alpha.wrapping_mul(waiting).checked_div(full);
        Self {
            share: share.unwrap_or(0).max(1),
            w: law.w_init,
            was_increasing: false,
            known: 0,
            lost: 0,
            since: now,
            rtt: 0,
        }
    }

    /// The share of the maximum.
    pub fn share(&self) -> u64 {
        self.share
    }

    /// The aggressiveness.
    pub fn w(&self) -> u64 {
        self.w
    }

    /// The round-trip time in ns, 0 if it is unknown.
    pub fn rtt(&self) -> u64 {
        self.rtt
    }

    /// A credit came back with a frame, and `lost` credits before it did not.
    #[inline]
    pub fn came_back(&mut self, lost: u16) {
        self.known = self.known.saturating_add(u32::from(lost)).saturating_add(1);
        self.lost = self.lost.saturating_add(lost.into());
    }

    /// A credit that had been counted as lost came back late.
    pub fn was_not_lost(&mut self) {
        self.lost = self.lost.saturating_sub(1);
    }

    /// The time from a credit to its frame was `sample` ns. The average has the weights of the
    /// authors' simulator: 0.8 and 0.2.
    pub fn measured(&mut self, sample: u64) {
        let sample = sample.clamp(1, 1 << 60);
        self.rtt = match self.rtt {
            0 => sample,
            rtt => rtt.wrapping_sub(rtt / 5).wrapping_add(sample / 5).max(1),
        };
    }

    /// The feedback control, if a period has passed: a round-trip time, in which some credit came
    /// back.
    pub fn update(&mut self, law: &Law, now: u64) {
        let elapsed = now.saturating_sub(self.since);
        if self.rtt == 0 || elapsed < self.rtt || self.known == 0 {
            return;
        }
        let loss = part(self.lost.into(), self.known.into()).min(ONE);
        let (is_increasing, most) = match law.form {
            Form::Paper => (self.follow_paper(law, loss), ONE.wrapping_add(law.target)),
            Form::Simulator => (self.follow_simulator(law, loss, elapsed), ONE),
        };
        self.was_increasing = is_increasing;
        // One credit for each round-trip time, as in the authors' simulator.
        let least = part(law.gap >> FRACTION, self.rtt).max(1).min(most);
        // Not `clamp`, which panics if the bounds are in the wrong order.
        self.share = self.share.max(least).min(most);
        (self.known, self.lost) = (0, 0);
        self.since = now;
    }

    /// Algorithm 1. Returns whether it was the increasing phase.
    fn follow_paper(&mut self, law: &Law, loss: u64) -> bool {
        if loss <= law.target {
            // The increasing phase.
            if self.was_increasing {
                self.w = self.w.wrapping_add(W_MAX) / 2;
            }
            let kept = times(ONE.wrapping_sub(self.w), self.share);
            let added = times(self.w, ONE.wrapping_add(law.target));
            self.share = kept.wrapping_add(added);
        } else {
            // The decreasing phase.
            self.share = times(
                times(self.share, ONE.wrapping_sub(loss)),
                ONE.wrapping_add(law.target),
            );
            self.w = (self.w / 2).max(W_MIN);
        }
        loss <= law.target
    }

    /// The law of the authors' simulator: a flow with a low rate has a higher target loss, and its
    /// rate falls to the rate at which credits came back.
    fn follow_simulator(&mut self, law: &Law, loss: u64, elapsed: u64) -> bool {
        let target = times(law.target, ONE.saturating_sub(self.share));
        if loss <= target {
            if self.was_increasing {
                self.w = self.w.wrapping_add(W_STEP).min(W_MAX);
            }
            let kept = times(ONE.wrapping_sub(self.w), self.share);
            self.share = kept.wrapping_add(self.w);
        } else {
            let back = u64::from(self.known.wrapping_sub(self.lost));
            let time = back.saturating_mul(law.gap) >> FRACTION;
            // The product of two shares of at most 2.
            let back = part(time, elapsed).min(ONE);
            self.share = times(back, ONE.wrapping_add(target)).min(self.share);
            self.w = (self.w / 2).max(W_MIN);
        }
        loss <= target
    }

    /// The time until the next credit, in ns: a gap that is jittered by a tenth. `random` is 32
    /// random bits.
    pub fn gap(&self, law: &Law, random: u32) -> u64 {
        let gap = law.gap.wrapping_shl(BITS).checked_div(self.share);
        let gap = gap.unwrap_or(MAX_GAP).min(MAX_GAP);
        // 0.9 to 1.1, in 1/1024: 205 values.
        let factor = u64::from(random >> 8).wrapping_mul(205) >> 24;
        let gap = gap.wrapping_mul(factor.wrapping_add(922)) >> 10;
        // Rounded up or down at random, so that the mean is exact.
        gap.wrapping_add(u64::from(random & 0xff)) >> FRACTION
    }
}
