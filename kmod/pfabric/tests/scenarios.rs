// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `pfabric` and the naive model behave identically, operation by operation.

use super::naive::{Operation, Scenario};
use crate::tests::corpus::replay;
use proptest::prelude::*;
use proptest::strategy::Union;
use proptest::test_runner::{Config, TestRunner};
use weft_mechanisms::pfabric::queue::Limits;

const PACKETS: [u32; 5] = [1, 2, 7, 24, 200];
/// None; two full-sized packets; the paper's 36 kB.
const BYTES: [u32; 3] = [0, 3000, 36_000];

/// The number of different values.
#[derive(Clone, Copy, Debug)]
enum Variety {
    One,
    Few,
    Many,
}

fn flow(variety: Variety) -> BoxedStrategy<u32> {
    match variety {
        Variety::One => Just(0xF10).boxed(),
        Variety::Few => (0..4_u32).boxed(),
        Variety::Many => any::<u32>().boxed(),
    }
}

fn rank(variety: Variety) -> BoxedStrategy<u32> {
    match variety {
        Variety::One => Just(0).boxed(),
        Variety::Few => prop_oneof![0..4_u32, Just(u32::MAX)].boxed(),
        // Uniform in size rather than in value: ranks share prefixes of any length.
        Variety::Many => (any::<u32>(), 0..32_u32)
            .prop_map(|(rank, bits)| rank >> bits)
            .boxed(),
    }
}

fn len() -> impl Strategy<Value = u32> {
    prop_oneof![
        4 => Just(1514_u32),
        3 => 1..=1514_u32,
        2 => Just(66_u32),
        1 => prop_oneof![Just(65_549_u32), Just(u32::MAX), 1..=40_000_u32],
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    (
        1..=200_u32,
        prop_oneof![Just(0), 1..=60_000_u32],
        any::<bool>(),
    )
        .prop_map(|(packets, bytes, starvation_prevention)| Limits {
            packets,
            bytes,
            starvation_prevention,
        })
}

fn operations(ranks: Variety, flows: Variety) -> impl Strategy<Value = Vec<Operation>> {
    let enqueue = (rank(ranks), flow(flows), len())
        .prop_map(|(rank, flow, len)| Operation::Enqueue { rank, flow, len })
        .boxed();
    // A queue that fills, one that hovers and one that is mostly empty.
    prop_oneof![Just(90), Just(45), Just(30)].prop_flat_map(move |arrivals| {
        let operation = Union::new_weighted(vec![
            (arrivals, enqueue.clone()),
            (40, Just(Operation::Dequeue).boxed()),
            (2, limits().prop_map(Operation::Change).boxed()),
            (1, Just(Operation::Clear).boxed()),
        ]);
        prop::collection::vec(operation, 250..300)
    })
}

/// 100,000 operations and more under all combinations of limits, varieties and service.
#[test]
fn any_scenario_matches_the_naive_model_under_all_combinations_of_options() {
    let varieties = [Variety::One, Variety::Few, Variety::Many];
    let run = std::cell::Cell::new(0);
    for (packets, bytes) in PACKETS.into_iter().flat_map(|p| BYTES.map(|b| (p, b))) {
        for starvation_prevention in [true, false] {
            for (ranks, flows) in varieties
                .into_iter()
                .flat_map(|r| varieties.map(|f| (r, f)))
            {
                let limits = Limits {
                    packets,
                    bytes,
                    starvation_prevention,
                };
                if cfg!(miri) && run.get() > 2_000 {
                    return; // enough of what takes Miri a minute
                }
                let config = Config {
                    cases: 2,
                    failure_persistence: None,
                    ..Config::default()
                };
                TestRunner::new(config)
                    .run(&operations(ranks, flows), |operations| {
                        run.set(run.get() + operations.len());
                        Scenario { limits, operations }.run();
                        Ok(())
                    })
                    .unwrap_or_else(|error| panic!("{limits:?}, ranks {ranks:?}: {error}"));
            }
        }
    }
    assert!(run.get() >= 100_000, "only {} operations", run.get());
}

/// The fuzzer's corpus, including its past findings.
#[test]
#[cfg_attr(miri, ignore = "reads files, which Miri's isolation does not allow")]
fn the_fuzz_corpus_passes() {
    replay("pfabric", |bytes| Scenario::decode(bytes).run());
}
