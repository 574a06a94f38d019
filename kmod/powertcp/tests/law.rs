// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The lines of PowerTCP's Algorithm 1 and of θ-PowerTCP's Algorithm 2, one by one; the choices
//! that the paper leaves open; and both laws against naive models in floating point.

use std::num::NonZeroU32;

use proptest::prelude::*;
use weft_mechanisms::common::bdp::FRACTION_BITS;
use weft_mechanisms::common::records::Change;
use weft_mechanisms::powertcp::law::{Params, PowerTcp, FRACTION_BITS as POWER_BITS};

use crate::common::tests::idle_link::recovery;

/// 1 Gbit/s and 1 ms: a BDP of 125 kB.
const PLAIN: Params = Params {
    rate_kbit: 1_000_000,
    base_rtt_us: 1_000,
    flows: 10,
    gamma_milli: 900,
    packet_bytes: 1_600,
};
const BDP: f64 = 125_000.0;
const US: u64 = 1_000;

fn bytes(flow: &PowerTcp) -> f64 {
    flow.window() as f64 / f64::from(1 << FRACTION_BITS)
}

fn near(found: f64, expected: f64) -> bool {
    (found / expected - 1.0).abs() < 1e-3
}

/// Acknowledgements 10 µs apart, all after `rtt_us`, for many base RTTs, which leave the window.
fn steady(flow: &mut PowerTcp, now: &mut u64, rtt_us: u32) {
    for _ in 0..2_000 {
        *now += 10 * US;
        flow.on_ack(NonZeroU32::new(rtt_us), *now, false);
    }
}

fn update(flow: &mut PowerTcp, now: &mut u64, rtt_us: u32) {
    *now += 10 * US;
    assert!(flow.on_ack(NonZeroU32::new(rtt_us), *now, true));
}

/// "rate = cwnd / τ"
#[test]
fn a_flow_starts_at_the_line_rate() {
    let flow = PowerTcp::new(PLAIN);
    assert_eq!(bytes(&flow), BDP);
    assert_eq!(flow.rate(), 1_000_000_000);
    assert_eq!(flow.power_milli(), 1_000);
}

/// "Γ_norm = (θ̇ + 1) RTT / τ": without a gradient the power is the voltage.
#[test]
fn a_steady_queue_gives_the_power_of_its_delay() {
    for rtt_us in [500, 1_000, 1_500, 4_000] {
        let mut flow = PowerTcp::new(PLAIN);
        steady(&mut flow, &mut 0, rtt_us);
        let power = flow.power() as f64 / f64::from(1 << POWER_BITS);
        assert!(near(power, f64::from(rtt_us) / 1e3), "{power}");
        assert_eq!(flow.rtt_us(), rtt_us);
    }
}

/// "θ̇ = (RTT - prevRTT) / dt": at θ̇ = 1, twice the link's rate arrives at the bottleneck.
#[test]
fn a_growing_queue_adds_its_gradient() {
    let mut flow = PowerTcp::new(PLAIN);
    let (mut now, mut rtt_us) = (0, 1_000);
    for _ in 0..500 {
        now += 10 * US;
        rtt_us += 10;
        flow.on_ack(NonZeroU32::new(rtt_us), now, false);
    }
    // Smoothed over a base RTT, the voltage is that of one base RTT ago: 5.
    let expected = 2.0 * 5.0;
    let found = f64::from(flow.power_milli()) / 1e3;
    assert!((found / expected - 1.0).abs() < 0.05, "{found}");
}

/// "Γ_smooth = (Γ_smooth (τ - Δt) + Γ_norm Δt) / τ"
#[test]
fn one_measurement_weighs_as_much_as_its_time() {
    let mut flow = PowerTcp::new(PLAIN);
    flow.on_ack(NonZeroU32::new(2_000), 0, false);
    assert_eq!(flow.power_milli(), 1_000);
    flow.on_ack(NonZeroU32::new(2_000), 250 * US, false);
    assert!(near(flow.power_milli().into(), 1_250.0));
    // After a base RTT nothing is left of what was before.
    flow.on_ack(NonZeroU32::new(2_000), 1_250 * US, false);
    assert!(near(flow.power_milli().into(), 2_000.0));
    flow.on_ack(NonZeroU32::new(3_000), 5_250 * US, false);
    assert!(near(flow.power_milli().into(), 1.25 * 3_000.0));
}

