// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The table of flows against a map.

use super::flow;
use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_mechanisms::expresspass::flows::{Flows, CHAIN, MAX_FLOWS};
use weft_mechanisms::heap::Heap;

fn table(flows: u32) -> Flows<Heap> {
    let Ok(table) = Flows::new(flows);
    table
}

proptest! {
    #[test]
    fn it_matches_a_map(operations in prop::collection::vec((any::<bool>(), 0..12_u16), 0..200)) {
        let mut table = table(8);
        let mut map = BTreeMap::new();
        for (adds, it) in operations {
            let it = flow(it);
            prop_assert_eq!(table.find(&it), map.get(&it).copied());
            match (adds, map.get(&it).copied()) {
                (true, None) => match table.add(it) {
                    Some(number) => {
                        prop_assert_eq!(table.flow(number), Some(it));
                        map.insert(it, number);
                    }
                    None => prop_assert_eq!(map.len(), 8),
                },
                (false, Some(number)) => {
                    table.remove(number);
                    map.remove(&it);
                }
                _ => {}
            }
            prop_assert_eq!(table.len() as usize, map.len());
            prop_assert_eq!(table.is_empty(), map.is_empty());
        }
        for (it, number) in map {
            prop_assert_eq!(table.find(&it), Some(number));
        }
    }
}

#[test]
fn it_holds_as_many_flows_as_it_says() {
    let mut table = table(MAX_FLOWS);
    for number in 0..MAX_FLOWS as u16 {
        assert_eq!(table.add(flow(number)), Some(number));
    }
    assert_eq!(table.add(flow(MAX_FLOWS as u16)), None);
    for number in (0..MAX_FLOWS as u16).rev() {
        assert_eq!(table.find(&flow(number)), Some(number));
        table.remove(number);
    }
    assert!(table.is_empty());
}

/// Eight flows are in no chain of more than eight, and a flow that is removed leaves its place.
#[test]
fn a_place_is_used_again() {
    let mut refused = 0;
    let mut table = table(16);
    for number in 0..20_000 {
        match table.add(flow(number)) {
            Some(it) if table.len() > CHAIN / 2 => table.remove(it),
            Some(_) => {}
            None => refused += 1,
        }
    }
    assert_eq!(refused, 0);
    assert_eq!(table.len(), CHAIN / 2);
}
