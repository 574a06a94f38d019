// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The sentences of Swift's §3 and Algorithm 1, one by one; the choices that the paper leaves open;
//! and the law against a naive model in floating point.

use std::num::NonZeroU32;

use proptest::prelude::*;
use weft_mechanisms::common::window::Ack;
use weft_mechanisms::swift::law::{root, Params, Swift, LARGEST, ONE, RETX_RESET_THRESHOLD};

/// A target of 50 µs without flow scaling.
const PLAIN: Params = Params {
    base_target_us: 40,
    hop_us: 2,
    hops: 5,
    fs_range_us: 0,
    initial: 10,
    ..Params::PAPER
};

const US: u64 = 1_000;

fn ack(packets: u32, rtt_us: u32) -> Ack {
    Ack {
        packets,
        marked: 0,
        rtt_us: NonZeroU32::new(rtt_us),
        limited: true,
    }
}

fn window(flow: &Swift) -> f64 {
    flow.window() as f64 / ONE as f64
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= expected * 1e-3 + 1e-5
}

#[test]
fn the_target_is_base_plus_hops() {
    assert_eq!(Swift::new(PLAIN).target_ns(), 50 * US);
}

/// "α = fs_range / (1/√fs_min_cwnd - 1/√fs_max_cwnd), β = -α/√fs_max_cwnd"
#[test]
fn flow_scaling_is_the_whole_range_at_the_smallest_window_and_none_at_the_largest() {
    for (initial, fs_max, expected_us) in
        [(100, 100, 0.0), (1000, 100, 0.0), (1, 100, 900.0 / 3.0623)]
    {
        let flow = Swift::new(Params {
            fs_range_us: 1_000,
            fs_max,
            initial,
            ..PLAIN
        });
        let scaling = (flow.target_ns() - 50 * US) as f64 / 1e3;
        assert!((scaling - expected_us).abs() < 1.0, "{initial}: {scaling}");
    }
    // Below fs_min it stays.
    let mut flow = Swift::new(Params {
        fs_range_us: 1_000,
        ..PLAIN
    });
    (0..RETX_RESET_THRESHOLD).for_each(|_| flow.on_timeout(0));
    assert!(window(&flow) < 0.1);
    assert_eq!(flow.target_ns(), 1_050 * US);
}

/// "if delay < target_delay: if cwnd ≥ 1: cwnd ← cwnd + ai/cwnd · num_acked"
#[test]
fn a_window_of_packets_below_the_target_adds_ai() {
    let mut flow = Swift::new(PLAIN);
    flow.on_ack(ack(10, 49), 0);
    assert!(near(window(&flow), 11.0), "{}", window(&flow));
    // Packet by packet it is a little less, as the window grows meanwhile.
    let mut flow = Swift::new(PLAIN);
    (0..10).for_each(|_| flow.on_ack(ack(1, 49), 0));
    assert!((10.9..11.0).contains(&window(&flow)));
}

/// "else cwnd ← cwnd + ai · num_acked"
#[test]
fn below_one_packet_each_packet_adds_ai() {
    let params = Params {
        ai_milli: 100,
        min_milli: 200,
        ..PLAIN
    };
    let mut flow = Swift::new(params);
    (0..RETX_RESET_THRESHOLD).for_each(|_| flow.on_timeout(0));
    assert!(near(window(&flow), 0.2));
    flow.on_ack(ack(2, 10), 0);
    assert!(near(window(&flow), 0.4));
}

/// "cwnd ← max(1 - β · (delay - target_delay)/delay, 1 - max_mdf) · cwnd"
#[test]
fn above_the_target_the_window_shrinks_by_the_excess_at_most_by_max_mdf() {
    for (rtt_us, expected) in [
        (50, 10.0),
        (100, 6.0),
        (75, 10.0 * (1.0 - 0.8 / 3.0)),
        (1_000, 5.0),
    ] {
        let mut flow = Swift::new(PLAIN);
        flow.on_ack(ack(1, rtt_us), 0);
        assert!(near(window(&flow), expected), "{rtt_us}: {}", window(&flow));
    }
}

