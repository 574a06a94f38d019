// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Algorithm 2 and the sentences of §3.2 on the window, one by one; the choices that the paper
//! leaves open; and the law against a naive model.

use proptest::prelude::*;
use std::num::{NonZeroU16, NonZeroU32};
use weft_mechanisms::common::window::{Ack, WindowLaw};
use weft_mechanisms::pase::window::{Params, Phase, Window, ALPHA_ONE, LARGEST};
use weft_mechanisms::pase::{Verdict, MAX_RATE};

const PACKET: u16 = 1_000;

fn params(rtt_us: u32) -> Params {
    Params {
        rtt_us: NonZeroU32::new(rtt_us).unwrap(),
        packet: NonZeroU16::new(PACKET).unwrap(),
        queues: 8,
        guided: true,
    }
}

fn verdict(queue: u8, rate: u64) -> Verdict {
    Verdict { queue, rate }
}

/// A flow in that queue. Its reference rate is 20 packets in the round-trip time of 100 µs.
fn flow(queue: u8) -> Window {
    Window::new(params(100), verdict(queue, 200_000_000))
}

fn ack(packets: u32, marked: u32) -> Ack {
    Ack {
        packets,
        marked,
        rtt_us: None,
        limited: true,
    }
}

/// "For the flows mapped to the top queue, the congestion window is set to Rref × RTT in order to
/// reflect the reference rate assigned by the arbitrator."
#[test]
fn in_the_top_queue_the_window_is_the_reference_rate_times_the_rtt() {
    for (rate, packets) in [
        (200_000_000, 20),
        (200_000_001, 21),
        (10_000_000, 1),
        (10_000_001, 2),
        (0, 1),
        (u64::MAX, LARGEST.into()),
        (MAX_RATE, LARGEST.into()),
    ] {
        let flow = Window::new(params(100), verdict(1, rate));
        assert_eq!(flow.packets(), packets, "at {rate} bytes/s");
        assert_eq!(flow.phase(), Phase::Guided);
    }
}

/// "For all other flows, the congestion window is set to one packet."
#[test]
fn in_all_other_queues_the_window_is_set_to_one_packet() {
    for queue in 2..=9 {
        assert_eq!(flow(queue).packets(), 1);
    }
}

/// "For the flows mapped to lower priority queues (except the bottom queue) … when an unmarked ACK
/// is received, the window size is increased as cwnd = cwnd + 1/cwnd."
#[test]
fn in_the_intermediate_queues_an_unmarked_ack_adds_one_by_the_window() {
    for queue in 2..=7 {
        let mut flow = flow(queue);
        assert_eq!(flow.phase(), Phase::SelfAdjusting);
        for window in 1..30 {
            for _ in 0..window {
                assert_eq!(flow.packets(), window);
                flow.on_ack(ack(1, 0));
            }
        }
    }
}

/// "if already mapped to an intermediate queue: if isInterQueue == 1", the increase continues.
#[test]
fn from_one_intermediate_queue_to_another_the_window_stays() {
    let mut flow = flow(4);
    flow.on_ack(ack(1, 0));
    flow.on_ack(ack(2, 0));
    flow.arbitrate(verdict(2, 0));
    assert_eq!(flow.packets(), 3);
    flow.arbitrate(verdict(7, 0));
    assert_eq!(flow.packets(), 3);
}

/// "else isInterQueue = 1; cwnd = 1"
#[test]
fn into_the_intermediate_queues_the_window_is_one() {
    let mut top = flow(1);
    top.arbitrate(verdict(2, 0));
    assert_eq!(top.packets(), 1);
    let mut lowest = flow(8);
    lowest.arbitrate(verdict(7, 0));
    assert_eq!(lowest.packets(), 1);
    // Through the top queue and back: as the first time.
    let mut flow = flow(3);
    (0..10).for_each(|_| {
        flow.on_ack(ack(1, 0));
    });
    flow.arbitrate(verdict(1, 200_000_000));
    assert_eq!(flow.packets(), 20);
    flow.arbitrate(verdict(3, 0));
    assert_eq!(flow.packets(), 1);
}

/// "For the flows mapped to the bottom queue, the window size always remains one."
#[test]
fn in_the_lowest_queue_the_window_always_remains_one() {
    let mut flow = flow(8);
    assert_eq!(flow.phase(), Phase::Lowest);
    for marked in [0, 0, 1, 1, 0, 0] {
        flow.on_ack(ack(1, marked));
        flow.on_ack(ack(9, marked));
        assert_eq!(flow.packets(), 1);
    }
    flow.on_timeout();
    assert_eq!(flow.packets(), 1);
}

/// "When a marked ACK (i.e., with ECN-Echo flag set) is received, the window size is reduced as
/// cwnd = cwnd × (1 - α/2)"; α is 1 at first.
#[test]
fn a_marked_ack_reduces_the_window_by_half_of_alpha() {
    let mut flow = flow(1);
    flow.on_ack(ack(1, 1));
    assert_eq!(flow.packets(), 10);
    let mut flow = self::flow(2);
    (0..45).for_each(|_| {
        flow.on_ack(ack(1, 0));
    });
    let (before, alpha) = (flow.packets(), u32::from(flow.alpha()));
    assert!(before == 10 && alpha < ALPHA_ONE.into());
    flow.on_ack(ack(1, 1));
    assert_eq!(flow.packets(), before - before * alpha / 2048);
}

