// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The law against the public models' formulas, in floating point.

use proptest::prelude::*;
use weft_mechanisms::common::dctcp::{Dctcp, LEAST_WINDOW};
use weft_mechanisms::common::power::EXPONENT_ONE;
use weft_mechanisms::l2dct::law::{weight, Law, FALLS_FROM, FALLS_TO, LEAST, MOST};

const KIB: u32 = 1 << 10;

/// A flow that has sent this many bytes.
fn after(bytes: u32) -> Law {
    let mut law = Law::new();
    law.sent(bytes);
    law
}

/// The window after a mark if half of the packets of each window were marked.
fn reduced(law: &Law, window: u32) -> u32 {
    let mut dctcp = Dctcp::new();
    for _ in 0..200 {
        dctcp.arrived(100, 50);
        dctcp.round();
    }
    dctcp.reduced(window, law.weight())
}

#[test]
fn the_weight_falls_from_2_5_to_an_eighth_as_bytes_are_sent() {
    assert_eq!((MOST, LEAST), (EXPONENT_ONE * 5 / 2, EXPONENT_ONE / 8));
    for sent in [0, 1448, 200 * KIB] {
        assert_eq!(weight(sent), MOST, "{sent}");
    }
    // In the middle, 21/16.
    assert_eq!(weight(612 * KIB), EXPONENT_ONE * 21 / 16);
    for sent in [1024 * KIB, 2048 * KIB, u32::MAX] {
        assert_eq!(weight(sent), LEAST, "{sent}");
    }
}

#[test]
fn a_new_flow_grows_like_dctcps() {
    let mut law = after(FALLS_FROM);
    for acked in [1, 2, 3, 1000, u32::MAX] {
        assert_eq!(law.counted(acked), acked);
    }
}

#[test]
fn a_long_flow_grows_by_a_packet_in_20_round_trip_times() {
    let mut law = after(FALLS_TO);
    // 30 packets at a time, one by one.
    let counted: Vec<u32> = (0..20)
        .map(|_| (0..30).map(|_| law.counted(1)).sum())
        .collect();
    assert_eq!(counted.iter().sum::<u32>(), 30);
    assert!(counted.iter().all(|it| (1..=2).contains(it)), "{counted:?}");
}

#[test]
fn a_mark_reduces_a_new_flow_less_than_dctcps_and_a_long_one_more() {
    let dctcp = reduced(&after(FALLS_FROM + (MOST - EXPONENT_ONE) * 347), 1000);
    let (new, long) = (reduced(&after(0), 1000), reduced(&after(FALLS_TO), 1000));
    // α is a half, to a sixteenth: 1 - 0.5^2.5 / 2, 1 - 0.5 / 2 and 1 - 0.5^0.125 / 2.
    for (found, expected) in [(new, 912_u32), (dctcp, 750), (long, 541)] {
        assert!(found.abs_diff(expected) <= 32, "{found}, not {expected}");
    }
}

#[test]
fn if_all_packets_are_marked_a_mark_halves_the_window_at_any_weight() {
    for sent in [0, 500 * KIB, FALLS_TO] {
        assert_eq!(Dctcp::new().reduced(1000, weight(sent)), 500);
    }
}

#[test]
fn a_connections_next_flow_starts_with_the_largest_weight() {
    let mut law = after(FALLS_TO);
    law.end();
    // The weight stays until the next flow begins.
    law.sent(0);
    assert_eq!(law.weight(), LEAST);
    law.sent(1448);
    assert_eq!(law.weight(), MOST);
    law.sent(FALLS_TO);
    assert_eq!(law.weight(), LEAST);
}

/// The models' weight.
fn naive_weight(sent: u64) -> f64 {
    let part = (sent as f64 - 204_800.0) / (1_048_576.0 - 204_800.0);
    2.5 - part.clamp(0.0, 1.0) * (2.5 - 0.125)
}

/// The models' window, in packets, in congestion avoidance.
struct Naive {
    window: f64,
    sent: u64,
}

impl Naive {
    fn acked(&mut self, packets: u32) {
        let k = naive_weight(self.sent) / 2.5;
        self.window += k * f64::from(packets) / self.window;
    }

