// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A flow's weight by the bytes that it has sent, and the growth of its window.

use crate::common::power::EXPONENT_ONE;

/// The smallest weight, 1/8, in 2^-10.
pub const LEAST: u32 = EXPONENT_ONE / 8;
/// The largest weight, 5/2, in 2^-10.
pub const MOST: u32 = EXPONENT_ONE * 5 / 2;

/// The bytes up to which a flow has the largest weight.
pub const FALLS_FROM: u32 = 200 << 10;
/// The bytes from which on it has the smallest.
pub const FALLS_TO: u32 = 1 << 20;

/// The weight of a flow that has sent this many bytes, in 2^-10, from [`LEAST`] to [`MOST`].
pub fn weight(sent: u32) -> u32 {
    let sent = sent.clamp(FALLS_FROM, FALLS_TO);
    // Below 2^20 times below 2^12: it fits.
    let fall = sent
        .wrapping_sub(FALLS_FROM)
        .wrapping_mul(MOST.wrapping_sub(LEAST))
        .wrapping_div(FALLS_TO.wrapping_sub(FALLS_FROM));
    MOST.wrapping_sub(fall)
}

/// The state of one connection, which has one flow after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Law {
    /// Bytes of new data that it has sent; saturates.
    sent: u32,
    /// All its data is acknowledged.
    over: bool,
    /// The remainder of partly counted packets, in units of 1/[`MOST`]; below [`MOST`].
    rest: u32,
}

impl Law {
    /// The first flow of a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts bytes of new data that were sent. The first ones after the end of a flow begin a new
    /// one.
    pub fn sent(&mut self, bytes: u32) {
        if self.over && bytes != 0 {
            *self = Self::new();
        }
        self.sent = self.sent.saturating_add(bytes);
    }

    /// All data of the flow is acknowledged.
    pub fn end(&mut self) {
        self.over = true;
    }

    /// The weight in 2^-10.
    pub fn weight(&self) -> u32 {
        weight(self.sent)
    }

    /// How many of `acked` acknowledged packets count for the growth of the window: the part k =
    /// w / [`MOST`] of them. The remainder counts with later packets.
    pub fn counted(&mut self, acked: u32) -> u32 {
        let parts = u64::from(acked)
            .wrapping_mul(self.weight().into())
            .wrapping_add(self.rest.into());
        let most = u64::from(MOST);
        self.rest = parts.wrapping_rem(most) as u32;
        // At most `acked`: the weight is at most MOST, and the rest below it.
        parts.wrapping_div(most) as u32
    }
}
