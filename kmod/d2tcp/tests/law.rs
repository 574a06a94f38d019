// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The law against the paper's, in floating point, and against Linux's DCTCP without a deadline.

use proptest::prelude::*;
use weft_mechanisms::d2tcp::law::{imminence, Law, Pace, Task, LEAST, LEAST_WINDOW, MOST};
use weft_mechanisms::d2tcp::power::EXPONENT_ONE;

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
fn d_is_the_time_that_is_needed_over_the_time_that_is_left() {
    assert_eq!(due_in(400_000), EXPONENT_ONE);
    assert_eq!(due_in(320_000), EXPONENT_ONE * 5 / 4);
    assert_eq!(due_in(640_000), EXPONENT_ONE * 5 / 8);
}

#[test]
fn d_is_from_a_half_to_2() {
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

/// dctcp_update_alpha() and dctcp_ssthresh() of Linux 7.2.
struct Dctcp {
    alpha: u32,
}

impl Dctcp {
    fn round(&mut self, delivered: u32, marked: u32) {
        let part = self.alpha >> 4;
        self.alpha -= if part == 0 { self.alpha } else { part };
        if marked > 0 {
            let new = (marked << 6) / delivered.max(1);
            self.alpha = (self.alpha + new).min(1024);
        }
    }

    fn reduced(&self, window: u32) -> u32 {
        (window - ((window * self.alpha) >> 11)).max(2)
    }
}

/// As in the paper.
fn naive(window: u32, alpha: u16, d: u32) -> f64 {
    let d = f64::from(d) / f64::from(EXPONENT_ONE);
    let p = (f64::from(alpha) / 1024.0).powf(d);
    (f64::from(window) * (1.0 - p / 2.0)).max(2.0)
}

proptest! {
    #[test]
    fn without_a_deadline_it_is_linux_s_dctcp(rounds in prop::collection::vec((0..70_000_u32, 0..=100_u32, 1..70_000_u32), 1..200)) {
        let (mut law, mut dctcp) = (Law::new(), Dctcp { alpha: 1024 });
        for (delivered, percent, window) in rounds {
            let marked = (u64::from(delivered) * u64::from(percent) / 100) as u32;
            // In two parts.
            law.arrived(delivered / 3, marked);
            law.arrived(delivered - delivered / 3, 0);
            law.round();
            dctcp.round(delivered, marked);
            prop_assert_eq!(u32::from(law.alpha()), dctcp.alpha);
            prop_assert_eq!(law.reduced(window, EXPONENT_ONE), dctcp.reduced(window));
        }
    }

    #[test]
    fn with_one_the_window_is_the_papers_to_a_packet(
        percents in prop::collection::vec(0..=100_u32, 0..100),
        window in 1..70_000_u32,
        d in LEAST..=MOST,
    ) {
        let mut law = Law::new();
        for percent in percents {
            law.arrived(100, percent);
            law.round();
        }
        let expected = naive(window, law.alpha(), d);
        let found = law.reduced(window, d);
        // A packet for rounding down, and two parts in 65536 of half a window.
        prop_assert!((f64::from(found) - expected).abs() <= 1.0 + f64::from(window) / 65536.0, "{found} {expected}");
        // Nearer means a smaller reduction.
        if d > EXPONENT_ONE {
            prop_assert!(found >= law.reduced(window, EXPONENT_ONE));
        } else {
            prop_assert!(found <= law.reduced(window, EXPONENT_ONE));
        }
    }

    #[test]
    fn nothing_is_too_large(
        arrivals in prop::collection::vec((any::<u32>(), any::<u32>()), 0..10),
        window: u32,
        remaining: u64,
        left_ns: u64,
        pace_window: u64,
        rtt_us: u32,
    ) {
        let mut law = Law::new();
        for (delivered, marked) in arrivals {
            law.arrived(delivered, marked);
            law.round();
            prop_assert!(law.alpha() <= 1024);
        }
        let d = imminence(Some(Task { remaining, left_ns }), Pace { window: pace_window, rtt_us });
        prop_assert!((LEAST..=MOST).contains(&d));
        let reduced = law.reduced(window, d);
        prop_assert!(reduced >= window / 2 && reduced <= window.max(LEAST_WINDOW));
    }
}
