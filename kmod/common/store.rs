// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Where the algorithms keep what they remember: memory as an argument.
//!
//! An algorithm reserves everything in its constructor, through a [`Store`], and never again: the
//! kernel hands in its fallible vectors, a host test `Vec`. So no fast path can allocate, no
//! allocation can fail under a lock, and the files of this crate need neither `alloc` nor `unsafe`.

use core::ops::{Deref, DerefMut};

/// A way to reserve arrays of a fixed length.
pub trait Store {
    /// An owned array of `T`, dropped as a whole.
    type Of<T>: DerefMut<Target = [T]>;

    /// A `T` that several own.
    type Shared<T: Send + Sync>: Deref<Target = T> + Clone;

    /// Why memory could not be reserved.
    type Error;

    /// Reserves an array of exactly `n` elements, each made by `make`, in order.
    ///
    /// # Errors
    ///
    /// No memory; nothing stays reserved then.
    fn allocate<T>(n: usize, make: impl FnMut() -> T) -> Result<Self::Of<T>, Self::Error>;

    /// Reserves the memory of a value that several are to own.
    ///
    /// # Errors
    ///
    /// No memory.
    fn share<T: Send + Sync>(value: T) -> Result<Self::Shared<T>, Self::Error>;
}
