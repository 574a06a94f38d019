// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The utilisation of a path, and the window of an HPCC flow (Algorithm 1).

use crate::common::{
    average::average,
    bdp::{self, Bdp},
    records::Change,
    stamp::{thousandths, FRACTION_BITS, LIMIT, ONE},
};

/// The largest utilisation.
const MOST: u32 = LIMIT - 1;

/// 1 in thousandths, the unit of η.
const MILLI: u64 = 1_000;

/// The longest time between two full packets, in T: half of the shortest time after which a link's
/// numbers wrap, see [`records`](crate::common::records). The other half is for what queues add.
///
/// If the packets of a flow were further apart, no acknowledgement would tell it anything. So its
/// window would stay, and its packets as far apart: however idle the links became, it would never
/// send faster again.
const LONGEST_GAP: u32 = 16;
/// The largest packet of a socket in bytes.
const LARGEST_PACKET: u32 = u16::MAX as u32;

/// The parameters of a flow. Values out of range are clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// B_NIC, the rate of the host's link, in kbit/s, at least 1.
    pub rate_kbit: u32,
    /// T in µs, at least 1.
    pub base_rtt_us: u32,
    /// N, the number of flows that share a link, at least 1.
    pub flows: u32,
    /// η in thousandths, from 1 to 1000.
    pub eta_milli: u32,
    /// maxStage, up to 255.
    pub max_stage: u32,
    /// The bytes that a full packet occupies on the link.
    pub packet_bytes: u32,
}

impl Params {
    /// The values of the paper, see the choices in [`super`].
    pub const PAPER: Self = Self {
        rate_kbit: 100_000_000,
        base_rtt_us: 13,
        flows: 100,
        eta_milli: 950,
        max_stage: 5,
        packet_bytes: 1_538,
    };
}

/// One flow.
#[derive(Clone, Copy, Debug)]
pub struct Hpcc {
    bdp: Bdp,
    /// W_AI in 2^-10 bytes, at least 1.
    increase: u64,
    /// The smallest window in 2^-10 bytes, if the BDP is not smaller.
    least: u32,
    eta_milli: u32,
    max_stage: u8,
    stage: u8,
    /// U in 2^-20; 0 if there was none.
    utilisation: u32,
    /// W and W_c in 2^-10 bytes, from `least` to the BDP.
    window: u64,
    reference: u64,
}

impl Hpcc {
    /// A flow that starts at the line rate.
    pub fn new(params: Params) -> Self {
        let bdp = Bdp::new(params.rate_kbit.max(1), params.base_rtt_us);
        let eta_milli = params.eta_milli.clamp(1, MILLI as u32);
        let rest = MILLI.wrapping_sub(eta_milli.into());
        let all = bdp.window().wrapping_mul(rest).wrapping_div(MILLI);
        let increase = all.checked_div(params.flows.max(1).into()).unwrap_or(1);
        let packet = params.packet_bytes.clamp(1, LARGEST_PACKET);
        Self {
            bdp,
            increase: increase.max(1),
            least: (packet << bdp::FRACTION_BITS).wrapping_div(LONGEST_GAP),
            eta_milli,
            max_stage: params.max_stage.min(u8::MAX.into()) as u8,
            stage: 0,
            utilisation: 0,
            window: bdp.window(),
            reference: bdp.window(),
        }
    }

    /// W in 2^-10 bytes, as packets occupy the link.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// W_AI in 2^-10 bytes.
    pub fn increase(&self) -> u64 {
        self.increase
    }

    /// The window's rate in bit/s.
    pub fn rate(&self) -> u64 {
        self.bdp.rate(self.window)
    }

    /// incStage.
    pub fn stage(&self) -> u8 {
        self.stage
    }

    /// The last utilisation in thousandths; 0 if there was none.
    pub fn utilisation_milli(&self) -> u32 {
        thousandths(self.utilisation.into())
    }

    /// All data is acknowledged: the next data is a new flow, which starts at the line rate.
    pub fn on_idle(&mut self) {
        self.stage = 0;
        self.utilisation = 0;
        self.window = self.bdp.window();
        self.reference = self.window;
    }

    /// `MeasureInflight`: U in 2^-20, from what the links of the path did since the last
    /// acknowledgement with records. `None` if nothing is known of any link.
    pub fn measure(&self, links: impl Iterator<Item = Change>) -> Option<u32> {
        let base = u64::from(self.bdp.rtt_us()).wrapping_mul(1_000);
        let links = links.map(|link| {
            let queue = parts(link.before.min(link.queue), base);
            let u = queue.wrapping_add(parts(link.sent, link.interval));
            (u, link.interval)
        });
        let (u, interval) = links.max_by_key(|&(u, _)| u)?;
        let before = match self.utilisation {
            0 => ONE,
            utilisation => utilisation.min(MOST),
        };
        let u = u.min(MOST.into());
        let average = average(before.into(), u, interval.min(base), base);
        Some((average as u32).max(1))
    }

    /// `ComputeWind`: an acknowledgement arrived with a utilisation in 2^-20. `updates`: it is of a
    /// packet that was sent after the last update of the reference window.
    pub fn on_ack(&mut self, utilisation: u32, updates: bool) {
        self.utilisation = utilisation;
        // U / η in 2^-20, at least 1.
        let ratio = u64::from(utilisation)
            .wrapping_mul(MILLI)
            .checked_div(self.eta_milli.into())
            .unwrap_or(1)
            .max(1);
        let multiplies = ratio >> FRACTION_BITS != 0 || self.stage >= self.max_stage;
        let base = if multiplies {
            // 2^42 times 2^20.
            (self.reference << FRACTION_BITS)
                .checked_div(ratio)
                .unwrap_or(self.reference)
        } else {
            self.reference
        };
        let window = base.wrapping_add(self.increase);
        self.window = window.max(self.least.into()).min(self.bdp.window());
        if updates {
            self.reference = self.window;
            self.stage = if multiplies {
                0
            } else {
                self.stage.saturating_add(1)
            };
        }
    }
}

/// `part / whole` in 2^-20; `part` is below 2^44. Values above 2^40 are clamped.
fn parts(part: u64, whole: u64) -> u64 {
    let parts = (part << FRACTION_BITS).checked_div(whole);
    parts.unwrap_or(0).min(1 << 40)
}
