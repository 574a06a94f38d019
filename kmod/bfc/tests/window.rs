// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The sentences of BFC's Appendices A.1 and A.8 and its §5, one by one; the choices that the paper
//! leaves open; and the law against a naive model.

use std::num::NonZeroU32;

use proptest::prelude::*;
use weft_mechanisms::bfc::window::{Params, Phase, Window, LARGEST};

fn flow(bdp: u32, rtt_target_us: u32) -> Window {
    Window::new(Params { bdp, rtt_target_us })
}

/// An ACK of `packets`, of a flow that has more to send.
fn ack(flow: &mut Window, packets: u32, rtt_us: u32) {
    flow.on_ack(packets, NonZeroU32::new(rtt_us), true);
}

/// "RTTTarget = 2.5 × Base RTT; w = 1 BDP" with "All links are 100 Gbps", "The maximum end-to-end
/// base round trip time (RTT) is 8 µs" and "an MTU of 1 KB".
#[test]
fn a_flow_starts_with_one_bdp() {
    const BITS_A_US: u32 = 100_000;
    const RTT_US: u32 = 8;
    let flow = Window::new(Params::PAPER);
    assert_eq!(flow.packets(), BITS_A_US * RTT_US / 8 / 1000);
    assert_eq!(flow.rtt_target_us(), RTT_US * 5 / 2);
    assert_eq!(flow.phase(), Phase::Delay);
}

/// "if RTT > RTTTarget then w = w - (RTT - RTTTarget)/RTT"
#[test]
fn each_acknowledgement_above_the_target_shrinks_the_window_by_the_excess() {
    // (40 - 20) / 40 is half a packet, (80 - 20) / 80 three quarters.
    let mut flow = flow(100, 20);
    for (rtt, window) in [(40, 99), (40, 99), (40, 98), (40, 98), (80, 97), (80, 96)] {
        ack(&mut flow, 1, rtt);
        assert_eq!(flow.packets(), window, "after an RTT of {rtt} µs");
    }
}

/// "else w = w + (RTTTarget - RTT)/RTT"
#[test]
fn each_acknowledgement_below_the_target_grows_the_window_by_the_shortfall() {
    // (20 - 8) / 8 is one and a half packets, (20 - 16) / 16 a quarter.
    let mut flow = flow(100, 20);
    for (rtt, window) in [
        (8, 101),
        (8, 103),
        (16, 103),
        (16, 103),
        (16, 103),
        (16, 104),
    ] {
        ack(&mut flow, 1, rtt);
        assert_eq!(flow.packets(), window, "after an RTT of {rtt} µs");
    }
}

#[test]
fn an_rtt_at_the_target_changes_nothing() {
    let mut flow = flow(100, 20);
    (0..1000).for_each(|_| ack(&mut flow, 1, 20));
    assert_eq!(flow.packets(), 100);
}

/// "With the above rule, the window of a sender roughly goes from w → w × RTTTarget/RTT within an
/// RTT."
#[test]
fn within_an_rtt_the_window_becomes_w_times_target_by_rtt() {
    for (rtt, window) in [(8, 250), (10, 200), (20, 100), (40, 50), (200, 10)] {
        let mut flow = flow(100, 20);
        (0..100).for_each(|_| ack(&mut flow, 1, rtt));
        assert!(
            flow.packets().abs_diff(window) <= 1,
            "{} packets, not {window}, after an RTT of {rtt} µs",
            flow.packets()
        );
    }
}

/// "… a simple delay-based congestion control that tries to maintain the end-to-end RTT at a
/// certain threshold (RTT_Target)": a flow alone has an RTT of window / rate beyond its BDP.
#[test]
fn it_maintains_the_rtt_at_the_target() {
    for start in [1, 40, 1000] {
        let mut flow = flow(start, 20);
        for _ in 0..5000 {
            let rtt = (8 * flow.packets()).div_ceil(100).max(8);
            ack(&mut flow, 1, rtt);
        }
        assert!(flow.packets().abs_diff(250) <= 13, "{}", flow.packets());
    }
}

