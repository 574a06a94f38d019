// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The sentences of DCQCN's §3, one by one; the choices that the paper leaves open; and the law,
//! which catches up with its timers, against a model that handles each expiry when it is due.

use proptest::prelude::*;
use weft_mechanisms::dcqcn::rate::{Params, Phase, Rate, ALPHA_ONE, F, HIGHEST};

const US: u64 = 1_000;
const MBIT: u64 = 1_000_000;

/// Round numbers: 1 Gbit/s, and timers of 100 µs.
const PLAIN: Params = Params {
    line: 1_000 * MBIT,
    least: MBIT,
    ai: 10 * MBIT,
    hai: 50 * MBIT,
    cnp_ns: 50 * US,
    alpha_ns: 100 * US,
    timer_ns: 100 * US,
    bytes: 1_000_000,
};

fn mark(flow: &mut Rate, now: u64) {
    flow.on_ack(&PLAIN, 0, true, now);
}

fn alpha(flow: &Rate) -> f64 {
    f64::from(flow.alpha()) / f64::from(ALPHA_ONE)
}

/// A flow whose rate was cut to a half at 1 ms.
fn cut() -> Rate {
    let mut flow = Rate::new(&PLAIN, 1_000 * US);
    mark(&mut flow, 1_000 * US);
    flow
}

/// "There is no slow start phase. When a flow starts, it sends at full line rate". α is 1.
#[test]
fn a_flow_starts_at_line_rate() {
    let flow = Rate::new(&PLAIN, 0);
    assert_eq!((flow.current(), flow.target()), (PLAIN.line, PLAIN.line));
    assert_eq!(flow.alpha(), ALPHA_ONE);
}

/// A connection that was idle has the next flow, as if it was a connection of its own.
#[test]
fn a_flow_after_an_idle_period_starts_at_line_rate() {
    let mut flow = cut();
    mark(&mut flow, 1_200 * US);
    flow.restart(&PLAIN, 5_000 * US);
    assert_eq!(flow.notifications(), 2);
    let mut new = Rate::new(&PLAIN, 5_000 * US);
    for (at_us, marked) in [(5_000, false), (5_010, true), (5_300, true), (6_500, false)] {
        flow.on_ack(&PLAIN, 1_000, marked, at_us * US);
        new.on_ack(&PLAIN, 1_000, marked, at_us * US);
        assert_eq!(
            (flow.current(), flow.target()),
            (new.current(), new.target())
        );
        assert_eq!(flow.alpha(), new.alpha());
    }
}

/// "R_T = R_C, R_C = R_C (1 - α/2), α = (1 - g) α + g"
#[test]
fn a_notification_cuts_the_rate_by_half_of_alpha() {
    let flow = cut();
    assert_eq!((flow.current(), flow.target()), (500 * MBIT, 1_000 * MBIT));
    assert_eq!(flow.alpha(), ALPHA_ONE);
}

/// "If the RP gets no feedback for K time units, it updates α = (1 - g) α"
#[test]
fn alpha_shrinks_by_a_256th_after_each_k_without_a_notification() {
    let mut flow = cut();
    for (at_us, steps) in [(1_099, 0), (1_100, 1), (1_199, 1), (1_200, 2), (2_000, 10)] {
        flow.advance(&PLAIN, at_us * US);
        let expected = (255.0_f64 / 256.0).powi(steps);
        assert!((alpha(&flow) - expected).abs() < 1e-4, "at {at_us} µs");
    }
    // The next cut uses it, and then adds g to it.
    let before = alpha(&flow);
    let rate = flow.current() as f64;
    mark(&mut flow, 2_000 * US);
    assert!((flow.current() as f64 / rate - (1.0 - before / 2.0)).abs() < 1e-5);
    assert!((alpha(&flow) - (before * 255.0 / 256.0 + 1.0 / 256.0)).abs() < 1e-5);
}

