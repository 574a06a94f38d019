// SPDX-License-Identifier: MIT OR Apache-2.0

//! Resources of the host that ended processes have used.

use anyhow::Result;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

/// The sum over all child processes that were waited for.
pub(super) struct Usage {
    pub(super) user_seconds: f64,
    pub(super) system_seconds: f64,
    /// The maximum over them.
    pub(super) memory_kib: i64,
}

impl Usage {
    /// Usage until now.
    ///
    /// # Errors
    /// Those of getrusage(2).
    pub(super) fn so_far() -> Result<Self> {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
        let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        Ok(Self {
            user_seconds: seconds(usage.user_time()),
            system_seconds: seconds(usage.system_time()),
            memory_kib: usage.max_rss(),
        })
    }

    fn seconds(&self) -> f64 {
        self.user_seconds + self.system_seconds
    }
}

/// The result of `work`, and the processor seconds of the child processes that it waits for.
///
/// # Errors
/// If `work` or getrusage(2) fails.
pub(super) fn with_seconds<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let before = Usage::so_far()?.seconds();
    let result = work()?;
    Ok((result, Usage::so_far()?.seconds() - before))
}