/// "can_decrease ← (now - t_last_decrease ≥ rtt)"
#[test]
fn the_window_shrinks_at_most_once_in_a_round_trip_time() {
    let mut flow = Swift::new(PLAIN);
    let mut windows = Vec::new();
    for now_us in [1_000, 1_001, 1_050, 1_099, 1_100, 1_199, 1_200] {
        flow.on_ack(ack(1, 100), now_us * US);
        windows.push(window(&flow));
    }
    for (found, expected) in windows.iter().zip([6.0, 6.0, 6.0, 6.0, 3.6, 3.6, 2.16]) {
        assert!(near(*found, expected), "{windows:?}");
    }
    // Losses count as such a decrease, and wait like one.
    flow.on_fast_recovery(1_250 * US);
    assert!(near(window(&flow), 2.16));
    flow.on_fast_recovery(1_300 * US);
    assert!(near(window(&flow), 1.08));
}

/// "On Retransmit Timeout: if retransmit_cnt ≥ RETX_RESET_THRESHOLD: cwnd ← min_cwnd, else if
/// can_decrease: cwnd ← (1 - max_mdf) · cwnd"
#[test]
fn timeouts_halve_the_window_and_the_fifth_consecutive_one_resets_it() {
    let mut flow = Swift::new(PLAIN);
    let mut windows = Vec::new();
    for at in 0..6_u64 {
        flow.on_timeout(at * 1_000_000);
        windows.push(window(&flow));
    }
    for (found, expected) in windows.iter().zip([5.0, 2.5, 1.25, 0.625, 0.001, 0.001]) {
        assert!(near(*found, expected), "{windows:?}");
    }
    flow.on_ack(ack(1, 10), 10_000_000);
    assert_eq!(flow.timeouts(), 0);
    assert!(near(window(&flow), 1.001));
}

/// "pacing_delay ← rtt/cwnd if cwnd < 1, else 0"
#[test]
fn a_window_below_one_packet_is_paced() {
    let mut flow = Swift::new(PLAIN);
    flow.on_ack(ack(1, 10), 0);
    assert_eq!((flow.packets(), flow.pacing(1_000)), (10, None));
    for at in 1..5 {
        flow.on_timeout(at * 1_000_000);
    }
    let rate = flow.pacing(1_000).unwrap() as f64;
    // A packet of 1000 bytes every 10 µs / window.
    assert!(near(rate, 1e8 * window(&flow)), "{rate}");
    assert_eq!(flow.packets(), 1);
}

#[test]
fn an_ack_without_a_delay_or_of_nothing_or_of_an_unfilled_window_does_not_change_it() {
    let mut flow = Swift::new(PLAIN);
    flow.on_ack(ack(1, 0), 0);
    flow.on_ack(ack(0, 1_000), 0);
    flow.on_ack(
        Ack {
            limited: false,
            ..ack(5, 10)
        },
        0,
    );
    assert_eq!(flow.window(), 10 * ONE);
    // It shrinks all the same.
    flow.on_ack(
        Ack {
            limited: false,
            ..ack(5, 100)
        },
        0,
    );
    assert!(near(window(&flow), 6.0));
}

/// Two flows on one link of a packet a µs share it, and keep the delay near the target: the smaller
/// one has the longer target (§3.2).
#[test]
fn flows_with_different_windows_converge() {
    let mut flows = [1, 150].map(|initial| {
        Swift::new(Params {
            initial,
            fs_range_us: 100,
            ..PLAIN
        })
    });
    let mut now = 0;
    for _ in 0..20_000 {
        let out: f64 = flows.iter().map(window).sum();
        let rtt_us = f64::max(20.0, out) as u32;
        for flow in &mut flows {
            flow.on_ack(ack(flow.packets(), rtt_us), now);
        }
        now += u64::from(rtt_us) * US;
    }
    let [one, other] = flows.each_ref().map(window);
    let target = flows[0].target_ns() as f64 / 1e3;
    assert!((one / other - 1.0).abs() < 0.2, "{one} {other}");
    assert!(
        ((one + other) / target - 1.0).abs() < 0.1,
        "{one} {other} {target}"
    );
}

