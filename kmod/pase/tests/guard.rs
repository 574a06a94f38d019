// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The reorder guard: the paper's sentence, and arbitrary fabrics of strict priorities against it.

use proptest::prelude::*;
use std::collections::VecDeque;
use weft_mechanisms::pase::guard::Guard;

/// "When a flow moves to a higher priority queue, we wait for the ACKs of already sent packets to
/// be received before sending packets with the updated priority."
#[test]
fn a_move_to_a_higher_queue_waits_for_outstanding_acks() {
    let mut guard = Guard::new(5);
    guard.arbitrate(1, false);
    assert_eq!((guard.queue(), guard.holding()), (5, true));
    assert!(!guard.on_ack(false));
    assert_eq!((guard.queue(), guard.holding()), (5, true));
    assert!(guard.on_ack(true));
    assert_eq!((guard.queue(), guard.holding()), (1, false));
    assert!(!guard.on_ack(true));
}

#[test]
fn a_flow_with_nothing_outstanding_moves_at_once() {
    let mut guard = Guard::new(5);
    guard.arbitrate(1, true);
    assert_eq!((guard.queue(), guard.holding()), (1, false));
}

#[test]
fn a_move_to_a_lower_queue_is_immediate() {
    let mut guard = Guard::new(1);
    guard.arbitrate(8, false);
    assert_eq!((guard.queue(), guard.holding()), (8, false));
}

#[test]
fn while_a_move_waits_the_last_verdict_counts() {
    for (last, queue, holding) in [(3, 5, true), (5, 5, false), (6, 6, false), (0, 5, true)] {
        let mut guard = Guard::new(5);
        guard.arbitrate(1, false);
        guard.arbitrate(last, false);
        assert_eq!((guard.queue(), guard.holding()), (queue, holding), "{last}");
    }
    let mut guard = Guard::new(5);
    guard.arbitrate(1, false);
    guard.arbitrate(3, false);
    guard.on_ack(true);
    assert_eq!(guard.queue(), 3);
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Verdict(u8),
    /// The sender sends, if it may.
    Send,
    /// The port serves its most urgent packet.
    Serve,
    /// An acknowledgement comes back.
    Ack,
}

proptest! {
    /// A sender, a port of strict priorities, a receiver: whichever verdicts come when, and however
    /// late acknowledgements are, no packet overtakes another.
    #[test]
    fn no_packet_overtakes_another(
        events in prop::collection::vec(prop_oneof![
            3 => (1..=8_u8).prop_map(Event::Verdict),
            4 => Just(Event::Send),
            3 => Just(Event::Serve),
            3 => Just(Event::Ack),
        ], 0..500),
    ) {
        let mut guard = Guard::new(4);
        let mut port: [VecDeque<u32>; 9] = Default::default();
        let mut acks = VecDeque::new();
        let (mut sent, mut acked, mut arrived) = (0, 0, 0);
        for event in events {
            match event {
                Event::Verdict(queue) => guard.arbitrate(queue, acked == sent),
                Event::Send if guard.holding() => {}
                Event::Send => {
                    port[usize::from(guard.queue())].push_back(sent);
                    sent += 1;
                }
                Event::Serve => {
                    if let Some(packet) = port.iter_mut().find_map(VecDeque::pop_front) {
                        prop_assert_eq!(packet, arrived, "overtook another");
                        arrived += 1;
                        acks.push_back(arrived);
                    }
                }
                Event::Ack => {
                    acked = acks.pop_front().unwrap_or(acked);
                    guard.on_ack(acked == sent);
                }
            }
        }
        // It never waits for ever.
        while acked < sent {
            if port.iter_mut().find_map(VecDeque::pop_front).is_some() {
                arrived += 1;
                acks.push_back(arrived);
            }
            acked = acks.pop_front().unwrap_or(acked);
            guard.on_ack(acked == sent);
        }
        guard.arbitrate(1, true);
        prop_assert_eq!((guard.queue(), guard.holding()), (1, false));
    }
}
