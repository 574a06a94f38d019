// SPDX-License-Identifier: MIT OR Apache-2.0

//! The ideal schedule by hand, against a simulation that decides anew in every unit of time, and
//! against the best of all schedules.

use std::collections::HashMap;

use proptest::prelude::*;
use weft_load::ideal::{Demand, waits_ps};

fn demand(start_ps: u64, src: u32, dst: u32, service_ps: u64) -> Demand {
    Demand {
        start_ps,
        src,
        dst,
        service_ps,
    }
}

#[test]
fn a_flow_alone_does_not_wait() {
    assert_eq!(waits_ps(&[demand(7, 0, 1, 1_000_000)]), [0]);
    assert!(waits_ps(&[]).is_empty());
}

/// Five flows of 10 each at once to one receiver: one after the other.
#[test]
fn equal_flows_to_one_receiver_go_one_after_the_other() {
    let flows: Vec<_> = (1..=5).map(|src| demand(0, src, 0, 10)).collect();
    assert_eq!(waits_ps(&flows), [0, 10, 20, 30, 40]);
}

/// At 10 the long flow has 90 left. A flow of 90 that arrives then waits for it, because the long
/// flow is first in the list. A flow of 89 does not.
#[test]
fn the_remaining_size_decides_and_not_the_size() {
    let long = demand(0, 0, 2, 100);
    assert_eq!(waits_ps(&[long, demand(10, 1, 2, 90)]), [0, 90]);
    assert_eq!(waits_ps(&[long, demand(10, 1, 2, 89)]), [89, 0]);
    // Of two flows of equal size, the one that has begun is shorter.
    assert_eq!(waits_ps(&[demand(10, 1, 2, 100), long]), [90, 0]);
}

/// The shortest, A (0 to 1, 10), keeps B (0 to 2, 20) waiting at the sender and C (3 to 1, 30) at
/// the receiver. D (3 to 2, 40) shares no link with A and is served beside it, although B and C are
/// shorter. At 10, B and C take both of D's links. B is done at 30, and C at 40. Until then C
/// occupies D's sender. D had 30 left, and ends at 70; alone it would end at 40.
#[test]
fn a_longer_flow_is_served_where_no_shorter_one_can_be() {
    let flows = [
        demand(0, 0, 1, 10),
        demand(0, 0, 2, 20),
        demand(0, 3, 1, 30),
        demand(0, 3, 2, 40),
    ];
    assert_eq!(waits_ps(&flows), [0, 10, 10, 30]);
}

/// A host sends and receives at the same time.
#[test]
fn both_directions_of_a_link_are_independent() {
    let flows = [demand(0, 0, 1, 50), demand(0, 1, 0, 60)];
    assert_eq!(waits_ps(&flows), [0, 0]);
}

/// Algorithm 1, literally, in every unit of time.
fn tick_by_tick(flows: &[Demand]) -> Vec<u64> {
    let mut left: Vec<u64> = flows.iter().map(|flow| flow.service_ps).collect();
    let mut waits = vec![0; flows.len()];
    let mut now = 0;
    while left.iter().any(|left| *left > 0) {
        let mut order: Vec<usize> = (0..flows.len())
            .filter(|&n| left[n] > 0 && flows[n].start_ps <= now)
            .collect();
        order.sort_by_key(|&n| (left[n], n));
        let (mut ingress, mut egress) = (Vec::new(), Vec::new());
        for n in order {
            let Demand { src, dst, .. } = flows[n];
            if !ingress.contains(&src) && !egress.contains(&dst) {
                ingress.push(src);
                egress.push(dst);
                left[n] -= 1;
            } else {
                waits[n] += 1;
            }
        }
        now += 1;
    }
    waits
}

/// The smallest sum of completion times of any schedule that serves whole units of time.
fn best(
    flows: &[Demand],
    now: u64,
    left: &[u64],
    known: &mut HashMap<(u64, Vec<u64>), u64>,
) -> u64 {
    if left.iter().all(|left| *left == 0) {
        return 0;
    }
    if let Some(sum) = known.get(&(now, left.to_vec())) {
        return *sum;
    }
    let ready: Vec<usize> = (0..flows.len())
        .filter(|&n| left[n] > 0 && flows[n].start_ps <= now)
        .collect();
    // In each unit of time, each unfinished flow adds one, except before its start.
    let waiting = ready.len() as u64;
    let mut least = u64::MAX;
    for chosen in 0_u32..1 << ready.len() {
        let chosen: Vec<usize> = (0..ready.len())
            .filter(|bit| chosen & (1 << bit) != 0)
            .map(|bit| ready[bit])
            .collect();
        let fits = chosen.iter().enumerate().all(|(place, &a)| {
            chosen[..place]
                .iter()
                .all(|&b| flows[a].src != flows[b].src && flows[a].dst != flows[b].dst)
        });
        // Serving no flow never helps while a flow is ready.
        if !fits || (chosen.is_empty() && !ready.is_empty()) {
            continue;
        }
        let mut after = left.to_vec();
        for n in chosen {
            after[n] -= 1;
        }
        least = least.min(best(flows, now + 1, &after, known));
    }
    let sum = least + waiting;
    known.insert((now, left.to_vec()), sum);
    sum
}

fn least_sum(flows: &[Demand]) -> u64 {
    let left: Vec<u64> = flows.iter().map(|flow| flow.service_ps).collect();
    best(flows, 0, &left, &mut HashMap::new())
}

/// The sum of completion times.
fn sum(flows: &[Demand]) -> u64 {
    let services = flows.iter().map(|flow| flow.service_ps);
    waits_ps(flows)
        .iter()
        .zip(services)
        .map(|(wait, own)| wait + own)
        .sum()
}

fn flows(hosts: u32, starts: u64, longest: u64, most: usize) -> impl Strategy<Value = Vec<Demand>> {
    let flow = (0..=starts, 0..hosts, 0..hosts, 1..=longest);
    prop::collection::vec(
        flow.prop_map(|(start, src, dst, service)| demand(start, src, dst, service)),
        1..=most,
    )
}

proptest! {
    #[test]
    fn it_matches_a_schedule_that_decides_anew_at_every_tick(flows in flows(5, 60, 30, 14)) {
        prop_assert_eq!(waits_ps(&flows), tick_by_tick(&flows));
    }

    #[test]
    fn on_one_link_no_schedule_is_better(flows in flows(1, 6, 4, 4)) {
        prop_assert_eq!(sum(&flows), least_sum(&flows));
    }

    /// §3: it is at least a 2-approximation of the optimal schedule.
    #[test]
    fn on_many_links_no_schedule_is_twice_as_good(flows in flows(3, 0, 4, 5)) {
        let least = least_sum(&flows);
        prop_assert!((least..=2 * least).contains(&sum(&flows)));
    }
}
