// SPDX-License-Identifier: MIT OR Apache-2.0

//! Collectives. The tests play the flows in any order that their dependencies allow. Each flow
//! moves the data that its sender has at that moment. After each round, each host must have the
//! result that the collective promises.

use proptest::prelude::*;
use weft_load::collective::{Collective, Kind};
use weft_load::generate::{Background, Class, Flow, Until, Workload};
use weft_load::trace::TraceFlow;

fn workload(collective: Collective, hosts: u32, rounds: u64) -> Workload {
    Workload {
        hosts,
        background: Some(Background::Collective(collective)),
        incast: None,
        added: Vec::new(),
        until: Until::Rounds(rounds),
        warm_up: 0.0,
        deadlines: None,
        priorities: None,
        seed: 1,
    }
}

fn round(flow: &Flow) -> usize {
    match flow.class {
        Class::Round(round) => round as usize,
        other => panic!("{other:?}"),
    }
}

/// For each part of a host's data, the hosts whose shares it contains, as bits.
type Parts = Vec<u64>;

/// The buffers of a collective, by round and host.
struct Buffers {
    kind: Kind,
    hosts: usize,
    rounds: Vec<Vec<Parts>>,
}

impl Buffers {
    fn new(kind: Kind, hosts: usize, rounds: usize) -> Self {
        let parts = match kind {
            Kind::Ring => hosts,
            _ => 1,
        };
        let own = (0..hosts).map(|host| vec![1 << host; parts]).collect();
        Self {
            kind,
            hosts,
            rounds: vec![own; rounds],
        }
    }

    /// Whether a host has the complete result of a round.
    fn is_done(&self, round: usize, host: usize) -> bool {
        let all = (1 << self.hosts) - 1;
        self.rounds[round][host].iter().all(|part| *part == all)
    }

    /// The part that a flow of a round carries, and the shares that it contains now.
    fn carried(&self, flow: &Flow, place: usize) -> (usize, u64) {
        let src = flow.src as usize;
        match self.kind {
            Kind::Ring => {
                let step = place / self.hosts;
                let part = (src + 2 * self.hosts - step) % self.hosts;
                (part, self.rounds[round(flow)][src][part])
            }
            Kind::Tree => (0, self.rounds[round(flow)][src][0]),
            Kind::AllToAll => (0, 1 << src),
            Kind::Replicate => panic!("not each to all"),
        }
    }
}

/// An event of a flow.
enum Event {
    Begins,
    Ends,
}

/// Plays the flows. A seed decides the order in which ready flows begin and active ones end.
fn play(flows: &[Flow], seed: u64, mut on: impl FnMut(Event, usize)) {
    let mut state = seed | 1;
    let mut choose = || {
        // xorshift64 (Marsaglia, 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) as usize
    };
    let mut ended = vec![false; flows.len()];
    let mut waiting: Vec<usize> = (0..flows.len()).collect();
    let mut under_way: Vec<usize> = Vec::new();
    while !(waiting.is_empty() && under_way.is_empty()) {
        let may_begin = |flow: &usize| {
            let after = flows[*flow].after;
            after.is_none_or(|after| after.flows().all(|it| ended[it as usize]))
        };
        let ready: Vec<usize> = waiting.iter().copied().filter(may_begin).collect();
        let choice = choose() % (ready.len() + under_way.len());
        if let Some(&id) = ready.get(choice) {
            waiting.retain(|it| *it != id);
            on(Event::Begins, id);
            under_way.push(id);
        } else {
            let id = under_way.swap_remove(choice - ready.len());
            on(Event::Ends, id);
            ended[id] = true;
        }
    }
}

/// Collectives in which every host has data from all others at the end of a round.
const KINDS: [Kind; 3] = [Kind::Ring, Kind::Tree, Kind::AllToAll];

