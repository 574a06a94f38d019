// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A flow's deadline imminence.

use crate::common::power::EXPONENT_ONE;

/// The range of d, in 2^-10: from a half to 2.
pub const LEAST: u32 = EXPONENT_ONE / 2;
/// See [`LEAST`].
pub const MOST: u32 = EXPONENT_ONE * 2;

/// The remaining work of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Bytes not yet acknowledged.
    pub remaining: u64,
    /// ns until its deadline; 0: it is late.
    pub left_ns: u64,
}

/// The speed of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Its window, in bytes.
    pub window: u64,
    /// Its round-trip time, in µs.
    pub rtt_us: u32,
}

/// d in 2^-10, from [`LEAST`] to [`MOST`]. Without a task there is no deadline, and d is 1.
pub fn imminence(task: Option<Task>, pace: Pace) -> u32 {
    let Some(Task { remaining, left_ns }) = task else {
        return EXPONENT_ONE;
    };
    let left_us = left_ns / 1_000;
    if left_us == 0 {
        return EXPONENT_ONE;
    }
    // B / (3/4 W) round-trip times. A result above 2^64 exceeds any time that is left.
    let needed_us = remaining
        .saturating_mul(4)
        .saturating_mul(pace.rtt_us.into())
        .checked_div(pace.window.saturating_mul(3))
        .unwrap_or(u64::MAX);
    let d = needed_us
        .saturating_mul(EXPONENT_ONE.into())
        .checked_div(left_us)
        .unwrap_or(u64::MAX);
    d.clamp(LEAST.into(), MOST.into()) as u32
}
