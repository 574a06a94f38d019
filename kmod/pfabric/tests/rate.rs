// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The sentences of pFabric §4.2, one by one; the choices that the paper leaves open; and the law
//! against a naive model.

use proptest::prelude::*;
use weft_mechanisms::pfabric::rate::{Params, Phase, RateControl, Resend};

fn flow(initial_window: u32, max_window: u32, probe_threshold: u32) -> RateControl {
    RateControl::new(Params {
        initial_window,
        max_window,
        probe_threshold,
    })
}

/// A flow without a largest window or probes.
fn unlimited(initial_window: u32) -> RateControl {
    flow(initial_window, u32::MAX, 0)
}

/// "Flows start at line rate. Practically, this is accomplished by using an initial window size
/// equal to the bandwidth-delay product (BDP) of the link (12 packets in our simulations)."
#[test]
fn flows_start_at_line_rate() {
    let flow = RateControl::new(Params::PAPER);
    assert_eq!(flow.window(), 12);
    assert_eq!(flow.phase(), Phase::AdditiveIncrease);
}

/// "For every packet acknowledgement we do additive increase as in standard TCP."
#[test]
fn for_every_packet_acknowledgement_we_do_additive_increase() {
    let mut flow = unlimited(12);
    for window in 12..40 {
        for _ in 0..window {
            assert_eq!(flow.window(), window);
            flow.on_ack(1, true);
        }
    }
    assert_eq!(flow.window(), 40);
}

#[test]
fn an_ack_of_several_packets_counts_for_each() {
    let (mut one_by_one, mut at_once) = (unlimited(4), unlimited(4));
    for packets in [3, 1, 9, 40, 2] {
        (0..packets).for_each(|_| one_by_one.on_ack(1, true));
        at_once.on_ack(packets, true);
        assert_eq!(at_once.window(), one_by_one.window());
    }
    assert!(at_once.window() > 10);
}

/// "As in standard TCP": a window that the flow does not fill is not tested, so it proves nothing
/// (RFC 7661). The flow can still send at once as much as it has tested.
#[test]
fn a_flow_that_the_window_does_not_limit_does_not_grow() {
    let mut increasing = unlimited(12);
    (0..1000).for_each(|_| increasing.on_ack(1, false));
    assert_eq!((increasing.window(), increasing.threshold()), (12, 12));
    // Nothing was accumulated meanwhile.
    (0..11).for_each(|_| increasing.on_ack(1, true));
    assert_eq!(increasing.window(), 12);
    increasing.on_ack(1, true);
    assert_eq!(increasing.window(), 13);

    let mut starting = unlimited(12);
    starting.on_timeout();
    starting.on_ack(3, false);
    assert_eq!((starting.window(), starting.phase()), (1, Phase::SlowStart));
    starting.on_ack(3, true);
    assert_eq!(starting.window(), 4);
}

/// An acknowledgement ends consecutive timeouts, and probe mode, whatever limits the flow.
#[test]
fn an_acknowledgement_ends_probe_mode_even_if_the_window_does_not_limit_the_flow() {
    let mut flow = flow(12, 23, 2);
    flow.on_timeout();
    flow.on_timeout();
    assert_eq!(flow.phase(), Phase::Probe);
    flow.on_ack(1, false);
    assert_eq!(
        (flow.phase(), flow.timeouts_in_a_row()),
        (Phase::SlowStart, 0)
    );
}

/// "There are no fast retransmits, dupACKs or any other such mechanisms."
#[test]
fn a_duplicate_ack_of_nothing_new_does_nothing() {
    for steps in 0..4 {
        let mut flow = unlimited(12);
        flow.on_ack(7, true);
        for _ in 0..steps {
            flow.on_timeout();
        }
        let before = format!("{flow:?}");
        (0..1000).for_each(|_| flow.on_ack(0, true));
        assert_eq!(format!("{flow:?}"), before);
    }
}

/// "Upon a timeout, the flow enters into slow start and ssthresh is set to half the window size
/// before the timeout occurred."
#[test]
fn upon_a_timeout_the_flow_enters_slow_start_with_half_the_window_as_threshold() {
    for (window, threshold) in [(12, 6), (13, 6), (23, 11), (5, 2), (4, 2), (1, 2)] {
        let mut flow = unlimited(window);
        assert_eq!(flow.on_timeout(), Resend::Packet);
        assert_eq!(flow.threshold(), threshold, "after a window of {window}");
        assert_eq!(flow.phase(), Phase::SlowStart);
    }
}

