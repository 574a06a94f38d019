// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The law against Linux's DCTCP and, with other exponents, against floating point.

use proptest::prelude::*;
use weft_mechanisms::common::dctcp::{Dctcp, LEAST_WINDOW};
use weft_mechanisms::common::power::EXPONENT_ONE;

/// dctcp_update_alpha() and dctcp_ssthresh() of Linux 7.2.
struct Linux {
    alpha: u32,
}

impl Linux {
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

/// As the paper of D2TCP and the public models of L2DCT have it.
fn naive(window: u32, alpha: u16, exponent: u32) -> f64 {
    let exponent = f64::from(exponent) / f64::from(EXPONENT_ONE);
    let p = (f64::from(alpha) / 1024.0).powf(exponent);
    (f64::from(window) * (1.0 - p / 2.0)).max(2.0)
}

proptest! {
    #[test]
    fn with_an_exponent_of_1_it_equals_the_dctcp_of_linux(
        rounds in prop::collection::vec((0..70_000_u32, 0..=100_u32, 1..70_000_u32), 1..200),
    ) {
        let (mut law, mut dctcp) = (Dctcp::new(), Linux { alpha: 1024 });
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
    fn with_another_exponent_the_window_is_within_a_packet_of_the_papers(
        percents in prop::collection::vec(0..=100_u32, 0..100),
        window in 1..70_000_u32,
        exponent in EXPONENT_ONE / 8..=EXPONENT_ONE * 5 / 2,
    ) {
        let mut law = Dctcp::new();
        for percent in percents {
            law.arrived(100, percent);
            law.round();
        }
        let expected = naive(window, law.alpha(), exponent);
        let found = f64::from(law.reduced(window, exponent));
        // A packet for rounding down, and two parts in 65536 of half a window.
        let error = (found - expected).abs();
        prop_assert!(error <= 1.0 + f64::from(window) / 65536.0, "{found} {expected}");
    }

    #[test]
    fn no_input_is_too_large(
        arrivals in prop::collection::vec((any::<u32>(), any::<u32>()), 0..10),
        window: u32,
        exponent: u32,
    ) {
        let mut law = Dctcp::new();
        for (delivered, marked) in arrivals {
            law.arrived(delivered, marked);
            law.round();
            prop_assert!(law.alpha() <= 1024);
        }
        let reduced = law.reduced(window, exponent);
        prop_assert!(reduced >= window / 2 && reduced <= window.max(LEAST_WINDOW));
    }
}
