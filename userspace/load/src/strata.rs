// SPDX-License-Identifier: MIT OR Apache-2.0

//! Stratified random numbers.

use std::convert::Infallible;
use std::num::NonZeroU32;

use chacha20::ChaCha8Rng;
use chacha20::rand_core::{Rng as _, TryRng};

use crate::random;

/// A generator of numbers in blocks. Of a block's `n` numbers, as fractions of their range, one is
/// between 0 and 1/n, one between 1/n and 2/n, and so on, in random order. Each number by itself is
/// uniform.
///
/// Use it only for distributions that draw one [`random::unit`] per value.
#[derive(Debug)]
pub(crate) struct Strata {
    rng: ChaCha8Rng,
    /// Size of the first block, 0 if there is none, and of each later one.
    first: u32,
    later: u32,
    /// The remaining strata of this block, in reverse order.
    left: Vec<u32>,
    /// Size of this block.
    all: u32,
}

impl Strata {
    /// A generator whose first block has `first` numbers, if that is not 0, and each later one
    /// `later`.
    pub(crate) fn new(rng: ChaCha8Rng, first: u32, later: u32) -> Self {
        Self {
            rng,
            first,
            later: later.max(1),
            left: Vec::new(),
            all: 1,
        }
    }

    fn stratum(&mut self) -> u32 {
        if let Some(stratum) = self.left.pop() {
            return stratum;
        }
        self.all = match std::mem::take(&mut self.first) {
            0 => self.later,
            first => first,
        };
        self.left = (0..self.all).collect();
        // A Fisher-Yates shuffle.
        for last in (1..self.all).rev() {
            let other = random::below(&mut self.rng, NonZeroU32::MIN.saturating_add(last));
            self.left.swap(last as usize, other as usize);
        }
        self.left.pop().unwrap_or(0)
    }

    /// Bits from which [`random::unit`] computes a uniform number on [0, 1).
    fn bits(&mut self) -> u64 {
        const ALL: f64 = (1_u64 << 53) as f64;
        let stratum = f64::from(self.stratum());
        let within = (stratum + random::unit(&mut self.rng)) / f64::from(self.all);
        ((within * ALL) as u64).min((1 << 53) - 1) << 11
    }
}

/// A generator of independent or stratified numbers.
#[derive(Debug)]
pub(crate) enum Draws {
    Independent(ChaCha8Rng),
    Stratified(Strata),
}

impl TryRng for Draws {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(match self {
            Self::Independent(rng) => rng.next_u32(),
            Self::Stratified(strata) => (strata.bits() >> 32) as u32,
        })
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(match self {
            Self::Independent(rng) => rng.next_u64(),
            Self::Stratified(strata) => strata.bits(),
        })
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let bits = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&bits[..chunk.len()]);
        }
        Ok(())
    }
}
