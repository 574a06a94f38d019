// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! α, a flow's deadline imminence, and what a mark makes of its window.

use super::power::{power, EXPONENT_ONE};

/// 1, of α: as in Linux's DCTCP.
pub const ALPHA_ONE: u16 = 1 << 10;

/// From α to what [`power`] takes.
const ALPHA_SHIFT: u32 = 6;

/// The weight of the last window in α is 2^-4, DCTCP's g.
const G_SHIFT: u32 = 4;

/// What d is at least and at most, in 2^-10: a half and 2.
pub const LEAST: u32 = EXPONENT_ONE / 2;
/// See [`LEAST`].
pub const MOST: u32 = EXPONENT_ONE * 2;

/// The least window after marks, in packets: that of Linux's DCTCP.
pub const LEAST_WINDOW: u32 = 2;

/// What a flow still has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// Bytes that are not yet acknowledged.
    pub remaining: u64,
    /// ns until it is to be done; 0: it is late.
    pub left_ns: u64,
}

/// How fast it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Its window, in bytes.
    pub window: u64,
    /// Its round-trip time, in µs.
    pub rtt_us: u32,
}

/// d in 2^-10, from [`LEAST`] to [`MOST`]; `None`: it has no deadline.
pub fn imminence(task: Option<Task>, pace: Pace) -> u32 {
    let Some(Task { remaining, left_ns }) = task else {
        return EXPONENT_ONE;
    };
    let left_us = left_ns / 1_000;
    if left_us == 0 {
        return EXPONENT_ONE;
    }
    // B / (3/4 W) round-trip times. What is more than 2^64 is more than any time that is left.
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

/// One flow's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law {
    /// To [`ALPHA_ONE`].
    alpha: u16,
    /// Packets that arrived since α was last averaged, and those of them that were marked.
    delivered: u32,
    marked: u32,
}

impl Default for Law {
    fn default() -> Self {
        Self::new()
    }
}

impl Law {
    /// Of a flow of which nothing is known: its first mark halves the window.
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

    /// So many packets arrived, so many of them marked.
    pub fn arrived(&mut self, delivered: u32, marked: u32) {
        self.delivered = self.delivered.saturating_add(delivered);
        self.marked = self.marked.saturating_add(marked);
    }

    /// A window of packets is acknowledged: α.
    pub fn round(&mut self) {
        let old = u64::from(self.alpha);
        let kept = match old >> G_SHIFT {
            // What is no sixteenth of anything goes at once, as in Linux.
            0 => 0,
            part => old.wrapping_sub(part),
        };
        // At most 2^38; without a packet there is no mark.
        let marked = u64::from(self.marked).wrapping_mul(u64::from(ALPHA_ONE) >> G_SHIFT);
        let new = marked.wrapping_div(u64::from(self.delivered.max(1)));
        self.alpha = kept.saturating_add(new).min(ALPHA_ONE.into()) as u16;
        (self.delivered, self.marked) = (0, 0);
    }

    /// What a window of so many packets becomes with a mark: W (1 - p/2), at least
    /// [`LEAST_WINDOW`].
    pub fn reduced(&self, window: u32, d: u32) -> u32 {
        let p = power(u32::from(self.alpha).wrapping_shl(ALPHA_SHIFT), d);
        // p is at most 2^16, so at most half of it.
        let part = u64::from(window).wrapping_mul(p.into()) >> 17;
        window.wrapping_sub(part as u32).max(LEAST_WINDOW)
    }
}
