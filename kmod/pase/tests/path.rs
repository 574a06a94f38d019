// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Arbitration from the bottom up, over a tree of hosts, racks and pods, against strict priority
//! with global knowledge of the fabric.

use super::naive::strict_priority;
use proptest::prelude::*;
use weft_mechanisms::heap::Heap;
use weft_mechanisms::pase::arbiter::{Arbiter, Link};
use weft_mechanisms::pase::path::climb;
use weft_mechanisms::pase::{Flow, Verdict, TOP};

const QUEUES: u8 = 8;
const LIFETIME: u64 = 1_000;

/// Hosts below racks below one core: the number of each below the next.
const HOSTS: usize = 3;
const RACKS: usize = 3;

/// Links in one direction: of hosts, then of racks, then one.
const LINKS: usize = HOSTS * RACKS + RACKS + 1;

fn links_of(host: usize) -> Vec<usize> {
    vec![host, HOSTS * RACKS + host / HOSTS, LINKS - 1]
}

/// How far up a flow between two hosts goes: the links of its halves.
fn halves(from: usize, to: usize) -> [Vec<usize>; 2] {
    let far = if from / HOSTS == to / HOSTS { 1 } else { 3 };
    [from, to].map(|host| links_of(host)[..far].to_vec())
}

struct Tree(Vec<Arbiter<Heap>>);

impl Tree {
    fn new(rates: &[u64]) -> Self {
        let arbiter = |(at, &rate)| {
            let link = Link {
                rate,
                queues: QUEUES,
                lifetime: LIFETIME,
            };
            let Ok(arbiter) = Arbiter::new(200, link, at as u64);
            arbiter
        };
        Self(rates.iter().enumerate().map(arbiter).collect())
    }

    fn ask(&mut self, half: &[usize], flow: &Flow, deepest: u8) -> (Verdict, u32) {
        let links = self.0.iter_mut().enumerate();
        let half = links.filter(|(at, _)| half.contains(at)).map(|it| it.1);
        let climb = climb(half, flow, deepest, 0);
        (climb.verdict, climb.asked)
    }
}

fn flows(count: usize) -> impl Strategy<Value = Vec<(Flow, usize, usize)>> {
    let hosts = HOSTS * RACKS;
    let flow = (
        0..40_u64,
        prop_oneof![0..60_u64, Just(10)],
        0..hosts,
        0..hosts,
    );
    prop::collection::vec(flow, 1..count).prop_map(|flows| {
        let numbered = flows.into_iter().enumerate();
        numbered
            .map(|(id, (urgency, demand, from, to))| {
                let flow = Flow {
                    id: id as u64,
                    urgency,
                    demand,
                };
                (flow, from, to)
            })
            .collect()
    })
}

fn rates() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![0..50_u64, Just(10), Just(30)], LINKS)
}

/// "For intra-rack communication … only the source and destination are involved" (§1).
#[test]
fn within_a_rack_only_the_source_and_the_destination_are_asked() {
    let mut tree = Tree::new(&[10; LINKS]);
    let flow = Flow {
        id: 1,
        urgency: 1,
        demand: 10,
    };
    let asked = halves(0, 1).map(|half| tree.ask(&half, &flow, TOP).1);
    assert_eq!(asked, [1, 1]);
    let asked = halves(0, 8).map(|half| tree.ask(&half, &flow, TOP).1);
    assert_eq!(asked, [3, 3]);
}

/// "Lower level arbitrators … can do early pruning by discarding flows that are unlikely to become
/// part of the top priority queue" (§1).
#[test]
fn a_flow_below_the_top_queue_is_not_sent_further_up() {
    for (deepest, asked) in [(0, 1), (1, 1), (2, 3)] {
        let mut tree = Tree::new(&[10; LINKS]);
        let flow = |id| Flow {
            id,
            urgency: id,
            demand: 11,
        };
        let half = &links_of(0);
        assert_eq!(tree.ask(half, &flow(1), deepest).1, 3);
        assert_eq!(tree.ask(half, &flow(2), deepest).1, asked, "to {deepest}");
        assert_eq!(tree.0[LINKS - 1].len(), if asked == 3 { 2 } else { 1 });
    }
}

#[test]
fn a_flow_that_falls_is_taken_back_from_the_links_above() {
    let mut tree = Tree::new(&[10; LINKS]);
    let flow = |id, urgency| Flow {
        id,
        urgency,
        demand: 11,
    };
    tree.ask(&links_of(0), &flow(1, 10), TOP);
    tree.ask(&links_of(0), &flow(2, 5), TOP);
    let half = tree.0.iter_mut().enumerate();
    let half = half.filter(|(at, _)| links_of(0).contains(at));
    let fallen = climb(half.map(|it| it.1), &flow(1, 10), TOP, 0);
    assert_eq!((fallen.asked, fallen.withdrawn), (1, 2));
    assert_eq!(tree.0[LINKS - 1].len(), 1);
    assert_eq!(tree.ask(&links_of(8), &flow(3, 20), TOP).0.rate, 0);
}