/// "cwnd = γ (cwnd_old / normPower + β) + (1 - γ) cwnd"
#[test]
fn the_window_is_divided_by_the_power() {
    let mut flow = PowerTcp::new(PLAIN);
    let mut now = 0;
    steady(&mut flow, &mut now, 2_000);
    update(&mut flow, &mut now, 2_000);
    let expected = 0.9 * (BDP / 2.0 + BDP / 10.0) + 0.1 * BDP;
    assert!(near(bytes(&flow), expected), "{}", bytes(&flow));
    assert!(near(flow.rate() as f64, 1e9 * expected / BDP));
    update(&mut flow, &mut now, 2_000);
    let expected = 0.9 * (expected / 2.0 + BDP / 10.0) + 0.1 * expected;
    assert!(near(bytes(&flow), expected), "{}", bytes(&flow));
}

/// β = host bandwidth × τ / N: N flows at equilibrium have a BDP in the queue at most.
#[test]
fn at_equilibrium_the_additive_increases_are_the_queue() {
    let mut flow = PowerTcp::new(PLAIN);
    let mut now = 0;
    // One of ten flows: the queue is what ten windows have above the BDP.
    for _ in 0..100 {
        let windows = 10.0 * bytes(&flow);
        let rtt_us = (1_000.0 * windows / BDP).max(1_000.0);
        steady(&mut flow, &mut now, rtt_us as u32);
        update(&mut flow, &mut now, rtt_us as u32);
    }
    assert!(
        (bytes(&flow) / (BDP * 2.0 / 10.0) - 1.0).abs() < 0.02,
        "{}",
        bytes(&flow)
    );
}

/// "if ack.seq < lastUpdated then return cwnd"
#[test]
fn the_window_changes_once_in_a_round_trip_time() {
    let mut flow = PowerTcp::new(PLAIN);
    steady(&mut flow, &mut 0, 3_000);
    assert_eq!(bytes(&flow), BDP);
}

#[test]
fn an_acknowledgement_without_a_round_trip_time_changes_nothing() {
    let mut flow = PowerTcp::new(PLAIN);
    steady(&mut flow, &mut 0, 3_000);
    let power = flow.power_milli();
    assert!(!flow.on_ack(None, 1 << 40, true));
    assert_eq!((bytes(&flow), flow.power_milli()), (BDP, power));
}

#[test]
fn data_after_an_idle_period_is_a_new_flow() {
    let mut now = 0;
    let [mut flow, mut new] = [PowerTcp::new(PLAIN); 2];
    steady(&mut flow, &mut now, 3_000);
    update(&mut flow, &mut now, 3_000);
    assert!(bytes(&flow) < BDP);
    flow.on_idle();
    for rtt in [3_000, 2_000] {
        update(&mut flow, &mut now.clone(), rtt);
        update(&mut new, &mut now, rtt);
        assert_eq!(bytes(&flow), bytes(&new));
    }
    let mut flow = PowerTcp::with_records(PLAIN);
    let full = [link(TAU, TAU, TAU, TAU)];
    flow.on_records(full.into_iter(), true);
    flow.on_records(full.into_iter(), true);
    flow.on_idle();
    let mut new = PowerTcp::with_records(PLAIN);
    for flow in [&mut flow, &mut new] {
        assert_eq!(bytes(flow), BDP);
        flow.on_records(full.into_iter(), false);
    }
    assert_eq!(bytes(&flow), bytes(&new));
}

#[test]
fn the_window_is_at_most_the_first_one() {
    let mut flow = PowerTcp::new(PLAIN);
    let mut now = 0;
    steady(&mut flow, &mut now, 500);
    for _ in 0..10 {
        update(&mut flow, &mut now, 500);
    }
    assert_eq!(bytes(&flow), BDP);
}

