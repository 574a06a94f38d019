// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The free and used elements of a preallocated array.
//!
//! A stack of the free indices: taking and giving back are constant time and touch one `u16`. The
//! index given back last is taken next, while its element is still in the cache.

use super::store::Store;

/// The type of an index, `u16`, allows no more than this.
pub const MAX_CAPACITY: u32 = 1 << u16::BITS;

/// The indices `0..capacity`, each either taken or free.
pub struct IndexPool<S: Store> {
    /// The free indices are in `indices[taken..]`; the entries before it are meaningless.
    indices: S::Of<u16>,
    taken: u32,
}

impl<S: Store> IndexPool<S> {
    /// All of `0..capacity` are free. `capacity` is 0..=[`MAX_CAPACITY`], and clamped to that.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(capacity: u32) -> Result<Self, S::Error> {
        let mut next = 0_u16;
        let indices = S::allocate(capacity.min(MAX_CAPACITY) as usize, || {
            let index = next;
            next = next.wrapping_add(1);
            index
        })?;
        Ok(Self { indices, taken: 0 })
    }

    /// Number of taken indices.
    #[inline]
    pub fn taken(&self) -> u32 {
        self.taken
    }

    /// Takes a free index; `None` if all are taken.
    #[inline]
    pub fn take(&mut self) -> Option<u16> {
        let index = *self.indices.get(self.taken as usize)?;
        self.taken = self.taken.wrapping_add(1);
        Some(index)
    }

    /// Gives back a taken index.
    #[inline]
    pub fn give_back(&mut self, index: u16) {
        let taken = self.taken.wrapping_sub(1);
        let Some(top) = self.indices.get_mut(taken as usize) else {
            invariant!("an index is given back to a pool of which none is taken");
            return;
        };
        *top = index;
        self.taken = taken;
    }

    /// Calls `is_free` with every free index. For tests: linear.
    ///
    /// # Errors
    ///
    /// The first error of `is_free`.
    #[doc(hidden)]
    pub fn check<E>(&self, mut is_free: impl FnMut(u16) -> Result<(), E>) -> Result<(), E> {
        self.indices
            .iter()
            .skip(self.taken as usize)
            .try_for_each(|&index| is_free(index))
    }
}
