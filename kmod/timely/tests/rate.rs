// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The lines of TIMELY's Algorithm 1, one by one; the choices that the paper leaves open; and the
//! law against a naive model in floating point.

use std::num::NonZeroU32;

use proptest::prelude::*;
use weft_mechanisms::common::window::LONGEST_TIMEOUT_US;
use weft_mechanisms::timely::rate::{Params, Phase, Rate, HAI_EVENTS};

/// 1 Gbit/s; each packet is a segment; a new difference counts as half of the average.
const PLAIN: Params = Params {
    line_kbit: 1_000_000,
    least_kbit: 1_000,
    delta_kbit: 10_000,
    t_low_us: 50,
    t_high_us: 500,
    min_rtt_us: 20,
    alpha_milli: 500,
    beta_milli: 800,
    segment: 1_000,
};

const MBIT: f64 = 1e6;

fn event(flow: &mut Rate, rtt_us: u32) -> Phase {
    flow.on_ack(1_000, NonZeroU32::new(rtt_us));
    flow.phase()
}

/// A flow at 216 Mbit/s without a gradient.
fn slow() -> Rate {
    let mut flow = Rate::new(PLAIN);
    (0..3).for_each(|_| {
        event(&mut flow, 1_000);
    });
    assert!(near(flow.rate() as f64, 216.0 * MBIT));
    flow
}

fn near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 1e-3
}

#[test]
fn a_flow_starts_at_the_line_rate() {
    assert_eq!(Rate::new(PLAIN).rate(), 1_000_000_000);
}

/// "if new_rtt < T_low: rate ← rate + δ; return"
#[test]
fn below_t_low_the_rate_grows_whatever_the_gradient_is() {
    let mut flow = slow();
    for rtt_us in [20, 45, 49] {
        let before = flow.rate();
        assert_eq!(event(&mut flow, rtt_us), Phase::Low);
        assert_eq!(flow.rate() - before, 10_000_000);
    }
}

/// "if new_rtt > T_high: rate ← rate · (1 - β · (1 - T_high/new_rtt)); return"
#[test]
fn above_t_high_the_rate_shrinks_whatever_the_gradient_is() {
    for (rtt_us, factor) in [(1_000, 0.6), (501, 1.0 - 0.8 / 501.0), (5_000, 0.28)] {
        let mut flow = Rate::new(PLAIN);
        event(&mut flow, 6_000);
        let before = flow.rate() as f64;
        assert_eq!(event(&mut flow, rtt_us), Phase::High);
        assert!(near(flow.rate() as f64 / before, factor), "{rtt_us}");
    }
}

/// "new_rtt_diff = new_rtt - prev_rtt; rtt_diff = (1 - α) · rtt_diff + α · new_rtt_diff;
/// normalized_gradient = rtt_diff / minRTT; rate ← rate · (1 - β · normalized_gradient)"
#[test]
fn between_the_thresholds_a_growing_queue_shrinks_the_rate_by_its_gradient() {
    let mut flow = Rate::new(PLAIN);
    assert_eq!(event(&mut flow, 100), Phase::Increase);
    // diff is 2 µs of 20, then 1 + 4 µs.
    assert_eq!(event(&mut flow, 104), Phase::Decrease);
    assert_eq!(flow.gradient_milli(), 100);
    assert!(near(flow.rate() as f64, 1_000.0 * MBIT * (1.0 - 0.8 * 0.1)));
    let before = flow.rate() as f64;
    assert_eq!(event(&mut flow, 112), Phase::Decrease);
    assert!(near(flow.rate() as f64 / before, 1.0 - 0.8 * 0.25));
}

/// "if normalized_gradient ≤ 0: rate ← rate + N · δ", "N = 5 if gradient < 0 for five completion
/// events (HAI); otherwise N = 1"
#[test]
fn a_shrinking_queue_adds_delta_and_from_the_fifth_event_on_five_times_that() {
    let mut flow = slow();
    event(&mut flow, 400);
    let mut gains = Vec::new();
    for rtt_us in [390, 380, 370, 360, 350, 340] {
        let before = flow.rate();
        event(&mut flow, rtt_us);
        gains.push((flow.rate() - before) / 10_000_000);
    }
    // The event at 400 µs is the first one.
    assert_eq!(gains, [1, 1, 1, 5, 5, 5]);
    // A gradient of 0 ends the row.
    let mut flow = slow();
    for rtt_us in [400, 390, 380, 370] {
        event(&mut flow, rtt_us);
    }
    let mut phases = Vec::new();
    for _ in 0..60 {
        phases.push(event(&mut flow, 370));
    }
    assert_eq!(phases[0], Phase::HyperIncrease);
    assert_eq!(phases[59], Phase::Increase);
    assert!(phases.iter().all(|&it| it != Phase::Decrease));
}

#[test]
fn an_event_is_a_segment_with_a_round_trip_time() {
    let mut flow = Rate::new(Params {
        segment: 4_000,
        ..PLAIN
    });
    let rtt = NonZeroU32::new(1_000);
    // Three packets of four; the fourth has no time; the fifth does.
    for (bytes, rtt_us, left) in [
        (1_000, rtt, 1.0),
        (1_000, rtt, 1.0),
        (1_000, rtt, 1.0),
        (1_000, None, 1.0),
        (1_000, rtt, 0.6),
        (2_000, rtt, 0.6),
        (1_000, rtt, 0.36),
        // Many segments are one event.
        (400_000, rtt, 0.216),
    ] {
        flow.on_ack(bytes, rtt_us);
        assert!(
            near(flow.rate() as f64, 1_000.0 * MBIT * left),
            "{}",
            flow.rate()
        );
    }
}

