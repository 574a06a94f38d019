// SPDX-License-Identifier: MIT OR Apache-2.0

//! Confidence intervals of a mean from a few runs.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ChiSquared, ContinuousCDF as _, StudentsT};

use super::bootstrap::Bounds;

/// A mean and the half-width of its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean of the values.
    pub mean: f64,
    /// The true mean lies within this distance, with the requested probability.
    pub half_width: f64,
}

/// The confidence interval of the mean of independent values, one per seed, by Student's t with n -
/// 1 degrees of freedom. It is exact if they are normal; means over many flows nearly are. `level`
/// is the probability, for example 0.95. `None` if there are fewer than two values, one is not
/// finite, or the level is not between 0 and 1.
#[must_use]
pub fn mean_interval(values: &[f64], level: f64) -> Option<Interval> {
    let freedom = values.len().checked_sub(1).filter(|freedom| *freedom > 0)? as f64;
    if !(level > 0.0 && level < 1.0) || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let standard_error = (squares / freedom / n).sqrt();
    let quantile = StudentsT::new(0.0, 1.0, freedom)
        .ok()?
        .inverse_cdf(f64::midpoint(1.0, level));
    Some(Interval {
        mean,
        half_width: quantile * standard_error,
    })
}

/// The standard deviation (over n - 1) of independent values and its confidence interval by the
/// chi-square distribution with n - 1 degrees of freedom, exact if they are normal. `level` and
/// `None` are those of [`mean_interval`].
#[must_use]
pub fn deviation_interval(values: &[f64], level: f64) -> Option<(f64, Bounds)> {
    mean_interval(values, level)?;
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let chi = ChiSquared::new(n - 1.0).ok()?;
    let end = |p: f64| (squares / chi.inverse_cdf(p)).sqrt();
    let bounds = Bounds {
        low: end(f64::midpoint(1.0, level)),
        high: end(f64::midpoint(0.0, 1.0 - level)),
    };
    Some(((squares / (n - 1.0)).sqrt(), bounds))
}
