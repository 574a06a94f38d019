// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The lines of HPCC's Algorithm 1, one by one; the choices that the paper leaves open; the
//! measurement and the law against a naive model in floating point; and a flow on an idle link.

use proptest::prelude::*;
use weft_mechanisms::common::bdp::FRACTION_BITS;
use weft_mechanisms::common::records::Change;
use weft_mechanisms::common::stamp::{LIMIT, ONE};
use weft_mechanisms::hpcc::law::{Hpcc, Params};

use crate::common::tests::idle_link::{recovery, IdleLink};

/// 1 Gbit/s and 800 µs: W_init is 100 kB, and W_AI 50 bytes.
const PLAIN: Params = Params {
    rate_kbit: 1_000_000,
    base_rtt_us: 800,
    flows: 100,
    eta_milli: 950,
    max_stage: 5,
    packet_bytes: 1_600,
};
const FIRST: f64 = 100_000.0;
const AI: f64 = 50.0;

fn bytes(flow: &Hpcc) -> f64 {
    flow.window() as f64 / f64::from(1 << FRACTION_BITS)
}

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() < 1.0 + expected * 1e-5
}

fn of(utilisation: f64) -> u32 {
    (utilisation * f64::from(ONE)) as u32
}

/// A flow with a reference window of a quarter of the first one.
fn quarter() -> Hpcc {
    let mut flow = Hpcc::new(PLAIN);
    flow.on_ack(of(0.95 * 4.0), true);
    assert!(near(bytes(&flow), FIRST / 4.0 + AI));
    flow
}

/// "W_init = B_NIC × T"
#[test]
fn a_flow_starts_at_the_line_rate() {
    let flow = Hpcc::new(PLAIN);
    assert_eq!(bytes(&flow), FIRST);
    assert_eq!(flow.rate(), 1_000_000_000);
}

/// "W_AI = W_init × (1 - η) / N"
#[test]
fn the_additive_increase_of_all_flows_fits_below_the_target() {
    let ai = |params| Hpcc::new(params).increase() as f64 / f64::from(1 << FRACTION_BITS);
    assert!(near(ai(PLAIN), AI));
    // The paper's 80 bytes.
    assert!((ai(Params::PAPER) - 80.0).abs() < 2.0);
}

/// "if U >= η …: W = W_c / (U/η) + W_AI"
#[test]
fn above_the_target_the_window_is_divided_by_the_utilisation() {
    for utilisation in [0.96, 1.0, 1.9, 30.0, 400.0] {
        let mut flow = Hpcc::new(PLAIN);
        flow.on_ack(of(utilisation), true);
        let expected = FIRST / (utilisation / 0.95) + AI;
        assert!(near(bytes(&flow), expected), "{} {expected}", bytes(&flow));
        assert_eq!(flow.stage(), 0);
    }
    let mut flow = Hpcc::new(PLAIN);
    flow.on_ack(of(1.9), true);
    assert_eq!(flow.utilisation_milli(), 1_899);
    assert!((flow.rate() as f64 / 1e9 - (0.5 + AI / FIRST)).abs() < 1e-5);
}

/// "else: W = W_c + W_AI"
#[test]
fn below_the_target_the_window_grows_additively() {
    let mut flow = quarter();
    let before = bytes(&flow);
    for stage in 1..=5_u8 {
        flow.on_ack(of(0.9), true);
        assert!(near(bytes(&flow), before + AI * f64::from(stage)));
        assert_eq!(flow.stage(), stage);
    }
}

/// "… or incStage >= maxStage"
#[test]
fn after_five_additive_increases_the_window_grows_multiplicatively() {
    let mut flow = quarter();
    for _ in 0..5 {
        flow.on_ack(of(0.475), true);
    }
    let before = bytes(&flow);
    flow.on_ack(of(0.475), true);
    assert!(near(bytes(&flow), before * 2.0 + AI));
    assert_eq!(flow.stage(), 0);
}

