// SPDX-License-Identifier: MIT OR Apache-2.0

//! Confidence intervals of percentiles.
//!
//! Flows that are close in time share queues, so they are not independent, and a percentile of a
//! few runs has no simple distribution. The flows are therefore cut into blocks of successive
//! flows, and whole blocks are drawn with replacement (the block bootstrap; Künsch, The Jackknife
//! and the Bootstrap for General Stationary Observations, 1989). The percentile of each such sample
//! is a replicate, and the middle 95 % of the replicates are the interval (Efron's percentile
//! interval).
//!
//! Draws come from a fixed seed and depend only on the number of blocks. So the samples of two
//! schemes with the same flows draw the same blocks, and the quotients of their replicates are
//! those of a paired bootstrap.

use std::num::NonZeroU32;

use super::sorted::Sorted;
use crate::random::{self, Stream};

/// Number of samples.
const REPLICATES: usize = 1_000;
/// Minimum of blocks over all runs, if there are as many flows.
const BLOCKS: u32 = 20;
/// Minimum of blocks per run.
const BLOCKS_OF_RUN: u32 = 4;

/// The number of blocks per run, for several runs: 20 in total, and at least 4 each.
#[must_use]
pub fn blocks_of_run(runs: usize) -> u32 {
    let runs = u32::try_from(runs).unwrap_or(u32::MAX).max(1);
    BLOCKS.div_ceil(runs).max(BLOCKS_OF_RUN)
}

/// Numbers grouped in blocks.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Sorted by value, none of them NaN, each with its block.
    sorted: Vec<(f64, u32)>,
    /// Number of blocks, at least 1.
    count: NonZeroU32,
}

/// The bounds of an interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The lower one.
    pub low: f64,
    /// The upper one.
    pub high: f64,
}

impl Blocks {
    /// Numbers with their blocks, which are below `count`; drops NaN and numbers of other blocks.
    /// `None` if `count` is 0.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = (f64, u32)>, count: u32) -> Option<Self> {
        let count = NonZeroU32::new(count)?;
        let fits = |(value, block): &(f64, u32)| !value.is_nan() && *block < count.get();
        let mut sorted: Vec<_> = values.into_iter().filter(fits).collect();
        sorted.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        Some(Self { sorted, count })
    }

    /// All numbers.
    #[must_use]
    pub fn all(&self) -> Sorted {
        Sorted::from_sorted(self.sorted.iter().map(|(value, _)| *value).collect())
    }

    /// For each of these shares, which increase, the percentiles of all samples, in the order of
    /// the draws. A sample without a number has NaN.
    #[must_use]
    pub fn replicates(&self, shares: &[f64]) -> Vec<Vec<f64>> {
        let mut rng = random::stream(0, Stream::Bootstrap);
        let mut replicates = vec![Vec::with_capacity(REPLICATES); shares.len()];
        let mut times = vec![0_u64; self.count.get() as usize];
        for _ in 0..REPLICATES {
            times.fill(0);
            for _ in 0..self.count.get() {
                times[random::below(&mut rng, self.count) as usize] += 1;
            }
            self.sample(&times, shares, &mut replicates);
        }
        replicates
    }

    /// The percentiles of a sample that contains each block as often as `times` says: those that
    /// [`Sorted::percentile`] has for the sample's numbers.
    fn sample(&self, times: &[u64], shares: &[f64], replicates: &mut [Vec<f64>]) {
        let of = |block: u32| times[block as usize];
        let all: u64 = self.sorted.iter().map(|(_, block)| of(*block)).sum();
        let Some(last) = all.checked_sub(1) else {
            for replicates in replicates {
                replicates.push(f64::NAN);
            }
            return;
        };
        let mut place = 0;
        // The numbers up to and including the one at `place`.
        let mut seen = self.sorted.first().map_or(0, |(_, block)| of(*block));
        for (share, replicates) in shares.iter().zip(replicates) {
            let h = share.clamp(0.0, 1.0) * last as f64;
            let below = h.floor() as u64;
            while seen <= below {
                place += 1;
                seen += of(self.sorted[place].1);
            }
            let low = self.sorted[place].0;
            // The next number: this one again, or the first one after it that occurs in the sample.
            let high = match (below + 1).min(last) < seen {
                true => low,
                false => {
                    let rest = &self.sorted[place + 1..];
                    let next = rest.iter().find(|(_, block)| of(*block) > 0);
                    next.map_or(low, |(value, _)| *value)
                }
            };
            let part = h - below as f64;
            replicates.push(if low == high || part == 0.0 {
                low
            } else {
                low + part * (high - low)
            });
        }
    }
}

/// The middle `level` of the replicates, for example 0.95. `None` if one is not finite, or there is
/// none.
#[must_use]
pub fn middle(replicates: impl IntoIterator<Item = f64>, level: f64) -> Option<Bounds> {
    let values: Vec<f64> = replicates.into_iter().collect();
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let sorted = Sorted::new(values);
    Some(Bounds {
        low: sorted.percentile(f64::midpoint(0.0, 1.0 - level))?,
        high: sorted.percentile(f64::midpoint(1.0, level))?,
    })
}
