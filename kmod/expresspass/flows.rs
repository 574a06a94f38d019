// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The active flows of a host in one direction: each has a number, found by its addresses and
//! ports.
//!
//! The flows of a bucket are a chain. A flow that would make a chain longer than [`CHAIN`] is
//! refused, so each call takes constant time.

use super::message::Flow;
use crate::common::index_pool::IndexPool;
use crate::common::store::Store;

/// The most flows.
pub const MAX_FLOWS: u32 = 4096;

/// The most flows of a chain. The average is at most 1/2, so longer chains are made on purpose.
pub const CHAIN: u32 = 16;

/// No flow.
const NONE: u16 = u16::MAX;

#[derive(Clone, Copy)]
struct Entry {
    flow: Flow,
    next: u16,
}

/// A table of flows.
pub struct Flows<S: Store> {
    entries: S::Of<Entry>,
    /// The first flow of each chain; twice as many as flows, or more: a power of two.
    buckets: S::Of<u16>,
    free: IndexPool<S>,
}

impl<S: Store> Flows<S> {
    /// A table for this many flows, at most [`MAX_FLOWS`].
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(flows: u32) -> Result<Self, S::Error> {
        let flows = flows.clamp(1, MAX_FLOWS);
        let buckets = flows.wrapping_mul(2).next_power_of_two();
        let nothing = Entry {
            flow: Flow::default(),
            next: NONE,
        };
        Ok(Self {
            entries: S::allocate(flows as usize, || nothing)?,
            buckets: S::allocate(buckets as usize, || NONE)?,
            free: IndexPool::new(flows)?,
        })
    }

    /// How many flows there are.
    pub fn len(&self) -> u32 {
        self.free.taken()
    }

    /// Whether there is no flow.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The flow with this number, if there is one.
    #[inline]
    pub fn flow(&self, number: u16) -> Option<Flow> {
        self.entries
            .get(usize::from(number))
            .map(|entry| entry.flow)
    }

    /// The number of a flow.
    #[inline]
    pub fn find(&self, flow: &Flow) -> Option<u16> {
        let mut at = self.first(flow);
        for _ in 0..CHAIN {
            let entry = self.entries.get(usize::from(at))?;
            if entry.flow == *flow {
                return Some(at);
            }
            at = entry.next;
        }
        None
    }

    /// Adds a flow, which is not in the table; `None` if there is no room.
    pub fn add(&mut self, flow: Flow) -> Option<u16> {
        let mut at = self.first(&flow);
        let mut length = 0_u32;
        while let Some(entry) = self.entries.get(usize::from(at)) {
            length = length.wrapping_add(1);
            if length >= CHAIN {
                return None;
            }
            at = entry.next;
        }
        let number = self.free.take()?;
        let bucket = self.bucket(&flow);
        let next = match self.buckets.get_mut(bucket) {
            Some(first) => core::mem::replace(first, number),
            None => NONE,
        };
        if let Some(entry) = self.entries.get_mut(usize::from(number)) {
            *entry = Entry { flow, next };
        }
        Some(number)
    }

    /// Removes the flow with this number.
    pub fn remove(&mut self, number: u16) {
        let Some(Entry { flow, next }) = self.entries.get(usize::from(number)).copied() else {
            invariant!("a flow that is removed has no such number");
            return;
        };
        let bucket = self.bucket(&flow);
        let mut at = self.first(&flow);
        if at == number {
            if let Some(first) = self.buckets.get_mut(bucket) {
                *first = next;
            }
            self.free.give_back(number);
            return;
        }
        for _ in 0..CHAIN {
            let Some(entry) = self.entries.get_mut(usize::from(at)) else {
                break;
            };
            if entry.next == number {
                entry.next = next;
                self.free.give_back(number);
                return;
            }
            at = entry.next;
        }
        invariant!("a flow that is removed is not in its chain");
    }

    #[inline]
    fn bucket(&self, flow: &Flow) -> usize {
        // The length is a power of two.
        flow.hash() as usize & self.buckets.len().wrapping_sub(1)
    }

    #[inline]
    fn first(&self, flow: &Flow) -> u16 {
        self.buckets.get(self.bucket(flow)).copied().unwrap_or(NONE)
    }
}