/// "W = W_c / …", not W / …: within a round-trip time each window is computed from the reference
/// window.
#[test]
fn acknowledgements_of_one_round_trip_time_do_not_add_up() {
    let mut flow = Hpcc::new(PLAIN);
    for _ in 0..10 {
        flow.on_ack(of(1.9), false);
        assert!(near(bytes(&flow), FIRST / 2.0 + AI));
    }
    // The queue has gone: the same reference window gives the window back.
    flow.on_ack(of(0.96), false);
    assert!(near(bytes(&flow), FIRST * 0.95 / 0.96 + AI));
    flow.on_ack(of(1.9), true);
    flow.on_ack(of(1.9), false);
    assert!(near(bytes(&flow), FIRST / 4.0 + AI * 1.5));
    // Without an update the stage stays, too.
    let mut flow = quarter();
    for _ in 0..10 {
        flow.on_ack(of(0.5), false);
    }
    assert_eq!(flow.stage(), 0);
}

#[test]
fn the_window_is_at_least_a_sixteenth_of_a_packet() {
    let mut flow = Hpcc::new(PLAIN);
    for _ in 0..20 {
        flow.on_ack(LIMIT - 1, true);
        assert!(bytes(&flow) >= 100.0);
    }
    assert_eq!(bytes(&flow), 100.0);
    // So does the reference window.
    flow.on_ack(of(0.5), false);
    assert!(near(bytes(&flow), 100.0 + AI));
}

#[test]
fn the_window_is_at_most_the_first_one() {
    let mut flow = Hpcc::new(PLAIN);
    for _ in 0..20 {
        flow.on_ack(1, true);
    }
    assert_eq!(bytes(&flow), FIRST);
}

#[test]
fn data_after_an_idle_period_is_a_new_flow() {
    let mut flow = quarter();
    flow.on_ack(of(0.5), true);
    flow.on_idle();
    assert_eq!((bytes(&flow), flow.stage()), (FIRST, 0));
    let mut new = Hpcc::new(PLAIN);
    for utilisation in [1.9, 0.9, 3.8] {
        flow.on_ack(of(utilisation), true);
        new.on_ack(of(utilisation), true);
        assert_eq!(bytes(&flow), bytes(&new));
    }
}

/// Flows that share a link fill it to the target, each with the same window.
#[test]
fn flows_share_a_link_at_the_target() {
    let mut flows = [PLAIN; 4].map(Hpcc::new);
    for _ in 0..12 {
        flows[0].on_ack(of(1.9), true);
    }
    for _ in 0..20_000 {
        let utilisation: f64 = flows.iter().map(|it| bytes(it) / FIRST).sum();
        flows
            .iter_mut()
            .for_each(|it| it.on_ack(of(utilisation), true));
    }
    let windows = flows.map(|it| bytes(&it));
    let sum: f64 = windows.iter().sum();
    assert!((sum / FIRST - 0.95).abs() < 0.01, "{sum}");
    assert!(
        windows.iter().all(|it| (it * 4.0 / sum - 1.0).abs() < 0.05),
        "{windows:?}"
    );
}

/// A link that did this, in ns.
fn link(interval: u64, sent: u64, before: u64, queue: u64) -> Change {
    Change {
        interval,
        sent,
        before,
        queue,
    }
}

/// `MeasureInflight` of a flow whose last utilisation is `before`.
fn measured(before: f64, links: &[Change]) -> f64 {
    let mut flow = Hpcc::new(PLAIN);
    flow.on_ack(of(before), false);
    let utilisation = flow.measure(links.iter().copied());
    f64::from(utilisation.expect("a link is known")) / f64::from(ONE)
}

/// T of [`PLAIN`] in ns.
const T: u64 = 800_000;

/// "u' = min(ack.L\[i\].qlen, L\[i\].qlen) / (ack.L\[i\].B · T) + txRate / ack.L\[i\].B"
#[test]
fn the_utilisation_of_a_link_is_its_rate_and_the_shorter_of_two_queues() {
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-5, "{found}");
    close(measured(0.5, &[link(T, T, 0, 0)]), 1.0);
    close(measured(0.5, &[link(T, T / 4, 0, 0)]), 0.25);
    close(measured(0.5, &[link(T, T, T / 2, 2 * T)]), 1.5);
    close(measured(0.5, &[link(T, T, 2 * T, T / 2)]), 1.5);
}

