// SPDX-License-Identifier: MIT OR Apache-2.0

//! Statistics of samples.
//!
//! A percentile is the linear interpolation between the neighbouring order statistics: with n
//! numbers x₀ ≤ … ≤ xₙ₋₁ and h = (n - 1) p, it is x at ⌊h⌋ plus the fraction h - ⌊h⌋ of the
//! difference to the next one. That is type 7 of Hyndman and Fan (Sample Quantiles in Statistical
//! Packages, 1996), the default of NumPy, R and spreadsheets. With fewer than 1/(1 - p) numbers it
//! says little more than their maximum.

mod bootstrap;
mod buckets;
mod distance;
mod halves;
mod interval;
mod sorted;

pub use bootstrap::{Blocks, Bounds, blocks_of_run, middle};
pub use buckets::{Bucket, Buckets};
pub use distance::{critical_distance, distance};
pub use halves::Halves;
pub use interval::{Interval, deviation_interval, mean_interval};
pub use sorted::{Sorted, Summary};

/// Bit/s of `bytes` of payload in `ns`. `None` if `ns` is 0.
#[must_use]
pub fn goodput(bytes: u64, ns: u64) -> Option<f64> {
    (ns > 0).then(|| bytes as f64 * 8e9 / ns as f64)
}
