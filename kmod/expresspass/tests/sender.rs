// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The sending side, which sends a frame for each credit.

use super::naive::Scenario;
use super::{config, flow, RECEIVER};
use crate::tests::corpus::replay;
use proptest::prelude::*;
use weft_mechanisms::expresspass::message::Kind;
use weft_mechanisms::expresspass::options::Options;
use weft_mechanisms::expresspass::sender::{Credit, Departure, Sender};
use weft_mechanisms::heap::Heap;

/// Times in ns: of a request until it is repeated, and of a round trip.
const TIMEOUT: u64 = 1_000_000;
const RTT: u64 = 20_000;

fn sender(options: Options) -> Sender<Heap> {
    let config = config(Options {
        timeout: Some(TIMEOUT),
        gather: Some(options.gather.unwrap_or(0)),
        linger: Some(options.linger.unwrap_or(0)),
        ..options
    });
    let Ok(sender) = Sender::new(config.flows, config.terms());
    sender
}

/// The message that is due.
fn poll(sender: &mut Sender<Heap>, now: u64) -> Option<Kind> {
    let (peer, message) = sender.poll(now)?;
    assert_eq!(peer, RECEIVER);
    Some(message.kind)
}

/// A sender with `frames` of flow 0, whose first credit has arrived at `RTT`.
fn receiving(options: Options, frames: u32) -> Sender<Heap> {
    let mut sender = sender(options);
    assert_eq!(sender.arrive(0, flow(0), frames), Some(0));
    let waiting = frames as u16;
    assert_eq!(poll(&mut sender, 0), Some(Kind::Request { waiting }));
    assert_eq!(sender.credit(RTT, &flow(0), 0), Credit::Used);
    sender
}

fn granted(credit: u16) -> Option<Departure> {
    Some(Departure::Granted { flow: 0, credit })
}

/// The sender sends a credit request.
#[test]
fn a_flow_with_data_requests_credits() {
    let mut sender = sender(Options::default());
    assert_eq!(sender.next(), None);
    assert_eq!(sender.arrive(5, flow(0), 1), Some(0));
    assert_eq!(sender.next(), Some(5));
    assert_eq!(poll(&mut sender, 5), Some(Kind::Request { waiting: 1 }));
    assert_eq!(poll(&mut sender, 5), None);
    assert_eq!(sender.pop(), None);
}

#[test]
fn a_request_counts_the_packets_of_its_burst() {
    let mut sender = sender(Options {
        gather: Some(1000),
        ..Options::default()
    });
    for now in 0..30 {
        sender.arrive(now, flow(0), 1);
    }
    assert_eq!(poll(&mut sender, 999), None);
    assert_eq!(poll(&mut sender, 1000), Some(Kind::Request { waiting: 30 }));
}

/// One frame leaves for each credit, and echoes the credit's number.
#[test]
fn a_frame_leaves_for_each_credit_and_none_without() {
    let mut sender = receiving(Options::default(), 3);
    assert_eq!(sender.pop(), granted(0));
    assert_eq!(sender.pop(), None);
    // The second credit was lost.
    assert_eq!(sender.credit(RTT, &flow(0), 2), Credit::Used);
    assert_eq!(sender.credit(RTT, &flow(0), 3), Credit::Used);
    assert_eq!((sender.pop(), sender.pop()), (granted(2), granted(3)));
    assert_eq!(sender.packets(), 0);
}

/// The sender sends a stop when it has no more data.
#[test]
fn a_flow_without_data_stops_its_credits() {
    let mut sender = receiving(Options::default(), 1);
    assert_eq!(poll(&mut sender, RTT), Some(Kind::Stop));
    assert_eq!(poll(&mut sender, RTT), None);
}

#[test]
fn a_stop_lingers_for_further_packets() {
    let options = Options {
        linger: Some(500),
        ..Options::default()
    };
    let mut sender = receiving(options, 1);
    assert_eq!(poll(&mut sender, RTT + 499), None);
    sender.arrive(RTT + 499, flow(0), 1);
    assert_eq!(poll(&mut sender, RTT + 600), None);
    assert_eq!(sender.credit(RTT + 600, &flow(0), 1), Credit::Used);
    assert_eq!(poll(&mut sender, RTT + 1100), Some(Kind::Stop));
}

/// A credit that meets no data is wasted.
#[test]
fn a_credit_without_data_is_wasted_and_counted() {
    let mut sender = receiving(Options::default(), 1);
    assert_eq!(sender.credit(RTT, &flow(0), 1), Credit::Wasted);
    assert_eq!(sender.counters().wasted, 1);
    assert_eq!(sender.credit(RTT, &flow(1), 1), Credit::Unknown);
}

/// The authors' simulator: CREDIT_STOP_SENT for two round-trip times, CLOSE_WAIT for one.
#[test]
fn a_flow_ends_after_a_round_trip_time_without_credits() {
    let mut sender = receiving(Options::default(), 1);
    assert_eq!(sender.pop(), granted(0));
    assert_eq!(poll(&mut sender, RTT), Some(Kind::Stop));
    sender.credit(2 * RTT, &flow(0), 1);
    assert_eq!(poll(&mut sender, 3 * RTT), None);
    assert_eq!(sender.next(), Some(4 * RTT));
    assert_eq!(poll(&mut sender, 4 * RTT), None);
    assert_eq!(sender.flows(), 0);
}

