// SPDX-License-Identifier: GPL-2.0-only

//! Memory for the algorithms: `kvmalloc`ed slices.

use kernel::{alloc::flags::GFP_KERNEL_ACCOUNT, prelude::*, sync::Arc};

use super::bindings::weft_may_sleep;
use crate::common::store::Store;

/// Allocates kernel memory for the pure algorithms. Sleeps, so never under the qdisc lock.
///
/// The memory is charged to the cgroup of the process that requests it: the owner of a user
/// namespace can add qdiscs in it, as many as there are devices.
pub struct KernelStore;

impl Store for KernelStore {
    type Of<T> = KVVec<T>;
    type Shared<T: Send + Sync> = Arc<T>;
    type Error = Error;

    /// Allocates `n` elements, each made by `make`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if the kernel has no room for `n` elements, `EAGAIN` under a lock.
    fn allocate<T>(n: usize, mut make: impl FnMut() -> T) -> Result<KVVec<T>> {
        // SAFETY: A C function without preconditions.
        if !unsafe { weft_may_sleep() } {
            return Err(EAGAIN);
        }
        let mut elements = KVVec::with_capacity(n, GFP_KERNEL_ACCOUNT)?;
        for _ in 0..n {
            // Always within the capacity reserved above.
            elements.push_within_capacity(make()).map_err(|_| ENOMEM)?;
        }
        Ok(elements)
    }

    fn share<T: Send + Sync>(value: T) -> Result<Arc<T>> {
        // SAFETY: A C function without preconditions.
        if !unsafe { weft_may_sleep() } {
            return Err(EAGAIN);
        }
        Ok(Arc::new(value, GFP_KERNEL_ACCOUNT)?)
    }
}