/// The same for N flows that share a link: the target bounds the packets that they have in flight
/// together, however many flows there are.
#[test]
fn many_flows_together_have_the_targets_packets_in_flight() {
    let mut flows = [flow(100, 20); 25];
    for _ in 0..20_000 {
        let sum: u32 = flows.iter().map(Window::packets).sum();
        let rtt = (8 * sum).div_ceil(100);
        flows.iter_mut().for_each(|flow| ack(flow, 1, rtt));
    }
    let sum: u32 = flows.iter().map(Window::packets).sum();
    // One BDP each would be 2500.
    assert!(sum.abs_diff(250) <= 25, "{sum}");
}

/// "… capping inflight packets" (§5) "to 1 end-to-end bandwidth delay product" (A.8).
#[test]
fn without_a_target_the_window_is_one_bdp_whatever_the_rtt() {
    let mut flow = flow(100, 0);
    for rtt in [1, 8, 1_000_000, u32::MAX] {
        ack(&mut flow, 50, rtt);
        assert_eq!((flow.packets(), flow.phase()), (100, Phase::Cap));
    }
}

#[test]
fn an_ack_of_several_packets_counts_for_each() {
    let (mut one_by_one, mut at_once) = (flow(50, 70), flow(50, 70));
    for (packets, rtt) in [(3, 30), (1, 90), (40, 71), (20, 69), (60, 3000), (2, 1)] {
        (0..packets).for_each(|_| ack(&mut one_by_one, 1, rtt));
        ack(&mut at_once, packets, rtt);
        assert_eq!(format!("{at_once:?}"), format!("{one_by_one:?}"));
    }
    assert!(at_once.packets() > 100);
}

#[test]
fn an_ack_of_nothing_new_or_without_an_rtt_does_nothing() {
    let mut flow = flow(10, 20);
    ack(&mut flow, 3, 13);
    let before = format!("{flow:?}");
    ack(&mut flow, 0, 8);
    flow.on_ack(5, None, true);
    assert_eq!(format!("{flow:?}"), before);
}

#[test]
fn a_flow_that_does_not_fill_its_window_does_not_grow_but_shrinks() {
    let mut flow = flow(10, 20);
    (0..1000).for_each(|_| flow.on_ack(1, NonZeroU32::new(8), false));
    assert_eq!(flow.packets(), 10);
    (0..4).for_each(|_| flow.on_ack(1, NonZeroU32::new(40), false));
    assert_eq!(flow.packets(), 8);
}

#[test]
fn the_smallest_window_is_one_packet() {
    let mut flow = flow(10, 20);
    ack(&mut flow, u32::MAX, u32::MAX);
    assert_eq!(flow.packets(), 1);
    // And nothing below it was accumulated.
    ack(&mut flow, 1, 10);
    assert_eq!(flow.packets(), 2);
}

#[test]
fn a_timeout_restarts_from_one_packet_and_grows_to_a_bdp() {
    for (target, after) in [(20, Phase::Delay), (0, Phase::Cap)] {
        let mut flow = flow(10, target);
        ack(&mut flow, 2, 8);
        flow.on_timeout();
        assert_eq!((flow.packets(), flow.phase()), (1, Phase::SlowStart));
        // Neither the RTT nor its absence matters now.
        flow.on_ack(1, None, true);
        ack(&mut flow, 2, 4000);
        flow.on_ack(4, None, false);
        assert_eq!((flow.packets(), flow.phase()), (8, Phase::SlowStart));
        ack(&mut flow, 9, 4000);
        assert_eq!((flow.packets(), flow.phase()), (10, after));
        assert_eq!(flow.timeouts(), 1);
    }
}

#[test]
fn consecutive_timeouts_restart_each_time() {
    let mut flow = flow(10, 20);
    flow.on_timeout();
    ack(&mut flow, 5, 8);
    flow.on_timeout();
    assert_eq!((flow.packets(), flow.phase()), (1, Phase::SlowStart));
    assert_eq!(flow.timeouts(), 2);
}

#[test]
fn a_bdp_of_one_packet_needs_no_slow_start() {
    let mut flow = flow(1, 20);
    flow.on_timeout();
    assert_eq!((flow.packets(), flow.phase()), (1, Phase::Delay));
}

#[test]
fn a_bdp_out_of_range_is_clamped() {
    assert_eq!(flow(0, 20).packets(), 1);
    assert_eq!(flow(LARGEST + 1, 20).packets(), LARGEST);
}

