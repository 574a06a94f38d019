// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Endpoints: messages between hosts.

use super::{config, flow, message, RECEIVER, SENDER};
use weft_mechanisms::common::shared::Peer;
use weft_mechanisms::expresspass::endpoint::{Endpoint, Received};
use weft_mechanisms::expresspass::message::{Flow, Kind, Message};
use weft_mechanisms::expresspass::options::Options;
use weft_mechanisms::expresspass::sender::Departure;
use weft_mechanisms::heap::Heap;

fn endpoint() -> Endpoint<Heap> {
    let Ok(endpoint) = Endpoint::new(&config(Options::default()), 7);
    endpoint
}

#[test]
fn a_flow_is_sent_from_request_to_stop() {
    let (mut a, mut b) = (endpoint(), endpoint());
    for _ in 0..3 {
        assert_eq!(a.arrive(0, flow(0), 1), Some(0));
    }
    let (mut now, mut left) = (0, 0);
    while let Some(at) = a.next().into_iter().chain(b.next()).min() {
        now = at.max(now);
        while let Some((to, message)) = a.poll(now) {
            assert_eq!(to, RECEIVER);
            assert!(b.is_trusted(SENDER, &message));
            b.receive(now, SENDER, &message);
        }
        while let Some((to, message)) = b.poll(now) {
            assert_eq!(to, SENDER);
            assert!(a.is_trusted(RECEIVER, &message));
            if a.receive(now, RECEIVER, &message) == Received::Release {
                let Some(Departure::Granted { credit, .. }) = a.depart() else {
                    panic!("a frame may leave");
                };
                assert!(b.data(now, &flow(0), credit));
                left += 1;
            }
        }
    }
    assert_eq!(left, 3);
    let (_, sender, receiver) = a.counters();
    assert_eq!((sender.requests, sender.stops, receiver.begun), (1, 1, 0));
    assert_eq!(b.receiver().flows(), 0);
    assert_eq!(b.counters().2.lost, 0);
}

#[test]
fn a_credit_of_an_unknown_flow_is_answered_by_a_stop() {
    let mut endpoint = endpoint();
    let credit = message(3, Kind::Credit { number: 1 });
    assert_eq!(endpoint.receive(0, RECEIVER, &credit), Received::NotMine);
    for _ in 0..5 {
        endpoint.stop(RECEIVER, flow(3));
    }
    assert_eq!(endpoint.next(), Some(0));
    assert_eq!(endpoint.poll(0), Some((RECEIVER, message(3, Kind::Stop))));
    assert_eq!((endpoint.poll(0), endpoint.next()), (None, None));
}

#[test]
fn stops_of_unknown_flows_are_bounded() {
    let mut endpoint = endpoint();
    for number in 0..100 {
        endpoint.stop(RECEIVER, flow(number));
    }
    let stops = std::iter::from_fn(|| endpoint.poll(0)).count();
    assert_eq!(stops, 16);
}

/// Nobody but the two hosts, and there nobody without privilege, controls a flow.
#[test]
fn messages_of_others_are_refused_and_counted() {
    let mut endpoint = endpoint();
    let request = message(0, Kind::Request { waiting: 1 });
    let credit = message(0, Kind::Credit { number: 1 });
    let stop = message(0, Kind::Stop);
    let unprivileged = |peer: Peer| Peer { port: 1024, ..peer };
    for (from, message, is_trusted) in [
        (SENDER, request, true),
        (SENDER, stop, true),
        (RECEIVER, credit, true),
        (RECEIVER, request, false),
        (RECEIVER, stop, false),
        (SENDER, credit, false),
        (unprivileged(SENDER), request, false),
        (unprivileged(RECEIVER), credit, false),
    ] {
        assert_eq!(endpoint.is_trusted(from, &message), is_trusted);
    }
    assert_eq!(endpoint.counters().0.foreign, 5);
}

/// Messages of any kind, in any order, neither panic nor exceed the room.
#[test]
fn a_flood_of_messages_is_bounded() {
    let mut endpoint = endpoint();
    for number in 0..20_000_u32 {
        let flow = Flow {
            source: number,
            ..flow(0)
        };
        let kind = Kind::Request { waiting: 9 };
        endpoint.receive(number.into(), SENDER, &Message { flow, kind });
    }
    assert!(endpoint.receiver().flows() <= 1024);
    // 20 µs at 10 Gbit/s.
    let mut credits = 0;
    for now in 20_000..40_000 {
        while endpoint.poll(now).is_some() {
            credits += 1;
        }
    }
    assert!((15..20).contains(&credits), "{credits}");
}
