// SPDX-License-Identifier: GPL-2.0-only

//! The inputs of the algorithms that come from outside: time and randomness.

use kernel::time::{ClockSource, RealTime, Tai};

use super::bindings::{get_random_u32, ktime_get};

/// Nanoseconds of `CLOCK_MONOTONIC`.
///
/// `kernel::time::Monotonic` would cost another call, several times per packet.
#[inline]
pub fn now() -> u64 {
    // SAFETY: A C function without preconditions outside of early boot and suspend. The clock is
    // never negative.
    unsafe { ktime_get() as u64 }
}

/// The time of day, in nanoseconds since 1970 (`CLOCK_REALTIME`).
pub fn time_of_day() -> u64 {
    // Never negative.
    RealTime::ktime_get() as u64
}

/// Nanoseconds of `CLOCK_TAI`.
pub(super) fn tai() -> u64 {
    // Never negative.
    Tai::ktime_get() as u64
}

/// An unpredictable number.
pub fn random() -> u32 {
    // SAFETY: A C function without preconditions.
    unsafe { get_random_u32() }
}
