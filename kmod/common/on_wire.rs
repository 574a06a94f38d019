// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The bytes that a packet occupies on its link, and the limits of a link's options.

use core::ffi::CStr;

/// The lowest rate in bytes per second: 1 kbit/s.
pub const MIN_RATE: u64 = 125;
/// The highest rate in bytes per second: 400 Gbit/s.
pub const MAX_RATE: u64 = 50_000_000_000;
/// The sentence for a rate out of range.
pub const RATE_RANGE: &CStr = c"Rate must be between 1 kbit/s and 400 Gbit/s";
/// The largest overhead in bytes.
pub const MAX_OVERHEAD: u32 = 1_000;
/// The sentence for an overhead out of range.
pub const OVERHEAD_RANGE: &CStr = c"Overhead must be at most 1000 bytes";
/// The largest minimum packet unit in bytes.
pub const MAX_MPU: u32 = 2_000;
/// The sentence for a minimum packet unit out of range.
pub const MPU_RANGE: &CStr = c"MPU must be at most 2000 bytes";

/// The bytes that a packet of `len` bytes in `segments` frames (at least one) occupies. `overhead`
/// is added to each frame, and each frame, overhead included, counts for at least `mpu`.
#[inline]
pub fn bytes(len: u32, segments: u32, overhead: u32, mpu: u32) -> u64 {
    let segments = u64::from(segments.max(1));
    // Products of two 32-bit numbers and, with `len`, a sum that fits.
    let overhead = segments.wrapping_mul(overhead.into());
    let least = segments.wrapping_mul(mpu.into());
    overhead.wrapping_add(len.into()).max(least)
}
