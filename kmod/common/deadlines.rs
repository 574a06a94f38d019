// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The time at which each port's next event is due: a binary heap of ports, the earliest at its
//! root.
//!
//! J. W. J. Williams: "Algorithm 232: Heapsort", CACM 7(6), 1964. Each port knows its place in the
//! heap, so that its time can be changed.
//!
//! # Cost
//!
//! Reading the earliest time, and setting a port to the time that it already has, take constant
//! time. Any other change takes at most log2(n) steps, which are 10 at 1,024 ports.

use super::store::Store;

/// Not in the heap.
const NONE: u16 = u16::MAX;

/// A port and its time.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// ns.
    at: u64,
    port: u16,
}

/// Times of ports.
pub struct Deadlines<S: Store> {
    /// The first [`len`](Self::len): none is earlier than the entry at half its index (counted from
    /// 1).
    heap: S::Of<Entry>,
    len: u16,
    /// Each port's place in the heap, or [`NONE`].
    places: S::Of<u16>,
}

impl<S: Store> Deadlines<S> {
    /// A heap for ports 0 to `ports` − 1. At first, no port has a time.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(ports: u16) -> Result<Self, S::Error> {
        let nothing = Entry { at: 0, port: NONE };
        Ok(Self {
            heap: S::allocate(ports.into(), || nothing)?,
            len: 0,
            places: S::allocate(ports.into(), || NONE)?,
        })
    }

    /// How many ports have a time.
    pub fn len(&self) -> usize {
        self.len.into()
    }

    /// Whether no port has a time.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The earliest time, in ns, and its port.
    #[inline]
    pub fn first(&self) -> Option<(u64, u16)> {
        self.entry(0).map(|entry| (entry.at, entry.port))
    }

    /// Sets a port's time, in ns; `None` for no time. A port beyond the last is ignored.
    #[inline]
    pub fn set(&mut self, port: u16, at: Option<u64>) {
        let Some(place) = self.places.get(usize::from(port)).copied() else {
            return;
        };
        let now = self.entry(place).map(|entry| entry.at);
        if now != at {
            self.change(port, place, at);
        }
    }

    fn change(&mut self, port: u16, place: u16, at: Option<u64>) {
        match at {
            Some(at) => {
                let place = if place == NONE {
                    self.len = self.len.wrapping_add(1);
                    self.len.wrapping_sub(1)
                } else {
                    place
                };
                self.settle(place, Entry { at, port });
            }
            None => {
                if let Some(slot) = self.places.get_mut(usize::from(port)) {
                    *slot = NONE;
                }
                let last = self.entry(self.len.wrapping_sub(1));
                self.len = self.len.wrapping_sub(1);
                // The last entry fills the vacated place.
                if let Some(last) = last.filter(|last| last.port != port) {
                    self.settle(place, last);
                }
            }
        }
    }

    /// Puts an entry at a vacated place, or as far up or down from there as it belongs.
    fn settle(&mut self, place: u16, entry: Entry) {
        let mut place = place;
        while let Some(above) = self.above(place).filter(|(_, above)| above.at > entry.at) {
            self.put(place, above.1);
            place = above.0;
        }
        while let Some(below) = self.below(place).filter(|(_, below)| below.at < entry.at) {
            self.put(place, below.1);
            place = below.0;
        }
        self.put(place, entry);
    }

    #[inline(always)]
    fn entry(&self, place: u16) -> Option<Entry> {
        if place >= self.len {
            return None;
        }
        self.heap.get(usize::from(place)).copied()
    }

    /// The place above one, and its entry.
    #[inline]
    fn above(&self, place: u16) -> Option<(u16, Entry)> {
        let above = place.checked_sub(1)? >> 1;
        Some((above, self.entry(above)?))
    }

    /// The place below one that has the earlier entry, and that entry.
    #[inline]
    fn below(&self, place: u16) -> Option<(u16, Entry)> {
        let left = place.checked_mul(2)?.checked_add(1)?;
        let right = left.checked_add(1)?;
        let first = self.entry(left)?;
        match self.entry(right).filter(|other| other.at < first.at) {
            Some(other) => Some((right, other)),
            None => Some((left, first)),
        }
    }

    #[inline]
    fn put(&mut self, place: u16, entry: Entry) {
        if let Some(slot) = self.heap.get_mut(usize::from(place)) {
            *slot = entry;
        }
        if let Some(slot) = self.places.get_mut(usize::from(entry.port)) {
            *slot = place;
        }
    }
}
