// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Memory for the algorithms' state, as an argument.
//!
//! An algorithm reserves all its memory in its constructor, through a [`Store`], and none later:
//! the kernel passes its fallible vectors, a host test `Vec`. So no fast path can allocate, no
//! allocation can fail under a lock, and the files of this crate need neither `alloc` nor `unsafe`.

use core::ops::{Deref, DerefMut};

/// A way to reserve arrays of a fixed length.
pub trait Store {
    /// An owned array of `T`, dropped as a whole.
    type Of<T>: DerefMut<Target = [T]>;

    /// A `T` with several owners.
    type Shared<T: Send + Sync>: Deref<Target = T> + Clone;

    /// The reason for a failed reservation.
    type Error;

    /// Reserves an array of exactly `n` elements, each made by `make`, in order.
    ///
    /// # Errors
    ///
    /// No memory; nothing is then reserved.
    fn allocate<T>(n: usize, make: impl FnMut() -> T) -> Result<Self::Of<T>, Self::Error>;

    /// Reserves the memory of a value with several owners.
    ///
    /// # Errors
    ///
    /// No memory.
    fn share<T: Send + Sync>(value: T) -> Result<Self::Shared<T>, Self::Error>;
}