/// "Both early pruning and delegation reduce the arbitration overhead" (§1), "especially at high
/// loads" (§4.3.1): the more flows, the larger the saved share of requests.
#[test]
fn pruning_saves_more_the_more_flows_there_are() {
    let saved = |count: u64| {
        let asked = [TOP, QUEUES].map(|deepest| {
            let mut tree = Tree::new(&[10; LINKS]);
            let mut asked = 0;
            for id in 0..count {
                let flow = Flow {
                    id,
                    urgency: id * 7919 % 101,
                    demand: 10,
                };
                let half = links_of(id as usize % (HOSTS * RACKS));
                asked += tree.ask(&half, &flow, deepest).1;
            }
            asked
        });
        1.0 - f64::from(asked[0]) / f64::from(asked[1])
    };
    let saved = [9, 36, 180].map(saved);
    assert!(saved.is_sorted_by(|a, b| a <= b), "{saved:?}");
    assert!(saved[2] > 0.4, "{saved:?}");
}

proptest! {
    /// All flows go to the root: each gets exactly the rate of strict priority over the whole tree,
    /// in whatever order they ask, with or without pruning.
    #[test]
    fn if_all_flows_cross_the_root_each_gets_its_rate_under_strict_priority(
        rates in rates(), flows in flows(60), deepest in 0..=QUEUES,
    ) {
        let paths: Vec<_> = flows.iter().map(|(flow, from, _)| (*flow, links_of(*from))).collect();
        let oracle = strict_priority(&rates, &paths);
        let mut tree = Tree::new(&rates);
        let mut given = Vec::new();
        // A flow's answer depends on those of the more urgent flows: after as many rounds as there
        // are flows, no answer changes any more.
        for _ in 0..paths.len() {
            given = paths.iter().map(|(flow, half)| tree.ask(half, flow, deepest).0.rate).collect();
        }
        prop_assert_eq!(given, oracle);
    }

    /// Both halves, flows within racks and between them: the answers to the top queues fit every
    /// link, and the most urgent flow gets the rate of strict priority.
    #[test]
    fn allocated_rates_fit_each_link(
        rates in prop::collection::vec(prop_oneof![0..50_u64, Just(10), Just(30)], 2 * LINKS),
        flows in flows(60),
        deepest in 0..=QUEUES,
    ) {
        let (up, down) = rates.split_at(LINKS);
        let (mut up, mut down) = (Tree::new(up), Tree::new(down));
        let paths: Vec<_> = flows.iter().map(|(flow, from, to)| (*flow, halves(*from, *to))).collect();
        let mut given: Vec<u64> = Vec::new();
        for _ in 0..paths.len() {
            given = paths.iter().map(|(flow, [sender, receiver])| {
                let (sender, _) = up.ask(sender, flow, deepest);
                let (receiver, _) = down.ask(receiver, flow, deepest);
                sender.and(receiver).rate
            }).collect();
        }
        let whole = |halves: &[Vec<usize>; 2]| -> Vec<usize> {
            let [sender, receiver] = halves;
            sender.iter().copied().chain(receiver.iter().map(|link| LINKS + link)).collect()
        };
        let whole: Vec<_> = paths.iter().map(|(flow, halves)| (*flow, whole(halves))).collect();
        for (link, rate) in rates.iter().enumerate() {
            let crossing = whole.iter().zip(&given).filter(|((_, links), _)| links.contains(&link));
            let sum: u64 = crossing.map(|(_, given)| given).sum();
            prop_assert!(sum <= *rate, "{} on link {} of {}", sum, link, rate);
        }
        let oracle = strict_priority(&rates, &whole);
        let first = (0..whole.len()).min_by_key(|&at| (whole[at].0.urgency, at)).unwrap();
        prop_assert_eq!(given[first], oracle[first]);
    }

    /// "… at the cost of potentially less accurate decisions" (§1): only of queues.
    #[test]
    fn pruning_changes_no_rate_and_raises_no_more_than_the_pruned_flows_queue(
        rates in rates(), flows in flows(60), deepest in 0..QUEUES,
    ) {
        let told = |deepest| {
            let mut tree = Tree::new(&rates);
            let mut told = Vec::new();
            for _ in 0..flows.len() {
                told = flows.iter().map(|(flow, from, _)| tree.ask(&links_of(*from), flow, deepest)).collect();
            }
            told
        };
        for ((pruned, asked), (full, all)) in told(deepest).into_iter().zip(told(QUEUES)) {
            prop_assert_eq!(pruned.rate, full.rate);
            prop_assert!(pruned.queue <= full.queue && asked <= all);
            prop_assert!(asked == all || pruned.queue > deepest.max(TOP));
        }
    }
}
