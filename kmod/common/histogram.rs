// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The lateness of a timer: count, sum, maximum and a base-2 logarithmic histogram.
//!
//! A histogram of powers of two costs one count-leading-zeros per record and has no parameters. Its
//! resolution is sufficient for a timer: it shows whether the timer is late by nanoseconds,
//! microseconds or milliseconds.

/// Number of buckets of a [`Lateness`] histogram: the last one begins at 2^30 ns, about 1.07 s.
pub const BUCKETS: usize = 32;

/// Lateness of events in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    count: u64,
    sum: u64,
    max: u64,
    buckets: [u64; BUCKETS],
}

impl Lateness {
    /// Nothing recorded.
    pub const fn new() -> Self {
        Self {
            count: 0,
            sum: 0,
            max: 0,
            buckets: [0; BUCKETS],
        }
    }

    /// Records one event that was `ns` late (0: exactly on time).
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.saturating_add(ns);
        self.max = self.max.max(ns);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(ns)) {
            *bucket = bucket.wrapping_add(1);
        }
    }

    /// Number of events.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Sum of all latenesses in ns, saturating at `u64::MAX`.
    pub const fn sum_ns(&self) -> u64 {
        self.sum
    }

    /// The greatest lateness in ns; 0 while nothing is recorded.
    pub const fn max_ns(&self) -> u64 {
        self.max
    }

    /// Events per bucket. Bucket 0: lateness 0. Bucket i: 2^(i-1) <= ns < 2^i. The last bucket has
    /// no upper end.
    pub const fn buckets(&self) -> &[u64; BUCKETS] {
        &self.buckets
    }
}

impl Default for Lateness {
    fn default() -> Self {
        Self::new()
    }
}

/// The bucket of a lateness: the number of its significant bits, at most the last bucket.
#[inline]
fn bucket_of(ns: u64) -> usize {
    let bits = u64::BITS.wrapping_sub(ns.leading_zeros()) as usize;
    bits.min(BUCKETS - 1)
}