#[test]
fn a_queue_that_drains_at_once_counts_as_half_of_the_current() {
    let mut flow = PowerTcp::new(PLAIN);
    flow.on_ack(NonZeroU32::new(9_000), 0, false);
    flow.on_ack(NonZeroU32::new(1_000), 1_000 * US, false);
    assert!(near(flow.power_milli().into(), 500.0));
}

/// τ of [`PLAIN`] in ns.
const TAU: u64 = 1_000 * US;

/// A link that did this, in ns.
fn link(interval: u64, sent: u64, before: u64, queue: u64) -> Change {
    Change {
        interval,
        sent,
        before,
        queue,
    }
}

/// The smoothed power of a flow after one acknowledgement, in thousandths.
fn power(links: &[Change]) -> f64 {
    let mut flow = PowerTcp::with_records(PLAIN);
    flow.on_records(links.iter().copied(), false);
    flow.power_milli().into()
}

/// "λ = q̇ + µ": current is what arrives at a link, "ν = qlen + BDP": voltage.
#[test]
fn the_power_of_a_link_is_its_current_times_its_voltage() {
    assert!(near(power(&[link(TAU, TAU, 0, 0)]), 1_000.0));
    // Two arrive for each one that leaves, and one bandwidth-delay product waits.
    assert!(near(power(&[link(TAU, TAU, 0, TAU)]), 4_000.0));
    // The same queue, standing, and shrinking to half.
    assert!(near(power(&[link(TAU, TAU, TAU, TAU)]), 2_000.0));
    assert!(near(power(&[link(TAU, TAU, TAU, TAU / 2)]), 750.0));
}

/// "if Γ'_norm > Γ_norm then Γ_norm = Γ'_norm; Δt = dt", and the average over τ.
#[test]
fn the_link_with_the_most_power_counts_and_its_interval_is_the_weight() {
    let links = [
        link(TAU / 2, TAU / 2, 0, 0),
        link(TAU / 4, TAU / 4, TAU, TAU),
        link(TAU, TAU, TAU / 4, TAU / 4),
    ];
    assert!(near(power(&links), 1_000.0 * (0.75 + 2.0 * 0.25)));
    assert!(near(power(&[link(10 * TAU, 20 * TAU, 0, 0)]), 2_000.0));
}

#[test]
fn an_unused_link_counts_as_half_used() {
    assert!(near(power(&[link(TAU, 0, 0, 0)]), 500.0));
    assert!(near(power(&[link(TAU, TAU, 5 * TAU, 0)]), 500.0));
}

/// "cwnd = γ (cwnd_old / Γ_norm + β) + (1 - γ) cwnd", with "GETCWND(ack.seq)": the window of the
/// packets that are acknowledged, and so the same one for a round-trip time.
#[test]
fn with_records_each_acknowledgement_computes_the_window_from_the_old_one() {
    let mut flow = PowerTcp::with_records(PLAIN);
    let beta = BDP / 10.0;
    let full = [link(TAU, TAU, TAU, TAU)];
    let mut expected = BDP;
    for _ in 0..5 {
        assert!(!flow.on_records(full.into_iter(), false));
        expected = 0.9 * (BDP / 2.0 + beta) + 0.1 * expected;
        assert!(near(bytes(&flow), expected), "{}", bytes(&flow));
    }
    assert!(flow.on_records(full.into_iter(), true));
    let old = bytes(&flow);
    flow.on_records(full.into_iter(), false);
    assert!(near(bytes(&flow), 0.9 * (old / 2.0 + beta) + 0.1 * old));
}

#[test]
fn with_records_the_window_is_at_least_a_sixteenth_of_a_packet() {
    let queue = [link(TAU, TAU, 1_000 * TAU, 1_000 * TAU)];
    let mut flow = PowerTcp::with_records(Params {
        flows: 10_000,
        ..PLAIN
    });
    for _ in 0..20 {
        flow.on_records(queue.into_iter(), true);
        assert!(bytes(&flow) >= 100.0);
    }
    assert_eq!(bytes(&flow), 100.0);
}