/// "if u' > u: u = u'; τ = ack.L\[i\].ts - L\[i\].ts" and "U = (1 - τ/T) · U + τ/T · u"
#[test]
fn the_fullest_link_counts_and_its_interval_is_the_weight() {
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-5, "{found}");
    let links = [
        link(T / 2, T / 4, 0, 0),
        link(T / 4, T / 4, T, T),
        link(T, T / 8, T / 4, T / 2),
    ];
    close(measured(1.0, &links), 0.75 + 2.0 / 4.0);
    // "τ = min(τ, T)"
    close(measured(3.0, &[link(10 * T, T, 0, 0)]), 0.1);
}

#[test]
fn the_first_records_are_averaged_with_a_utilisation_of_one() {
    let flow = Hpcc::new(PLAIN);
    let found = flow.measure([link(T / 4, T / 4, T, T)].into_iter());
    assert!(found.expect("a link is known").abs_diff(of(1.25)) < 10);
    assert_eq!(flow.measure([].into_iter()), None);
}

/// W_AI is 12.5 bytes. With a window of that size a packet would leave in each 123 T, and a link's
/// numbers wrap sooner: the flow would learn nothing more.
#[test]
fn a_flow_that_an_incast_has_slowed_down_fills_the_idle_link_again() {
    let mut flow = Hpcc::new(Params {
        rate_kbit: 10_000_000,
        base_rtt_us: 20,
        ..Params::PAPER
    });
    for _ in 0..20 {
        flow.on_ack(LIMIT - 1, true);
    }
    let found = recovery(&mut flow, bytes, |flow, link, updates| {
        let utilisation = flow.measure([link].into_iter()).expect("a link is known");
        flow.on_ack(utilisation, updates);
    });
    // Five additive increases and a multiplicative one, each with a packet of its own.
    let found = found.expect("it does not stand still");
    assert!(found < 120.0, "{found}");
}

/// Twice the longest time between two packets would still do; eight times of it would not.
#[test]
fn records_of_slower_flows_wrap() {
    for base_rtt_us in [13, 16, 20, 32, 1_000, 20_185] {
        let send = |gap| IdleLink::new(10_000_000, base_rtt_us, 1_538).send(1_538.0 / gap);
        assert!(send(31.0).is_some());
        assert!(send(128.0).is_none());
    }
}

/// Algorithm 1, in floating point.
struct Naive {
    params: Params,
    first: f64,
    reference: f64,
    window: f64,
    stage: u32,
}

impl Naive {
    fn ack(&mut self, utilisation: f64, updates: bool) {
        let eta = f64::from(self.params.eta_milli) / 1e3;
        let ai = self.first * (1.0 - eta) / f64::from(self.params.flows);
        let multiplies = utilisation >= eta || self.stage >= self.params.max_stage;
        let base = if multiplies {
            self.reference / (utilisation / eta)
        } else {
            self.reference
        };
        let least = f64::from(self.params.packet_bytes) / 16.0;
        self.window = (base + ai).max(least).min(self.first);
        if updates {
            self.reference = self.window;
            self.stage = if multiplies { 0 } else { self.stage + 1 };
        }
    }
}

