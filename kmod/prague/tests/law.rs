// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The rules of Prague's draft, one by one; the choices that it leaves open; and the law against a
//! naive model in floating point, and against DCTCP's.

use proptest::prelude::*;
use weft_mechanisms::common::window::Ack;
use weft_mechanisms::prague::law::{Prague, ALPHA_ONE, LARGEST, LEAST_WINDOW, ONE};

const RTT_US: u32 = 100;
const RTT_NS: u64 = 100_000;

fn ack(packets: u32, marked: u32) -> Ack {
    Ack {
        packets,
        marked,
        rtt_us: None,
        limited: true,
    }
}

/// An acknowledgement a round trip after the last reduction.
fn fresh(flow: &mut Prague, ack: Ack, now: u64) -> bool {
    flow.on_ack(ack, RTT_US, true, false, now)
}

fn window(flow: &Prague) -> f64 {
    flow.window() as f64 / ONE as f64
}

fn alpha(flow: &Prague) -> f64 {
    f64::from(flow.alpha()) / f64::from(ALPHA_ONE)
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= expected * 1e-3 + 1e-3
}

/// A flow of 64 packets above its threshold, whose α is a half or a bit less.
fn steady() -> Prague {
    let mut flow = Prague::new(128, 0);
    fresh(&mut flow, ack(0, 1), 0);
    for round in 0..11 {
        flow.arrived(100, 0);
        flow.round(round * RTT_NS);
    }
    assert!(near(window(&flow), 64.0) && (0.45..0.5).contains(&alpha(&flow)));
    flow
}

#[test]
fn alpha_is_an_average_of_the_marked_fractions_in_which_the_last_one_weighs_a_sixteenth() {
    let mut flow = Prague::new(10, 0);
    let mut expected = 1.0;
    for (round, fraction) in [0.0, 1.0, 0.25, 0.25, 0.0, 0.5].into_iter().enumerate() {
        flow.arrived(50, 0);
        flow.arrived(50, (fraction * 100.0) as u32 / 2);
        flow.arrived(
            0,
            (fraction * 100.0) as u32 / 2 + (fraction * 100.0) as u32 % 2,
        );
        flow.round(round as u64 * RTT_NS);
        expected = expected * 15.0 / 16.0 + fraction / 16.0;
        assert!(near(alpha(&flow), expected), "{} {expected}", alpha(&flow));
    }
    // It reaches 0.
    (0..1_000).for_each(|round| flow.round(round));
    assert_eq!(flow.alpha(), 0);
}

#[test]
fn a_mark_takes_half_of_alpha_off_and_ends_slow_start() {
    let mut flow = Prague::new(10, 0);
    assert!(flow.slow_start());
    assert!(fresh(&mut flow, ack(0, 1), 0));
    assert!(near(window(&flow), 5.0) && !flow.slow_start());
    let mut flow = steady();
    let expected = 64.0 * (1.0 - alpha(&flow) / 2.0);
    assert!(fresh(&mut flow, ack(1, 1), 0));
    assert!(near(window(&flow), expected), "{}", window(&flow));
}

#[test]
fn a_mark_counts_at_most_once_in_a_round_trip() {
    let mut flow = steady();
    assert!(fresh(&mut flow, ack(1, 1), 0));
    let after = flow.window();
    assert!(!flow.on_ack(ack(1, 1), RTT_US, false, false, 50_000));
    assert_eq!(flow.window(), after);
    assert!(fresh(&mut flow, ack(1, 1), RTT_NS));
}

#[test]
fn unmarked_packets_add_one_packet_in_a_round_trip_also_after_a_mark() {
    let mut flow = steady();
    (0..64).for_each(|_| {
        fresh(&mut flow, ack(1, 0), 0);
    });
    assert!(near(window(&flow), 65.0), "{}", window(&flow));
    // Half of these are marked, in a round trip that has had its reduction.
    let before = window(&flow);
    flow.on_ack(ack(64, 32), RTT_US, false, false, 0);
    assert!(near(window(&flow) - before, 32.0 / 65.0));
}

