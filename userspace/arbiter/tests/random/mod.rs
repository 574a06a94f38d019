// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random numbers with a fixed sequence.

/// xorshift64 (Marsaglia 2003).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// From 0 to below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        (self.draw() >> 16) % end
    }
}