#[test]
fn data_after_an_idle_period_is_a_new_flow() {
    let mut flow = flow(10, 20);
    ack(&mut flow, 10, 8);
    flow.on_idle();
    assert_eq!(flow.packets(), 10);
    flow.on_timeout();
    flow.on_idle();
    assert_eq!((flow.packets(), flow.phase()), (10, Phase::Delay));
    assert_eq!(flow.timeouts(), 1, "counted since the start");
}

/// The law word for word: one packet at a time, as real numbers.
#[derive(Debug)]
struct Model {
    bdp: f64,
    target: f64,
    window: f64,
    starting_over: bool,
    /// The largest error that the law's rounding may have accumulated.
    error: f64,
}

impl Model {
    fn new(params: Params) -> Self {
        let bdp = f64::from(params.bdp.clamp(1, LARGEST));
        Self {
            bdp,
            target: f64::from(params.rtt_target_us),
            window: bdp,
            starting_over: false,
            error: 0.0,
        }
    }

    fn ack(&mut self, packets: u32, rtt: Option<NonZeroU32>, limited: bool) {
        let delay = !self.starting_over;
        for _ in 0..packets {
            if self.starting_over {
                self.window += 1.0;
                self.starting_over = self.window < self.bdp;
            } else if let (true, true, Some(rtt)) = (delay, self.target > 0.0, rtt) {
                let rtt = f64::from(rtt.get());
                if rtt > self.target {
                    self.window -= (rtt - self.target) / rtt;
                } else if limited {
                    self.window += (self.target - rtt) / rtt;
                }
                self.window = self.window.clamp(1.0, f64::from(LARGEST) + 1.0);
                self.error += 1.0 / 65_536.0;
            }
        }
    }

    fn timeout(&mut self) {
        self.window = 1.0;
        self.starting_over = self.bdp > 1.0;
        self.error = 0.0;
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Ack(u32, u32, bool),
    Timeout,
    Idle,
}

/// An RTT of 0 means none.
fn event() -> impl Strategy<Value = Event> {
    let rtt = || prop_oneof![8 => 1..200_u32, 1 => Just(0), 1 => 1..5_000_000_u32];
    prop_oneof![
        12 => rtt().prop_map(|rtt| Event::Ack(1, rtt, true)),
        4 => (0..9_u32, rtt(), any::<bool>()).prop_map(|(n, rtt, full)| Event::Ack(n, rtt, full)),
        1 => (0..3000_u32, rtt(), any::<bool>()).prop_map(|(n, rtt, full)| Event::Ack(n, rtt, full)),
        1 => Just(Event::Timeout),
        1 => Just(Event::Idle),
    ]
}

fn params() -> impl Strategy<Value = Params> {
    (
        prop_oneof![0..60_u32, 0..LARGEST + 9],
        prop_oneof![1 => Just(0), 6 => 0..150_u32],
    )
        .prop_map(|(bdp, rtt_target_us)| Params { bdp, rtt_target_us })
}

proptest! {
    #[test]
    fn the_law_matches_the_naive_model(
        params in params(),
        events in prop::collection::vec(event(), 0..200),
    ) {
        let (mut law, mut model) = (Window::new(params), Model::new(params));
        for event in events {
            match event {
                Event::Ack(packets, rtt, limited) => {
                    let rtt = NonZeroU32::new(rtt);
                    law.on_ack(packets, rtt, limited);
                    model.ack(packets, rtt, limited);
                }
                Event::Timeout => {
                    law.on_timeout();
                    model.timeout();
                }
                Event::Idle => {
                    law.on_idle();
                    model = Model::new(params);
                }
            }
            prop_assert_eq!(law.phase() == Phase::SlowStart, model.starting_over);
            let packets = f64::from(law.packets());
            let slack = model.error + 1e-6;
            prop_assert!(
                packets <= model.window + slack && packets + 1.0 > model.window - slack,
                "{} packets, not {}", packets, model.window
            );
        }
    }

    #[test]
    fn no_number_is_too_large(
        params in any::<(u32, u32)>(),
        acks in prop::collection::vec(any::<(u32, u32, bool)>(), 1..4),
    ) {
        let mut flow = flow(params.0, params.1);
        for (packets, rtt, limited) in acks {
            flow.on_ack(packets, NonZeroU32::new(rtt), limited);
            prop_assert!((1..=LARGEST).contains(&flow.packets()));
        }
    }
}
