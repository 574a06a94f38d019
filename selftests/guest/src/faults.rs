// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocations that fail: of what the kernel does for this thread, the nth
//! (Documentation/fault-injection of the kernel).

use std::fs;

use anyhow::{Context as _, Result};

const NTH: &str = "/proc/thread-self/fail-nth";

/// How allocations fail: of which kinds, and quietly, as a failure is no report.
const SETTINGS: [(&str, &str); 6] = [
    ("failslab/ignore-gfp-wait", "N"),
    ("failslab/verbose", "0"),
    ("fail_page_alloc/ignore-gfp-wait", "N"),
    ("fail_page_alloc/ignore-gfp-highmem", "N"),
    ("fail_page_alloc/min-order", "0"),
    ("fail_page_alloc/verbose", "0"),
];

/// A kernel that can do this.
#[derive(Clone, Copy)]
pub(crate) struct Faults(());

impl Faults {
    /// Says which allocations are meant: all.
    ///
    /// # Errors
    ///
    /// If the kernel has no fault injection.
    pub(crate) fn prepare() -> Result<Self> {
        for (file, value) in SETTINGS {
            let path = format!("/sys/kernel/debug/{file}");
            fs::write(&path, value).with_context(|| path.clone())?;
        }
        Ok(Self(()))
    }

    /// Calls `f`, in which nothing fails, and counts this thread's allocations.
    ///
    /// # Errors
    ///
    /// If the kernel's file cannot be written or read, or there are very many.
    pub(crate) fn count<T>(self, f: impl FnOnce() -> T) -> Result<(T, u32)> {
        const FAR: u32 = 1_000_000;
        let (result, left) = self.counted(FAR, f)?;
        let count = FAR.checked_sub(left).filter(|&count| count < FAR);
        Ok((result, count.context("a million allocations")?))
    }

    /// Calls `f`, in which this thread's nth allocation fails, counted from 1. Returns also whether
    /// there was one, and not fewer.
    ///
    /// # Errors
    ///
    /// If the kernel's file cannot be written or read.
    pub(crate) fn at<T>(self, nth: u32, f: impl FnOnce() -> T) -> Result<(T, bool)> {
        let (result, left) = self.counted(nth, f)?;
        Ok((result, left == 0))
    }

    /// Calls `f`, in which the nth allocation fails, and says how many more would have had to be
    /// made.
    fn counted<T>(self, nth: u32, f: impl FnOnce() -> T) -> Result<(T, u32)> {
        // Opening it would allocate, too.
        use std::os::unix::fs::FileExt as _;
        let file = fs::OpenOptions::new().read(true).write(true).open(NTH)?;
        file.write_all_at(nth.to_string().as_bytes(), 0)?;
        let result = f();
        // Reading allocates nothing, and 0 stops it where there were fewer.
        let mut left = [0; 16];
        let length = file.read_at(&mut left, 0);
        file.write_all_at(b"0", 0)?;
        let left = std::str::from_utf8(&left[..length?])?.trim();
        Ok((result, left.parse().context("fail-nth")?))
    }
}
