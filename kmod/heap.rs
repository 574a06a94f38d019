// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Memory for the algorithms from a heap: in daemons, tests and benchmarks.

use crate::common::store::Store;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::convert::Infallible;

/// The heap of the process.
#[derive(Clone, Copy, Debug)]
pub enum Heap {}

impl Store for Heap {
    type Of<T> = Vec<T>;
    type Shared<T: Send + Sync> = Arc<T>;
    type Error = Infallible;

    fn share<T: Send + Sync>(value: T) -> Result<Arc<T>, Infallible> {
        Ok(Arc::new(value))
    }

    fn allocate<T>(n: usize, make: impl FnMut() -> T) -> Result<Vec<T>, Infallible> {
        Ok(core::iter::repeat_with(make).take(n).collect())
    }
}
