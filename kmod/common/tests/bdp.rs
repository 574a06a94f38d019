// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A link's bandwidth-delay product, and the rate of a part of it.

use proptest::prelude::*;
use weft_mechanisms::common::bdp::{packets, Bdp, FRACTION_BITS};

#[test]
fn ten_gigabit_for_twelve_microseconds_are_fifteen_kilobytes() {
    let bdp = Bdp::new(10_000_000, 12);
    assert_eq!(bdp.window(), 15_000 << FRACTION_BITS);
    assert_eq!(bdp.rate(bdp.window()), 10_000_000_000);
    assert_eq!(bdp.rate(bdp.window() / 4), 2_500_000_000);
    assert_eq!(packets(bdp.window(), 1_500), 10);
    assert_eq!(packets(bdp.window() + 1, 1_500), 11);
}

#[test]
fn a_window_below_a_packet_is_one_packet() {
    assert_eq!(packets(0, 1_538), 1);
    assert_eq!(packets(5 << FRACTION_BITS, 1_538), 1);
}

proptest! {
    #[test]
    fn the_rate_of_the_whole_window_is_the_links(rate_kbit in 1_000..400_000_000_u32, rtt_us in 100..10_000_u32) {
        let bdp = Bdp::new(rate_kbit, rtt_us);
        let (found, expected) = (bdp.rate(bdp.window()) as f64, f64::from(rate_kbit) * 1e3);
        // The BDP is rounded down to a byte.
        prop_assert!(found <= expected + 1.0);
        prop_assert!(found >= expected - 8e6 / f64::from(rtt_us) - 1.0, "{found} {expected}");
    }

    #[test]
    fn nothing_is_too_large(rate_kbit: u32, rtt_us: u32, window: u64, packet: u32) {
        let bdp = Bdp::new(rate_kbit, rtt_us);
        prop_assert!(bdp.window() >= 1 << FRACTION_BITS && bdp.window() <= 1 << 42);
        prop_assert!(bdp.rate(window) <= bdp.rate(bdp.window()));
        prop_assert!((1..=65_535).contains(&packets(window, packet)));
    }
}
