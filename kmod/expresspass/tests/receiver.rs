// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The receiving side, which sends credits.

use super::{config, flow, SENDER};
use weft_mechanisms::expresspass::message::Kind;
use weft_mechanisms::expresspass::options::Options;
use weft_mechanisms::expresspass::receiver::{Receiver, PATIENCE};
use weft_mechanisms::heap::Heap;

/// The middle of all random numbers: no jitter.
const MIDDLE: u32 = 1 << 31 | 128;
const RTT: u64 = 20_000;

fn receiver(options: Options) -> Receiver<Heap> {
    let config = config(Options {
        full: Some(1),
        ..options
    });
    let (law, timeout) = (config.law(), config.timeout);
    let Ok(receiver) = Receiver::new(config.flows, config.credits, law, timeout);
    receiver
}

/// The credits until a time: when each left, its flow's number, and its own.
fn credits(receiver: &mut Receiver<Heap>, from: u64, until: u64) -> Vec<(u64, u16, u16)> {
    let mut all = Vec::new();
    let mut now = from;
    loop {
        while let Some((peer, message)) = receiver.poll(now, || MIDDLE) {
            assert_eq!(peer, SENDER);
            let Kind::Credit { number } = message.kind else {
                unreachable!()
            };
            all.push((now, message.flow.source_port - 40_000, number));
        }
        match receiver.next() {
            Some(at) if at < until => now = at.max(now),
            _ => return all,
        }
    }
}

fn request(receiver: &mut Receiver<Heap>, now: u64, number: u16) -> bool {
    receiver.request(now, SENDER, flow(number), 100, 500)
}

/// The receiver paces credits at α times the maximum rate.
#[test]
fn the_first_credit_leaves_at_once_and_the_others_at_half_of_the_rate() {
    let mut receiver = receiver(Options::default());
    assert!(request(&mut receiver, 1000, 0));
    let credits = credits(&mut receiver, 1000, 1000 + 10 * 2595);
    assert_eq!(credits.len(), 10);
    for (place, (at, _, number)) in credits.iter().enumerate() {
        assert_eq!(*number, 500 + place as u16);
        assert!(at.abs_diff(1000 + place as u64 * 2595) <= 10 * place as u64);
    }
}

/// Credits have sequence numbers: gaps in what data echoes are lost credits.
#[test]
fn gaps_of_echoed_numbers_are_lost_credits() {
    let mut receiver = receiver(Options::default());
    request(&mut receiver, 0, 0);
    credits(&mut receiver, 0, RTT);
    for number in [500, 502, 505] {
        assert!(receiver.data(RTT, &flow(0), number));
    }
    assert_eq!(
        (receiver.counters().echoed, receiver.counters().lost),
        (3, 3)
    );
    // 503 and 504 of six: more than a tenth.
    let before = receiver.rate(&flow(0)).unwrap().share();
    credits(&mut receiver, RTT, 2 * RTT + 3000);
    assert!(receiver.rate(&flow(0)).unwrap().share() < before);
}

#[test]
fn a_frame_that_echoes_no_credit_is_ignored() {
    let mut receiver = receiver(Options::default());
    request(&mut receiver, 0, 0);
    credits(&mut receiver, 0, 100);
    for number in [501, 20_000, 500_u16.wrapping_add(1 << 15)] {
        assert!(receiver.data(10, &flow(0), number));
    }
    assert_eq!(receiver.counters().echoed, 0);
    assert!(!receiver.data(10, &flow(1), 500));
}

#[test]
fn a_reordered_frame_takes_back_a_loss() {
    let mut receiver = receiver(Options::default());
    request(&mut receiver, 0, 0);
    credits(&mut receiver, 0, RTT);
    for number in [500, 502, 501, 503] {
        receiver.data(RTT, &flow(0), number);
    }
    let before = receiver.rate(&flow(0)).unwrap().share();
    credits(&mut receiver, RTT, 2 * RTT + 3000);
    assert!(receiver.rate(&flow(0)).unwrap().share() > before);
}

#[test]
fn the_round_trip_time_is_from_a_credit_to_its_frame() {
    let mut receiver = receiver(Options::default());
    request(&mut receiver, 0, 0);
    credits(&mut receiver, 0, RTT);
    receiver.data(RTT, &flow(0), 500);
    assert_eq!(receiver.rate(&flow(0)).unwrap().rtt(), RTT);
}