/// "We use additive increase most of the time and just restart from a window of 1 if we see a
/// timeout."
#[test]
fn a_timeout_restarts_from_a_window_of_one() {
    let mut flow = unlimited(12);
    flow.on_timeout();
    assert_eq!(flow.window(), 1);
    // 1, 2, 4, then the threshold.
    for window in [2, 4, 6] {
        flow.on_ack(flow.window(), true);
        assert_eq!(flow.window(), window);
    }
    assert_eq!(flow.phase(), Phase::AdditiveIncrease);
    flow.on_ack(4, true); // two packets beyond the threshold were acknowledged before
    assert_eq!(flow.window(), 7);
}

#[test]
fn each_timeout_sets_the_threshold_anew() {
    let mut flow = unlimited(24);
    flow.on_timeout();
    assert_eq!(flow.threshold(), 12);
    flow.on_timeout();
    assert_eq!((flow.threshold(), flow.window()), (2, 1));
}

/// "If a fixed threshold number of consecutive timeouts occur (5 in our current implementation),
/// […] the flow enters into probe mode where it periodically retransmits minimum-sized packets
/// with a one byte payload."
#[test]
fn the_fifth_consecutive_timeout_enters_probe_mode() {
    let mut flow = RateControl::new(Params::PAPER);
    for _ in 0..4 {
        assert_eq!(flow.on_timeout(), Resend::Packet);
        assert_eq!(flow.phase(), Phase::SlowStart);
    }
    for probes in 1..=20 {
        assert_eq!(flow.on_timeout(), Resend::Probe);
        assert_eq!(flow.phase(), Phase::Probe);
        assert_eq!((flow.window(), flow.probes()), (1, probes));
    }
}

/// The same: "consecutive".
#[test]
fn timeouts_with_an_acknowledgement_between_them_are_not_consecutive() {
    let mut flow = RateControl::new(Params::PAPER);
    for _ in 0..10 {
        for _ in 0..4 {
            assert_eq!(flow.on_timeout(), Resend::Packet);
        }
        flow.on_ack(1, true);
        assert_eq!(flow.timeouts_in_a_row(), 0);
    }
    assert_eq!((flow.timeouts(), flow.probes()), (40, 0));
}

/// "… and re-enters slow-start once it receives an acknowledgement."
#[test]
fn probe_mode_re_enters_slow_start_once_it_receives_an_acknowledgement() {
    for packets in [1, 2, 30] {
        let mut flow = flow(12, 23, 1);
        assert_eq!(flow.on_timeout(), Resend::Probe);
        flow.on_ack(0, true);
        assert_eq!(flow.phase(), Phase::Probe, "a duplicate ACK is no answer");
        flow.on_ack(packets, true);
        assert_eq!(flow.phase(), Phase::SlowStart);
        assert_eq!((flow.window(), flow.threshold()), (1, 6));
        flow.on_ack(1, true);
        assert_eq!(flow.window(), 2);
    }
}

/// "The loss rate […] without probe mode" (Figure 4b).
#[test]
fn a_threshold_of_zero_turns_probe_mode_off() {
    let mut flow = flow(12, 23, 0);
    for _ in 0..100 {
        assert_eq!(flow.on_timeout(), Resend::Packet);
    }
}

#[test]
fn the_window_never_exceeds_the_largest_one() {
    let mut flow = RateControl::new(Params::PAPER);
    (0..1000).for_each(|_| flow.on_ack(1, true));
    assert_eq!(flow.window(), 23);
    flow.on_ack(u32::MAX, true);
    assert_eq!(flow.window(), 23);
    // Nothing was accumulated meanwhile.
    flow.on_timeout();
    (0..11).for_each(|_| flow.on_ack(1, true));
    assert_eq!(flow.window(), 11);
}

#[test]
fn an_initial_window_beyond_the_largest_one_is_clamped_to_it() {
    assert_eq!(flow(50, 23, 5).window(), 23);
    assert_eq!(flow(0, 0, 5).window(), 1);
}

