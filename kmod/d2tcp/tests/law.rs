// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The law against the paper's, in floating point. `common::tests::dctcp` has α.

use proptest::prelude::*;
use weft_mechanisms::common::dctcp::Dctcp;
use weft_mechanisms::common::power::EXPONENT_ONE;
use weft_mechanisms::d2tcp::law::{imminence, Pace, Task, LEAST, MOST};

const PACKET: u64 = 1448;

fn pace(packets: u64) -> Pace {
    Pace {
        window: packets * PACKET,
        rtt_us: 100,
    }
}

/// 30 packets at 10; the flow sends 7.5 in a round-trip time of 100 µs: 400 µs.
fn due_in(left_ns: u64) -> u32 {
    let task = Task {
        remaining: 30 * PACKET,
        left_ns,
    };
    imminence(Some(task), pace(10))
}

#[test]
fn d_is_the_time_needed_over_the_time_left() {
    assert_eq!(due_in(400_000), EXPONENT_ONE);
    assert_eq!(due_in(320_000), EXPONENT_ONE * 5 / 4);
    assert_eq!(due_in(640_000), EXPONENT_ONE * 5 / 8);
}

#[test]
fn d_ranges_from_a_half_to_2() {
    assert_eq!(
        (due_in(200_000), due_in(100_000), due_in(1_000)),
        (MOST, MOST, MOST)
    );
    assert_eq!((due_in(800_000), due_in(u64::MAX)), (LEAST, LEAST));
    let huge = Task {
        remaining: u64::MAX,
        left_ns: 86_400_000_000_000,
    };
    let slow = Pace {
        window: 0,
        rtt_us: u32::MAX,
    };
    assert_eq!(imminence(Some(huge), slow), MOST);
}

#[test]
fn without_a_deadline_and_after_it_d_is_1() {
    assert_eq!(imminence(None, pace(10)), EXPONENT_ONE);
    assert_eq!((due_in(0), due_in(999)), (EXPONENT_ONE, EXPONENT_ONE));
}

proptest! {
    #[test]
    fn a_nearer_deadline_means_a_smaller_reduction(
        percents in prop::collection::vec(0..=100_u32, 0..100),
        window in 1..70_000_u32,
        d in LEAST..=MOST,
    ) {
        let mut dctcp = Dctcp::new();
        for percent in percents {
            dctcp.arrived(100, percent);
            dctcp.round();
        }
        let (found, without) = (dctcp.reduced(window, d), dctcp.reduced(window, EXPONENT_ONE));
        if d > EXPONENT_ONE {
            prop_assert!(found >= without);
        } else {
            prop_assert!(found <= without);
        }
    }

    #[test]
    fn no_input_is_too_large(remaining: u64, left_ns: u64, window: u64, rtt_us: u32) {
        let d = imminence(Some(Task { remaining, left_ns }), Pace { window, rtt_us });
        prop_assert!((LEAST..=MOST).contains(&d));
    }
}
