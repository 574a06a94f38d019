// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A port's share of a switch's buffer.
//!
//! A. K. Choudhury, E. L. Hahne: "Dynamic Queue Length Thresholds for Shared-Memory Packet
//! Switches", IEEE/ACM Transactions on Networking 6(2), 1998: a port may hold α times the free part
//! of the buffer. A stuck port then has at most α / (1 + α) of the buffer, the next one as much of
//! the rest, and so on: n of them leave 1 / (1 + α)^n to the others, or 1 / (1 + n α) if they fill
//! up together. A port alone in the switch cannot have all of it: with an α of 8 it has at most
//! eight ninths.
//!
//! As long as the switch holds at most α / (1 + α) of its buffer, every port is within its share,
//! because no port holds more than the switch. Until then a packet costs only one comparison.

/// An α of 1: see [`Share`].
pub const ALPHA_1: u32 = 128;
/// No α: a port may take all that is free.
pub const ALPHA_OFF: u32 = 0;
/// The largest α that an option may set: 128.
pub const MAX_ALPHA: u32 = 128 * ALPHA_1;

/// A port's share of the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    buffer: u64,
    alpha: u32,
    /// Up to this many bytes in the switch, including an arriving packet, no share is exceeded.
    plenty: u64,
}

impl Share {
    /// `buffer`: the most bytes of data in all ports of the switch. `alpha`: α in parts of
    /// [`ALPHA_1`], or [`ALPHA_OFF`]. Hardware switches support powers of two.
    pub const fn new(buffer: u64, alpha: u32) -> Self {
        let parts = (ALPHA_1 as u64).wrapping_add(alpha as u64);
        let share = buffer.saturating_mul(alpha as u64).checked_div(parts);
        let plenty = match share {
            Some(share) if alpha != 0 => share,
            _ => buffer,
        };
        Self {
            buffer,
            alpha,
            plenty,
        }
    }

    /// The most bytes of data in all ports of the switch.
    pub const fn buffer(&self) -> u64 {
        self.buffer
    }

    /// α in parts of [`ALPHA_1`]; 0 for none.
    pub const fn alpha(&self) -> u32 {
        self.alpha
    }

    /// Whether a packet of `len` bytes may join the `all` bytes of the switch, if its port then has
    /// `bytes`.
    #[inline]
    pub fn admits(&self, all: u64, len: u32, bytes: u64) -> bool {
        all.saturating_add(len.into()) <= self.plenty || self.has_share(all, len, bytes)
    }

    #[cold]
    fn has_share(&self, all: u64, len: u32, bytes: u64) -> bool {
        self.has_room(all, len) && (self.alpha == 0 || bytes <= self.most(all))
    }

    /// The most bytes that a port may hold, if the switch holds `all` bytes.
    pub fn most(&self, all: u64) -> u64 {
        let free = self.buffer.saturating_sub(all);
        match self.alpha {
            0 => free,
            alpha => free.saturating_mul(alpha.into()) / u64::from(ALPHA_1),
        }
    }

    /// Whether the switch has room for another `len` bytes.
    pub fn has_room(&self, all: u64, len: u32) -> bool {
        all.saturating_add(len.into()) <= self.buffer
    }
}

/// The bytes that all ports of a switch hold, in one buffer.
#[derive(Clone, Copy, Debug)]
pub struct Buffer {
    bytes: u64,
    highest: u64,
}

impl Buffer {
    /// No bytes.
    pub const EMPTY: Self = Self {
        bytes: 0,
        highest: 0,
    };

    /// Adds a packet of `len` bytes of a port that then has `bytes`. `false`: the buffer has no
    /// room ([`Share::has_room`]), or the port holds its share.
    #[inline]
    pub fn take(&mut self, len: u32, bytes: u64, share: &Share) -> bool {
        if !share.admits(self.bytes, len, bytes) {
            return false;
        }
        self.add(len.into());
        true
    }

    /// Adds bytes, whatever the shares are.
    #[inline]
    pub fn add(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.highest = self.highest.max(self.bytes);
    }

    /// Returns bytes.
    #[inline]
    pub fn release(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Bytes in all ports.
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most bytes in all ports at once.
    pub fn highest(&self) -> u64 {
        self.highest
    }
}
