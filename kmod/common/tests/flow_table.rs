// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The table against a map of queues.

use proptest::prelude::*;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use weft_mechanisms::common::flow_table::{FlowLinks, FlowTable};
use weft_mechanisms::heap::Heap;

thread_local! {
    /// Slots visited on this thread.
    static LOOKS: Cell<u32> = const { Cell::new(0) };
}

#[derive(Clone, Default)]
struct Slot(FlowLinks);

impl AsRef<FlowLinks> for Slot {
    fn as_ref(&self) -> &FlowLinks {
        LOOKS.set(LOOKS.get() + 1);
        &self.0
    }
}

impl AsMut<FlowLinks> for Slot {
    fn as_mut(&mut self) -> &mut FlowLinks {
        LOOKS.set(LOOKS.get() + 1);
        &mut self.0
    }
}

/// A table, its slots, and the model: for each flow, its slots in order of arrival.
struct Both {
    table: FlowTable<Heap>,
    slots: Vec<Slot>,
    free: Vec<u16>,
    model: BTreeMap<u32, VecDeque<u16>>,
}

impl Both {
    fn new(capacity: u16) -> Self {
        let Ok(table) = FlowTable::new(capacity.into());
        Self {
            table,
            slots: vec![Slot::default(); capacity.into()],
            free: (0..capacity).collect(),
            model: BTreeMap::new(),
        }
    }

    fn append(&mut self, flow: u32) {
        let Some(slot) = self.free.pop() else { return };
        let links = self.table.append(&mut self.slots, slot, flow);
        self.slots[usize::from(slot)] = Slot(links);
        self.model.entry(flow).or_default().push_back(slot);
        self.check();
    }

    /// Removes the `nth` packet of a flow.
    fn remove(&mut self, flow: u32, nth: usize) {
        let queue = self.model.get_mut(&flow).unwrap();
        let slot = queue.remove(nth % queue.len()).unwrap();
        if queue.is_empty() {
            self.model.remove(&flow);
        }
        let links = self.slots[usize::from(slot)].0;
        self.table.remove(&mut self.slots, slot, links);
        self.free.push(slot);
        self.check();
    }

    fn check(&self) {
        let mut flows: BTreeMap<u32, VecDeque<u16>> = BTreeMap::new();
        self.table
            .check(&self.slots, |slot, flow| {
                flows.entry(flow).or_default().push_back(slot);
                Ok(())
            })
            .unwrap();
        assert_eq!(flows, self.model);
        assert_eq!(self.table.len() as usize, self.model.len());
        assert_eq!(self.table.is_empty(), self.model.is_empty());
        for queue in self.model.values() {
            for &slot in queue {
                assert_eq!(self.table.first(&self.slots, slot), Some(queue[0]));
            }
        }
    }
}

#[test]
fn flows_of_one_bucket_are_distinguished() {
    // Two buckets: of 16 flows at least 8 share one.
    let mut both = Both::new(2);
    both.slots.resize(32, Slot::default());
    both.free = (0..32).collect();
    for flow in (0..16).chain(0..16) {
        both.append(flow);
    }
    for flow in [7, 0, 15, 8, 3, 4] {
        both.remove(flow, 0);
        both.remove(flow, 0);
    }
}

/// Random, consecutive, or multiples of a power of two: an append passes two flows at most, on
/// average.
#[test]
fn chains_do_not_grow_with_the_backlog() {
    let patterns: [fn(u32) -> u32; 5] = [
        |i| i,
        |i| i << 8,
        |i| i << 16,
        |i| i.swap_bytes(),
        |i| i.wrapping_mul(0x85EB_CA6B),
    ];
    for pattern in patterns {
        for capacity in [24, 1000, if cfg!(miri) { 1000 } else { 10_000_u16 }] {
            let Ok(mut table) = FlowTable::<Heap>::new(capacity.into());
            let mut slots = vec![Slot::default(); capacity.into()];
            LOOKS.set(0);
            for slot in 0..capacity {
                let links = table.append(&mut slots, slot, pattern(slot.into()));
                slots[usize::from(slot)] = Slot(links);
            }
            let each = f64::from(LOOKS.get()) / f64::from(capacity);
            assert!(each < 2.0, "{each} of {capacity} flows");
        }
    }
}

#[test]
fn drain_removes_all_flows_and_yields_each_in_order_of_arrival() {
    let mut both = Both::new(40);
    for flow in [1, 2, 3, 1, 1, 2, 99, 3, 2] {
        both.append(flow);
    }
    let mut flows: BTreeMap<u32, VecDeque<u16>> = BTreeMap::new();
    both.table.drain(&both.slots, |slot, flow| {
        flows.entry(flow).or_default().push_back(slot)
    });
    assert_eq!(flows, both.model);
    both.model.clear();
    both.free = (0..40).collect();
    both.check();
    both.append(1);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 256 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_matches_a_map_of_queues(
        capacity in 1..40_u16,
        flows in prop_oneof![1..4_u32, Just(u32::MAX)],
        operations in prop::collection::vec(
            (any::<bool>(), any::<u32>(), any::<prop::sample::Index>()), 0..200),
    ) {
        let mut both = Both::new(capacity);
        for (append, flow, index) in operations {
            if append {
                both.append(flow % flows);
            } else if !both.model.is_empty() {
                let nth = index.index(both.model.len());
                let flow = *both.model.keys().nth(nth).unwrap();
                both.remove(flow, index.index(7));
            }
        }
    }
}