/// DCTCP's decrease law: once for each window of data.
#[test]
fn marks_of_one_window_reduce_it_once() {
    let mut flow = flow(1);
    for _ in 0..19 {
        flow.on_ack(ack(1, 1));
        assert_eq!(flow.packets(), 10);
    }
    // The 20th ends the window of 20, all of them marked.
    flow.on_ack(ack(1, 1));
    assert_eq!(flow.alpha(), ALPHA_ONE);
    flow.on_ack(ack(1, 1));
    assert_eq!(flow.packets(), 5);
}

/// Algorithm 2: without a mark the window of the top queue is the reference rate's again.
#[test]
fn in_the_top_queue_an_unmarked_ack_undoes_the_reduction_of_a_mark() {
    let mut flow = flow(1);
    flow.on_ack(ack(1, 1));
    flow.on_ack(ack(1, 0));
    assert_eq!(flow.packets(), 20);
}

#[test]
fn a_new_rate_in_the_top_queue_counts_from_the_next_unmarked_ack() {
    let mut flow = flow(1);
    flow.arbitrate(verdict(1, 50_000_000));
    assert_eq!(flow.packets(), 20);
    flow.on_ack(ack(1, 1));
    assert_eq!(flow.packets(), 10);
    flow.on_ack(ack(1, 0));
    assert_eq!(flow.packets(), 5);
}

/// "α is the weighted average of the fraction of marked packets": with DCTCP's weight of a
/// sixteenth.
#[test]
fn alpha_converges_to_the_fraction_of_marked_packets() {
    for (marked, of) in [(0, 4), (1, 4), (1, 2), (1, 1)] {
        let mut flow = flow(8);
        for round in 0..400 {
            flow.on_ack(ack(1, u32::from(round % of < marked)));
        }
        let (alpha, fraction) = (u32::from(flow.alpha()), 1024 * marked / of);
        // An average over windows of one packet swings by a sixteenth of the rest.
        assert!(
            alpha.abs_diff(fraction) <= 80,
            "{alpha}, not {fraction}, of 1024"
        );
    }
}

#[test]
fn without_marks_alpha_decays_to_0() {
    let mut flow = flow(8);
    for _ in 0..200 {
        flow.on_ack(ack(1, 0));
    }
    assert_eq!(flow.alpha(), 0);
}

#[test]
fn the_smallest_measured_rtt_replaces_the_parameter() {
    let mut flow = flow(1);
    let rtt = |us| Ack {
        rtt_us: NonZeroU32::new(us),
        ..ack(1, 0)
    };
    for (us, least) in [(400, 400), (900, 400), (50, 50), (400, 50)] {
        flow.on_ack(rtt(us));
        assert_eq!((flow.rtt_us(), flow.packets()), (least, least / 5));
    }
}

#[test]
fn a_flow_that_is_not_limited_does_not_grow() {
    let mut flow = flow(2);
    for _ in 0..100 {
        flow.on_ack(Ack {
            limited: false,
            ..ack(1, 0)
        });
    }
    assert_eq!(flow.packets(), 1);
}

#[test]
fn a_timeout_makes_the_window_of_an_intermediate_queue_one_packet() {
    let mut flow = flow(2);
    (0..10).for_each(|_| {
        flow.on_ack(ack(1, 0));
    });
    assert!(flow.packets() > 3);
    flow.on_timeout();
    assert_eq!(flow.packets(), 1);
    let mut top = self::flow(1);
    top.on_timeout();
    assert_eq!(top.packets(), 20);
}

/// §4.3.2: "PASE-DCTCP, where all flows (including the ones mapped to the top queue as well as the
/// lowest priority queue) behave as DCTCP sources and do not use the reference rate."
#[test]
fn without_guidance_all_queues_have_dctcps_law() {
    for queue in [1, 4, 8] {
        let params = Params {
            guided: false,
            ..params(100)
        };
        let mut flow = Window::new(params, verdict(queue, MAX_RATE));
        for window in 1..6 {
            (0..window).for_each(|_| {
                flow.on_ack(ack(1, 0));
            });
            assert_eq!(flow.packets(), window + 1);
        }
        flow.arbitrate(verdict(9 - queue, 0));
        assert_eq!(flow.packets(), 6);
    }
}

/// Algorithm 2 and DCTCP's α with fractions, one packet at a time.
struct Naive {
    queue: u8,
    rate: u64,
    rtt_us: Option<u32>,
    window: f64,
    alpha: f64,
    round: Vec<bool>,
    round_of: u32,
    reduced: bool,
}

