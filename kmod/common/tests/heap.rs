// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Memory for the algorithms under test.

use std::convert::Infallible;
use weft_core::common::store::Store;

/// The heap of the process.
pub(crate) enum Heap {}

impl Store for Heap {
    type Of<T> = Vec<T>;
    type Error = Infallible;

    fn allocate<T>(n: usize, make: impl FnMut() -> T) -> Result<Vec<T>, Infallible> {
        Ok(std::iter::repeat_with(make).take(n).collect())
    }
}
