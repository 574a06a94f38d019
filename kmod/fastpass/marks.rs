// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Destinations for which there is a message to send, each once, in turn.

use crate::common::store::Store;

/// A set of small numbers.
pub(super) struct Marks<S: Store> {
    words: S::Of<u64>,
    /// The word at which [`take`](Self::take) continues.
    next: usize,
}

impl<S: Store> Marks<S> {
    pub(super) fn new(count: usize) -> Result<Self, S::Error> {
        Ok(Self {
            words: S::allocate(count.div_ceil(64), || 0)?,
            next: 0,
        })
    }

    pub(super) fn set(&mut self, number: u16) {
        if let Some(word) = self.words.get_mut(usize::from(number) / 64) {
            *word |= 1 << (number % 64);
        }
    }

    pub(super) fn clear(&mut self, number: u16) {
        if let Some(word) = self.words.get_mut(usize::from(number) / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    pub(super) fn clear_all(&mut self) {
        self.words.iter_mut().for_each(|word| *word = 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Adds the members of another set.
    pub(super) fn add(&mut self, others: &Self) {
        for (word, more) in self.words.iter_mut().zip(others.words.iter()) {
            *word |= more;
        }
    }

    /// Removes the members for which `stays` is false.
    pub(super) fn retain(&mut self, mut stays: impl FnMut(u16) -> bool) {
        for (number, word) in self.words.iter_mut().enumerate() {
            let mut left = *word;
            while left != 0 {
                let bit = left.trailing_zeros();
                left &= left.wrapping_sub(1);
                let number = number.wrapping_mul(64).wrapping_add(bit as usize);
                if !stays(number as u16) {
                    *word &= !1_u64.wrapping_shl(bit);
                }
            }
        }
    }

    /// Removes a member, a different one each time.
    pub(super) fn take(&mut self) -> Option<u16> {
        for _ in 0..self.words.len() {
            if let Some(word) = self.words.get_mut(self.next) {
                if *word != 0 {
                    let bit = word.trailing_zeros() as usize;
                    *word &= word.wrapping_sub(1);
                    return Some(self.next.wrapping_mul(64).wrapping_add(bit) as u16);
                }
            }
            self.next = self.next.wrapping_add(1);
            if self.next >= self.words.len() {
                self.next = 0;
            }
        }
        None
    }
}
