// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! DCTCP's α, and the effect of a mark on a window, by α or by a power of α.
//!
//! M. Alizadeh et al.: "Data Center TCP (DCTCP)", SIGCOMM 2010; RFC 8257.
//!
//! α is the weighted average of the fraction of marked packets. DCTCP reduces a window W to
//! W (1 - α/2). D2TCP and L2DCT take a power of α in its place. Everything else is Linux's DCTCP
//! (`net/ipv4/tcp_dctcp.c`), number for number.

use super::power::power;

/// The value 1 of α, as in Linux's DCTCP.
pub const ALPHA_ONE: u16 = 1 << 10;

/// Converts α to the scale of [`power`].
const ALPHA_SHIFT: u32 = 6;

/// The weight of the last window in α is 2^-4, DCTCP's g.
const G_SHIFT: u32 = 4;

/// The smallest window after marks, in packets: that of Linux's DCTCP.
pub const LEAST_WINDOW: u32 = 2;

/// The state of one flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dctcp {
    /// At most [`ALPHA_ONE`].
    alpha: u16,
    /// Packets that arrived since α was last averaged, and how many of them were marked.
    delivered: u32,
    marked: u32,
}

impl Default for Dctcp {
    fn default() -> Self {
        Self::new()
    }
}

impl Dctcp {
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

    /// The window after a mark: W (1 - p/2), at least [`LEAST_WINDOW`]. p is α to the power of
    /// `exponent`, which is in 2^-10: with an exponent of 1 this is DCTCP's window.
    pub fn reduced(&self, window: u32, exponent: u32) -> u32 {
        let p = power(u32::from(self.alpha).wrapping_shl(ALPHA_SHIFT), exponent);
        // p is at most 2^16, so this is at most half the window.
        let part = u64::from(window).wrapping_mul(p.into()) >> 17;
        window.wrapping_sub(part as u32).max(LEAST_WINDOW)
    }
}