#[test]
fn a_lost_stop_is_repeated() {
    let mut sender = receiving(Options::default(), 1);
    assert_eq!(poll(&mut sender, RTT), Some(Kind::Stop));
    assert_eq!(poll(&mut sender, 3 * RTT), None);
    sender.credit(3 * RTT + 1, &flow(0), 9);
    assert_eq!(poll(&mut sender, 4 * RTT), Some(Kind::Stop));
    assert_eq!(sender.counters().stops, 2);
}

#[test]
fn a_lost_request_is_repeated() {
    let mut sender = sender(Options::default());
    sender.arrive(0, flow(0), 1);
    assert_eq!(poll(&mut sender, 0), Some(Kind::Request { waiting: 1 }));
    assert_eq!(poll(&mut sender, TIMEOUT - 1), None);
    assert_eq!(
        poll(&mut sender, TIMEOUT),
        Some(Kind::Request { waiting: 1 })
    );
    assert_eq!(sender.counters().repeated, 1);
}

#[test]
fn a_flow_whose_credits_stay_away_requests_again() {
    let mut sender = receiving(Options::default(), 5);
    sender.credit(2 * RTT, &flow(0), 1);
    let again = 2 * RTT + TIMEOUT;
    assert_eq!(poll(&mut sender, again - 1), None);
    assert_eq!(poll(&mut sender, again), Some(Kind::Request { waiting: 3 }));
}

#[test]
fn a_flow_with_new_data_after_a_stop_requests_again_at_once() {
    let mut sender = receiving(Options::default(), 1);
    assert_eq!(poll(&mut sender, RTT), Some(Kind::Stop));
    sender.arrive(RTT + 1, flow(0), 2);
    // A credit from before the stop serves it too.
    assert_eq!(
        poll(&mut sender, RTT + 1),
        Some(Kind::Request { waiting: 2 })
    );
    assert_eq!(sender.credit(RTT + 2, &flow(0), 1), Credit::Used);
}

/// The early stop of the authors' simulator.
#[test]
fn a_flow_stops_early_if_credits_under_way_are_enough() {
    let early = Options {
        early: Some(true),
        ..Options::default()
    };
    for (options, stops) in [(early, true), (Options::default(), false)] {
        let mut sender = receiving(options, 20);
        for number in 1..9 {
            sender.credit(RTT + u64::from(number), &flow(0), number);
        }
        assert_eq!(poll(&mut sender, 2 * RTT), None);
        // Ten credits in a round-trip time; ten frames wait.
        sender.credit(2 * RTT, &flow(0), 9);
        assert_eq!(poll(&mut sender, 2 * RTT) == Some(Kind::Stop), stops);
        // Credits still serve what waits.
        assert_eq!(sender.credit(2 * RTT, &flow(0), 10), Credit::Used);
        if stops {
            let kind = poll(&mut sender, 4 * RTT);
            assert_eq!(kind, Some(Kind::Request { waiting: 9 }));
        }
    }
}

#[test]
fn packets_that_need_no_credit_leave_in_their_order() {
    let mut sender = receiving(Options::default(), 2);
    assert!(sender.arrive_free());
    sender.credit(RTT, &flow(0), 1);
    assert!(sender.arrive_free());
    let order: Vec<_> = std::iter::from_fn(|| sender.pop()).collect();
    let expected = [
        granted(0).unwrap(),
        Departure::Free,
        granted(1).unwrap(),
        Departure::Free,
    ];
    assert_eq!(order, expected);
}

#[test]
fn packets_beyond_the_limit_are_refused_and_counted() {
    let mut sender = sender(Options {
        limit: Some(3),
        flows: Some(2),
        ..Options::default()
    });
    assert_eq!(sender.arrive(0, flow(0), 4), None);
    assert!(sender.arrive(0, flow(0), 2).is_some());
    assert_eq!(sender.arrive(0, flow(1), 2), None);
    assert!(sender.arrive(0, flow(1), 1).is_some());
    assert_eq!(sender.counters().full, 2);
    let free = (0..5).filter(|_| sender.arrive_free()).count();
    assert_eq!(free, 3);
}

#[test]
fn flows_beyond_the_limit_are_refused_and_counted() {
    let mut sender = sender(Options {
        flows: Some(2),
        ..Options::default()
    });
    for (number, is_accepted) in [(0, true), (1, true), (2, false), (1, true)] {
        assert_eq!(sender.arrive(0, flow(number), 1).is_some(), is_accepted);
    }
    assert_eq!(sender.counters().flowless, 1);
    sender.clear();
    assert!(sender.arrive(0, flow(2), 1).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_life_of_two_hosts_matches_the_model(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
    ) {
        Scenario::decode(&bytes).run();
    }
}

/// The fuzzer's corpus, including its past findings.
#[test]
#[cfg_attr(miri, ignore = "reads files, which Miri's isolation does not allow")]
fn the_fuzz_corpus_passes() {
    replay("expresspass", |bytes| Scenario::decode(bytes).run());
}
