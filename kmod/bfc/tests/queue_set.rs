// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The bitmap behaves like a set of numbers.

use super::rig::set;
use proptest::prelude::*;
use std::collections::BTreeSet;
use weft_mechanisms::bfc::queue_set::{QueueSet, MAX_QUEUES};

/// Numbers at the edges of words, as likely as others.
fn queue() -> impl Strategy<Value = u16> {
    prop_oneof![
        0..MAX_QUEUES,
        prop::sample::select(vec![0, 1, 62, 63, 64, 65, 127, 128, 959, 960, 1022, 1023]),
    ]
}

#[test]
fn numbers_beyond_the_last_are_ignored() {
    let mut set = QueueSet::EMPTY;
    for queue in [MAX_QUEUES, MAX_QUEUES + 1, u16::MAX] {
        set.insert(queue);
        set.toggle(queue);
        assert!(!set.contains(queue));
        assert_eq!(set.next_from(queue), None);
    }
    assert_eq!(set, QueueSet::EMPTY);
    assert!(set.is_empty());
    assert_eq!(set.first(), None);
    assert_eq!(set.next_from(1023), None);
}

#[test]
fn a_gap_is_the_first_run_of_free_numbers_that_is_long_enough() {
    assert_eq!(QueueSet::EMPTY.gap(1023), Some(0), "numbers 1 to 1023");
    assert_eq!(QueueSet::EMPTY.gap(1024), None);
    assert_eq!(set(&[0]).gap(1023), Some(0), "0 is not looked at");
    assert_eq!(set(&[1]).gap(1), Some(1));
    assert_eq!(set(&[3, 10]).gap(2), Some(0));
    assert_eq!(set(&[3, 10]).gap(3), Some(3));
    assert_eq!(set(&[3, 10]).gap(6), Some(3));
    assert_eq!(set(&[3, 10]).gap(7), Some(10));
    assert_eq!(set(&[1023]).gap(1023), None);
    assert_eq!(set(&[1023]).gap(1022), Some(0));
}

proptest! {
    #[test]
    fn it_matches_a_sorted_set(operations in prop::collection::vec((0..3_u8, queue()), 0..200), start in queue()) {
        let mut set = QueueSet::EMPTY;
        let mut model = BTreeSet::new();
        for (operation, queue) in operations {
            match operation {
                0 => {
                    set.insert(queue);
                    model.insert(queue);
                }
                1 => {
                    set.remove(queue);
                    model.remove(&queue);
                }
                _ => {
                    set.toggle(queue);
                    if !model.remove(&queue) {
                        model.insert(queue);
                    }
                }
            }
            prop_assert_eq!(set.contains(queue), model.contains(&queue));
            prop_assert_eq!(set.is_empty(), model.is_empty());
            prop_assert_eq!(set.first(), model.first().copied());
            prop_assert_eq!(set.next_from(start), model.range(start..).next().copied());
        }
        prop_assert_eq!(set.count() as usize, model.len());
        prop_assert!(set.iter().eq(model.iter().copied()));
        prop_assert_eq!(QueueSet::from_words(*set.words()), set);
    }

    #[test]
    fn the_search_in_a_range_wraps_around(
        members in prop::collection::vec(queue(), 0..20), a in queue(), b in queue(), start in queue(),
    ) {
        let range = a.min(b)..a.max(b);
        let inside: Vec<u16> = range.clone().filter(|queue| members.contains(queue)).collect();
        let expected = inside.iter().find(|queue| **queue >= start).or(inside.first());
        prop_assert_eq!(set(&members).next_in(range, start), expected.copied());
    }

    #[test]
    fn numbers_above_a_base_are_relative_to_it(
        members in prop::collection::vec(queue(), 0..60), base in queue(), count in queue(),
    ) {
        let expected: Vec<u16> = (1..=count)
            .filter(|queue| base + queue < MAX_QUEUES && members.contains(&(base + queue)))
            .collect();
        prop_assert_eq!(set(&members).above(base, count), set(&expected));
    }

    #[test]
    fn the_difference_is_symmetric(
        a in prop::collection::vec(queue(), 0..60), b in prop::collection::vec(queue(), 0..60),
    ) {
        let expected: Vec<u16> = (0..MAX_QUEUES).filter(|q| a.contains(q) != b.contains(q)).collect();
        prop_assert_eq!(set(&a).difference(&set(&b)), set(&expected));
    }
}
