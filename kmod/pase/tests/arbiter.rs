// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Algorithm 1, line by line; the choices that the paper leaves open; and the tree against a sorted
//! list.

use super::naive::{Operation, Scenario, FLOWS, LINK};
use crate::tests::corpus::replay;
use proptest::prelude::*;
use weft_mechanisms::heap::Heap;
use weft_mechanisms::pase::arbiter::{Arbiter, Link, EXPIRED_AT_ONCE};
use weft_mechanisms::pase::{Flow, Verdict, MAX_RATE};

fn arbiter(capacity: u32, link: Link) -> Arbiter<Heap> {
    let Ok(arbiter) = Arbiter::new(capacity, link, 7);
    arbiter
}

fn flow(id: u64, urgency: u64, demand: u64) -> Flow {
    Flow {
        id,
        urgency,
        demand,
    }
}

fn says(queue: u8, rate: u64) -> Verdict {
    Verdict { queue, rate }
}

/// "if ADH < C then Rref = min(demand, C - ADH)"
#[test]
fn a_flow_with_spare_capacity_gets_its_demand_or_the_remainder() {
    let mut link = arbiter(9, LINK);
    assert_eq!(link.update(&flow(1, 10, 70), 0), says(1, 70));
    assert_eq!(link.update(&flow(2, 20, 70), 0), says(1, 30));
    assert_eq!(link.update(&flow(3, 5, 200), 0), says(1, 100));
}

/// "else Rref = baserate"
#[test]
fn a_flow_without_spare_capacity_gets_the_base_rate() {
    let mut link = arbiter(9, LINK);
    link.update(&flow(1, 10, 250), 0);
    assert_eq!(link.update(&flow(2, 20, 70), 0), says(3, 0));
}

/// "PrioQue = ⌈ADH/C⌉", except for multiples of C: the top queue is for flows that have a share.
#[test]
fn the_queue_is_one_more_than_the_times_that_the_demand_ahead_fills_the_link() {
    for (ahead, queue) in [
        (0, 1),
        (1, 1),
        (99, 1),
        (100, 2),
        (101, 2),
        (199, 2),
        (200, 3),
        (699, 7),
        (700, 8),
        (800, 8),
    ] {
        let mut link = arbiter(9, LINK);
        link.update(&flow(1, 10, ahead), 0);
        let verdict = link.update(&flow(2, 20, 5), 0);
        assert_eq!(verdict.queue, queue, "with {ahead} ahead");
        assert_eq!(
            verdict.rate,
            5.min(100_u64.saturating_sub(ahead)),
            "{ahead}"
        );
    }
}

/// "if PrioQue > LowestQueue then PrioQue = LowestQueue"
#[test]
fn no_queue_is_lower_than_the_lowest() {
    let mut link = arbiter(9, LINK);
    link.update(&flow(1, 10, MAX_RATE), 0);
    assert_eq!(link.update(&flow(2, 20, 5), 0), says(8, 0));
    let mut one = arbiter(9, Link { queues: 0, ..LINK });
    one.update(&flow(1, 10, MAX_RATE), 0);
    assert_eq!(one.update(&flow(2, 20, 5), 0), says(1, 0));
}

#[test]
fn a_link_without_capacity_has_the_lowest_queue_for_all() {
    let mut link = arbiter(9, Link { rate: 0, ..LINK });
    assert_eq!(link.update(&flow(1, 10, 70), 0), says(8, 0));
    assert_eq!(link.update(&flow(2, 20, 70), 0), says(8, 0));
    link.set_rate(100);
    assert_eq!(link.verdict(1), Some(says(1, 70)));
}

#[test]
fn ties_are_broken_by_the_flows_numbers_and_not_by_arrival() {
    let mut link = arbiter(9, LINK);
    link.update(&flow(9, 10, 100), 0);
    assert_eq!(link.update(&flow(4, 10, 100), 0), says(1, 100));
    assert_eq!(link.verdict(9), Some(says(2, 0)));
}

/// A flow's remaining size shrinks, and it passes others.
#[test]
fn an_update_moves_a_flow_in_the_order() {
    let mut link = arbiter(9, LINK);
    link.update(&flow(1, 10, 100), 0);
    link.update(&flow(2, 20, 100), 0);
    link.update(&flow(3, 30, 100), 0);
    assert_eq!(link.verdict(3), Some(says(3, 0)));
    assert_eq!(link.update(&flow(3, 5, 100), 0), says(1, 100));
    assert_eq!(link.verdict(2), Some(says(3, 0)));
    assert_eq!((link.len(), link.demand()), (3, 300));
}

