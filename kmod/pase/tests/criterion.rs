// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The urgency of flows by each criterion.

use proptest::prelude::*;
use weft_mechanisms::pase::criterion::{About, Criterion};

const SHORT: About = About {
    remaining: 10,
    sized: true,
    deadline: 0,
    task: 0,
};
const LONG: About = About {
    remaining: 1 << 40,
    ..SHORT
};

#[test]
fn by_remaining_size_only_the_size_counts() {
    let urgency = |about| Criterion::Remaining.urgency(&about, 5);
    let soon = About {
        deadline: 6,
        task: 1,
        ..LONG
    };
    assert!(urgency(SHORT) < urgency(soon));
    assert_eq!(urgency(soon), urgency(LONG));
}

#[test]
fn by_deadline_the_earliest_is_first_and_flows_without_one_are_last() {
    let at = |deadline, about| {
        let about = About { deadline, ..about };
        Criterion::Deadline.urgency(&about, 100)
    };
    let order = [
        at(101, LONG),
        at(102, SHORT),
        at(u64::MAX, SHORT),
        at(0, SHORT),
        at(0, LONG),
    ];
    assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
}

#[test]
fn a_late_flow_follows_flows_that_can_meet_their_deadline() {
    let late = About {
        deadline: 100,
        ..SHORT
    };
    let urgency = |about, now| Criterion::Deadline.urgency(&about, now);
    assert_eq!(urgency(late, 99), 100);
    assert_eq!(urgency(late, 100), urgency(SHORT, 100));
}

#[test]
fn by_task_the_first_is_first_whatever_the_sizes() {
    let of = |task, about| {
        let about = About { task, ..about };
        Criterion::Task.urgency(&about, 0)
    };
    let order = [of(1, LONG), of(2, SHORT), of(0, SHORT), of(0, LONG)];
    assert!(order.is_sorted_by(|a, b| a < b), "{order:?}");
    assert_eq!(of(2, SHORT), of(2, LONG), "a task's flows are equal");
}

proptest! {
    #[test]
    fn flows_with_a_deadline_or_a_task_precede_flows_without(
        with: [u64; 3], remaining: u64, now: u64,
    ) {
        let [size, deadline, task] = with;
        let about = About { remaining: size, sized: true, deadline, task };
        let without = About { remaining, ..About::default() };
        if deadline > now {
            prop_assert!(Criterion::Deadline.urgency(&about, now) < Criterion::Deadline.urgency(&without, now));
        }
        if task != 0 {
            prop_assert!(Criterion::Task.urgency(&about, now) < Criterion::Task.urgency(&without, now));
        }
    }
}
