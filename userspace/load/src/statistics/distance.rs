// SPDX-License-Identifier: MIT OR Apache-2.0

//! The distance of two distributions.

use super::sorted::Sorted;

/// The Kolmogorov-Smirnov distance of two samples: the largest difference of their empirical
/// distribution functions, from 0 (the same distribution) to 1 (no overlap). `None` if one is
/// empty.
#[must_use]
pub fn distance(a: &Sorted, b: &Sorted) -> Option<f64> {
    if a.values().is_empty() || b.values().is_empty() {
        return None;
    }
    let share = |values: &[f64], x: f64| {
        values.partition_point(|value| *value <= x) as f64 / values.len() as f64
    };
    let (a, b) = (a.values(), b.values());
    let differences = a
        .iter()
        .chain(b)
        .map(|&x| (share(a, x) - share(b, x)).abs());
    Some(differences.fold(0.0, f64::max))
}

/// The critical value of [`distance`] at 5 % for `a` and `b` independent numbers of the same
/// distribution: Smirnov's asymptotic value, accurate from about 20 numbers on.
#[must_use]
pub fn critical_distance(a: usize, b: usize) -> f64 {
    let (a, b) = (a as f64, b as f64);
    // √(-ln(0.05 / 2) / 2)
    1.358_1 * ((a + b) / (a * b)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Stream, stream, unit};

    fn sorted(values: &[f64]) -> Sorted {
        Sorted::new(values.iter().copied())
    }

    #[test]
    fn a_distance_is_the_largest_gap_of_the_distributions() {
        let one = sorted(&[1.0, 2.0, 3.0, 4.0]);
        assert_eq!(distance(&one, &one), Some(0.0));
        assert_eq!(distance(&one, &sorted(&[9.0])), Some(1.0));
        // At 2: half of one sample, nothing of the other.
        assert_eq!(distance(&one, &sorted(&[2.5, 3.0])), Some(0.5));
        // Samples of different sizes, with ties: at 3 three quarters against a third, at 2 a half
        // against a third.
        let other = sorted(&[2.0, 4.0, 4.0]);
        let found = distance(&one, &other).unwrap();
        assert!((found - (0.75 - 1.0 / 3.0)).abs() < 1e-12, "{found}");
        assert_eq!(distance(&one, &sorted(&[])), None);
    }

    #[test]
    fn one_sample_in_twenty_of_the_same_distribution_is_further_away() {
        let mut random = stream(1, Stream::Sizes);
        let mut sample = |n: usize| Sorted::new((0..n).map(|_| unit(&mut random)));
        let further = (0..2_000)
            .filter(|_| {
                let (a, b) = (sample(80), sample(120));
                distance(&a, &b).unwrap() > critical_distance(80, 120)
            })
            .count();
        // 100 of 2,000 are expected, fewer because the asymptotic value is slightly too large.
        assert!((60..=120).contains(&further), "{further}");
    }
}
