// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The heap of deadlines against a sorted list.

use proptest::prelude::*;
use std::collections::BTreeMap;
use weft_mechanisms::common::deadlines::Deadlines;
use weft_mechanisms::heap::Heap;

fn deadlines(ports: u16) -> Deadlines<Heap> {
    let Ok(deadlines) = Deadlines::new(ports);
    deadlines
}

/// Removes the earliest until there are none.
fn drained(mut deadlines: Deadlines<Heap>) -> Vec<(u64, u16)> {
    std::iter::from_fn(|| {
        let first = deadlines.first()?;
        deadlines.set(first.1, None);
        Some(first)
    })
    .collect()
}

#[test]
fn the_earliest_is_first() {
    let mut deadlines = deadlines(4);
    assert_eq!((deadlines.first(), deadlines.is_empty()), (None, true));
    deadlines.set(2, Some(50));
    deadlines.set(0, Some(70));
    deadlines.set(3, Some(60));
    assert_eq!((deadlines.first(), deadlines.len()), (Some((50, 2)), 3));
    deadlines.set(2, Some(80));
    assert_eq!(deadlines.first(), Some((60, 3)));
    deadlines.set(0, Some(10));
    deadlines.set(3, None);
    deadlines.set(3, None);
    assert_eq!(drained(deadlines), [(10, 0), (80, 2)]);
}

#[test]
fn a_port_beyond_the_last_has_no_deadline() {
    for ports in [0, 1, 1024] {
        let mut deadlines = deadlines(ports);
        for beyond in [ports, u16::MAX - 1, u16::MAX] {
            deadlines.set(beyond, Some(1));
            deadlines.set(beyond, None);
        }
        assert!(deadlines.is_empty());
    }
}

proptest! {
    #[test]
    fn it_matches_a_sorted_list(
        ports in prop::sample::select(vec![1_u16, 2, 3, 7, 64, 1024]),
        operations in prop::collection::vec((any::<u16>(), prop::option::of(0..50_u64)), 0..3000),
    ) {
        let mut deadlines = deadlines(ports);
        let mut naive = BTreeMap::new();
        for (port, at) in operations {
            let port = port % ports;
            deadlines.set(port, at);
            match at {
                Some(at) => naive.insert(port, at),
                None => naive.remove(&port),
            };
            prop_assert_eq!(deadlines.len(), naive.len());
            let first = deadlines.first();
            prop_assert_eq!(first.map(|(at, _)| at), naive.values().min().copied());
            if let Some((at, port)) = first {
                prop_assert_eq!(naive.get(&port), Some(&at));
            }
        }
        let drained = drained(deadlines);
        prop_assert!(drained.is_sorted_by_key(|(at, _)| *at));
        prop_assert_eq!(drained.into_iter().map(|(at, port)| (port, at)).collect::<BTreeMap<_, _>>(), naive);
    }
}
