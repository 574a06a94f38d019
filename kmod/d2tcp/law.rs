// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! α, a flow's deadline imminence, and the effect of a mark on its window.

use super::power::{power, EXPONENT_ONE};

/// The value 1 of α, as in Linux's DCTCP.
pub const ALPHA_ONE: u16 = 1 << 10;

/// Converts α to the scale of [`power`].
const ALPHA_SHIFT: u32 = 6;

/// The weight of the last window in α is 2^-4, DCTCP's g.
const G_SHIFT: u32 = 4;

/// The range of d, in 2^-10: from a half to 2.
pub const LEAST: u32 = EXPONENT_ONE / 2;
/// See [`LEAST`].
pub const MOST: u32 = EXPONENT_ONE * 2;

/// The smallest window after marks, in packets: that of Linux's DCTCP.
pub const LEAST_WINDOW: u32 = 2;

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

/// The state of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// At most [`ALPHA_ONE`].
    alpha: u16,
    /// Packets that arrived since α was last averaged, and how many of them were marked.
    delivered: u32,
    marked: u32,
}

impl Default for Law {
    fn default() -> Self {
        Self::new()
    }
}

impl Law {
    /// A new flow: its first mark halves the window.
    pub fn new() -> Self {
        Self {
            alpha: ALPHA_ONE,
            delivered: 0,
            marked: 0,
        }
    }

    /// α in 2^-10.
    pub fn alpha(&self) -> u16 {
        self.alpha
    }

    /// Counts `delivered` packets that arrived, `marked` of them with a mark.
    pub fn arrived(&mut self, delivered: u32, marked: u32) {
        self.delivered = self.delivered.saturating_add(delivered);
        self.marked = self.marked.saturating_add(marked);
    }

    /// A window of packets is acknowledged: updates α.
    pub fn round(&mut self) {
        let old = u64::from(self.alpha);
        let kept = match old >> G_SHIFT {
            // A rest below a sixteenth is dropped at once, as in Linux.
            0 => 0,
            part => old.wrapping_sub(part),
        };
        // At most 2^38; without a packet there is no mark.
        let marked = u64::from(self.marked).wrapping_mul(u64::from(ALPHA_ONE) >> G_SHIFT);
        let new = marked.wrapping_div(u64::from(self.delivered.max(1)));
        self.alpha = kept.saturating_add(new).min(ALPHA_ONE.into()) as u16;
        (self.delivered, self.marked) = (0, 0);
    }

    /// The window after a mark: W (1 - p/2), at least [`LEAST_WINDOW`].
    pub fn reduced(&self, window: u32, d: u32) -> u32 {
        let p = power(u32::from(self.alpha).wrapping_shl(ALPHA_SHIFT), d);
        // p is at most 2^16, so this is at most half the window.
        let part = u64::from(window).wrapping_mul(p.into()) >> 17;
        window.wrapping_sub(part as u32).max(LEAST_WINDOW)
    }
}