/// β is 12.5 bytes. With a window of that size a packet would leave in each 123 τ, and a link's
/// numbers wrap sooner: the flow would learn nothing more.
#[test]
fn a_flow_that_an_incast_has_slowed_down_fills_the_idle_link_again() {
    let mut flow = PowerTcp::with_records(Params {
        rate_kbit: 10_000_000,
        base_rtt_us: 20,
        flows: 2_000,
        ..PLAIN
    });
    let t = 20 * US;
    for _ in 0..20 {
        flow.on_records([link(t, t, 1_000 * t, 1_000 * t)].into_iter(), true);
    }
    let found = recovery(&mut flow, bytes, |flow, link, updates| {
        flow.on_records([link].into_iter(), updates);
    });
    // The power of an unused link is at least 1/2, so the window doubles, ten times at most.
    let found = found.expect("it does not stand still");
    assert!(found < 120.0, "{found}");
}

#[test]
fn each_form_ignores_the_measurements_of_the_other() {
    let mut flow = PowerTcp::with_records(PLAIN);
    assert!(!flow.on_ack(NonZeroU32::new(9_000), 5, true));
    assert!(!flow.on_records([].into_iter(), true));
    assert_eq!((bytes(&flow), flow.power_milli()), (BDP, 1_000));
    assert!(flow.reads_records());
    let mut flow = PowerTcp::new(PLAIN);
    assert!(!flow.on_records([link(TAU, TAU, TAU, TAU)].into_iter(), true));
    assert_eq!((bytes(&flow), flow.power_milli()), (BDP, 1_000));
    assert!(!flow.reads_records());
}

/// Algorithm 2, in floating point.
struct Naive {
    params: Params,
    window: f64,
    power: f64,
    previous: Option<(f64, f64)>,
}

impl Naive {
    fn measure(&mut self, rtt: f64, now: f64) {
        let tau = f64::from(self.params.base_rtt_us) * 1e3;
        if let Some((previous, at)) = self.previous {
            let dt = (now - at).max(1.0);
            let gradient = ((rtt - previous) / dt).max(-0.5);
            let norm = (gradient + 1.0) * rtt / tau;
            let part = dt.min(tau);
            self.power = (self.power * (tau - part) + norm * part) / tau;
        }
        self.previous = Some((rtt, now));
    }

    fn update(&mut self) {
        let bdp = f64::from(self.params.rate_kbit) / 8e3 * f64::from(self.params.base_rtt_us);
        let beta = bdp / f64::from(self.params.flows);
        let gamma = f64::from(self.params.gamma_milli) / 1e3;
        let window = gamma * (self.window / self.power + beta) + (1.0 - gamma) * self.window;
        self.window = window.min(bdp);
    }
}

