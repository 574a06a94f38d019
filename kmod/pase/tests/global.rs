// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Other arbitrators' answers to a host: they count while they are valid, and nothing else does.

use proptest::prelude::*;
use std::collections::HashMap;
use weft_mechanisms::heap::Heap;
use weft_mechanisms::pase::global::{Global, Route};
use weft_mechanisms::pase::local::FLOWS;
use weft_mechanisms::pase::message::{Message, Says, PATH};
use weft_mechanisms::pase::{Flow, Verdict};

/// The time of day at the start.
const START: u64 = 1_000_000;
const LIFETIME: u64 = 1_000_000;
const ROUTE: Route = Route {
    device: 2,
    to: [9; 16],
};

fn global() -> Global<Heap> {
    let Ok(global) = Global::new(START);
    global
}

fn flow(number: u32) -> Flow {
    Flow {
        id: number.into(),
        urgency: 5,
        demand: 6,
    }
}

fn verdict(queue: u8) -> Verdict {
    Verdict { queue, rate: 7 }
}

/// The next message that is sent.
fn sent(global: &mut Global<Heap>) -> Option<(u32, Message)> {
    let (device, bytes) = global.next_message()?;
    Some((device, Message::decode(&bytes).unwrap()))
}

fn answer(number: u32, sequence: u64, queue: u8, hold: u32) -> Message {
    Message {
        sequence,
        link: PATH,
        says: Says::Answer {
            flow: number.into(),
            verdict: verdict(queue),
            hold,
        },
    }
}

fn hears(global: &mut Global<Heap>, message: &Message, now: u64) -> bool {
    global.receive(ROUTE.device, &message.encode(), now)
}

fn ask(global: &mut Global<Heap>, number: u32, now: u64) -> Option<Verdict> {
    global.ask(&flow(number), ROUTE, now, LIFETIME)
}

#[test]
fn an_answer_counts_until_its_hold_time_is_over() {
    let mut global = global();
    assert_eq!(ask(&mut global, 1, 0), None);
    let (device, message) = sent(&mut global).unwrap();
    assert_eq!(device, ROUTE.device);
    assert_eq!(
        message.says,
        Says::Ask {
            flow: flow(1),
            to: ROUTE.to
        }
    );
    assert!(!global.has_messages());
    assert!(hears(&mut global, &answer(1, message.sequence, 3, 100), 10));
    assert_eq!(ask(&mut global, 1, 100_009), Some(verdict(3)));
    assert_eq!(ask(&mut global, 1, 100_010), None);
}

/// "Lost, late, reordered, duplicated, forged messages do no more than make an answer old."
#[test]
fn answers_to_other_requests_are_ignored() {
    let mut global = global();
    ask(&mut global, 1, 0);
    // Before the ask is on its route.
    assert!(!hears(&mut global, &answer(1, START + 1, 2, 9), 0));
    let (_, first) = sent(&mut global).unwrap();
    ask(&mut global, 1, 0);
    let (_, second) = sent(&mut global).unwrap();
    assert!(second.sequence > first.sequence);
    let good = answer(1, second.sequence, 2, 1000);
    for forged in [
        answer(2, second.sequence, 2, 9),
        answer(1, second.sequence + 1, 2, 9),
        answer(1, first.sequence - 1, 2, 9),
        Message { link: 1, ..good },
        Message {
            says: Says::End(1),
            ..good
        },
        first,
    ] {
        assert!(!hears(&mut global, &forged, 0), "{forged:?}");
    }
    let bytes = good.encode();
    assert!(!global.receive(ROUTE.device + 1, &bytes, 0));
    assert!(!global.receive(ROUTE.device, &bytes[1..], 0));
    assert!(hears(&mut global, &good, 0));
    // A copy, and one that was overtaken.
    assert!(!hears(&mut global, &good, 0));
    assert!(!hears(&mut global, &answer(1, first.sequence, 1, 9), 0));
    assert_eq!(ask(&mut global, 1, 1), Some(verdict(2)));
}

#[test]
fn the_end_of_a_flow_is_reported_only_if_the_flow_was() {
    let mut global = global();
    ask(&mut global, 1, 0);
    global.end(1);
    assert_eq!(sent(&mut global), None);
    ask(&mut global, 2, 0);
    let (_, message) = sent(&mut global).unwrap();
    global.end(2);
    global.end(2);
    assert_eq!(sent(&mut global).unwrap().1.says, Says::End(2));
    assert_eq!(sent(&mut global), None);
    // Messages from now on concern no flow.
    assert!(!hears(&mut global, &answer(2, message.sequence, 2, 9), 0));
}

#[test]
fn a_second_flow_for_one_place_waits_until_the_first_is_gone() {
    let mut global = global();
    ask(&mut global, 1, 0);
    sent(&mut global);
    ask(&mut global, 1 + FLOWS, LIFETIME - 1);
    assert_eq!(sent(&mut global), None);
    ask(&mut global, 1 + FLOWS, LIFETIME);
    let (_, message) = sent(&mut global).unwrap();
    assert!(matches!(message.says, Says::Ask { flow, .. } if flow.id == u64::from(1 + FLOWS)));
}

proptest! {
    /// Whatever happens: at most one message of a flow waits, all are sent in the end, the last one
    /// states whether the flow still asks, and numbers rise.
    #[test]
    fn at_most_one_message_per_flow_waits(
        steps in prop::collection::vec((0..3_u8, 1..3 * FLOWS), 0..6000),
    ) {
        let mut global = global();
        let (mut last, mut told) = (0, HashMap::new());
        let mut take = |global: &mut Global<Heap>| -> bool {
            let Some((_, message)) = sent(global) else { return false };
            assert!(message.sequence > last);
            last = message.sequence;
            match message.says {
                Says::Ask { flow, .. } => told.insert(flow.id as u32, true),
                Says::End(number) => {
                    assert_eq!(told.insert(number as u32, false), Some(true), "{}", number);
                    None
                }
                _ => unreachable!(),
            };
            true
        };
        for (step, number) in steps {
            match step {
                0 => global.end(number),
                1 => { take(&mut global); }
                _ => { ask(&mut global, number, 0); }
            }
        }
        let mut left = 0;
        while take(&mut global) {
            left += 1;
        }
        prop_assert!(left <= FLOWS);
        prop_assert!(!global.has_messages());
    }
}

#[test]
fn a_clock_that_was_read_earlier_on_another_processor_takes_no_place_away() {
    let mut global = global();
    ask(&mut global, 1, 101);
    let (_, message) = sent(&mut global).unwrap();
    assert!(hears(
        &mut global,
        &answer(1, message.sequence, 3, 1_000),
        101
    ));
    assert_eq!(ask(&mut global, 1, 101), Some(verdict(3)));
    // The clock was read a nanosecond before that, with the lock taken after it.
    assert_eq!(ask(&mut global, 1 + FLOWS, 100), None);
    assert_eq!(ask(&mut global, 1, 102), Some(verdict(3)));
}