#[test]
fn slow_start_adds_a_packet_for_each_one_up_to_the_threshold() {
    let mut flow = Prague::new(10, 0);
    fresh(&mut flow, ack(10, 0), 0);
    assert!(near(window(&flow), 20.0));
    flow.on_timeout(true);
    assert_eq!((flow.packets(), flow.threshold()), (1, 10));
    fresh(&mut flow, ack(4, 0), 0);
    assert!(near(window(&flow), 5.0));
    fresh(&mut flow, ack(40, 0), 0);
    assert!(near(window(&flow), 10.0) && !flow.slow_start());
}

#[test]
fn a_loss_halves_the_window_from_before_a_mark_of_the_same_round_trip() {
    let mut flow = steady();
    flow.on_loss(true);
    assert!(near(window(&flow), 32.0));
    let mut flow = steady();
    fresh(&mut flow, ack(1, 1), 0);
    assert!(window(&flow) > 45.0);
    flow.on_loss(false);
    assert!(near(window(&flow), 32.0), "{}", window(&flow));
    // While it is repaired nothing changes.
    let before = flow.window();
    assert!(!flow.on_ack(ack(10, 5), RTT_US, true, true, RTT_NS));
    assert_eq!(flow.window(), before);
    // If it was none, the window is back.
    flow.undo();
    assert!(window(&flow) > 45.0 && !flow.slow_start());
}

#[test]
fn consecutive_timeouts_keep_the_threshold_of_the_first_one() {
    let mut flow = steady();
    (0..5).for_each(|_| flow.on_timeout(true));
    assert_eq!((flow.packets(), flow.threshold()), (1, 32));
}

#[test]
fn the_smallest_window_is_two_packets() {
    let mut flow = Prague::new(10, 0);
    (0..20).for_each(|round| {
        fresh(&mut flow, ack(0, 1), round * RTT_NS);
    });
    assert_eq!(flow.packets(), LEAST_WINDOW);
    // Not more than there was.
    let mut flow = Prague::new(1, 0);
    fresh(&mut flow, ack(0, 1), 0);
    assert_eq!(flow.packets(), 1);
}

#[test]
fn a_flow_that_does_not_fill_its_window_does_not_grow() {
    let mut flow = steady();
    let idle = Ack {
        limited: false,
        ..ack(10, 0)
    };
    fresh(&mut flow, idle, 0);
    assert!(near(window(&flow), 64.0));
}

#[test]
fn packets_are_paced_at_the_windows_rate_and_twice_that_in_slow_start() {
    let flow = Prague::new(10, 0);
    assert_eq!(flow.pacing(1_000, RTT_US), 200_000_000);
    let flow = steady();
    assert_eq!(flow.pacing(1_000, RTT_US), 640_000_000);
}

/// The rate of a flow grows as much in a second whatever its round-trip time is, and that of a
/// longer one than the virtual one as with Reno.
#[test]
fn with_a_virtual_round_trip_time_all_rates_grow_equally_fast() {
    // Packets a second, gained in a second.
    let gained = |rtt_us: u32| {
        let mut flow = Prague::new(2_000, 25_000);
        fresh(&mut flow, ack(0, 1), 1_000_000_000);
        let start = window(&flow);
        let rounds = 1_000_000 / rtt_us;
        for _ in 0..rounds {
            let packets = flow.packets();
            flow.on_ack(ack(packets, 0), rtt_us, true, false, 0);
        }
        (window(&flow) - start) * 1e6 / f64::from(rtt_us)
    };
    let expected = gained(25_000);
    for rtt_us in [1_000, 5_000, 12_500] {
        let found = gained(rtt_us);
        assert!(
            (found / expected - 1.0).abs() < 0.05,
            "{rtt_us} µs: {found} {expected}"
        );
    }
    assert!(near(gained(50_000), 20.0 * 20.0));
}

