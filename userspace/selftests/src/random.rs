// SPDX-License-Identifier: MIT OR Apache-2.0

//! Random numbers that are the same in each run.

use std::time::Duration;

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below `end`.
    pub(crate) fn below(&mut self, end: Duration) -> Duration {
        let fraction = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        end.mul_f64(fraction)
    }
}
