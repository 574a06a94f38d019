// SPDX-License-Identifier: MIT OR Apache-2.0

//! Statistics, compared with a reference implementation, published tables and results by hand.

use ndarray::Array1;
use ndarray_stats::Quantile1dExt as _;
use ndarray_stats::QuantileExt as _;
use ndarray_stats::interpolate::Linear;
use noisy_float::types::n64;
use proptest::prelude::*;
use weft_load::random::{self, Stream};
use weft_load::statistics::{
    Blocks, Bucket, Buckets, Halves, Interval, Sorted, blocks_of_run, deviation_interval, goodput,
    mean_interval, middle,
};

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-9)
}

proptest! {
    #[test]
    fn percentiles_and_means_match_the_reference_crate(
        values in prop::collection::vec(0.0..1e9_f64, 1..300),
        p in 0.0..=1.0_f64,
    ) {
        let sorted = Sorted::new(values.iter().copied());
        let summary = sorted.summary().unwrap();
        let array = Array1::from(values.clone());
        prop_assert!(close(summary.mean, array.mean().unwrap()));
        prop_assert_eq!(summary.max, *array.max().unwrap());
        let reference = |p: f64| {
            let mut array: Array1<_> = values.iter().map(|value| n64(*value)).collect();
            array.quantile_mut(n64(p), &Linear).unwrap().raw()
        };
        prop_assert!(close(sorted.percentile(p).unwrap(), reference(p)));
        for (ours, p) in [(summary.p50, 0.5), (summary.p95, 0.95), (summary.p99, 0.99), (summary.p999, 0.999)] {
            prop_assert!(close(ours, reference(p)), "{} {}", p, ours);
        }
    }

    #[test]
    fn the_cdf_steps_up_to_1(values in prop::collection::vec(0..50_u8, 1..300), points in 0..40_usize) {
        let sorted = Sorted::new(values.iter().map(|value| f64::from(*value)));
        let cdf = sorted.cdf(points);
        prop_assert!(cdf.len() <= points.max(2));
        prop_assert!(cdf.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
        prop_assert_eq!(cdf[0].0, sorted.values()[0]);
        prop_assert_eq!(cdf.last().unwrap().0, *sorted.values().last().unwrap());
        prop_assert_eq!(cdf.last().unwrap().1, 1.0);
        for (x, share) in cdf {
            let at_or_below = values.iter().filter(|value| f64::from(**value) <= x).count();
            prop_assert!(close(share, at_or_below as f64 / values.len() as f64));
        }
    }
}

/// NumPy: np.percentile([1, 2, 3, 4, 10], [50, 95, 99, 99.9]).
#[test]
fn percentiles_match_a_computation_by_hand() {
    let sorted = Sorted::new([10.0, 3.0, 1.0, f64::NAN, 4.0, 2.0]);
    let summary = sorted.summary().unwrap();
    assert_eq!(
        (summary.count, summary.mean, summary.p50, summary.max),
        (5, 4.0, 3.0, 10.0)
    );
    assert!(close(summary.p95, 8.8) && close(summary.p99, 9.76) && close(summary.p999, 9.976));
    assert_eq!(sorted.percentile(-1.0), Some(1.0));
    assert_eq!(sorted.percentile(2.0), Some(10.0));
    assert_eq!(Sorted::new([]).summary(), None);
    let infinite = Sorted::new([f64::INFINITY, f64::INFINITY]);
    assert_eq!(infinite.percentile(0.3), Some(f64::INFINITY));
}

#[test]
fn all_points_of_a_small_cdf_are_kept() {
    let sorted = Sorted::new([5.0, 1.0, 1.0, 7.0]);
    assert_eq!(sorted.cdf(100), [(1.0, 0.5), (5.0, 0.75), (7.0, 1.0)]);
    assert_eq!(sorted.cdf(2), [(1.0, 0.5), (7.0, 1.0)]);
    assert_eq!(Sorted::new([]).cdf(10), []);
}

#[test]
fn buckets_match_the_papers() {
    let buckets = Buckets::default();
    let names: Vec<String> = buckets.iter().map(Bucket::to_string).collect();
    assert_eq!(
        names,
        ["0-100 kB", "100 kB-1 MB", "1-10 MB", ">10 MB", "all"]
    );
    assert_eq!(
        buckets,
        Buckets::new(&[100_000, 1_000_000, 10_000_000]).unwrap()
    );
    let of = |size| -> Vec<usize> {
        let indexed = buckets.iter().enumerate();
        indexed
            .filter(|(_, bucket)| bucket.contains(size))
            .map(|(index, _)| index)
            .collect()
    };
    assert_eq!(of(1), [0, 4]);
    assert_eq!(of(100_000), [0, 4]);
    assert_eq!(of(100_001), [1, 4]);
    assert_eq!(of(10_000_000), [2, 4]);
    assert_eq!(of(10_000_001), [3, 4]);
}

#[test]
fn buckets_can_be_chosen() {
    let names = |ends: &[u64]| -> Vec<String> {
        Buckets::new(ends)
            .unwrap()
            .iter()
            .map(Bucket::to_string)
            .collect()
    };
    assert_eq!(names(&[]), ["all"]);
    assert_eq!(names(&[1_500]), ["0-1500 B", ">1500 B", "all"]);
    assert_eq!(names(&[2_000_000_000]), ["0-2 GB", ">2 GB", "all"]);
    assert!(Buckets::new(&[0]).is_err());
    assert!(Buckets::new(&[5, 5]).is_err());
}

/// t(0.975) is 12.7062 with 1 degree of freedom, 2.7764 with 4, 2.0452 with 29 (any table).
#[test]
fn confidence_intervals_follow_students_t() {
    for (n, t) in [(2, 12.706_205), (5, 2.776_445), (30, 2.045_230)] {
        let values: Vec<f64> = (0..n).map(f64::from).collect();
        let interval = mean_interval(&values, 0.95).unwrap();
        // The variance of 0..n is n (n + 1) / 12.
        let error = ((f64::from(n) + 1.0) / 12.0).sqrt();
        assert!(close(interval.mean, (f64::from(n) - 1.0) / 2.0));
        assert!(
            (interval.half_width / error - t).abs() < 1e-5,
            "{n}: {}",
            interval.half_width / error
        );
    }
    let array = ndarray::arr1(&[3.0, 5.0, 4.5, 4.0]);
    let error = array.std(1.0) / 2.0;
    let interval = mean_interval(array.as_slice().unwrap(), 0.99).unwrap();
    assert!((interval.half_width - 5.840_909 * error).abs() < 1e-5);
    assert!(close(interval.mean, array.mean().unwrap()));
}

#[test]
fn one_run_has_no_confidence_interval() {
    assert_eq!(mean_interval(&[], 0.95), None);
    assert_eq!(mean_interval(&[1.0], 0.95), None);
    assert_eq!(mean_interval(&[1.0, f64::NAN], 0.95), None);
    for level in [0.0, 1.0, f64::NAN] {
        assert_eq!(mean_interval(&[1.0, 2.0], level), None);
    }
    let same = Interval {
        mean: 2.0,
        half_width: 0.0,
    };
    assert_eq!(mean_interval(&[2.0, 2.0], 0.95), Some(same));
}

#[test]
fn goodput_is_payload_over_time() {
    assert_eq!(goodput(1_250_000_000, 1_000_000_000), Some(10e9));
    assert_eq!(goodput(1, 0), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    /// Each sample, written out: the blocks' numbers as often as they were drawn.
    #[test]
    fn a_replicate_is_the_percentile_of_the_blocks_that_were_drawn(
        values in prop::collection::vec((0..40_u8, 0..5_u32), 0..60),
        shares in prop::collection::vec(0.0..=1.0_f64, 1..4),
    ) {
        let mut shares = shares;
        shares.sort_by(f64::total_cmp);
        let values: Vec<(f64, u32)> = values.into_iter().map(|(value, block)| (value.into(), block)).collect();
        let found = Blocks::new(values.clone(), 5).unwrap().replicates(&shares);
        let mut rng = random::stream(0, Stream::Bootstrap);
        let five = std::num::NonZeroU32::new(5).unwrap();
        for n in 0..found[0].len() {
            let drawn: Vec<u32> = (0..5).map(|_| random::below(&mut rng, five)).collect();
            let sample = drawn.iter().flat_map(|block| values.iter().filter(move |it| it.1 == *block));
            let sample = Sorted::new(sample.map(|(value, _)| *value));
            for (share, found) in shares.iter().zip(&found) {
                match sample.percentile(*share) {
                    Some(expected) => prop_assert!(close(found[n], expected), "{} {}", found[n], expected),
                    None => prop_assert!(found[n].is_nan()),
                }
            }
        }
    }
}

/// Exponential numbers, whose 95th percentile is ln 20: how many of 300 intervals contain it.
#[test]
fn a_bootstrap_interval_contains_the_percentile_about_as_often_as_it_claims() {
    let mut rng = random::stream(7, Stream::Sizes);
    let truth = 20_f64.ln();
    let within = (0..300).filter(|_| {
        let blocks = 5 * blocks_of_run(5);
        let values = (0..2_000).map(|n| (random::exponential(&mut rng), n * blocks / 2_000));
        let replicates = Blocks::new(values.collect::<Vec<_>>(), blocks)
            .unwrap()
            .replicates(&[0.95]);
        let bounds = middle(replicates[0].iter().copied(), 0.95).unwrap();
        (bounds.low..=bounds.high).contains(&truth)
    });
    // 95 % would be 285, with a standard deviation of 4; with 20 blocks it is slightly less.
    let within = within.count();
    assert!((264..=297).contains(&within), "{within}");
}

#[test]
fn runs_are_cut_into_twenty_blocks_together_and_at_least_four_each() {
    assert_eq!(
        [0, 1, 2, 3, 5, 100].map(blocks_of_run),
        [20, 20, 10, 7, 4, 4]
    );
    assert!(Blocks::new([], 0).is_none());
    assert_eq!(middle([1.0, f64::NAN], 0.95), None);
    assert_eq!(middle([], 0.95), None);
    let bounds = middle((0..=1000).map(f64::from), 0.95).unwrap();
    assert!(close(bounds.low, 25.0) && close(bounds.high, 975.0));
}

#[test]
fn halves_disagree_if_slowdowns_keep_growing() {
    let mut rng = random::stream(3, Stream::Sizes);
    let mut noise = move || random::exponential(&mut rng);
    let mut steady = |_| 1.0 + noise();
    let agreed = (0..200).filter(|_| {
        let values: Vec<f64> = (0..500).map(&mut steady).collect();
        Halves::new(&values).unwrap().agree
    });
    assert!(agreed.count() >= 197);
    let rising: Vec<f64> = (0..500).map(|n| steady(n) + f64::from(n) / 200.0).collect();
    let halves = Halves::new(&rising).unwrap();
    assert!(
        !halves.agree && halves.second > halves.first + 1.0,
        "{halves:?}"
    );
    assert_eq!(Halves::new(&[1.0; 39]), None);
    assert!(Halves::new(&[1.0; 40]).unwrap().agree);
    let step: Vec<f64> = (0..40).map(|n| f64::from(n / 20)).collect();
    assert!(!Halves::new(&step).unwrap().agree);
}

/// For five values: 2.5 % and 97.5 % of chi-square with 4 degrees of freedom are 0.48442 and
/// 11.14329 (tables).
#[test]
fn the_interval_of_a_deviation_follows_chi_squared() {
    let (deviation, bounds) = deviation_interval(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.95).unwrap();
    assert!(close(deviation, 2.5_f64.sqrt()));
    assert!(
        (bounds.low - (10.0 / 11.143_29_f64).sqrt()).abs() < 1e-5,
        "{bounds:?}"
    );
    assert!(
        (bounds.high - (10.0 / 0.484_42_f64).sqrt()).abs() < 1e-4,
        "{bounds:?}"
    );
    assert_eq!(deviation_interval(&[1.0], 0.95), None);
}