#[test]
fn with_a_virtual_round_trip_time_alpha_and_reductions_have_its_period() {
    let mut flow = Prague::new(100, 1_000);
    let mut reductions = 0;
    for round in 10..40 {
        let now = round * RTT_NS;
        flow.arrived(10, 0);
        flow.round(now);
        reductions += u32::from(fresh(&mut flow, ack(1, 1), now));
    }
    assert_eq!(reductions, 3);
    assert!(near(alpha(&flow), (15.0_f64 / 16.0).powi(3)));
}

/// The draft's rules, in floating point.
struct Naive {
    window: f64,
    threshold: f64,
    alpha: f64,
    virtual_us: f64,
    averaged: u64,
    reduced: u64,
    before_mark: f64,
    delivered: f64,
    marked: f64,
}

impl Naive {
    fn round(&mut self, now: u64) {
        if ((now - self.averaged) as f64) < self.virtual_us * 1e3 {
            return;
        }
        self.averaged = now;
        let fraction = (self.marked / self.delivered.max(1.0)).min(1.0);
        self.alpha += (fraction - self.alpha) / 16.0;
        (self.delivered, self.marked) = (0.0, 0.0);
    }

    fn ack(&mut self, ack: Ack, rtt_us: u32, round_over: bool, recovering: bool, now: u64) {
        let virtual_over = (now - self.reduced) as f64 >= self.virtual_us * 1e3;
        if ack.marked > 0 && round_over && virtual_over && !recovering {
            self.before_mark = self.window;
            self.threshold = (self.window * (1.0 - self.alpha / 2.0)).max(2.0);
            self.window = self.window.min(self.threshold);
            self.reduced = now;
        }
        if ack.limited && !recovering {
            let packets = f64::from(ack.packets.saturating_sub(ack.marked));
            if self.window < self.threshold {
                self.window = (self.window + packets).min(self.threshold);
            } else {
                let ratio = (f64::from(rtt_us) / self.virtual_us).min(1.0);
                self.window += packets * ratio * ratio / self.window;
            }
            self.window = self.window.min(f64::from(LARGEST));
        }
    }

    fn loss(&mut self, round_over: bool) {
        let before = if round_over {
            self.window
        } else {
            self.before_mark.max(self.window)
        };
        self.threshold = (before / 2.0).min(self.window).max(2.0);
        self.window = self.window.min(self.threshold);
    }

    fn timeout(&mut self, round_over: bool) {
        if self.window > 1.0 {
            self.loss(round_over);
        }
        self.window = 1.0;
    }
}

/// ns since the last step, the kind of event, and whether a round trip is over; packets, the
/// percentage above 50 of which a mark is made, the round-trip time in µs, and whether the window
/// limits the flow.
type Step = ((u64, u8, bool), (u32, u32, u32, bool));

