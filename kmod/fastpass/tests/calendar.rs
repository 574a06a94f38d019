// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The calendar against a sorted map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::fastpass::calendar::{Calendar, Entry, HORIZON};
use weft_mechanisms::heap::Heap;

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(i64, u16),
    Pop,
    Pass(u64),
    Clear,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (-70_i64..200, any::<u16>()).prop_map(|(at, to)| Step::Insert(at, to)),
        2 => (900_i64..1200, any::<u16>()).prop_map(|(at, to)| Step::Insert(at, to)),
        5 => Just(Step::Pop),
        2 => (0_u64..100).prop_map(Step::Pass),
        1 => (0_u64..5000).prop_map(Step::Pass),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    #[test]
    fn it_is_a_sorted_map_of_what_is_near(
        begin in prop_oneof![0_u64..5, 1000_u64..1100, Just(u64::MAX / 2)],
        steps in prop::collection::vec(step(), 0..600),
    ) {
        let mut calendar = Calendar::<Heap>::new().unwrap();
        let mut model = BTreeMap::new();
        let (mut now, mut from) = (begin, 0);
        for step in steps {
            match step {
                Step::Insert(at, destination) => {
                    let timeslot = now.saturating_add_signed(at);
                    if model.is_empty() {
                        from = now;
                    }
                    let near = (from..from + HORIZON).contains(&timeslot);
                    let expected = near && !model.contains_key(&timeslot);
                    let entry = Entry { destination, path: destination as u8 };
                    prop_assert_eq!(calendar.insert(now, timeslot, entry), expected);
                    if expected {
                        model.insert(timeslot, entry);
                    }
                }
                Step::Pop => {
                    let first = model.pop_first();
                    prop_assert_eq!(calendar.pop(), first);
                    from = first.map_or(from, |(timeslot, _)| timeslot + 1);
                }
                Step::Pass(slots) => now += slots,
                Step::Clear => {
                    calendar.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(calendar.first(), model.keys().next().copied());
            prop_assert_eq!(calendar.len() as usize, model.len());
        }
    }
}