#[test]
fn a_flow_that_is_not_renewed_is_forgotten_after_its_lifetime() {
    let mut link = arbiter(9, LINK);
    link.update(&flow(1, 10, 100), 0);
    link.update(&flow(2, 20, 100), 500);
    link.update(&flow(3, 30, 100), 999);
    assert_eq!(link.len(), 3);
    assert_eq!(link.update(&flow(3, 30, 100), 1_000), says(2, 0));
    assert_eq!(link.verdict(1), None);
    // A clock that goes back does not age a flow.
    assert_eq!(link.update(&flow(3, 30, 100), 0), says(2, 0));
    assert_eq!(link.len(), 2);
}

#[test]
fn expired_flows_are_forgotten_a_few_at_a_time() {
    let mut link = arbiter(100, LINK);
    (0..50).for_each(|id| {
        link.update(&flow(id, id, 10), 0);
    });
    for updates in 1..=20 {
        link.update(&flow(1_000, 1_000, 10), 5_000);
        let left = 50_u32.saturating_sub(updates * EXPIRED_AT_ONCE) + 1;
        assert_eq!(link.len(), left);
    }
    assert_eq!(link.expire(u64::MAX, 100), 1);
}

/// An answer depends only on more urgent flows.
#[test]
fn a_full_table_evicts_the_least_urgent_flow_which_may_return() {
    let mut link = arbiter(2, LINK);
    link.update(&flow(1, 10, 60), 0);
    link.update(&flow(2, 30, 60), 0);
    assert_eq!(link.update(&flow(3, 40, 60), 0), says(2, 0), "reported");
    assert_eq!(link.verdict(3), None);
    assert_eq!(link.update(&flow(4, 20, 60), 0), says(1, 40));
    assert_eq!(link.verdict(2), None, "made room");
    assert!(link.remove(1));
    assert_eq!(link.update(&flow(2, 30, 60), 0), says(1, 40));
}

#[test]
fn extremes_do_not_overflow() {
    let link = Link {
        rate: u64::MAX,
        queues: u8::MAX,
        lifetime: u64::MAX,
    };
    let mut link = arbiter(1 << 10, link);
    for id in 0..1 << 10 {
        link.update(&flow(u64::MAX - id, u64::MAX, u64::MAX), u64::MAX);
    }
    assert_eq!(link.demand(), MAX_RATE << 10);
    assert_eq!(link.verdict(u64::MAX), Some(says(255, 0)));
    assert!(link.check().is_ok());
}

/// The worst order for a tree that does not balance itself.
#[test]
fn the_tree_is_about_as_deep_as_a_random_one() {
    let mut link = arbiter(100_000, LINK);
    for id in 0..100_000 {
        link.update(&flow(id, id, 1), 0);
    }
    let deep = link.check().expect("the invariants hold");
    // 2 ln n is 23; a height of 3 times that has a chance below 10^-9.
    assert!(deep <= 69, "{deep} nodes deep");
}

fn operation() -> impl Strategy<Value = Operation> {
    let id = || prop_oneof![0..12_u64, 0..FLOWS];
    let urgency = prop_oneof![0..6_u64, 0..1_000_u64, Just(u64::MAX)];
    let demand = || prop_oneof![0..300_u64, Just(0), Just(100), Just(MAX_RATE)];
    let update = (id(), urgency, demand())
        .prop_map(|(id, urgency, demand)| Operation::Update(flow(id, urgency, demand)));
    // Like the updates of one flow when only its demand changes, or only its urgency.
    let same_urgency =
        (id(), demand()).prop_map(|(id, demand)| Operation::Update(flow(id, 50, demand)));
    prop_oneof![
        12 => update,
        4 => same_urgency,
        3 => id().prop_map(Operation::Remove),
        1 => (0..9_u32).prop_map(Operation::Expire),
        3 => prop_oneof![0..300_u64, Just(999), Just(1_000), Just(100_000)].prop_map(Operation::Time),
        1 => prop_oneof![Just(0), Just(1), Just(100), 0..1_000_u64].prop_map(Operation::Rate),
    ]
}

proptest! {
    #[test]
    fn it_matches_a_sorted_list(
        capacity in prop_oneof![1..8_usize, 8..150_usize],
        queues in 1..=9_u8,
        operations in prop::collection::vec(operation(), 0..400),
    ) {
        Scenario { capacity, queues, operations }.run();
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads files, which Miri's isolation does not allow")]
fn the_fuzz_corpus_passes() {
    replay("pase", |bytes| Scenario::decode(bytes).run());
}
