// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A set of queue numbers: "BFC maintains a bit map of empty queues" (§3.3.1).
//!
//! 16 words of 64 bits, and a summary of one bit per word that is not 0. Any member, or the next
//! one from a given number on, is found with two count-trailing-zeros.

use core::ops::Range;

/// The most queues of a port, including the control queue.
pub const MAX_QUEUES: u16 = 1024;

/// Words of a set.
pub const WORDS: usize = 16;

/// A set of the numbers below [`MAX_QUEUES`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueSet {
    words: [u64; WORDS],
    /// The words that are not 0.
    summary: u16,
}

/// The place of a number: its word, and its bit in the word.
#[inline(always)]
fn place(queue: u16) -> (usize, u64) {
    (
        usize::from(queue >> 6),
        1_u64.wrapping_shl(u32::from(queue & 63)),
    )
}

impl QueueSet {
    /// The empty set.
    pub const EMPTY: Self = Self {
        words: [0; WORDS],
        summary: 0,
    };

    /// The numbers whose bits are set: bit b of word w stands for 64 w + b.
    pub fn from_words(words: [u64; WORDS]) -> Self {
        let mut summary = 0_u16;
        for (word, bits) in (0_u32..WORDS as u32).zip(words) {
            if bits != 0 {
                summary |= 1_u16.wrapping_shl(word);
            }
        }
        Self { words, summary }
    }

    /// The bits.
    #[inline]
    pub fn words(&self) -> &[u64; WORDS] {
        &self.words
    }

    /// Whether there is no number in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.summary == 0
    }

    /// The number of members.
    pub fn count(&self) -> u32 {
        self.words
            .iter()
            .fold(0, |sum, word| sum.wrapping_add(word.count_ones()))
    }

    /// Whether a number is in it.
    #[inline]
    pub fn contains(&self, queue: u16) -> bool {
        let (word, bit) = place(queue);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Inserts a number. One beyond the last is ignored.
    #[inline]
    pub fn insert(&mut self, queue: u16) {
        let (word, bit) = place(queue);
        if let Some(bits) = self.words.get_mut(word) {
            *bits |= bit;
            self.summary |= 1_u16.wrapping_shl(word as u32);
        }
    }

    /// Removes a number.
    #[inline]
    pub fn remove(&mut self, queue: u16) {
        let (word, bit) = place(queue);
        if let Some(bits) = self.words.get_mut(word) {
            *bits &= !bit;
            if *bits == 0 {
                self.summary &= !1_u16.wrapping_shl(word as u32);
            }
        }
    }

    /// Inserts a number if it is absent, removes it if it is present.
    #[inline]
    pub fn toggle(&mut self, queue: u16) {
        if self.contains(queue) {
            self.remove(queue);
        } else {
            self.insert(queue);
        }
    }

    /// The lowest number.
    #[inline]
    pub fn first(&self) -> Option<u16> {
        self.next_from(0)
    }

    /// The lowest number that is at least `queue`.
    #[inline]
    pub fn next_from(&self, queue: u16) -> Option<u16> {
        let (word, bit) = place(queue);
        let here = self.words.get(word)? & !bit.wrapping_sub(1);
        if here != 0 {
            return Some((queue & !63).wrapping_add(here.trailing_zeros() as u16));
        }
        // A word has an index of at most 15: 2 << 15 is 0 in 16 bits, and so are the bits above.
        let above = self.summary & !2_u16.wrapping_shl(word as u32).wrapping_sub(1);
        let word = above.trailing_zeros() as u16;
        let bits = self.words.get(usize::from(word))?;
        Some(
            word.wrapping_mul(64)
                .wrapping_add(bits.trailing_zeros() as u16),
        )
    }

    /// The first number of a range from `start` on, then from the range's beginning.
    #[inline]
    pub fn next_in(&self, range: Range<u16>, start: u16) -> Option<u16> {
        let inside = |queue: &u16| *queue < range.end;
        self.next_from(start.max(range.start))
            .filter(inside)
            .or_else(|| self.next_from(range.start).filter(inside))
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let mut from = Some(0_u16);
        core::iter::from_fn(move || {
            let queue = self.next_from(from?)?;
            from = queue.checked_add(1).filter(|queue| *queue < MAX_QUEUES);
            Some(queue)
        })
    }

    /// The numbers that are in exactly one of the two sets.
    pub fn difference(&self, other: &Self) -> Self {
        let mut words = self.words;
        for (word, other) in words.iter_mut().zip(other.words) {
            *word ^= other;
        }
        Self::from_words(words)
    }

    /// The numbers that are in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let mut words = self.words;
        for (word, other) in words.iter_mut().zip(other.words) {
            *word &= other;
        }
        Self::from_words(words)
    }

    /// The numbers above `base`, up to `base` + `count`, with `base` subtracted from each.
    pub fn above(&self, base: u16, count: u16) -> Self {
        let (skipped, shift) = (usize::from(base >> 6), u32::from(base & 63));
        let mut words = [0; WORDS];
        for (index, word) in (0..WORDS).zip(&mut words) {
            let from = index.wrapping_add(skipped);
            let low = self.words.get(from).copied().unwrap_or(0);
            let high = self.words.get(from.wrapping_add(1)).copied().unwrap_or(0);
            *word = low.wrapping_shr(shift);
            if shift != 0 {
                *word |= high.wrapping_shl(64_u32.wrapping_sub(shift));
            }
            // Bits 1 to count stay.
            let first = (index as u32).wrapping_mul(64);
            let end = u32::from(count).wrapping_add(1).saturating_sub(first);
            if end < 64 {
                *word &= 1_u64.wrapping_shl(end).wrapping_sub(1);
            }
        }
        if let Some(word) = words.first_mut() {
            *word &= !1;
        }
        Self::from_words(words)
    }

    /// The smallest `base` such that the `count` numbers above it are not in the set; 0 is ignored.
    /// `None` if there is no such gap.
    pub fn gap(&self, count: u16) -> Option<u16> {
        let mut base = 0_u16;
        loop {
            let end = base.checked_add(count)?;
            if end >= MAX_QUEUES {
                return None;
            }
            match self.next_from(base.wrapping_add(1)) {
                Some(taken) if taken <= end => base = taken,
                _ => return Some(base),
            }
        }
    }
}
