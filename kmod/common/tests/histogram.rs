// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Every lateness is in its documented bucket.

use proptest::prelude::*;
use weft_mechanisms::common::histogram::{Lateness, BUCKETS};

fn recorded(latenesses: &[u64]) -> Lateness {
    let mut lateness = Lateness::new();
    latenesses.iter().for_each(|&ns| lateness.record(ns));
    lateness
}

/// The bucket of a single event.
fn bucket(ns: u64) -> usize {
    let lateness = recorded(&[ns]);
    assert_eq!(lateness.buckets().iter().sum::<u64>(), 1);
    lateness
        .buckets()
        .iter()
        .position(|&events| events == 1)
        .unwrap()
}

#[test]
fn nothing_is_recorded_at_first() {
    let lateness = Lateness::default();
    assert_eq!(
        (lateness.count(), lateness.sum_ns(), lateness.max_ns()),
        (0, 0, 0)
    );
    assert_eq!(lateness.buckets(), &[0; BUCKETS]);
}

#[test]
fn bucket_0_is_for_events_that_are_exactly_on_time() {
    assert_eq!(bucket(0), 0);
    assert_eq!(bucket(1), 1);
}

#[test]
fn bucket_i_begins_at_two_to_the_i_minus_one() {
    for i in 1..BUCKETS {
        let begin = 1 << (i - 1);
        assert_eq!(bucket(begin), i);
        assert_eq!(bucket(begin - 1), i - 1);
    }
}

#[test]
fn the_last_bucket_has_no_upper_bound() {
    assert_eq!(bucket(1 << 30), BUCKETS - 1);
    assert_eq!(bucket(1 << 31), BUCKETS - 1);
    assert_eq!(bucket(u64::MAX), BUCKETS - 1);
}

#[test]
fn the_sum_saturates() {
    let lateness = recorded(&[u64::MAX, 5]);
    assert_eq!(
        (lateness.count(), lateness.sum_ns(), lateness.max_ns()),
        (2, u64::MAX, u64::MAX)
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn count_sum_maximum_and_buckets_match_the_events(
        events in prop::collection::vec((any::<u64>(), 8..64_u32).prop_map(|(ns, bits)| ns >> bits), 0..50),
    ) {
        let lateness = recorded(&events);
        prop_assert_eq!(lateness.count(), events.len() as u64);
        prop_assert_eq!(lateness.sum_ns(), events.iter().sum::<u64>());
        prop_assert_eq!(lateness.max_ns(), events.iter().copied().max().unwrap_or(0));
        for (i, &in_bucket) in lateness.buckets().iter().enumerate() {
            let belongs = |&&ns: &&u64| match i {
                0 => ns == 0,
                31 => ns >= 1 << 30,
                _ => (1 << (i - 1)..1 << i).contains(&ns),
            };
            prop_assert_eq!(in_bucket, events.iter().filter(belongs).count() as u64);
        }
    }
}
