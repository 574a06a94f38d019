// SPDX-License-Identifier: MIT OR Apache-2.0

//! The figure of a measure with many values.

use serde::Deserialize;
use weft_load::statistics::Sorted;

/// A figure of many values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Statistic {
    Mean,
    P50,
    P95,
    P99,
    P999,
    Max,
    /// For values that may be below 0: the largest absolute value.
    Largest,
    /// Jain's index of fairness, a number: the square of the values' sum over n times the sum of
    /// their squares. It is 1 if all are equal, and 1/n if all but one are 0 (R. Jain et al.,
    /// DEC-TR-301, 1984).
    Jain,
}

impl Statistic {
    /// For a percentile, the share of numbers that are at most as large as it.
    pub(super) fn percentile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P95 => Some(0.95),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            Self::Mean | Self::Max | Self::Largest | Self::Jain => None,
        }
    }

    /// The figure for values that each hold for a time. A percentile is the smallest value that
    /// holds, together with those below it, for that share of the time. `None` if there is no time.
    pub(super) fn over_time(self, mut levels: Vec<(f64, f64)>) -> Option<f64> {
        if self == Self::Largest {
            levels
                .iter_mut()
                .for_each(|(value, _)| *value = value.abs());
        }
        levels.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        let time: f64 = levels.iter().map(|(_, time)| time).sum();
        let percentile = |p: f64| {
            let mut below = 0.0;
            let found = levels.iter().find(|(_, share)| {
                below += share;
                below >= p * time
            });
            found.or(levels.last()).map(|(value, _)| *value)
        };
        match self {
            Self::Mean => {
                let sum: f64 = levels.iter().map(|(value, time)| value * time).sum();
                (time > 0.0).then(|| sum / time)
            }
            Self::P50 => percentile(0.5),
            Self::P95 => percentile(0.95),
            Self::P99 => percentile(0.99),
            Self::P999 => percentile(0.999),
            Self::Max | Self::Largest => levels.last().map(|(value, _)| *value),
            // The index is for shares, which do not hold for a time.
            Self::Jain => None,
        }
    }

    /// `None` if there are no numbers.
    pub(super) fn of(self, values: impl IntoIterator<Item = f64>) -> Option<f64> {
        let sorted = Sorted::new(values);
        match self {
            Self::Mean => sorted.mean(),
            Self::P50 => sorted.percentile(0.5),
            Self::P95 => sorted.percentile(0.95),
            Self::P99 => sorted.percentile(0.99),
            Self::P999 => sorted.percentile(0.999),
            Self::Max => sorted.values().last().copied(),
            Self::Largest => {
                let sizes = sorted.values().iter().map(|value| value.abs());
                sizes.max_by(f64::total_cmp)
            }
            Self::Jain => {
                let values = sorted.values();
                let (sum, squares): (f64, f64) = values
                    .iter()
                    .fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
                (squares > 0.0).then(|| sum * sum / (values.len() as f64 * squares))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_deviation_is_reported_without_its_sign() {
        let values = [-7.0, 2.0, 3.0];
        assert_eq!(Statistic::Largest.of(values), Some(7.0));
        assert_eq!(Statistic::Max.of(values), Some(3.0));
        assert_eq!(Statistic::P50.of(values), Some(2.0));
        assert_eq!(Statistic::Largest.of([]), None);
    }

    #[test]
    fn jains_index_is_1_for_equal_shares_and_1_over_n_if_one_of_n_has_all() {
        let of = |values: &[f64]| Statistic::Jain.of(values.iter().copied());
        assert_eq!(of(&[7.0; 5]), Some(1.0));
        assert_eq!(of(&[0.0, 3.0, 0.0, 0.0]), Some(0.25));
        assert_eq!(of(&[3.0, 0.0, 3.0, 0.0]), Some(0.5));
        // (1 + 2 + 3)² / (3 · 14)
        assert_eq!(of(&[1.0, 2.0, 3.0]), Some(36.0 / 42.0));
        assert_eq!((of(&[]), of(&[0.0, 0.0])), (None, None));
    }

    #[test]
    fn a_mean_over_time_weights_each_value_by_its_duration() {
        let levels = || vec![(5.0, 10.0), (1.0, 80.0), (3.0, 10.0)];
        let of = |statistic: Statistic| statistic.over_time(levels());
        assert_eq!(of(Statistic::Mean), Some(1.6));
        assert_eq!(of(Statistic::P50), Some(1.0));
        assert_eq!(of(Statistic::P95), Some(5.0));
        assert_eq!(of(Statistic::Max), Some(5.0));
        assert_eq!(Statistic::Mean.over_time(Vec::new()), None);
        assert_eq!(Statistic::P99.over_time(Vec::new()), None);
    }
}
