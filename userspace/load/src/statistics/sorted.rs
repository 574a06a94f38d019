// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sorted numbers, their percentiles and their summary.

use serde::{Deserialize, Serialize};

/// Sorted numbers, none of them NaN.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sorted(Vec<f64>);

impl Sorted {
    /// Sorts the numbers and drops NaN, which has no order.
    #[must_use]
    pub fn new(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().filter(|value| !value.is_nan()).collect();
        values.sort_unstable_by(f64::total_cmp);
        Self(values)
    }

    /// Numbers in ascending order, none of them NaN.
    pub(super) fn from_sorted(values: Vec<f64>) -> Self {
        Self(values)
    }

    /// The numbers, smallest first.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// A share `p` of the numbers is at or below this, by the definition of [the module](super). A
    /// `p` outside [0, 1] counts as the nearer bound. `None` without numbers.
    #[must_use]
    pub fn percentile(&self, p: f64) -> Option<f64> {
        let last = self.0.len().checked_sub(1)?;
        let h = p.clamp(0.0, 1.0) * last as f64;
        let below = h.floor() as usize;
        let (low, high) = (self.0[below], self.0[(below + 1).min(last)]);
        let share = h - below as f64;
        // Equal neighbours may be infinite.
        Some(if low == high || share == 0.0 {
            low
        } else {
            low + share * (high - low)
        })
    }

    /// The arithmetic mean. `None` without numbers.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }

    /// `None` without numbers.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        Some(Summary {
            count: self.0.len() as u64,
            mean: self.mean()?,
            p50: self.percentile(0.5)?,
            p95: self.percentile(0.95)?,
            p99: self.percentile(0.99)?,
            p999: self.percentile(0.999)?,
            max: *self.0.last()?,
        })
    }

    /// The empirical distribution as points (x, share of the numbers at or below x) for a step
    /// plot: every distinct number, or at most `points` (at least 2) of them, evenly spread over
    /// the shares, including the smallest and the largest.
    #[must_use]
    pub fn cdf(&self, points: usize) -> Vec<(f64, f64)> {
        let n = self.0.len() as f64;
        let mut at_or_below = 0;
        let steps = self.0.chunk_by(|a, b| a == b).map(|same| {
            at_or_below += same.len();
            (same[0], at_or_below as f64 / n)
        });
        let all: Vec<_> = steps.collect();
        let points = points.max(2);
        if all.len() <= points {
            return all;
        }
        let lowest = all[0].1;
        let mut chosen: Vec<_> = (0..points)
            .map(|n| {
                let share = lowest + (1.0 - lowest) * n as f64 / (points - 1) as f64;
                let index = all.partition_point(|(_, at_or_below)| *at_or_below < share);
                all[index.min(all.len() - 1)]
            })
            .collect();
        chosen.dedup();
        chosen
    }
}

/// The summary of a set of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of values, at least 1.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}