#[test]
fn data_after_an_idle_period_is_a_new_flow() {
    let mut flow = RateControl::new(Params::PAPER);
    flow.on_ack(5, true);
    for _ in 0..6 {
        flow.on_timeout();
    }
    flow.on_idle();
    assert_eq!((flow.window(), flow.threshold()), (12, 12));
    assert_eq!(flow.phase(), Phase::AdditiveIncrease);
    assert_eq!(flow.timeouts_in_a_row(), 0);
    assert_eq!(
        (flow.timeouts(), flow.probes()),
        (6, 2),
        "counted since the start"
    );
    // The five earlier ones are forgotten.
    (0..11).for_each(|_| flow.on_ack(1, true));
    assert_eq!(flow.window(), 12);
    flow.on_ack(1, true);
    assert_eq!(flow.window(), 13);
}

/// The law word for word: one packet at a time.
#[derive(Debug)]
struct Model {
    params: Params,
    window: u64,
    threshold: u64,
    /// Acknowledged packets that have not yet made the window grow.
    left: u64,
    timeouts: u64,
}

impl Model {
    fn new(params: Params) -> Self {
        let max = u64::from(params.max_window.max(1));
        let window = u64::from(params.initial_window).clamp(1, max);
        Self {
            params,
            window,
            threshold: window,
            left: 0,
            timeouts: 0,
        }
    }

    fn probing(&self) -> bool {
        let threshold = u64::from(self.params.probe_threshold);
        threshold > 0 && self.timeouts >= threshold
    }

    fn ack(&mut self, packets: u32, limited: bool) {
        let answer = self.probing();
        if packets > 0 {
            self.timeouts = 0;
        }
        if answer || !limited {
            return;
        }
        let max = u64::from(self.params.max_window.max(1));
        for _ in 0..packets {
            if self.window >= max {
                self.left = 0;
            } else if self.window < self.threshold {
                self.window += 1;
            } else {
                self.left += 1;
                if self.left == self.window {
                    self.left = 0;
                    self.window += 1;
                }
            }
        }
    }

    fn timeout(&mut self) -> Resend {
        self.threshold = (self.window / 2).max(2);
        self.window = 1;
        self.left = 0;
        self.timeouts += 1;
        match self.probing() {
            true => Resend::Probe,
            false => Resend::Packet,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Ack { packets: u32, limited: bool },
    Timeout,
    Idle,
}

fn event() -> impl Strategy<Value = Event> {
    let ack = |packets| {
        let limited = prop_oneof![5 => Just(true), 1 => Just(false)];
        (packets, limited).prop_map(|(packets, limited)| Event::Ack { packets, limited })
    };
    prop_oneof![
        6 => ack(1..2_u32),
        2 => ack(0..5_u32),
        1 => ack(0..5000_u32),
        2 => Just(Event::Timeout),
        1 => Just(Event::Idle),
    ]
}

fn params() -> impl Strategy<Value = Params> {
    (0..60_u32, prop_oneof![0..100_u32, Just(u32::MAX)], 0..8_u32).prop_map(
        |(initial_window, max_window, probe_threshold)| Params {
            initial_window,
            max_window,
            probe_threshold,
        },
    )
}

proptest! {
    #[test]
    fn the_law_matches_the_naive_model(
        params in params(),
        events in prop::collection::vec(event(), 0..200),
    ) {
        let (mut law, mut model) = (RateControl::new(params), Model::new(params));
        for event in events {
            match event {
                Event::Ack { packets, limited } => {
                    law.on_ack(packets, limited);
                    model.ack(packets, limited);
                }
                Event::Timeout => prop_assert_eq!(law.on_timeout(), model.timeout()),
                Event::Idle => {
                    law.on_idle();
                    model = Model::new(params);
                }
            }
            prop_assert_eq!(u64::from(law.window()), model.window);
            prop_assert_eq!(u64::from(law.threshold()), model.threshold);
            prop_assert_eq!(u64::from(law.timeouts_in_a_row()), model.timeouts);
            prop_assert_eq!(law.phase() == Phase::Probe, model.probing());
        }
    }

    #[test]
    fn no_number_of_packets_is_too_large(
        params in any::<(u32, u32, u32)>(),
        acks in prop::collection::vec(any::<u32>(), 1..4),
    ) {
        let mut flow = flow(params.0, params.1, params.2);
        for packets in acks {
            flow.on_ack(packets, true);
            prop_assert!((1..=params.1.max(1)).contains(&flow.window()));
        }
    }
}
