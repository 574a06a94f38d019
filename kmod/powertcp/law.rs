// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The power and the window of a PowerTCP flow (Algorithm 1) and of a θ-PowerTCP flow
//! (Algorithm 2).

use core::num::NonZeroU32;

use crate::common::{
    average::average,
    bdp::{self, Bdp},
    records::Change,
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

/// PowerTCP's longest time between two full packets, in τ: if they were further apart, a flow could
/// not compare their records, and would never send faster again, as for
/// [`hpcc`](crate::hpcc::law).
const LONGEST_GAP: u32 = 16;
/// The largest packet of a socket in bytes.
const LARGEST_PACKET: u32 = u16::MAX as u32;

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
    /// The bytes that a full packet occupies on the link; only PowerTCP reads it.
    pub packet_bytes: u32,
}

impl Params {
    /// The values of the paper, see the choices in [`super`].
    pub const PAPER: Self = Self {
        rate_kbit: 25_000_000,
        base_rtt_us: 25,
        flows: 10,
        gamma_milli: 900,
        packet_bytes: 1_538,
    };
}

/// What a flow measures, and remembers for it.
#[derive(Clone, Copy, Debug)]
enum Memory {
    /// θ-PowerTCP: its round-trip time.
    Delay {
        /// The last one; `None` before the first.
        rtt_us: Option<NonZeroU32>,
        /// When its acknowledgement arrived, in ns.
        at: u64,
    },
    /// PowerTCP: the records of links.
    Records {
        /// The window when the acknowledged packets were sent, in 2^-10 bytes.
        old: u64,
        /// The smallest window in 2^-10 bytes, if the BDP is not smaller.
        least: u32,
    },
}

/// One flow.
#[derive(Clone, Copy, Debug)]
pub struct PowerTcp {
    bdp: Bdp,
    /// β in 2^-10 bytes, at least 1.
    increase: u64,
    gamma_milli: u32,
    /// In 2^-10 bytes, from the smallest one to the BDP.
    window: u64,
    /// Γ_smooth in 2^-20, at most `MOST`.
    power: u64,
    memory: Memory,
}

impl PowerTcp {
    /// A θ-PowerTCP flow that starts at the line rate.
    pub fn new(params: Params) -> Self {
        let delay = Memory::Delay {
            rtt_us: None,
            at: 0,
        };
        Self::with(params, delay)
    }

    /// A PowerTCP flow, whose acknowledgements bring records, that starts at the line rate.
    pub fn with_records(params: Params) -> Self {
        let packet = params.packet_bytes.clamp(1, LARGEST_PACKET);
        let least = (packet << bdp::FRACTION_BITS).wrapping_div(LONGEST_GAP);
        Self::with(params, Memory::Records { old: 0, least })
    }

    fn with(params: Params, memory: Memory) -> Self {
        let bdp = Bdp::new(params.rate_kbit.max(1), params.base_rtt_us);
        let flows = u64::from(params.flows.max(1));
        let mut new = Self {
            bdp,
            increase: bdp.window().checked_div(flows).unwrap_or(1).max(1),
            gamma_milli: params.gamma_milli.clamp(1, MILLI as u32),
            window: bdp.window(),
            power: ONE,
            memory,
        };
        new.on_idle();
        new
    }

