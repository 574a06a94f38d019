// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The timeslots that an endpoint was given and that have not begun yet.

use crate::common::store::Store;

/// How many timeslots ahead an entry can be kept.
pub const HORIZON: u64 = 1024;

const WORDS: usize = HORIZON as usize / 64;

/// The destination and the path of a timeslot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// The destination.
    pub destination: u16,
    /// The path.
    pub path: u8,
}

/// Timeslots within [`HORIZON`] of the earliest, at most one entry for each.
pub struct Calendar<S: Store> {
    entries: S::Of<Entry>,
    taken: [u64; WORDS],
    /// No entry is before this timeslot.
    from: u64,
    count: u32,
}

/// The place of a timeslot.
fn place(timeslot: u64) -> (usize, usize, u32) {
    let index = (timeslot % HORIZON) as usize;
    (index, index / 64, index as u32 % 64)
}

impl<S: Store> Calendar<S> {
    /// An empty calendar.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new() -> Result<Self, S::Error> {
        Ok(Self {
            entries: S::allocate(HORIZON as usize, Entry::default)?,
            taken: [0; WORDS],
            from: 0,
            count: 0,
        })
    }

    /// The number of entries.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Stores an entry. In an empty calendar, `now` becomes the earliest timeslot that can be
    /// stored. False if the timeslot already has an entry, is before the earliest one, or is too
    /// far ahead of it.
    pub fn insert(&mut self, now: u64, timeslot: u64, entry: Entry) -> bool {
        if self.count == 0 {
            self.from = now;
        }
        let (index, word, bit) = place(timeslot);
        let (Some(kept), Some(taken)) = (self.entries.get_mut(index), self.taken.get_mut(word))
        else {
            return false;
        };
        let is_near = timeslot
            .checked_sub(self.from)
            .is_some_and(|distance| distance < HORIZON);
        if !is_near || *taken >> bit & 1 != 0 {
            return false;
        }
        *taken |= 1 << bit;
        *kept = entry;
        self.count = self.count.wrapping_add(1);
        true
    }

    /// The earliest timeslot.
    pub fn first(&self) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let (_, start, bit) = place(self.from);
        // The lower bits of the first word belong to the last timeslots.
        for step in 0..=WORDS {
            let at = start.wrapping_add(step) % WORDS;
            let mut word = self.taken.get(at).copied()?;
            if step == 0 {
                word &= u64::MAX << bit;
            }
            if word != 0 {
                let index = (at as u64)
                    .wrapping_mul(64)
                    .wrapping_add(word.trailing_zeros().into());
                let distance = index.wrapping_sub(self.from) % HORIZON;
                return Some(self.from.wrapping_add(distance));
            }
        }
        None
    }

    /// Removes the earliest entry.
    pub fn pop(&mut self) -> Option<(u64, Entry)> {
        let timeslot = self.first()?;
        let (index, word, bit) = place(timeslot);
        if let Some(taken) = self.taken.get_mut(word) {
            *taken &= !(1 << bit);
        }
        self.count = self.count.saturating_sub(1);
        self.from = timeslot.wrapping_add(1);
        Some((timeslot, self.entries.get(index).copied()?))
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.taken = [0; WORDS];
        self.count = 0;
    }
}
