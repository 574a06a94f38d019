// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The calendar against a sorted map.

use super::naive::{Operation, Scenario};
use crate::tests::corpus::replay;
use proptest::prelude::*;

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        8 => (-70_i64..200, any::<u16>()).prop_map(|(at, to)| Operation::Insert(at, to)),
        2 => (900_i64..1200, any::<u16>()).prop_map(|(at, to)| Operation::Insert(at, to)),
        5 => Just(Operation::Pop),
        2 => (0_u64..100).prop_map(Operation::Pass),
        1 => (0_u64..5000).prop_map(Operation::Pass),
        1 => Just(Operation::Clear),
    ]
}

proptest! {
    #[test]
    fn it_matches_a_sorted_map_of_near_timeslots(
        begin in prop_oneof![0_u64..5, 1000_u64..1100, Just(u64::MAX / 2)],
        operations in prop::collection::vec(operation(), 0..600),
    ) {
        Scenario { begin, operations }.run();
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads files, which Miri's isolation does not allow")]
fn the_fuzz_corpus_passes() {
    replay("fastpass", |bytes| Scenario::decode(bytes).run());
}