/// "for F = 5 successive iterations, rate is rapidly increased towards the fixed target rate"
#[test]
fn the_timer_recovers_five_times_and_then_increases_additively() {
    let mut flow = cut();
    let mut rates = Vec::new();
    for expiry in 1..=7_u64 {
        flow.advance(&PLAIN, (1_000 + expiry * 100) * US);
        rates.push((flow.target() / MBIT, flow.current() / 1_000));
    }
    let expected = [
        (1_000, 750_000),
        (1_000, 875_000),
        (1_000, 937_500),
        (1_000, 968_750),
        (1_000, 984_375),
        // R_T would be more than the line rate.
        (1_000, 992_187),
        (1_000, 996_093),
    ];
    assert_eq!(rates, expected);
    assert_eq!(flow.phase(), Phase::AdditiveIncrease);
    // From half of the line rate on there is room for R_AI.
    let mut flow = cut();
    mark(&mut flow, 1_050 * US);
    flow.advance(&PLAIN, 1_550 * US);
    assert_eq!(flow.target(), 500 * MBIT);
    flow.advance(&PLAIN, 1_850 * US);
    assert_eq!(flow.target(), 530 * MBIT);
}

/// "The byte counter increases rate for every B bytes, while the timer increases rate every T time
/// units."
#[test]
fn each_b_bytes_count_like_an_expiry_of_the_timer() {
    let (mut by_bytes, mut by_time) = (cut(), cut());
    for round in 1..=10_u64 {
        by_bytes.on_ack(&PLAIN, 999_999, false, 1_000 * US);
        by_bytes.on_ack(&PLAIN, 1, false, 1_000 * US);
        by_time.advance(&PLAIN, (1_000 + round * 100) * US);
        assert_eq!(by_bytes.current(), by_time.current());
        assert_eq!(by_bytes.target(), by_time.target());
        assert_eq!(by_bytes.phase(), by_time.phase());
    }
}

/// Figure 7: "max(T, BC) < F: fast recovery; min(T, BC) > F: hyper increase; otherwise additive
/// increase".
#[test]
fn the_rate_rises_fast_when_timer_and_byte_counter_have_passed_f() {
    let rise = |timer: u64, bytes: u64| {
        let mut flow = cut();
        // A second cut leaves room below the line rate.
        mark(&mut flow, 1_050 * US);
        flow.on_ack(&PLAIN, bytes * PLAIN.bytes, false, 1_050 * US);
        flow.advance(&PLAIN, (1_050 + timer * 100) * US);
        flow.phase()
    };
    for (timer, bytes, phase) in [
        (4, 4, Phase::FastRecovery),
        (5, 0, Phase::AdditiveIncrease),
        (0, 5, Phase::AdditiveIncrease),
        (100, 0, Phase::AdditiveIncrease),
        (5, 100, Phase::AdditiveIncrease),
        (6, 5, Phase::AdditiveIncrease),
        (6, 6, Phase::HyperIncrease),
    ] {
        assert_eq!(rise(timer, bytes), phase, "T {timer}, BC {bytes}");
    }
    let mut flow = cut();
    mark(&mut flow, 1_050 * US);
    flow.on_ack(&PLAIN, 6 * PLAIN.bytes, false, 1_050 * US);
    flow.advance(&PLAIN, 1_650 * US);
    let before = flow.target();
    flow.advance(&PLAIN, 1_750 * US);
    assert_eq!(flow.target() - before, PLAIN.hai);
}

/// "If a marked packet arrives for a flow, and no CNP has been sent for the flow in last N
/// microseconds, a CNP is sent immediately."
#[test]
fn at_most_one_notification_counts_in_n() {
    let mut flow = Rate::new(&PLAIN, 0);
    for (at_us, counted) in [
        (10, 1),
        (11, 1),
        (59, 1),
        (60, 2),
        (109, 2),
        (110, 3),
        (500, 4),
    ] {
        mark(&mut flow, at_us * US);
        assert_eq!(flow.notifications(), counted, "at {at_us} µs");
    }
}