#[test]
fn the_rate_stays_between_the_smallest_and_the_line_rate() {
    let mut flow = Rate::new(PLAIN);
    // Gradients above 1 / β.
    for rtt_us in [60, 490, 60, 490, 60, 490] {
        event(&mut flow, rtt_us);
    }
    assert_eq!(flow.rate(), 1_000_000);
    (0..1_000).for_each(|_| {
        event(&mut flow, 20);
    });
    assert_eq!(flow.rate(), 1_000_000_000);
}

/// Algorithm 1, in floating point.
struct Naive {
    params: Params,
    rate: f64,
    diff: f64,
    previous: Option<f64>,
    bytes: u64,
    negatives: u32,
}

impl Naive {
    fn ack(&mut self, bytes: u64, rtt_us: Option<NonZeroU32>) {
        let p = self.params;
        self.bytes += bytes;
        let Some(rtt) = rtt_us.filter(|_| self.bytes >= p.segment.into()) else {
            self.bytes = self.bytes.min(p.segment.into());
            return;
        };
        self.bytes %= u64::from(p.segment);
        let rtt = f64::from(rtt.get().min(LONGEST_TIMEOUT_US));
        let (alpha, beta) = (
            f64::from(p.alpha_milli) / 1e3,
            f64::from(p.beta_milli) / 1e3,
        );
        if let Some(previous) = self.previous {
            self.diff = (1.0 - alpha) * self.diff + alpha * (rtt - previous);
        }
        self.previous = Some(rtt);
        self.negatives = if self.diff < 0.0 {
            self.negatives + 1
        } else {
            0
        };
        let (low, high) = (f64::from(p.t_low_us), f64::from(p.t_high_us));
        let delta = f64::from(p.delta_kbit) * 1e3;
        let rate = if rtt < low {
            self.rate + delta
        } else if rtt > high {
            self.rate * (1.0 - beta * (1.0 - high / rtt))
        } else if self.diff <= 0.0 {
            let n = if self.negatives >= HAI_EVENTS.into() {
                5.0
            } else {
                1.0
            };
            self.rate + n * delta
        } else {
            self.rate * (1.0 - beta * self.diff / f64::from(p.min_rtt_us))
        };
        let line = f64::from(p.line_kbit) * 1e3;
        self.rate = rate.max(f64::from(p.least_kbit) * 1e3).min(line);
    }
}

proptest! {
    /// After each step the model takes over the law's rate and difference: a rounding error must
    /// not decide a comparison many steps later.
    #[test]
    fn each_step_matches_the_naive_model(
        (line_kbit, least_kbit, delta_kbit) in (1_000..100_000_000_u32, 1..1_000_u32, 0..1_000_000_u32),
        (t_low_us, t_high_us, min_rtt_us) in (0..200_u32, 100..2_000_u32, 1..500_u32),
        (alpha_milli, beta_milli, segment) in (1..=1_000_u32, 0..=1_000_u32, 1..20_000_u32),
        steps in prop::collection::vec(
            (
                prop_oneof![4 => 0..3_000_u64, 1 => 0..1_000_000_u64],
                prop_oneof![8 => 1..600_u32, 2 => 1..10_000_u32, 1 => any::<u32>()],
            ),
            1..300,
        ),
    ) {
        let params = Params { line_kbit, least_kbit, delta_kbit, t_low_us, t_high_us, min_rtt_us, alpha_milli, beta_milli, segment };
        let mut flow = Rate::new(params);
        let mut naive = Naive { params, rate: flow.rate() as f64, diff: 0.0, previous: None, bytes: 0, negatives: 0 };
        for (bytes, rtt_us) in steps {
            let rtt_us = NonZeroU32::new(rtt_us).filter(|it| it.get() % 17 != 0);
            flow.on_ack(bytes, rtt_us);
            naive.ack(bytes, rtt_us);
            // Near 0 the two need not agree on the gradient's sign.
            if naive.diff.abs() > 0.01 || flow.phase() == Phase::Low || flow.phase() == Phase::High {
                let (found, expected) = (flow.rate() as f64, naive.rate);
                // The average's rounding error is at most 2^-20 / α, a thousandth of a µs.
                let line = f64::from(line_kbit) * 1e3;
                prop_assert!((found - expected).abs() <= 1.0 + line * 2e-3, "{found} {expected}");
            }
            naive.rate = flow.rate() as f64;
            if naive.diff.abs() <= 0.01 {
                naive.negatives = match flow.phase() {
                    Phase::HyperIncrease => HAI_EVENTS.into(),
                    _ => naive.negatives,
                };
            }
        }
    }

    #[test]
    fn no_input_is_too_large(
        numbers: [u32; 9],
        steps in prop::collection::vec((any::<u64>(), any::<u32>()), 0..100),
    ) {
        let [line_kbit, least_kbit, delta_kbit, t_low_us, t_high_us, min_rtt_us, alpha_milli, beta_milli, segment] = numbers;
        let params = Params { line_kbit, least_kbit, delta_kbit, t_low_us, t_high_us, min_rtt_us, alpha_milli, beta_milli, segment };
        let mut flow = Rate::new(params);
        let line = u64::from(line_kbit.max(1)) * 1_000;
        for (bytes, rtt_us) in steps {
            flow.on_ack(bytes, NonZeroU32::new(rtt_us));
            prop_assert!((1_000..=line).contains(&flow.rate()), "{}", flow.rate());
        }
    }
}
