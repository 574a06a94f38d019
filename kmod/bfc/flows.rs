// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The queue of each flow's packets (§3.3.1), and for how long the flow keeps it (§3.3.2, "sticky
//! queue assignment").
//!
//! ```text
//!  hash of the flow ──▶ entry { size, queue, used at }            class c has the queues lo..hi
//!
//!  size > 0                  the entry's queue: the flow has packets inside, and keeps its order
//!  size = 0, used recently   the entry's queue: its upstream queue may still be paused for it
//!  else                      an empty queue, the next one in turn; a random one if none is empty
//! ```
//!
//! "All flows that map to the same index are assigned to the same queue." Each priority class has a
//! separate part of the table, because a flow of one class must not take a queue of another (App.
//! A.3).

use super::queue_set::QueueSet;
use crate::common::store::Store;
use crate::common::xorshift::{scale, Xorshift32};
use core::ops::Range;

/// How a flow gets its queue (§6.1, Figure 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assign {
    /// An empty queue, if there is one.
    Dynamic,
    /// The queue given by its hash, as in stochastic fair queuing (§3.2).
    Stochastic,
    /// The same queue for all flows of a class.
    Single,
}

/// State per entry: "the physical queue assignment, and the number of packets in the queue from the
/// flows mapped to this entry", "a timestamp …, updated whenever a packet is enqueued or dequeued".
#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// ns.
    used_at: u64,
    size: u32,
    /// 0: never assigned.
    queue: u16,
}

/// The flow table of one port.
pub struct Flows<S: Store> {
    entries: S::Of<Entry>,
    /// Entries of one class.
    per_class: u32,
}

/// The inputs of an assignment other than the flow.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// How a flow gets its queue.
    pub assign: Assign,
    /// ns for which an entry keeps its queue after its last packet.
    pub sticky: u64,
    /// Whether the packet counts in its entry (App. A.8).
    pub sampled: bool,
}

/// The properties of a port's queues that an assignment uses.
pub struct Queues<'a> {
    /// The queues of the flow's class.
    pub range: Range<u16>,
    /// The queue at which the search for an empty one begins.
    pub start: u16,
    /// The queues without packets.
    pub empty: &'a QueueSet,
    /// The queues that are also not paused.
    pub free: &'a QueueSet,
}

impl Queues<'_> {
    #[inline(always)] // its only caller is on every packet's way
    fn choose(&self, hash: u32, assign: Assign, random: &mut Xorshift32) -> u16 {
        let range = self.range.clone();
        if assign == Assign::Dynamic {
            if let Some(queue) = self.free.next_in(range, self.start) {
                return queue;
            }
        }
        self.choose_another(hash, assign, random)
    }

    /// Chooses a queue if none is free.
    #[inline(never)]
    fn choose_another(&self, hash: u32, assign: Assign, random: &mut Xorshift32) -> u16 {
        let Range { start, end } = self.range;
        let count = u32::from(end.wrapping_sub(start));
        let chance = |number| start.wrapping_add(scale(number, count) as u16);
        match assign {
            Assign::Single => start,
            Assign::Stochastic => chance(hash),
            Assign::Dynamic => {
                let empty = self.empty.next_in(start..end, self.start);
                empty.unwrap_or_else(|| chance(random.draw()))
            }
        }
    }
}

/// The assignment of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// Its queue.
    pub queue: u16,
    /// Its flow's entry.
    pub entry: u32,
    /// Whether no packet of the entry was inside: the flow has become active.
    pub activated: bool,
    /// Whether the queue was just chosen.
    pub chosen: bool,
}

impl<S: Store> Flows<S> {
    /// A table of `entries` entries, split evenly among `classes`.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(entries: u32, classes: u8) -> Result<Self, S::Error> {
        let per_class = entries.checked_div(classes.into()).unwrap_or(0);
        let whole = per_class.wrapping_mul(classes.into());
        Ok(Self {
            entries: S::allocate(whole as usize, Entry::default)?,
            per_class,
        })
    }

    /// The total number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The queue of a packet of the flow `hash` in `class`, which arrives at `now` ns.
    #[inline]
    pub fn assign(
        &mut self,
        hash: u32,
        class: u8,
        queues: &Queues<'_>,
        policy: &Policy,
        now: u64,
        random: &mut Xorshift32,
    ) -> Option<Assigned> {
        let first = u32::from(class).wrapping_mul(self.per_class);
        let index = first.wrapping_add(scale(hash, self.per_class));
        let entry = self.entries.get_mut(index as usize)?;
        let activated = entry.size == 0;
        let old = entry.queue == 0 || now.saturating_sub(entry.used_at) >= policy.sticky;
        let chosen = activated && old;
        if chosen {
            entry.queue = queues.choose(hash, policy.assign, random);
        }
        if policy.sampled {
            entry.size = entry.size.wrapping_add(1);
        }
        entry.used_at = now;
        Some(Assigned {
            queue: entry.queue,
            entry: index,
            activated,
            chosen,
        })
    }

    /// A packet that counted in `entry` has left at `now` ns.
    #[inline]
    pub fn left(&mut self, entry: u32, now: u64) {
        if let Some(entry) = self.entries.get_mut(entry as usize) {
            entry.size = entry.size.saturating_sub(1);
            entry.used_at = now;
        }
    }

    /// How many packets count in each entry. For tests.
    #[doc(hidden)]
    pub fn sizes(&self) -> impl Iterator<Item = u32> + '_ {
        self.entries.iter().map(|entry| entry.size)
    }
}