/// Figure 7: a cut resets the timers, the byte counter, T and BC.
#[test]
fn a_notification_starts_everything_over() {
    let mut flow = cut();
    flow.on_ack(&PLAIN, 7_900_000, false, 1_690 * US);
    assert_eq!(flow.phase(), Phase::HyperIncrease);
    mark(&mut flow, 1_690 * US);
    let (rate, alpha) = (flow.current(), flow.alpha());
    assert_eq!(flow.phase(), Phase::FastRecovery);
    flow.on_ack(&PLAIN, 999_999, false, 1_789 * US);
    assert_eq!((flow.current(), flow.alpha()), (rate, alpha));
    flow.on_ack(&PLAIN, 1, false, 1_789 * US);
    assert!(flow.current() > rate);
}

#[test]
fn a_cut_leaves_the_smallest_rate_and_recovery_reaches_the_line_rate() {
    let mut flow = Rate::new(&PLAIN, 0);
    (1..1_000).for_each(|it| mark(&mut flow, it * 50 * US));
    assert_eq!(flow.current(), PLAIN.least);
    // An hour later, in one step.
    flow.advance(&PLAIN, 3_600_000_000 * US);
    assert_eq!((flow.current(), flow.target()), (PLAIN.line, PLAIN.line));
    assert!(alpha(&flow) < 1.0 / 4_000.0);
}

/// Handles each expiry when it is due.
struct Naive {
    params: Params,
    current: u64,
    target: u64,
    alpha: u32,
    next_alpha: u64,
    next_timer: u64,
    bytes: u64,
    rounds: [u64; 2],
    notified: Option<u64>,
}

impl Naive {
    fn new(params: Params) -> Self {
        Self {
            params,
            current: params.line,
            target: params.line,
            alpha: ALPHA_ONE,
            next_alpha: params.alpha_ns,
            next_timer: params.timer_ns,
            bytes: 0,
            rounds: [0, 0],
            notified: None,
        }
    }

    fn increase(&mut self, which: usize) {
        let [timer, bytes] = self.rounds;
        let f = u64::from(F);
        if timer.min(bytes) > f {
            self.target += self.params.hai;
        } else if timer.max(bytes) >= f {
            self.target += self.params.ai;
        }
        self.target = self.target.min(self.params.line);
        self.current = (self.target + self.current).div_ceil(2);
        self.rounds[which] += 1;
    }

    fn wait(&mut self, now: u64) {
        loop {
            let next = self.next_alpha.min(self.next_timer);
            if next > now {
                return;
            }
            if self.next_alpha == next {
                self.alpha -= self.alpha / 256;
                self.next_alpha += self.params.alpha_ns;
            }
            if self.next_timer == next {
                self.increase(0);
                self.next_timer += self.params.timer_ns;
            }
        }
    }

    fn ack(&mut self, bytes: u64, marked: bool, now: u64) {
        self.wait(now);
        self.bytes += bytes;
        while self.bytes >= self.params.bytes {
            self.bytes -= self.params.bytes;
            self.increase(1);
        }
        if marked
            && self
                .notified
                .is_none_or(|at| now - at >= self.params.cnp_ns)
        {
            self.notified = Some(now);
            self.target = self.current;
            let part = u128::from(self.current) * u128::from(self.alpha) / (2 << 20);
            let least = self.params.least.min(self.target);
            self.current = (self.current - part as u64).max(least);
            self.alpha = (self.alpha - self.alpha / 256 + ALPHA_ONE / 256).min(ALPHA_ONE);
            self.rounds = [0, 0];
            self.bytes = 0;
            self.next_alpha = now + self.params.alpha_ns;
            self.next_timer = now + self.params.timer_ns;
        }
    }
}