/// A flow of few frames whose first credits are lost has a round-trip time, and so feedback, as
/// soon as its first frame arrives.
#[test]
fn the_round_trip_time_is_known_from_the_first_frame_on() {
    let mut receiver = receiver(Options::default());
    request(&mut receiver, 0, 0);
    let sent = credits(&mut receiver, 0, RTT);
    assert!(sent.len() >= 8);
    let (at, _, number) = sent[3];
    receiver.data(at + RTT, &flow(0), number);
    assert_eq!(receiver.rate(&flow(0)).unwrap().rtt(), RTT);
}

/// After all measured credits were lost and a later one came back, the next one is measured, once.
#[test]
fn credits_are_measured_again_after_all_were_lost() {
    let mut receiver = receiver(Options::default());
    request(&mut receiver, 0, 0);
    let lost = credits(&mut receiver, 0, 2 * RTT);
    let first = credits(&mut receiver, 2 * RTT, 2 * RTT + 3000)[0];
    assert!(lost.len() > 8);
    // It was made when all measured ones were on the way.
    receiver.data(first.0 + RTT, &flow(0), first.2);
    assert_eq!(receiver.rate(&flow(0)).unwrap().rtt(), 0);
    let next = credits(&mut receiver, first.0 + RTT, first.0 + RTT + 3000)[0];
    receiver.data(next.0 + RTT, &flow(0), next.2);
    assert_eq!(receiver.rate(&flow(0)).unwrap().rtt(), RTT);
    receiver.data(next.0 + 9 * RTT, &flow(0), next.2);
    assert_eq!(receiver.rate(&flow(0)).unwrap().rtt(), RTT);
}

#[test]
fn a_stop_ends_the_credits() {
    let mut receiver = receiver(Options::default());
    request(&mut receiver, 0, 0);
    assert!(receiver.stop(&flow(0)));
    assert!(!receiver.stop(&flow(0)));
    assert_eq!(credits(&mut receiver, 0, 1_000_000), []);
    assert_eq!(receiver.next(), None);
}

#[test]
fn a_repeated_request_begins_nothing_new() {
    let mut receiver = receiver(Options::default());
    assert!(request(&mut receiver, 0, 0) && request(&mut receiver, 1, 0));
    assert_eq!((receiver.flows(), receiver.counters().begun), (1, 1));
}

#[test]
fn requests_beyond_the_limit_are_refused_and_counted() {
    let mut receiver = receiver(Options {
        flows: Some(1),
        ..Options::default()
    });
    assert!(request(&mut receiver, 0, 0));
    assert!(!request(&mut receiver, 0, 1));
    assert_eq!(receiver.counters().refused, 1);
    receiver.stop(&flow(0));
    assert!(request(&mut receiver, 0, 1));
}

#[test]
fn a_flow_whose_sender_is_gone_ends() {
    let timeout = 100_000;
    let mut receiver = receiver(Options {
        timeout: Some(timeout),
        ..Options::default()
    });
    request(&mut receiver, 0, 0);
    credits(&mut receiver, 0, PATIENCE * timeout + 100_000);
    assert_eq!((receiver.flows(), receiver.counters().abandoned), (0, 1));
}

/// Hosts limit credits as switches do, and drop the rest.
#[test]
fn many_flows_share_the_hosts_limit_and_the_rest_is_dropped() {
    let mut receiver = receiver(Options::default());
    for number in 0..20 {
        request(&mut receiver, 0, number);
    }
    let until = 1_000_000;
    let credits = credits(&mut receiver, 0, until);
    let most = until as usize / 1297 + 3;
    assert!(
        (most - 6..=most).contains(&credits.len()),
        "{}",
        credits.len()
    );
    assert!(receiver.counters().dropped > 0);
    assert_eq!(receiver.counters().sent as usize, credits.len());
}

/// A timer that is late by many gaps causes no burst.
#[test]
fn a_late_timer_causes_no_burst() {
    let mut receiver = receiver(Options::default());
    request(&mut receiver, 0, 0);
    credits(&mut receiver, 0, 1);
    let now = 100 * 2595;
    let credits = credits(&mut receiver, now, now + 1);
    assert_eq!(credits.len(), 1);
}

#[test]
fn clearing_ends_all_flows() {
    let mut receiver = receiver(Options::default());
    for number in 0..20 {
        request(&mut receiver, 0, number);
    }
    receiver.poll(0, || MIDDLE);
    receiver.clear();
    assert_eq!((receiver.flows(), receiver.credits()), (0, 0));
    assert_eq!(receiver.next(), None);
}