/// Compares the law with the naive model after each step; returns the flow at the end.
fn compare(packets: u32, virtual_us: u32, steps: &[Step]) -> Prague {
    let mut flow = Prague::new(packets, virtual_us);
    let mut naive = Naive {
        window: f64::from(packets),
        threshold: f64::from(LARGEST),
        alpha: 1.0,
        virtual_us: f64::from(virtual_us),
        averaged: 0,
        reduced: 0,
        before_mark: f64::from(packets),
        delivered: 0.0,
        marked: 0.0,
    };
    let mut now = 0;
    for &((gap, kind, round_over), (packets, percent, rtt_us, limited)) in steps {
        now += gap;
        // Most are unmarked.
        let marked = (u64::from(packets) * u64::from(percent.saturating_sub(50)) / 50) as u32;
        match kind {
            0 => {
                flow.on_loss(round_over);
                naive.loss(round_over);
            }
            1 => {
                flow.on_timeout(round_over);
                naive.timeout(round_over);
            }
            _ => {
                let recovering = kind == 2;
                let ack = Ack {
                    limited,
                    ..ack(packets, marked)
                };
                flow.arrived(packets, marked);
                naive.delivered += f64::from(packets);
                naive.marked += f64::from(marked);
                if round_over {
                    flow.round(now);
                    naive.round(now);
                }
                flow.on_ack(ack, rtt_us, round_over, recovering, now);
                naive.ack(ack, rtt_us, round_over, recovering, now);
            }
        }
        let (found, expected) = (alpha(&flow), naive.alpha);
        let unit = 1.0 / f64::from(ALPHA_ONE);
        assert!((found - expected).abs() <= 4.0 * unit, "{found} {expected}");
        let (found, expected) = (window(&flow), naive.window);
        assert!(
            (found - expected).abs() <= expected * 2e-3 + 1e-2,
            "{found} {expected}"
        );
        assert!((f64::from(flow.threshold()) - naive.threshold.floor()).abs() <= 1.0);
        // Rounding errors do not add up.
        naive.window = found;
        naive.alpha = alpha(&flow);
        // A rounding error decided whether slow start is over: the model follows.
        if flow.slow_start() != (naive.window < naive.threshold) {
            let moved = (naive.threshold - found).abs();
            assert!(moved <= (found + 1.0) * 3e-5, "{found} {}", naive.threshold);
            let left = if flow.slow_start() { 1.0 } else { 0.0 };
            naive.threshold = found + left / ONE as f64;
        }
    }
    flow
}

/// The window of a large flow grows by a little more than a packet above its threshold.
#[test]
fn a_threshold_stays_while_the_window_grows_above_it() {
    let mark = ((0, 3, true), (2, 75, 1, false));
    let acked = |packets, limited| ((0, 3, false), (packets, 0, 1, limited));
    let round = ((0, 2, true), (0, 0, 1, false));
    let mut steps = vec![round, round, round, acked(16_837, true), round];
    steps.extend([acked(47_595, true), mark]);
    let threshold = compare(1, 0, &steps).threshold();
    steps.extend([acked(45_424, true), acked(0, false)]);
    let flow = compare(1, 0, &steps);
    assert_eq!(
        (flow.threshold(), flow.packets()),
        (threshold, threshold + 2)
    );
}

proptest! {
    #[test]
    fn each_step_matches_the_naive_model(
        packets in 1..300_u32,
        virtual_us in prop_oneof![Just(0_u32), 1..50_000_u32],
        steps in prop::collection::vec(
            (
                (prop_oneof![4 => 0..100_000_u64, 1 => 0..1_000_000_000_u64], 0..12_u8, any::<bool>()),
                (prop_oneof![8 => 0..4_u32, 1 => 0..300_u32, 1 => 0..LARGEST], 0..=100_u32, 1..60_000_u32, prop::bool::weighted(0.9)),
            ),
            1..300,
        ),
    ) {
        compare(packets, virtual_us, &steps);
    }

    #[test]
    fn no_input_is_too_large(
        packets: u32,
        virtual_us: u32,
        steps in prop::collection::vec((any::<(u32, u32, bool)>(), any::<u32>(), any::<(bool, bool)>(), any::<u64>(), 0..8_u8), 0..100),
    ) {
        let mut flow = Prague::new(packets, virtual_us);
        for ((packets, marked, limited), rtt_us, (round_over, recovering), now, kind) in steps {
            match kind {
                0 => flow.on_loss(round_over),
                1 => flow.on_timeout(round_over),
                2 => flow.undo(),
                _ => {
                    flow.arrived(packets, marked);
                    flow.round(now);
                    let ack = Ack { limited, ..ack(packets, marked) };
                    flow.on_ack(ack, rtt_us, round_over, recovering, now);
                }
            }
            prop_assert!((1..=LARGEST).contains(&flow.packets()));
            prop_assert!((LEAST_WINDOW..=LARGEST).contains(&flow.threshold()));
            prop_assert!(flow.alpha() <= ALPHA_ONE);
            prop_assert!(flow.pacing(rtt_us, packets) >= 1);
        }
    }
}