    fn marked(&mut self, alpha: f64) {
        let b = alpha.powf(naive_weight(self.sent));
        self.window = (self.window * (1.0 - b / 2.0)).max(2.0);
    }
}

/// The kernel's growth, `tcp_cong_avoid_ai()`.
struct Reno {
    window: u32,
    credit: u32,
}

impl Reno {
    fn acked(&mut self, packets: u32) {
        if self.credit >= self.window {
            self.credit = 0;
            self.window += 1;
        }
        self.credit += packets;
        if self.credit >= self.window {
            let more = self.credit / self.window;
            self.credit -= more * self.window;
            self.window += more;
        }
    }
}

proptest! {
    #[test]
    fn the_weight_matches_the_model(sent: u32) {
        let found = f64::from(weight(sent)) / f64::from(EXPONENT_ONE);
        let error = found - naive_weight(sent.into());
        // The fall is rounded down.
        let most = 1.0 / f64::from(EXPONENT_ONE);
        prop_assert!(error > -1e-9 && error < most, "{found} {error}");
    }

    /// Windows of packets, of which some are marked. Reno grows by whole packets: from one mark to
    /// the next it is at most two packets from the models' window.
    #[test]
    fn the_window_is_within_two_packets_of_the_models(
        windows in prop::collection::vec(
            (0..=40_u32, prop::bool::weighted(0.05), 1..=4_u32),
            1..300,
        ),
        first in 2..200_u32,
    ) {
        let (mut law, mut dctcp) = (Law::new(), Dctcp::new());
        let mut reno = Reno { window: first, credit: 0 };
        let mut naive = Naive { window: first.into(), sent: 0 };
        for (percent, is_marked, stretch) in windows {
            let packets = reno.window;
            if is_marked {
                dctcp.arrived(packets, packets * percent / 100);
                // As tcp_init_cwnd_reduction() does.
                reno.credit = 0;
                naive.window = reno.window.into();
                naive.marked(f64::from(dctcp.alpha()) / 1024.0);
                reno.window = dctcp.reduced(reno.window, law.weight());
                let error = (f64::from(reno.window) - naive.window).abs();
                prop_assert!(error <= 1.01, "{} {}", reno.window, naive.window);
                naive.window = reno.window.into();
            } else {
                dctcp.arrived(packets, 0);
                let mut left = packets;
                while left > 0 {
                    let acked = left.min(stretch);
                    naive.acked(acked);
                    reno.acked(law.counted(acked));
                    left -= acked;
                }
                let error = (f64::from(reno.window) - naive.window).abs();
                prop_assert!(error <= 2.0, "{} {}", reno.window, naive.window);
            }
            dctcp.round();
            naive.sent += u64::from(packets) * 1448;
            law.sent(packets * 1448);
        }
    }

    #[test]
    fn no_part_of_a_packet_is_lost(
        steps in prop::collection::vec((0..2_000_000_u32, 0..1000_u32), 1..100),
    ) {
        let mut law = Law::new();
        let (mut counted, mut expected, mut sent) = (0_u64, 0.0, 0_u64);
        for (bytes, acked) in steps {
            law.sent(bytes);
            sent += u64::from(bytes);
            counted += u64::from(law.counted(acked));
            expected += f64::from(acked) * f64::from(law.weight()) / f64::from(MOST);
            let weight = f64::from(law.weight()) / f64::from(EXPONENT_ONE);
            prop_assert!((weight - naive_weight(sent)).abs() <= 0.001);
        }
        let error = expected - counted as f64;
        prop_assert!((-0.001..1.001).contains(&error), "{error}");
    }

    #[test]
    fn no_input_is_too_large(
        sent in prop::collection::vec(any::<u32>(), 0..4),
        acked: u32,
        window: u32,
    ) {
        let mut law = Law::new();
        for bytes in sent {
            law.sent(bytes);
        }
        prop_assert!((LEAST..=MOST).contains(&law.weight()));
        for _ in 0..3 {
            prop_assert!(law.counted(acked) <= acked);
        }
        let reduced = Dctcp::new().reduced(window, law.weight());
        prop_assert!(reduced >= window / 2 && reduced <= window.max(LEAST_WINDOW));
    }
}
