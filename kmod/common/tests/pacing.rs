// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Pacing rates against exact products.

use proptest::prelude::*;
use weft_mechanisms::common::pacing::{payload_rate, window_rate};

#[test]
fn a_wire_of_10_gbit_carries_1448_of_1538_bytes() {
    let rate = payload_rate(10_000_000_000, 1448, 1538);
    assert_eq!(rate, 1_250_000_000 * 1448 / 1538);
}

#[test]
fn half_a_packet_per_round_trip_time_is_one_packet_in_two() {
    assert_eq!(window_rate(1 << 19, 20, 1000, 100), 5_000_000);
    assert_eq!(window_rate(20 << 20, 20, 1000, 100), 200_000_000);
}

proptest! {
    #[test]
    fn rates_are_exact(bits: u64, mss: u16, packet: u16, window in 0..1_u64 << 37, rtt_us: u32) {
        let (mss, packet) = (u32::from(mss), u32::from(packet));
        let exact = u128::from(bits / 8) * u128::from(mss) / u128::from(packet.max(1));
        let exact = exact.clamp(1, u64::MAX.into()) as u64;
        let found = payload_rate(bits, mss, packet);
        // A packet a second, where the product exceeds 64 bits.
        prop_assert!(found.abs_diff(exact) <= u64::from(mss), "{found} {exact}");

        let bytes = u128::from(window) * u128::from(mss) * 1_000_000;
        let exact = (bytes / u128::from(rtt_us.max(1))) >> 20;
        let exact = exact.max(1) as f64;
        let found = window_rate(window, 20, mss, rtt_us) as f64;
        prop_assert!((found - exact).abs() <= 1.0 + exact * 1e-6, "{found} {exact}");
    }

    #[test]
    fn no_rate_is_0(bits: u64, mss: u32, packet: u32, window: u64, fraction: u32, rtt_us: u32) {
        prop_assert!(payload_rate(bits, mss, packet) >= 1);
        prop_assert!(window_rate(window, fraction, mss, rtt_us) >= 1);
    }
}
