// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The choice of the port for a detour, and the probability of a detour before the own port is full
//! (§2, §7).

use super::options::Policy;
use crate::common::xorshift::Xorshift32;

/// 2^32 / φ, odd: Fibonacci hashing (Knuth vol. 3, §6.4).
const GOLDEN: u32 = 0x9E37_79B9;

/// A choice among ports, which are offered one after the other. One look at each port is as good as
/// a list of all: the n-th of several equally good ports replaces the previous choice with a
/// probability of 1/n (reservoir sampling, Knuth vol. 2, §3.4.2).
#[derive(Clone, Copy)]
pub struct Choice {
    policy: Policy,
    flow: u32,
    /// The best port so far, and its cost.
    best: Option<(u16, u64)>,
    /// The number of ports that are as good, itself included.
    equal: u32,
}

impl Choice {
    /// For a packet of a flow.
    pub fn new(policy: Policy, flow: u32) -> Self {
        Self {
            policy,
            flow,
            best: None,
            equal: 0,
        }
    }

    /// Offers a port that has room, and holds `bytes`.
    pub fn offer(&mut self, port: u16, device: u32, bytes: u64, random: &mut Xorshift32) {
        let cost = match self.policy {
            Policy::Off => return,
            Policy::Random | Policy::Probabilistic => 0,
            Policy::LoadAware => bytes,
            Policy::Flow => preference(self.flow, device).into(),
        };
        match self.best {
            Some((_, best)) if cost > best => {}
            Some((_, best)) if cost == best => {
                self.equal = self.equal.saturating_add(1);
                if random.below(self.equal) == 0 {
                    self.best = Some((port, cost));
                }
            }
            _ => {
                self.best = Some((port, cost));
                self.equal = 1;
            }
        }
    }

    /// The chosen port, if one was offered.
    pub fn chosen(&self) -> Option<u16> {
        self.best.map(|(port, _)| port)
    }
}

/// A flow's cost of a device; lower is preferred. Each flow orders all devices in its own way, and
/// the order does not change when some of them have no room (rendezvous hashing: D. Thaler, C.
/// Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM Transactions on
/// Networking 6(1), 1998).
fn preference(flow: u32, device: u32) -> u32 {
    // The finalizer of MurmurHash3 (A. Appleby): each bit of both changes half of the bits.
    let mut x = flow ^ device.wrapping_mul(GOLDEN);
    x ^= x >> 16;
    x = x.wrapping_mul(0x85eb_ca6b);
    x ^= x >> 13;
    x = x.wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// A probability of 1, or a full port.
pub const ONE: u32 = 1 << 16;

/// How full a port is, in parts of [`ONE`]: by packets or by bytes, whichever is more. Each
/// argument is the current value and the limit.
pub fn occupancy(packets: (u64, u64), bytes: (u64, u64)) -> u32 {
    let share = |(inside, most): (u64, u64)| {
        let parts = inside.saturating_mul(ONE.into());
        parts.checked_div(most).unwrap_or(0).min(ONE.into()) as u32
    };
    share(packets).max(share(bytes))
}

/// The probability, in parts of [`ONE`], of detouring a packet although the port has room.
///
/// For packets of the rank `ranks` or more it grows with the occupancy, from 0 at `from` hundredths
/// of the limit to 1 when the port is full. Packets of rank 0 are never detoured before the port is
/// full. In between, the more urgent a packet is, the later it begins: with pressure p, 0 to 1, and
/// rank r, 0 to 1, the probability is p + r - 1. "As the buffer fills, the switch detours more
/// classes of traffic with higher probability" (§7).
pub fn chance(occupancy: u32, from: u32, rank: u32, ranks: u32) -> u32 {
    let one = u64::from(ONE);
    let from = one.saturating_mul(from.into()) / 100;
    let above = u64::from(occupancy).saturating_sub(from);
    let pressure = above.saturating_mul(one);
    let Some(pressure) = pressure.checked_div(one.saturating_sub(from)) else {
        return 0;
    };
    let rank = u64::from(rank.min(ranks)).saturating_mul(one);
    let rank = rank.checked_div(ranks.into()).unwrap_or(one);
    let chance = pressure.saturating_add(rank).saturating_sub(one);
    chance.min(one) as u32
}
