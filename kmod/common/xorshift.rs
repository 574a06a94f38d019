// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A small generator of random numbers (G. Marsaglia, "Xorshift RNGs", 2003).
//!
//! For choices that need to be fair and cheap, not secret.

use core::num::NonZeroU32;

/// Marsaglia's xorshift32: all 2^32 - 1 non-zero numbers, in an order that depends on the start.
#[derive(Clone, Debug)]
pub struct Xorshift32(NonZeroU32);

impl Xorshift32 {
    /// A generator that starts at `seed`, or at 1 if that is 0.
    pub const fn new(seed: u32) -> Self {
        match NonZeroU32::new(seed) {
            Some(seed) => Self(seed),
            None => Self(NonZeroU32::MIN),
        }
    }

    /// The next number, never 0.
    #[inline]
    pub fn draw(&mut self) -> u32 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        // Never zero, as the three steps permute the other values.
        self.0 = NonZeroU32::new(x).unwrap_or(NonZeroU32::MIN);
        x
    }

    /// A number below `end`; 0 if that is 0. Its bias is below `end` / 2^32.
    #[inline]
    pub fn below(&mut self, end: u32) -> u32 {
        scale(self.draw(), end)
    }
}

/// Maps the numbers from 0 to 2^32 - 1 evenly, and in order, to those below `end` (D. Lemire, "Fast
/// random integer generation in an interval", 2019): a multiplication in place of a division.
#[inline]
pub const fn scale(number: u32, end: u32) -> u32 {
    ((number as u64).wrapping_mul(end as u64) >> 32) as u32
}
