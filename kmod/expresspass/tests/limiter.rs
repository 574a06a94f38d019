// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The credit limit of a host's link.

use super::{message, SENDER};
use proptest::prelude::*;
use weft_mechanisms::expresspass::limiter::{Limiter, BURST, MAX_CREDITS};
use weft_mechanisms::expresspass::message::Kind;

fn push(limiter: &mut Limiter, number: u16) -> bool {
    limiter.push(SENDER, message(0, Kind::Credit { number }))
}

fn pop(limiter: &mut Limiter, now: u64) -> Option<u16> {
    match limiter.pop(now)?.1.kind {
        Kind::Credit { number } => Some(number),
        _ => unreachable!(),
    }
}

#[test]
fn a_credit_that_finds_the_queue_full_is_dropped() {
    let mut limiter = Limiter::new(8, 1000 << 8);
    let kept: Vec<bool> = (0..10).map(|number| push(&mut limiter, number)).collect();
    assert_eq!(kept.iter().filter(|it| **it).count(), 8);
    assert_eq!(kept[8..], [false, false]);
    assert_eq!(limiter.len(), 8);
}

#[test]
fn two_credits_leave_at_once_and_the_others_at_the_rate() {
    let mut limiter = Limiter::new(8, (1000 << 8) + 128);
    for number in 0..6 {
        push(&mut limiter, number);
    }
    let mut left = Vec::new();
    for now in 10_000..16_000 {
        while let Some(number) = pop(&mut limiter, now) {
            left.push((now, number));
        }
    }
    let times: Vec<u64> = left.iter().map(|it| it.0).collect();
    assert_eq!(times, [10_000, 10_000, 11_001, 12_001, 13_002, 14_002]);
    assert_eq!(limiter.next(), None);
}

proptest! {
    #[test]
    fn no_interval_has_more_credits_than_the_rate_and_a_burst(
        gap in 1..5_000_000_u64,
        steps in prop::collection::vec((0..20_000_u64, 0..6_u8), 1..400),
    ) {
        let mut limiter = Limiter::new(8, gap);
        let (mut now, mut number, mut expected) = (1_000_000, 0_u16, 0_u16);
        let mut left: Vec<u64> = Vec::new();
        let mut dropped = std::collections::BTreeSet::new();
        for (pause, credits) in steps {
            now += pause;
            for _ in 0..credits {
                if !push(&mut limiter, number) {
                    dropped.insert(number);
                }
                number += 1;
            }
            prop_assert!(limiter.len() <= 8);
            while let Some(it) = pop(&mut limiter, now) {
                while dropped.contains(&expected) {
                    expected += 1;
                }
                prop_assert_eq!(it, expected);
                expected += 1;
                left.push(now);
            }
            prop_assert!(limiter.next().is_none_or(|at| at > now));
        }
        for (first, &from) in left.iter().enumerate() {
            for (last, &to) in left.iter().enumerate().skip(first) {
                let most = ((to - from + 1) << 8) / gap + BURST + 1;
                prop_assert!((last - first + 1) as u64 <= most);
            }
        }
    }
}

#[test]
fn the_credits_of_a_flow_that_ended_do_not_leave() {
    let mut limiter = Limiter::new(8, 0);
    // The queue begins at the end of its room.
    for number in 0..62 {
        push(&mut limiter, number);
        pop(&mut limiter, 0);
    }
    for number in 0..8 {
        let kind = Kind::Credit { number };
        assert!(limiter.push(SENDER, message(number % 3, kind)));
    }
    limiter.forget(&message(1, Kind::Stop).flow);
    let left: Vec<u16> = std::iter::from_fn(|| pop(&mut limiter, 0)).collect();
    assert_eq!(left, [0, 2, 3, 5, 6]);
    assert_eq!(limiter.len(), 0);
}

#[test]
fn it_holds_no_more_than_its_room() {
    let mut limiter = Limiter::new(u32::MAX, 1 << 43);
    for number in 0..100 {
        assert_eq!(push(&mut limiter, number), u32::from(number) < MAX_CREDITS);
    }
    limiter.clear();
    assert!(limiter.is_empty() && limiter.pop(u64::MAX).is_none());
}