fn rate() -> impl Strategy<Value = u64> {
    prop_oneof![8..2_000_u64, 8..10_000_000_000_u64, 8..=HIGHEST]
}

fn params() -> impl Strategy<Value = Params> {
    let step = || prop_oneof![0..100_u64, 0..1_000_000_000_u64, 0..=HIGHEST];
    let period = || prop_oneof![1..20_u64, 1..100_000_u64];
    (
        (rate(), rate(), step(), step()),
        (0..100_000_u64, period(), period(), 1..2_000_000_u64),
    )
        .prop_map(
            |((line, least, ai, hai), (cnp_ns, alpha_ns, timer_ns, bytes))| Params {
                line,
                least,
                ai,
                hai,
                cnp_ns,
                alpha_ns,
                timer_ns,
                bytes,
            },
        )
}

proptest! {
    #[test]
    fn catching_up_is_the_same_as_timers(
        params in params(),
        events in prop::collection::vec(
            (
                prop_oneof![6 => 0..60_u64, 3 => 0..200_000_u64, 1 => 0..2_000_000_u64],
                prop_oneof![6 => 0..20_000_u64, 1 => 0..20_000_000_u64],
                0..10_u8,
            ),
            1..100,
        ),
    ) {
        let (mut flow, mut naive) = (Rate::new(&params, 0), Naive::new(params));
        let mut now = 0;
        for (gap, bytes, kind) in events {
            now += gap;
            // Some events only look at the time, as before a transmission; after some, a mark.
            if kind == 0 {
                flow.advance(&params, now);
                naive.wait(now);
            } else {
                flow.on_ack(&params, bytes, kind > 7, now);
                naive.ack(bytes, kind > 7, now);
            }
            prop_assert_eq!(flow.current(), naive.current);
            prop_assert_eq!(flow.target(), naive.target);
            prop_assert_eq!(flow.alpha(), naive.alpha);
        }
    }

    /// The row of increases of one late event is that of many early ones.
    #[test]
    fn one_late_event_is_many_early_ones(params in params(), marks in 1..40_u64, gap in 1..3_000_000_u64, parts in 1..50_u64) {
        let mut flow = Rate::new(&params, 0);
        (1..=marks).for_each(|it| flow.on_ack(&params, 0, true, it * 100_000));
        let mut early = flow;
        let start = marks * 100_000;
        for part in 0..=parts {
            early.advance(&params, start + gap * part / parts);
        }
        flow.advance(&params, start + gap);
        prop_assert_eq!(flow, early);
    }

    #[test]
    fn no_input_is_too_large(
        numbers: [u64; 8],
        events in prop::collection::vec((any::<u64>(), any::<u64>(), any::<bool>()), 0..50),
    ) {
        let [line, least, ai, hai, cnp_ns, alpha_ns, timer_ns, bytes] = numbers;
        let params = Params { line, least, ai, hai, cnp_ns, alpha_ns, timer_ns, bytes };
        let mut flow = Rate::new(&params, 0);
        for (now, bytes, marked) in events {
            flow.on_ack(&params, bytes, marked, now);
            prop_assert!(8 <= flow.current() && flow.current() <= flow.target());
            prop_assert!(flow.target() <= HIGHEST && flow.alpha() <= ALPHA_ONE);
        }
    }
}

/// Numbers whose differences take the most steps to settle.
#[test]
fn the_slowest_recovery_ends_within_the_bound_of_its_steps() {
    for ai in [1, 2, 3, 1 << 20, (1 << 42) + 1, HIGHEST] {
        let params = Params {
            line: HIGHEST,
            least: 8,
            ai,
            hai: ai,
            timer_ns: 1,
            ..PLAIN
        };
        let mut flow = Rate::new(&params, 0);
        (1..2_000).for_each(|it| flow.on_ack(&params, 0, true, it * params.cnp_ns));
        flow.advance(&params, u64::MAX);
        assert_eq!(flow.current(), HIGHEST, "{ai}");
    }
}
