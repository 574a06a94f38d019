// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A host's bandwidth-delay product, and the rate of a window that is a part of it.
//!
//! Windows are in bytes as packets occupy the link, in units of 2^-10 bytes.

use super::window::LONGEST_TIMEOUT_US;

/// Windows are counted in 2^-10 bytes.
pub const FRACTION_BITS: u32 = 10;

/// The largest BDP in bytes.
const LARGEST: u64 = 1 << 32;
/// The largest window of a socket in packets.
const MOST_PACKETS: u64 = 65_535;

/// The product of a link's rate and a round-trip time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bdp {
    /// In 2^-10 bytes, at most 2^42, at least 1 byte.
    window: u64,
    rtt_us: u32,
}

impl Bdp {
    /// The bytes that a link of `rate_kbit` kbit/s carries in `rtt_us`.
    pub fn new(rate_kbit: u32, rtt_us: u32) -> Self {
        let rtt_us = rtt_us.clamp(1, LONGEST_TIMEOUT_US);
        // Below 2^59.
        let bits = u64::from(rate_kbit).wrapping_mul(rtt_us.into());
        let bytes = bits.wrapping_div(8_000).clamp(1, LARGEST);
        Self {
            window: bytes << FRACTION_BITS,
            rtt_us,
        }
    }

    /// The window that fills the link.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// The round-trip time in µs, at least 1.
    pub fn rtt_us(&self) -> u32 {
        self.rtt_us
    }

    /// The rate of one `window` in each round-trip time, in bit/s.
    pub fn rate(&self, window: u64) -> u64 {
        // 8 · 10^6 / 2^10 is 15625 / 2. A window is at most 2^42.
        let bits = window.min(self.window).wrapping_mul(15_625) >> 1;
        bits.checked_div(self.rtt_us.into()).unwrap_or(0)
    }
}

/// The packets of `packet` bytes that `window` holds, rounded up: the rate then decides how many
/// of them are sent.
pub fn packets(window: u64, packet: u32) -> u32 {
    let packet = u64::from(packet.max(1)) << FRACTION_BITS;
    let whole = window
        .saturating_add(packet.wrapping_sub(1))
        .checked_div(packet)
        .unwrap_or(1);
    whole.clamp(1, MOST_PACKETS) as u32
}
