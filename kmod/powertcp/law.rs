// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The power and the window of a θ-PowerTCP flow (Algorithm 2).

use core::num::NonZeroU32;

use crate::common::{
    bdp::Bdp,
    stamp::{self, thousandths},
    window::LONGEST_TIMEOUT_US,
};

/// Power is counted in 2^-20, like a utilisation.
pub const FRACTION_BITS: u32 = stamp::FRACTION_BITS;
const ONE: u64 = 1 << FRACTION_BITS;
/// The largest power.
const MOST: u64 = 1 << 36;

/// 1 in thousandths, the unit of γ.
const MILLI: u64 = 1_000;

/// The largest window before it is averaged and limited, in 2^-10 bytes.
const LARGEST: u64 = 1 << 50;

/// The longest time between two acknowledgements, in ns.
const LONGEST: u64 = LONGEST_TIMEOUT_US as u64 * 1_000;

/// The parameters of a flow. Values out of range are clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The rate of the host's link in kbit/s, at least 1.
    pub rate_kbit: u32,
    /// τ in µs, at least 1.
    pub base_rtt_us: u32,
    /// N, the number of flows that share the link, at least 1.
    pub flows: u32,
    /// γ in thousandths, from 1 to 1000.
    pub gamma_milli: u32,
}

impl Params {
    /// The values of the paper, see the choices in [`super`].
    pub const PAPER: Self = Self {
        rate_kbit: 25_000_000,
        base_rtt_us: 25,
        flows: 10,
        gamma_milli: 900,
    };
}

/// The last measurement.
#[derive(Clone, Copy, Debug)]
struct Sample {
    rtt_us: NonZeroU32,
    /// When its acknowledgement arrived, in ns.
    at: u64,
}

/// One flow.
#[derive(Clone, Copy, Debug)]
pub struct PowerTcp {
    bdp: Bdp,
    /// β in 2^-10 bytes, at least 1.
    increase: u64,
    gamma_milli: u32,
    /// In 2^-10 bytes, from 1 to the BDP.
    window: u64,
    /// Γ_smooth in 2^-20, at most `MOST`.
    power: u64,
    previous: Option<Sample>,
}

impl PowerTcp {
    /// A flow that starts at the line rate.
    pub fn new(params: Params) -> Self {
        let bdp = Bdp::new(params.rate_kbit.max(1), params.base_rtt_us);
        let flows = u64::from(params.flows.max(1));
        Self {
            bdp,
            increase: bdp.window().checked_div(flows).unwrap_or(1).max(1),
            gamma_milli: params.gamma_milli.clamp(1, MILLI as u32),
            window: bdp.window(),
            power: ONE,
            previous: None,
        }
    }

    /// The window in 2^-10 bytes, as packets occupy the link.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The window's rate in bit/s.
    pub fn rate(&self) -> u64 {
        self.bdp.rate(self.window)
    }

    /// Γ_smooth in 2^-20.
    pub fn power(&self) -> u64 {
        self.power
    }

    /// Γ_smooth in thousandths.
    pub fn power_milli(&self) -> u32 {
        thousandths(self.power)
    }

    /// The last round-trip time in µs; 0 if none was measured.
    pub fn rtt_us(&self) -> u32 {
        self.previous.map_or(0, |it| it.rtt_us.get())
    }

    /// An acknowledgement arrived at `now`, in ns, after a round-trip time. `updates`: it is of a
    /// packet that was sent after the last update. Returns whether it updated the window.
    pub fn on_ack(&mut self, rtt_us: Option<NonZeroU32>, now: u64, updates: bool) -> bool {
        let Some(rtt_us) = rtt_us else {
            return false;
        };
        let longest = NonZeroU32::new(LONGEST_TIMEOUT_US).unwrap_or(NonZeroU32::MAX);
        let sample = Sample {
            rtt_us: rtt_us.min(longest),
            at: now,
        };
        if let Some(previous) = self.previous.replace(sample) {
            self.measure(previous, sample);
        }
        if updates {
            self.update();
        }
        updates
    }

    /// `NORMPOWER`.
    fn measure(&mut self, previous: Sample, sample: Sample) {
        let ns = |us: u32| u64::from(us).wrapping_mul(1_000);
        let base = ns(self.bdp.rtt_us());
        let (before, rtt) = (ns(previous.rtt_us.get()), ns(sample.rtt_us.get()));
        let dt = sample.at.saturating_sub(previous.at).clamp(1, LONGEST);
        // (1 + θ̇) dt in ns, below 2^38.
        let current = dt.wrapping_add(rtt).saturating_sub(before).max(dt >> 1);
        // (1 + θ̇) Δt / τ, and RTT / τ: if dt is above τ, Δt / dt is τ / dt.
        let current = parts(current, dt.max(base));
        let added = current.saturating_mul(parts(rtt, base)) >> FRACTION_BITS;
        let kept = parts(base.saturating_sub(dt), base);
        // 2^36 times 2^20.
        let kept = self.power.wrapping_mul(kept) >> FRACTION_BITS;
        self.power = kept.wrapping_add(added).clamp(1, MOST);
    }

    /// `UPDATEWINDOW`.
    fn update(&mut self) {
        // At most 2^42 times 2^20.
        let scaled = (self.window << FRACTION_BITS)
            .checked_div(self.power)
            .unwrap_or(LARGEST);
        let target = scaled.wrapping_add(self.increase).min(LARGEST);
        let gamma = u64::from(self.gamma_milli);
        let new = target.wrapping_mul(gamma);
        let old = self.window.wrapping_mul(MILLI.wrapping_sub(gamma));
        let window = new.wrapping_add(old).wrapping_div(MILLI);
        self.window = window.min(self.bdp.window()).max(1);
    }
}

/// `part / whole` in 2^-20; `part` is below 2^44.
fn parts(part: u64, whole: u64) -> u64 {
    (part << FRACTION_BITS).checked_div(whole).unwrap_or(0)
}