/// Algorithm 1, in floating point.
struct Naive {
    params: Params,
    window: f64,
    decreased: Option<u64>,
    rtt: f64,
    timeouts: u32,
}

impl Naive {
    fn new(params: Params) -> Self {
        Self {
            window: f64::from(params.initial.clamp(1, params.max)),
            params,
            decreased: None,
            rtt: 0.0,
            timeouts: 0,
        }
    }

    fn target(&self) -> f64 {
        let p = &self.params;
        let (min, max) = (f64::from(p.fs_min_milli) / 1e3, f64::from(p.fs_max));
        let alpha = f64::from(p.fs_range_us) / (1.0 / min.sqrt() - 1.0 / max.sqrt());
        let beta = -alpha / max.sqrt();
        let scaling = (alpha / self.window.sqrt() + beta)
            .min(f64::from(p.fs_range_us))
            .max(0.0);
        f64::from(p.base_target_us) + f64::from(p.hops) * f64::from(p.hop_us) + scaling
    }

    fn decrease(&mut self, factor: f64, now: u64) {
        if self
            .decreased
            .is_none_or(|at| (now - at) as f64 >= self.rtt * 1e3)
        {
            self.set(self.window * factor, now);
        }
    }

    fn set(&mut self, window: f64, now: u64) {
        let p = &self.params;
        let window = window.clamp(f64::from(p.min_milli) / 1e3, f64::from(p.max));
        if window < self.window {
            self.decreased = Some(now);
        }
        self.window = window;
    }

    fn ack(&mut self, ack: Ack, now: u64) {
        if ack.packets == 0 {
            return;
        }
        self.timeouts = 0;
        let Some(rtt) = ack.rtt_us else { return };
        self.rtt = f64::from(rtt.get());
        let (p, target) = (self.params, self.target());
        if self.rtt < target {
            if ack.limited {
                let gain = f64::from(p.ai_milli) / 1e3 * f64::from(ack.packets.min(LARGEST));
                let gain = if self.window >= 1.0 {
                    gain / self.window
                } else {
                    gain
                };
                self.set(self.window + gain, now);
            }
        } else {
            let part = f64::from(p.beta_milli) / 1e3 * (self.rtt - target) / self.rtt;
            self.decrease(
                (1.0 - part).max(1.0 - f64::from(p.max_mdf_milli) / 1e3),
                now,
            );
        }
    }

    fn loss(&mut self, is_timeout: bool, now: u64) {
        self.timeouts = if is_timeout { self.timeouts + 1 } else { 0 };
        if self.timeouts >= RETX_RESET_THRESHOLD.into() {
            self.set(0.0, now);
        } else {
            self.decrease(1.0 - f64::from(self.params.max_mdf_milli) / 1e3, now);
        }
    }
}

#[derive(Clone, Debug)]
enum Event {
    Ack(Ack),
    Recovery,
    Timeout,
}

fn event() -> impl Strategy<Value = Event> {
    let packets = prop_oneof![8 => 1..4_u32, 2 => 0..200_u32, 1 => any::<u32>()];
    let rtt = prop_oneof![8 => 1..400_u32, 2 => 1..100_000_u32, 1 => any::<u32>()];
    let ack = (packets, rtt, prop::bool::weighted(0.9)).prop_map(|(packets, rtt, limited)| {
        Event::Ack(Ack {
            limited,
            ..ack(packets, rtt)
        })
    });
    prop_oneof![20 => ack, 1 => Just(Event::Recovery), 1 => Just(Event::Timeout)]
}

