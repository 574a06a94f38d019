// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Rates at which a socket paces itself, in bytes of payload a second.

/// The payload's rate at which full packets occupy a wire at `bits` bit/s, if each has `mss` bytes
/// of payload and occupies `packet` bytes. At least 1.
pub fn payload_rate(bits: u64, mss: u32, packet: u32) -> u64 {
    let bytes = bits >> 3;
    // Packets first where the product would be too large: then the rest below one does not matter.
    let packet = u64::from(packet.max(1));
    let rate = match bytes.checked_mul(mss.into()) {
        Some(product) => product.checked_div(packet),
        None => bytes
            .checked_div(packet)
            .map(|it| it.saturating_mul(mss.into())),
    };
    rate.unwrap_or(1).max(1)
}

/// The rate of a window of `window >> fraction` packets of `mss` bytes in each round-trip time of
/// `rtt_us`. At least 1.
pub fn window_rate(window: u64, fraction: u32, mss: u32, rtt_us: u32) -> u64 {
    const US: u64 = 1_000_000;
    let rtt_us = u64::from(rtt_us.max(1));
    // A window below 2^40 and an MSS below 2^16 leave room for one of the two factors.
    let bytes = window.saturating_mul(mss.into());
    let rate = match bytes.checked_mul(US) {
        Some(product) => product.checked_div(rtt_us).unwrap_or(u64::MAX) >> fraction.min(63),
        None => (bytes >> fraction.min(63))
            .saturating_mul(US)
            .checked_div(rtt_us)
            .unwrap_or(u64::MAX),
    };
    rate.max(1)
}
