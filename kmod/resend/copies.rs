// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The copies of the segments that a host has sent: the last ones, found by their names.
//!
//! All copies are in one list, from the oldest to the newest, and each is in one of many short
//! chains, by a hash of its segment. Each call takes constant time: a chain has at most [`CHAIN`]
//! copies, and a copy that would make one longer is refused.

use super::segment::Segment;
use crate::common::store::Store;

/// The most copies of a host's device.
pub const MAX_COPIES: u32 = 16_384;

/// The most copies of a chain. The average is below 1, so longer chains are made on purpose.
pub const CHAIN: u32 = 64;

/// No entry.
const NONE: u32 = u32::MAX;

/// A copy.
struct Content<P> {
    segment: Segment,
    packet: P,
    bytes: u32,
}

/// A place for a copy.
struct Entry<P> {
    content: Option<Content<P>>,
    older: u32,
    /// Of a free entry: the next free one.
    newer: u32,
    /// The next one of its chain.
    next: u32,
}

/// The copies of the last segments.
pub struct Copies<S: Store, P> {
    entries: S::Of<Entry<P>>,
    /// The first entry of each chain; as many as a power of two.
    chains: S::Of<u32>,
    oldest: u32,
    newest: u32,
    /// The first free entry.
    free: u32,
    len: u32,
    bytes: u64,
}

impl<S: Store, P> Copies<S, P> {
    /// Room for `capacity` copies, 1 to [`MAX_COPIES`], and clamped to that.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(capacity: u32) -> Result<Self, S::Error> {
        let capacity = capacity.clamp(1, MAX_COPIES);
        let mut next = 0_u32;
        let entries = S::allocate(capacity as usize, || {
            next = next.wrapping_add(1);
            Entry {
                content: None,
                older: NONE,
                newer: if next == capacity { NONE } else { next },
                next: NONE,
            }
        })?;
        Ok(Self {
            entries,
            chains: S::allocate(capacity.next_power_of_two() as usize, || NONE)?,
            oldest: NONE,
            newest: NONE,
            free: 0,
            len: 0,
            bytes: 0,
        })
    }

    /// How many there are.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of the copied packets.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Keeps the copy of a segment that was sent just now. Returns the copy that it replaces: that
    /// of the same segment, or the oldest one if there is no room.
    ///
    /// # Errors
    ///
    /// The copy itself, if its chain is full.
    pub fn keep(&mut self, segment: Segment, packet: P, bytes: u32) -> Result<Option<P>, P> {
        let chain = self.chain_of(&segment);
        let replaced = match self.find(chain, &segment) {
            Ok(at) => Some(at),
            Err(CHAIN) => return Err(packet),
            Err(_) if self.free == NONE => Some(self.oldest),
            Err(_) => None,
        };
        let replaced = replaced.and_then(|at| self.remove(at));
        let content = Content {
            segment,
            packet,
            bytes,
        };
        self.insert(chain, content);
        Ok(replaced.map(|content| content.packet))
    }

    /// The copy of a segment, which is about to be retransmitted and so becomes the newest.
    pub fn renew(&mut self, segment: &Segment) -> Option<&P> {
        let chain = self.chain_of(segment);
        let at = self.find(chain, segment).ok()?;
        let content = self.remove(at)?;
        let at = self.insert(chain, content)?;
        let content = self.entries.get(at as usize)?.content.as_ref()?;
        Some(&content.packet)
    }

    /// Takes the oldest copy.
    pub fn pop(&mut self) -> Option<P> {
        Some(self.remove(self.oldest)?.packet)
    }

    fn chain_of(&self, segment: &Segment) -> u32 {
        segment.hash() & (self.chains.len() as u32).wrapping_sub(1)
    }

    /// The entry of a segment.
    ///
    /// # Errors
    ///
    /// How many others its chain has, at most [`CHAIN`].
    fn find(&self, chain: u32, segment: &Segment) -> Result<u32, u32> {
        let mut at = self.chains.get(chain as usize).copied().unwrap_or(NONE);
        for count in 0..CHAIN {
            let Some(entry) = self.entries.get(at as usize) else {
                return Err(count);
            };
            if entry
                .content
                .as_ref()
                .is_some_and(|it| it.segment == *segment)
            {
                return Ok(at);
            }
            at = entry.next;
        }
        Err(CHAIN)
    }

    /// Puts a copy into a free entry, as the newest. There is one, unless this file is wrong.
    fn insert(&mut self, chain: u32, content: Content<P>) -> Option<u32> {
        let at = self.free;
        let Some(entry) = self.entries.get_mut(at as usize) else {
            invariant!("no entry is free for a copy");
            return None;
        };
        let first = self.chains.get_mut(chain as usize)?;
        self.free = entry.newer;
        self.len = self.len.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(content.bytes.into());
        entry.content = Some(content);
        entry.older = self.newest;
        entry.newer = NONE;
        entry.next = core::mem::replace(first, at);
        match self.entries.get_mut(self.newest as usize) {
            Some(before) => before.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
        Some(at)
    }

    /// Takes a copy out of its entry, which becomes free.
    fn remove(&mut self, at: u32) -> Option<Content<P>> {
        let entry = self.entries.get_mut(at as usize)?;
        let content = entry.content.take()?;
        let (older, newer, next) = (entry.older, entry.newer, entry.next);
        entry.newer = self.free;
        self.free = at;
        self.len = self.len.wrapping_sub(1);
        self.bytes = self.bytes.wrapping_sub(content.bytes.into());
        match self.entries.get_mut(older as usize) {
            Some(entry) => entry.newer = newer,
            None => self.oldest = newer,
        }
        match self.entries.get_mut(newer as usize) {
            Some(entry) => entry.older = older,
            None => self.newest = older,
        }
        self.unchain(self.chain_of(&content.segment), at, next);
        Some(content)
    }

    /// Takes an entry, which `next` follows, out of its chain.
    fn unchain(&mut self, chain: u32, at: u32, next: u32) {
        let Some(first) = self.chains.get_mut(chain as usize) else {
            return;
        };
        if *first == at {
            *first = next;
            return;
        }
        let mut before = *first;
        for _ in 0..CHAIN {
            let Some(entry) = self.entries.get_mut(before as usize) else {
                break;
            };
            if entry.next == at {
                entry.next = next;
                return;
            }
            before = entry.next;
        }
        invariant!("a copy is not in the chain of its segment");
    }
}