proptest! {
    #[test]
    fn each_round_delivers_its_data_in_whatever_order_its_flows_end(
        kind in prop::sample::select(&KINDS[..]),
        hosts in 2_u32..12,
        rounds in 1_u64..4,
        seed in any::<u64>(),
    ) {
        let collective = Collective { kind, hosts: None, bytes: 1000 };
        let flows: Vec<Flow> = workload(collective, hosts, rounds).flows().unwrap().collect();
        let (hosts, rounds) = (hosts as usize, rounds as usize);
        let per_round = flows.len() / rounds;
        let mut buffers = Buffers::new(kind, hosts, rounds);
        let mut carried = vec![(0, 0); flows.len()];
        play(&flows, seed, |event, id| {
            let flow = &flows[id];
            match event {
                Event::Begins => {
                    if let Some(before) = round(flow).checked_sub(1) {
                        assert!(buffers.is_done(before, flow.src as usize), "{flow:?}");
                    }
                    carried[id] = buffers.carried(flow, id % per_round);
                }
                Event::Ends => {
                    let (part, shares) = carried[id];
                    buffers.rounds[round(flow)][flow.dst as usize][part] |= shares;
                }
            }
        });
        for round in 0..rounds {
            for host in 0..hosts {
                prop_assert!(buffers.is_done(round, host), "h{host}, round {round}");
            }
        }
    }

    #[test]
    fn a_block_reaches_three_hosts_and_only_hosts_that_have_it_send_it(
        hosts in 4_u32..20,
        rounds in 1_u64..6,
        seed in any::<u64>(),
    ) {
        let collective = Collective { kind: Kind::Replicate, hosts: None, bytes: 4_000_000 };
        let drawn = Workload { seed, ..workload(collective, hosts, rounds) };
        let flows: Vec<Flow> = drawn.flows().unwrap().collect();
        let blocks = (u64::from(hosts) * rounds) as usize;
        let writer = |block: usize| block as u32 % hosts;
        let mut has: Vec<Vec<u32>> = (0..blocks).map(|block| vec![writer(block)]).collect();
        play(&flows, seed, |event, id| {
            let flow = &flows[id];
            let block = round(flow);
            match event {
                Event::Begins => {
                    assert!(has[block].contains(&flow.src), "{flow:?}");
                    assert!(!has[block].contains(&flow.dst), "{flow:?}");
                    // The writer has no other block in progress.
                    let before = block.checked_sub(hosts as usize);
                    assert!(before.is_none_or(|before| has[before].len() == 4), "{flow:?}");
                }
                Event::Ends => has[block].push(flow.dst),
            }
        });
        for (block, has) in has.iter().enumerate() {
            prop_assert_eq!(has.len(), 4, "block {}: {:?}", block, has);
        }
        let all: u64 = flows.iter().map(|flow| flow.size).sum();
        prop_assert_eq!(all, 3 * 4_000_000 * blocks as u64);
    }

    #[test]
    fn hosts_send_exactly_the_bytes_that_they_owe(
        kind in prop::sample::select(&KINDS[..]),
        hosts in 2_u32..40,
        more in 0_u32..5,
        bytes in 40_u64..1_000_000,
        rounds in 1_u64..3,
    ) {
        let collective = Collective { kind, hosts: Some(hosts), bytes };
        let flows: Vec<Flow> = workload(collective, hosts + more, rounds).flows().unwrap().collect();
        let n = u64::from(hosts);
        let all: u64 = flows.iter().map(|flow| flow.size).sum();
        let owed = match kind {
            Kind::Ring | Kind::Tree => 2 * (n - 1) * bytes,
            Kind::AllToAll => (n - 1) * bytes,
            Kind::Replicate => 3 * n * bytes,
        };
        prop_assert_eq!(all, owed * rounds);
        prop_assert!(flows.iter().all(|flow| flow.src.max(flow.dst) < hosts && flow.src != flow.dst));
        for host in 0..hosts {
            let sent: u64 = flows.iter().filter(|flow| flow.src == host).map(|flow| flow.size).sum();
            let sent = sent / rounds;
            match kind {
                // 2(N - 1)/N of its data, except for rounding.
                Kind::Ring => prop_assert!(sent.abs_diff(2 * (n - 1) * bytes / n) <= 2 * n),
                Kind::Replicate => {}
                Kind::AllToAll => prop_assert!(sent.abs_diff((n - 1) * bytes / n) <= n),
                Kind::Tree => {
                    let h = u64::from(host);
                    let children = (2 * h + 1..=2 * h + 2).filter(|child| *child < n).count() as u64;
                    prop_assert_eq!(sent, (u64::from(host > 0) + children) * bytes);
                }
            }
        }
    }
}

/// Each other host stores 3 of 7 of a writer's blocks. Chi-square with 6 degrees of freedom exceeds
/// 22.5 once in a thousand; the test uses one fixed seed.
#[test]
fn blocks_are_spread_over_all_others() {
    let collective: Collective = "replicate:8x1MB".parse().unwrap();
    let flows = workload(collective, 9, 2000).flows().unwrap();
    let mut kept = [[0_u32; 9]; 8];
    for flow in flows {
        kept[round(&flow) % 8][flow.dst as usize] += 1;
    }
    for (writer, kept) in kept.iter().enumerate() {
        assert_eq!((kept[writer], kept[8]), (0, 0));
        let expected = 2000.0 * 3.0 / 7.0;
        let others = (0..8).filter(|host| *host != writer);
        let chi_square: f64 = others
            .map(|host| (f64::from(kept[host]) - expected).powi(2) / expected)
            .sum();
        assert!(chi_square < 22.5, "h{writer}: {kept:?}");
    }
}

#[test]
fn the_warm_up_has_whole_rounds_and_added_flows_follow() {
    let collective: Collective = "ring:4x64kB".parse().unwrap();
    let added = TraceFlow {
        start_ns: 0,
        src: 0,
        dst: 5,
        size: 9,
    };
    let workload = Workload {
        warm_up: 0.3,
        added: vec![added],
        ..workload(collective, 6, 5)
    };
    let flows: Vec<Flow> = workload.flows().unwrap().collect();
    assert_eq!(flows.len(), 5 * 24 + 1);
    for flow in &flows[..120] {
        assert_eq!(flow.warm_up, round(flow) < 2, "{flow:?}");
    }
    assert_eq!(flows[120].class, Class::Added);
}

#[test]
fn options_that_exclude_each_other_are_refused_in_one_sentence() {
    let collective: Collective = "tree:1MB".parse().unwrap();
    let refused = |workload: Workload| workload.flows().unwrap_err().to_string();
    let it = workload(collective, 4, 3);
    let until = |until| Workload {
        until,
        ..it.clone()
    };
    assert_eq!(
        refused(until(Until::Flows(10))),
        "a collective ends after a number of rounds"
    );
    assert_eq!(
        refused(until(Until::Rounds(0))),
        "a workload needs at least one flow, or some time"
    );
    assert!(refused(until(Until::Rounds(1 << 40))).contains("a run has at most"));
    let without = Workload {
        background: None,
        added: vec![TraceFlow {
            start_ns: 0,
            src: 0,
            dst: 1,
            size: 1,
        }],
        ..it
    };
    assert_eq!(refused(without), "only a collective has rounds");
}