fn params() -> impl Strategy<Value = Params> {
    (
        (1..100_u32, 0..10_u32, 0..10_u32, 0..500_u32),
        (1..900_u32, 1..300_u32, 1..3_000_u32),
        (
            1..=1_000_u32,
            1..1_000_u32,
            1..100_u32,
            1..=1_000_u32,
            1..2_000_u32,
        ),
    )
        .prop_map(
            |(
                (base_target_us, hop_us, hops, fs_range_us),
                (fs_min_milli, fs_max, ai_milli),
                (beta_milli, max_mdf_milli, initial, min_milli, max),
            )| Params {
                base_target_us,
                hop_us,
                hops,
                fs_range_us,
                fs_min_milli,
                fs_max,
                ai_milli,
                beta_milli,
                max_mdf_milli,
                initial,
                min_milli,
                max,
            },
        )
}

proptest! {
    /// After each step the model takes over the law's window: a rounding error must not decide a
    /// comparison many steps later.
    #[test]
    fn each_step_matches_the_naive_model(
        params in params(),
        steps in prop::collection::vec((prop_oneof![4 => 0..100_u64, 4 => 0..100_000_u64, 1 => 0..1_000_000_000_000_u64], event()), 1..300),
    ) {
        let (mut flow, mut naive) = (Swift::new(params), Naive::new(params));
        let mut now = 1;
        for (gap, event) in steps {
            now += gap;
            let target_us = flow.target_ns() as f64 / 1e3;
            let expected = naive.target();
            // The root of a window of 2000 packets is exact to a few thousandths.
            let off = f64::from(params.fs_range_us) * 2e-2 + 0.01;
            prop_assert!((target_us - expected).abs() <= off, "{target_us} {expected}");
            if let Event::Ack(Ack { rtt_us: Some(rtt), .. }) = event {
                // Too near to the target for the two to agree on the side.
                if (f64::from(rtt.get()) - expected).abs() <= off {
                    continue;
                }
            }
            match event {
                Event::Ack(ack) => {
                    flow.on_ack(ack, now);
                    naive.ack(ack, now);
                }
                Event::Recovery => {
                    flow.on_fast_recovery(now);
                    naive.loss(false, now);
                }
                Event::Timeout => {
                    flow.on_timeout(now);
                    naive.loss(true, now);
                }
            }
            let (found, expected) = (window(&flow), naive.window);
            prop_assert!((found - expected).abs() <= expected * 2e-2 + 2e-3, "{found} {expected}");
            prop_assert_eq!(flow.timeouts(), naive.timeouts.min(255) as u8);
            naive.window = found;
        }
    }

    #[test]
    fn square_roots_match_the_standard_library(square: u64, small in 0_u64..100_000) {
        for square in [square, small, square >> (small % 64), small * small, u64::MAX] {
            prop_assert_eq!(root(square), square.isqrt());
        }
    }

    #[test]
    fn no_input_is_too_large(
        numbers: [u32; 12],
        steps in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>(), 0..3_u8), 0..100),
    ) {
        let [base_target_us, hop_us, hops, fs_range_us, fs_min_milli, fs_max, ai_milli, beta_milli, max_mdf_milli, initial, min_milli, max] = numbers;
        let params = Params { base_target_us, hop_us, hops, fs_range_us, fs_min_milli, fs_max, ai_milli, beta_milli, max_mdf_milli, initial, min_milli, max };
        let mut flow = Swift::new(params);
        for (now, packets, rtt_us, kind) in steps {
            let before = flow.window();
            match kind {
                0 => flow.on_ack(ack(packets, rtt_us), now),
                1 => flow.on_fast_recovery(now),
                _ => flow.on_timeout(now),
            }
            prop_assert!((1..=LARGEST).contains(&flow.packets()));
            prop_assert!(flow.window() >= (ONE / 1_000));
            prop_assert!(flow.pacing(packets).is_none_or(|rate| rate >= 1));
            prop_assert!(kind == 0 || flow.window() <= before);
        }
    }
}