    /// All data is acknowledged: the next data is a new flow, which starts at the line rate.
    pub fn on_idle(&mut self) {
        self.window = self.bdp.window();
        self.power = ONE;
        match &mut self.memory {
            Memory::Delay { rtt_us, .. } => *rtt_us = None,
            Memory::Records { old, .. } => *old = self.window,
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
        match self.memory {
            Memory::Delay { rtt_us, .. } => rtt_us.map_or(0, NonZeroU32::get),
            Memory::Records { .. } => 0,
        }
    }

    /// Whether it is a PowerTCP flow, and not a θ-PowerTCP flow.
    pub fn reads_records(&self) -> bool {
        matches!(self.memory, Memory::Records { .. })
    }

    /// An acknowledgement of a θ-PowerTCP flow arrived at `now`, in ns, after a round-trip time.
    /// `updates`: it is of a packet that was sent after the last update. Returns whether it updated
    /// the window.
    pub fn on_ack(&mut self, rtt_us: Option<NonZeroU32>, now: u64, updates: bool) -> bool {
        let (Some(rtt_us), Memory::Delay { rtt_us: before, at }) = (rtt_us, self.memory) else {
            return false;
        };
        let longest = NonZeroU32::new(LONGEST_TIMEOUT_US).unwrap_or(NonZeroU32::MAX);
        let rtt_us = rtt_us.min(longest);
        self.memory = Memory::Delay {
            rtt_us: Some(rtt_us),
            at: now,
        };
        if let Some(before) = before {
            let dt = now.saturating_sub(at).clamp(1, LONGEST);
            self.measure_delay(before, rtt_us, dt);
        }
        if updates {
            self.window = self.updated(self.window);
        }
        updates
    }

    /// An acknowledgement of a PowerTCP flow arrived, and this is what the links of its path did
    /// since the last one with records. `updates`: it is of a packet that was sent after the last
    /// update of the old window. Returns whether it updated that.
    pub fn on_records(&mut self, links: impl Iterator<Item = Change>, updates: bool) -> bool {
        let Memory::Records { old, least } = self.memory else {
            return false;
        };
        let base = self.base();
        let powers = links.map(|link| (power(link, base), link.interval));
        let Some((power, interval)) = powers.max_by_key(|&(power, _)| power) else {
            return false;
        };
        self.power = average(self.power, power, interval.min(base), base).clamp(1, MOST);
        self.window = self.updated(old);
        if updates {
            self.memory = Memory::Records {
                old: self.window,
                least,
            };
        }
        updates
    }

    /// The smallest window in 2^-10 bytes, if the BDP is not smaller.
    fn least(&self) -> u64 {
        match self.memory {
            Memory::Delay { .. } => 1,
            Memory::Records { least, .. } => least.into(),
        }
    }

    /// τ in ns.
    fn base(&self) -> u64 {
        u64::from(self.bdp.rtt_us()).wrapping_mul(1_000)
    }

    /// `NORMPOWER` of Algorithm 2, `dt` ns after the round-trip time `before`.
    fn measure_delay(&mut self, before: NonZeroU32, rtt: NonZeroU32, dt: u64) {
        let ns = |us: NonZeroU32| u64::from(us.get()).wrapping_mul(1_000);
        let base = self.base();
        let (before, rtt) = (ns(before), ns(rtt));
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

    /// `UPDATEWINDOW`: the new window, from the one under which the acknowledged packet was sent.
    fn updated(&self, old: u64) -> u64 {
        // At most 2^42 times 2^20.
        let scaled = (old << FRACTION_BITS)
            .checked_div(self.power)
            .unwrap_or(LARGEST);
        let target = scaled.wrapping_add(self.increase).min(LARGEST);
        let gamma = u64::from(self.gamma_milli);
        let new = target.wrapping_mul(gamma);
        let kept = self.window.wrapping_mul(MILLI.wrapping_sub(gamma));
        let window = new.wrapping_add(kept).wrapping_div(MILLI);
        window.max(self.least()).min(self.bdp.window())
    }
}

/// `NORMPOWER` of Algorithm 1 for one link: its power in 2^-20, where τ is `base` ns.
fn power(link: Change, base: u64) -> u64 {
    let Change {
        interval,
        sent,
        before,
        queue,
    } = link;
    // (q̇ + µ) / B · dt in ns, below 2^41.
    let current = sent
        .wrapping_add(queue)
        .saturating_sub(before)
        .max(interval >> 1);
    let current = parts(current, interval);
    let voltage = parts(queue.wrapping_add(base), base);
    (current.saturating_mul(voltage) >> FRACTION_BITS).min(MOST)
}

/// `part / whole` in 2^-20; `part` is below 2^44.
fn parts(part: u64, whole: u64) -> u64 {
    (part << FRACTION_BITS).checked_div(whole).unwrap_or(0)
}