proptest! {
    /// After each update the model takes over the law's window, so that rounding errors do not add
    /// up.
    #[test]
    fn each_step_is_the_naive_models(
        (rate_kbit, base_rtt_us) in (100_000..400_000_000_u32, 10..50_000_u32),
        (flows, eta_milli, max_stage) in (1..200_u32, 500..=1_000_u32, 0..10_u32),
        packet_bytes in 64..10_000_u32,
        steps in prop::collection::vec(
            (prop_oneof![4 => 500_000..2_000_000_u32, 1 => 10_000..LIMIT], any::<bool>()),
            1..300,
        ),
    ) {
        let params =
            Params { rate_kbit, base_rtt_us, flows, eta_milli, max_stage, packet_bytes };
        let mut flow = Hpcc::new(params);
        let first = bytes(&flow);
        let mut naive = Naive { params, first, reference: first, window: first, stage: 0 };
        for (utilisation, updates) in steps {
            // At the target itself the rounding decides.
            if ((i64::from(utilisation) * 1_000) >> 20).abs_diff(eta_milli.into()) <= 1 {
                continue;
            }
            flow.on_ack(utilisation, updates);
            naive.ack(f64::from(utilisation) / f64::from(ONE), updates);
            let (found, expected) = (bytes(&flow), naive.window);
            // U has at least 10,000 units.
            prop_assert!((found - expected).abs() <= 0.01 + expected * 1e-4, "{found} {expected}");
            prop_assert_eq!(u32::from(flow.stage()), naive.stage);
            if updates {
                naive.reference = found;
            }
        }
    }

    /// In whatever fabric, after whatever queues.
    #[test]
    fn the_slowest_flow_still_learns_from_its_packets(
        (rate_kbit, base_rtt_us) in (100_000..400_000_000_u32, 10..50_000_u32),
        (flows, packet_bytes) in (any::<u32>(), 64..10_000_u32),
        utilisations in prop::collection::vec(1..LIMIT, 1..50),
    ) {
        let params = Params { rate_kbit, base_rtt_us, flows, packet_bytes, ..PLAIN };
        let mut flow = Hpcc::new(params);
        // Otherwise a packet takes the link longer than T.
        prop_assume!(bytes(&flow) >= f64::from(packet_bytes));
        for utilisation in utilisations {
            flow.on_ack(utilisation, true);
            let mut link = IdleLink::new(rate_kbit, base_rtt_us, packet_bytes);
            // Records do not tell more than a thousand packets of one T apart.
            let window = bytes(&flow).min(500.0 * f64::from(packet_bytes));
            prop_assert!(link.send(window).is_some());
        }
    }

    #[test]
    fn each_utilisation_is_the_naive_models(
        base_rtt_us in 1..10_000_000_u32,
        before in 1..LIMIT,
        links in prop::collection::vec(
            (1e-4..20.0_f64, 0.0..1.5_f64, 0.0..60.0_f64, 0.0..60.0_f64),
            1..6,
        ),
    ) {
        let mut flow = Hpcc::new(Params { base_rtt_us, ..PLAIN });
        flow.on_ack(before, false);
        let t = f64::from(base_rtt_us) * 1e3;
        let links: Vec<_> = links
            .into_iter()
            .map(|(interval, rate, before, queue)| {
                let ns = |parts: f64| (parts * t) as u64;
                link(ns(interval).max(1), ns(interval * rate), ns(before), ns(queue))
            })
            .collect();
        let found = flow.measure(links.iter().copied()).expect("a link is known");
        let (mut u, mut tau) = (0.0, 0.0);
        for it in &links {
            let rate = it.sent as f64 / it.interval as f64;
            let here = it.before.min(it.queue) as f64 / t + rate;
            if here > u {
                (u, tau) = (here, (it.interval as f64).min(t));
            }
        }
        let expected = (1.0 - tau / t) * f64::from(before) / f64::from(ONE) + tau / t * u;
        let found = f64::from(found) / f64::from(ONE);
        prop_assert!((found - expected).abs() <= 4e-6 + expected * 1e-6, "{found} {expected}");
    }

    #[test]
    fn no_utilisation_is_too_large(
        base_rtt_us: u32,
        before: u32,
        links in prop::collection::vec(
            (1..1_u64 << 43, [0..1_u64 << 43, 0..1 << 43, 0..1 << 43]),
            1..6,
        ),
    ) {
        let mut flow = Hpcc::new(Params { base_rtt_us, ..PLAIN });
        flow.on_ack(before, false);
        let links = links.into_iter().map(|(interval, [sent, before, queue])| {
            link(interval, sent, before, queue)
        });
        let found = flow.measure(links).expect("a link is known");
        prop_assert!((1..LIMIT).contains(&found));
    }

    #[test]
    fn nothing_is_too_large(
        numbers: [u32; 6],
        steps in prop::collection::vec((any::<u32>(), any::<bool>()), 0..100),
    ) {
        let [rate_kbit, base_rtt_us, flows, eta_milli, max_stage, packet_bytes] = numbers;
        let params =
            Params { rate_kbit, base_rtt_us, flows, eta_milli, max_stage, packet_bytes };
        let mut flow = Hpcc::new(params);
        let first = flow.window();
        for (utilisation, updates) in steps {
            flow.on_ack(utilisation, updates);
            prop_assert!((1..=first).contains(&flow.window()));
        }
    }
}
