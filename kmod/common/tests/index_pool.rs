// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Every index is given out once, up to the last.

use std::collections::BTreeSet;
use weft_mechanisms::common::index_pool::{IndexPool, MAX_CAPACITY};
use weft_mechanisms::heap::Heap;

fn pool(capacity: u32) -> IndexPool<Heap> {
    let Ok(pool) = IndexPool::new(capacity);
    pool
}

#[test]
fn every_index_is_taken_once() {
    for (capacity, indices) in [
        (0, 0),
        (1, 1),
        (24, 24),
        (65_536, 65_536),
        (u32::MAX, 65_536),
    ] {
        let mut pool = pool(capacity);
        let taken: BTreeSet<u16> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(taken.len(), indices);
        assert_eq!(pool.taken() as usize, indices);
    }
    assert_eq!(MAX_CAPACITY, 65_536);
}

#[test]
fn the_index_returned_last_is_taken_next() {
    let mut pool = pool(5);
    let taken: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    pool.give_back(taken[1]);
    pool.give_back(taken[3]);
    assert_eq!(pool.taken(), 3);
    assert_eq!(
        [pool.take(), pool.take(), pool.take()],
        [Some(taken[3]), Some(taken[1]), None]
    );
}

#[test]
#[should_panic(expected = "an index is given back to a pool of which none is taken")]
fn returning_an_index_to_a_full_pool_breaks_an_invariant() {
    pool(2).give_back(7);
}
