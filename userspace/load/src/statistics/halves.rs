// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks that a run was steady: both halves of its flows have the same mean.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use super::sorted::Sorted;

/// Batches per half.
const BATCHES: usize = 10;
/// False positive rate of the test: one steady run in this many is taken for an unsteady one.
const ONE_IN: f64 = 1_000.0;

/// The means of the two halves of a run's flows, in the order of their starts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Halves {
    /// Mean of the first half.
    pub first: f64,
    /// Mean of the second half.
    pub second: f64,
    /// Whether the difference is within chance: Welch's t test at 0.1 % between the means of ten
    /// batches per half. Successive flows are not independent, but batches of them nearly are.
    pub agree: bool,
}

impl Halves {
    /// Computes both means of values in the order of their flows' starts. `None` if there are fewer
    /// than 40 values, or one is not finite.
    #[must_use]
    pub fn new(values: &[f64]) -> Option<Self> {
        if values.len() < 4 * BATCHES || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let (first, second) = values.split_at(values.len() / 2);
        let batches = |half: &[f64]| -> Option<(f64, f64)> {
            let means = (0..BATCHES).map(|n| {
                let place = |n: usize| n * half.len() / BATCHES;
                let batch = &half[place(n)..place(n + 1)];
                batch.iter().sum::<f64>() / batch.len() as f64
            });
            let means = Sorted::new(means);
            let mean = means.mean()?;
            let squares: f64 = means.values().iter().map(|it| (it - mean).powi(2)).sum();
            // The variance of the half's mean.
            let n = BATCHES as f64;
            Some((mean, squares / (n - 1.0) / n))
        };
        let ((first, a), (second, b)) = (batches(first)?, batches(second)?);
        let variance = a + b;
        let agree = if variance > 0.0 {
            let freedom = (BATCHES as f64 - 1.0) * variance.powi(2) / (a.powi(2) + b.powi(2));
            let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
            let limit = student.inverse_cdf(1.0 - 0.5 / ONE_IN);
            (first - second).abs() <= limit * variance.sqrt()
        } else {
            first == second
        };
        Some(Self {
            first,
            second,
            agree,
        })
    }
}
