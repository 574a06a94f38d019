// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The trie against an ordered map of queues.

use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use weft_mechanisms::common::rank_trie::{RankLinks, RankTrie};
use weft_mechanisms::heap::Heap;

#[derive(Clone, Default)]
struct Slot(RankLinks);

impl AsRef<RankLinks> for Slot {
    fn as_ref(&self) -> &RankLinks {
        &self.0
    }
}

impl AsMut<RankLinks> for Slot {
    fn as_mut(&mut self) -> &mut RankLinks {
        &mut self.0
    }
}

/// A trie, its slots, and the model: for each rank, its slots in order of arrival.
struct Both {
    trie: RankTrie<Heap>,
    slots: Vec<Slot>,
    free: Vec<u16>,
    model: BTreeMap<u32, VecDeque<u16>>,
}

impl Both {
    fn new(capacity: u16) -> Self {
        let Ok(trie) = RankTrie::new(capacity.into());
        Self {
            trie,
            slots: vec![Slot::default(); capacity.into()],
            free: (0..capacity).collect(),
            model: BTreeMap::new(),
        }
    }

    fn insert(&mut self, rank: u32) {
        let Some(slot) = self.free.pop() else { return };
        let links = self.trie.insert(&mut self.slots, slot, rank);
        self.slots[usize::from(slot)] = Slot(links);
        self.model.entry(rank).or_default().push_back(slot);
        self.check();
    }

    /// Removes the `nth` packet of a rank.
    fn remove(&mut self, rank: u32, nth: usize) {
        let queue = self.model.get_mut(&rank).unwrap();
        let slot = queue.remove(nth % queue.len()).unwrap();
        if queue.is_empty() {
            self.model.remove(&rank);
        }
        let place = self.trie.find(rank).unwrap();
        let links = self.slots[usize::from(slot)].0;
        self.trie.remove(&mut self.slots, slot, links, place);
        self.free.push(slot);
        self.check();
    }

    fn check(&self) {
        let mut packets = self
            .model
            .iter()
            .flat_map(|(&rank, q)| q.iter().map(move |&s| (s, rank)));
        self.trie
            .check(&self.slots, |slot, rank| match packets.next() {
                Some(expected) if expected == (slot, rank) => Ok(()),
                _ => Err("not the packet of the model"),
            })
            .unwrap();
        assert_eq!(packets.next(), None);
        let first = |queue: Option<(&u32, &VecDeque<u16>)>| queue.map(|(_, queue)| queue[0]);
        let at = |place: Option<weft_mechanisms::common::rank_trie::Place>| {
            place.map(|place| place.first())
        };
        assert_eq!(at(self.trie.first()), first(self.model.first_key_value()));
        assert_eq!(at(self.trie.last()), first(self.model.last_key_value()));
        for (&rank, queue) in &self.model {
            assert_eq!(at(self.trie.find(rank)), Some(queue[0]));
            let below = first(self.model.range(..rank).next_back());
            assert_eq!(at(self.trie.below(rank)), below, "below {rank:#x}");
        }
    }
}

#[test]
fn an_empty_trie_has_neither_first_nor_last() {
    Both::new(0).check();
    Both::new(3).check();
}

#[test]
fn ranks_at_both_ends_of_their_range_and_of_each_digit_are_distinguished() {
    let mut both = Both::new(200);
    for bit in 0..32 {
        for rank in [1 << bit, (1 << bit) - 1, !(1 << bit), u32::MAX << bit] {
            both.insert(rank);
        }
    }
    while let Some((&rank, _)) = both.model.last_key_value() {
        both.remove(rank, 0);
    }
}

/// The root is widened in place if its only child does not hold an arriving rank.
#[test]
fn a_root_with_one_child_holds_any_rank() {
    for (bit, other) in (0..32).flat_map(|bit| (0..32).map(move |other| (bit, other))) {
        let mut both = Both::new(4);
        both.insert(0);
        both.insert(1 << bit);
        both.remove(1 << bit, 0);
        both.insert(1 << other);
        both.insert(1 << bit);
        for rank in [0, 1 << other, 1 << bit] {
            both.remove(rank, 1);
        }
    }
}

/// As many nodes as packets are enough, and needed: each rank parts from the previous one at
/// another digit, below a root that has kept one child.
#[test]
fn nodes_suffice_where_every_packet_needs_one() {
    let mut both = Both::new(7);
    both.insert(0);
    both.insert(1 << 30);
    both.remove(1 << 30, 0);
    for bit in [0, 5, 10, 15, 20, 25] {
        both.insert(1 << bit);
    }
    assert!(both.free.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn it_matches_an_ordered_map_of_queues(
        capacity in prop_oneof![1..4_u16, 1..40_u16],
        operations in prop::collection::vec(
            (any::<bool>(), any::<u32>(), 0..32_u32, any::<prop::sample::Index>()), 0..200),
    ) {
        let mut both = Both::new(capacity);
        for (insert, rank, bits, index) in operations {
            // Few significant bits, at the low or at the high end, produce equal and similar ranks.
            let rank = if index.index(2) == 0 { rank >> bits } else { (rank & 3) << bits };
            if insert {
                both.insert(rank);
            } else if !both.model.is_empty() {
                let nth = index.index(both.model.len());
                let rank = *both.model.keys().nth(nth).unwrap();
                both.remove(rank, index.index(7));
            }
        }
    }
}