impl Naive {
    fn new(queue: u8, rate: u64) -> Self {
        let mut new = Self {
            queue,
            rate,
            rtt_us: None,
            window: 1.0,
            alpha: 1.0,
            round: Vec::new(),
            round_of: 1,
            reduced: false,
        };
        new.enter();
        new
    }

    fn guided(&self) -> f64 {
        let bytes = (self.rate as f64 * f64::from(self.rtt_us.unwrap_or(100)) / 1e6).ceil();
        (bytes / f64::from(PACKET)).ceil().clamp(1.0, 65_535.0)
    }

    fn enter(&mut self) {
        self.window = if self.queue == 1 { self.guided() } else { 1.0 };
        self.next_round();
    }

    fn next_round(&mut self) {
        self.round.clear();
        self.reduced = false;
        self.round_of = self.window.floor() as u32;
    }

    fn arbitrate(&mut self, queue: u8, rate: u64) {
        let kind = |queue| (queue == 1, queue == 8);
        let changes = kind(queue) != kind(self.queue);
        (self.queue, self.rate) = (queue, rate);
        if changes {
            self.enter();
        }
    }

    fn ack(&mut self, marked: bool, rtt_us: u32) {
        self.rtt_us = Some(self.rtt_us.map_or(rtt_us, |least| least.min(rtt_us)));
        match (marked, self.queue) {
            (true, _) if self.reduced => {}
            (true, _) => {
                let whole = self.window.floor();
                self.window = (whole - (whole * self.alpha / 2.0).floor()).max(1.0);
                self.reduced = true;
            }
            (false, 1) => self.window = self.guided(),
            (false, 8) => self.window = 1.0,
            // As packets are counted: one more after a whole window of them.
            (false, _) => {
                let grown = self.window + 1.0 / self.window.floor();
                // Seven sevenths are one.
                let whole = grown.round();
                self.window = if (grown - whole).abs() < 1e-9 {
                    whole
                } else {
                    grown
                };
            }
        }
        self.round.push(marked);
        if self.round.len() as u32 >= self.round_of {
            let marked = self.round.iter().filter(|marked| **marked).count();
            let fraction = marked as f64 / self.round.len() as f64;
            self.alpha = self.alpha * (15.0 / 16.0) + fraction / 16.0;
            self.next_round();
        }
    }
}

proptest! {
    #[test]
    fn it_follows_the_naive_law(
        start in (1..=8_u8, 0..400_000_000_u64),
        events in prop::collection::vec(
            (prop::option::weighted(0.05, (1..=8_u8, 0..400_000_000_u64)), 0..8_u8, 50..150_u32), 0..600),
    ) {
        let mut flow = Window::new(params(100), verdict(start.0, start.1));
        let mut naive = Naive::new(start.0, start.1);
        for (verdict, marks, rtt_us) in events {
            if let Some((queue, rate)) = verdict {
                flow.arbitrate(self::verdict(queue, rate));
                naive.arbitrate(queue, rate);
            }
            let marked = marks == 0;
            flow.on_ack(Ack { rtt_us: NonZeroU32::new(rtt_us), ..ack(1, marked.into()) });
            naive.ack(marked, rtt_us);
            let alpha = f64::from(flow.alpha()) / 1024.0;
            // Each step rounds twice, by less than one in 1024 each time.
            prop_assert!((alpha - naive.alpha).abs() < 0.003, "{} and {}", alpha, naive.alpha);
            let off = (f64::from(flow.packets()) - naive.window.floor()).abs();
            let exact = !marked && matches!(naive.queue, 1 | 8);
            let may = if exact { 0.0 } else { 1.0 };
            prop_assert!(off <= may, "{} and {}", flow.packets(), naive.window);
            // Each step is compared, not the accumulated rounding.
            naive.alpha = alpha;
            if off != 0.0 {
                naive.window = flow.packets().into();
                if naive.round.is_empty() {
                    naive.round_of = flow.packets();
                }
            }
        }
    }

    #[test]
    fn after_any_events_the_window_is_at_least_one_and_alpha_at_most_one(
        events in prop::collection::vec((any::<[u32; 3]>(), any::<(u8, u64)>(), 0..9_u8), 0..200),
        queues: u8, guided: bool, packet in 1..=u16::MAX, rtt_us in 1..=u32::MAX,
    ) {
        let params = Params {
            rtt_us: NonZeroU32::new(rtt_us).unwrap(),
            packet: NonZeroU16::new(packet).unwrap(),
            queues,
            guided,
        };
        let mut flow = Window::new(params, Verdict::FREE);
        for ([packets, marked, rtt_us], (queue, rate), what) in events {
            match what {
                0 => flow.on_timeout(),
                1 => flow.arbitrate(Verdict { queue, rate }),
                2 => flow.restart(Verdict { queue, rate }),
                _ => {
                    let rtt_us = NonZeroU32::new(rtt_us);
                    WindowLaw::on_ack(&mut flow, Ack { packets, marked, rtt_us, limited: what > 3 });
                }
            }
            prop_assert!((1..=LARGEST.into()).contains(&flow.packets()));
            prop_assert!(flow.alpha() <= ALPHA_ONE);
        }
    }
}