proptest! {
    /// After each step the model takes over the law's window and power, so that rounding errors do
    /// not add up.
    #[test]
    fn each_step_is_the_naive_models(
        (rate_kbit, base_rtt_us) in (100_000..100_000_000_u32, 10..50_000_u32),
        (flows, gamma_milli) in (1..200_u32, 1..=1_000_u32),
        steps in prop::collection::vec(
            (
                prop_oneof![8 => 5..2_000_u32, 1 => 1..1_000_000_u32],
                prop_oneof![8 => 1..1_000_000_u64, 1 => 0..10_000_000_000_u64],
                any::<bool>(),
            ),
            1..300,
        ),
    ) {
        let params = Params { rate_kbit, base_rtt_us, flows, gamma_milli, ..PLAIN };
        let mut flow = PowerTcp::new(params);
        let mut naive = Naive { params, window: bytes(&flow), power: 1.0, previous: None };
        let mut now = 0;
        for (rtt_us, dt, updates) in steps {
            now += dt;
            let rtt_us = NonZeroU32::new(rtt_us).filter(|it| it.get() % 17 != 0);
            flow.on_ack(rtt_us, now, updates);
            let Some(rtt_us) = rtt_us else { continue };
            let before = naive.power;
            naive.measure(f64::from(rtt_us.get()) * 1e3, now as f64);
            let (found, expected) = (flow.power() as f64 / f64::from(1 << POWER_BITS), naive.power);
            if expected < 60_000.0 {
                // Each factor is at most 2^-20 too low.
                let voltage = f64::from(rtt_us.get()) / f64::from(base_rtt_us);
                let error = 4e-6 * (1.0 + before + voltage + expected);
                // Half of the time between two acknowledgements is in whole nanoseconds.
                let error = error + voltage / (1e3 * f64::from(base_rtt_us));
                prop_assert!((found - expected).abs() <= error, "power {found} {expected}");
            }
            naive.power = found;
            if updates {
                naive.update();
            }
            let (found, expected) = (bytes(&flow), naive.window);
            // The BDP is rounded down to a byte.
            prop_assert!((found - expected).abs() <= 3.0, "window {found} {expected}");
            naive.window = found;
        }
    }

    /// Algorithm 1. After each step the model takes over the law's window and power.
    #[test]
    fn each_step_with_records_is_the_naive_models(
        (rate_kbit, base_rtt_us) in (100_000..100_000_000_u32, 10..50_000_u32),
        (flows, gamma_milli) in (1..200_u32, 1..=1_000_u32),
        packet_bytes in 64..10_000_u32,
        steps in prop::collection::vec(
            (
                prop::collection::vec(
                    (1e-3..5.0_f64, 0.0..1.2_f64, 0.0..20.0_f64, 0.0..20.0_f64),
                    1..6,
                ),
                any::<bool>(),
            ),
            1..100,
        ),
    ) {
        let params = Params { rate_kbit, base_rtt_us, flows, gamma_milli, packet_bytes };
        let mut flow = PowerTcp::with_records(params);
        let mut naive = Naive { params, window: bytes(&flow), power: 1.0, previous: None };
        let mut old = naive.window;
        let tau = f64::from(base_rtt_us) * 1e3;
        for (links, updates) in steps {
            let links: Vec<_> = links
                .into_iter()
                .map(|(interval, rate, before, queue)| {
                    let ns = |parts: f64| (parts * tau) as u64;
                    link(ns(interval).max(1), ns(interval * rate), ns(before), ns(queue))
                })
                .collect();
            prop_assert_eq!(flow.on_records(links.iter().copied(), updates), updates);
            let powers = links.iter().map(|it| {
                let dt = it.interval as f64;
                let current = it.sent as f64 + it.queue as f64 - it.before as f64;
                let current = (current / dt).max(0.5);
                (current * (it.queue as f64 / tau + 1.0), dt.min(tau))
            });
            let (norm, part) = powers.fold((0.0, 0.0), |a, b| if b.0 > a.0 { b } else { a });
            // The largest power.
            let norm = norm.min(65_536.0);
            naive.power = (naive.power * (tau - part) + norm * part) / tau;
            let found = flow.power() as f64 / f64::from(1 << POWER_BITS);
            // Half of an interval is in whole nanoseconds.
            let error = 1e-4 + 1e-4 * naive.power + 60.0 / tau;
            prop_assert!((found - naive.power).abs() <= error, "{found} {}", naive.power);
            naive.power = found;
            let present = naive.window;
            let gamma = f64::from(gamma_milli) / 1e3;
            let bdp = f64::from(rate_kbit) / 8e3 * f64::from(base_rtt_us);
            let target = old / naive.power + bdp / f64::from(flows);
            let least = f64::from(packet_bytes) / 16.0;
            let expected = (gamma * target + (1.0 - gamma) * present).max(least).min(bdp);
            prop_assert!((bytes(&flow) - expected).abs() <= 3.0, "{} {expected}", bytes(&flow));
            naive.window = bytes(&flow);
            if updates {
                old = naive.window;
            }
        }
    }

    #[test]
    fn nothing_is_too_large(
        numbers: [u32; 4],
        steps in prop::collection::vec((any::<u32>(), any::<u64>(), any::<bool>()), 0..100),
    ) {
        let [rate_kbit, base_rtt_us, flows, gamma_milli] = numbers;
        let mut flow =
            PowerTcp::new(Params { rate_kbit, base_rtt_us, flows, gamma_milli, ..PLAIN });
        let first = flow.window();
        for (rtt_us, now, updates) in steps {
            flow.on_ack(NonZeroU32::new(rtt_us), now, updates);
            prop_assert!((1..=first).contains(&flow.window()));
        }
    }
}
