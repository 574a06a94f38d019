// SPDX-License-Identifier: MIT OR Apache-2.0

//! Estimates from several seeds, and their uncertainty.

use serde::{Deserialize, Serialize};
use weft_load::record::Flow;
use weft_load::statistics::{
    Blocks, Bounds, blocks_of_run, deviation_interval, mean_interval, middle,
};

/// The confidence level of intervals.
const LEVEL: f64 = 0.95;

/// A figure and its 95 % confidence interval; with one seed there is no interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Half of the interval, if it is Student's, for a mean over seeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
    /// The interval's lower end,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// and its upper one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
}

impl Estimate {
    /// A figure of unknown uncertainty.
    pub fn alone(value: f64) -> Self {
        Self {
            value,
            half_width: None,
            low: None,
            high: None,
        }
    }

    /// A figure without uncertainty.
    pub(crate) fn exact(value: f64) -> Self {
        Self {
            value,
            half_width: None,
            low: Some(value),
            high: Some(value),
        }
    }

    fn student(value: f64, half: f64) -> Self {
        Self {
            value,
            half_width: Some(half),
            low: Some(value - half),
            high: Some(value + half),
        }
    }

    fn between(value: f64, bounds: Option<Bounds>) -> Self {
        Self {
            value,
            half_width: None,
            low: bounds.map(|it| it.low),
            high: bounds.map(|it| it.high),
        }
    }

    /// Divides by another estimate, without an assumption about their dependence: the interval
    /// contains all quotients of values in the two intervals. `None` if the quotient is not a
    /// finite number.
    pub(crate) fn over_unpaired(self, other: &Self) -> Option<Self> {
        let value = self.value / other.value;
        let ends = self.low.zip(self.high).zip(other.low.zip(other.high));
        let bounds = ends
            .filter(|(_, (low, _))| *low > 0.0)
            .map(|((a, b), (c, d))| Bounds {
                low: (a / d).min(a / c),
                high: (b / c).max(b / d),
            });
        value.is_finite().then(|| Self::between(value, bounds))
    }

    /// Subtracts another estimate, without an assumption about their dependence.
    pub(crate) fn less_unpaired(self, other: &Self) -> Option<Self> {
        let value = self.value - other.value;
        let ends = self.low.zip(self.high).zip(other.low.zip(other.high));
        let bounds = ends.map(|((a, b), (c, d))| Bounds {
            low: a - d,
            high: b - c,
        });
        value.is_finite().then(|| Self::between(value, bounds))
    }

    /// Multiplies all numbers by a factor above 0.
    pub fn scaled(self, factor: f64) -> Self {
        let times = |it: f64| it * factor;
        Self {
            value: times(self.value),
            half_width: self.half_width.map(times),
            low: self.low.map(times),
            high: self.high.map(times),
        }
    }
}

/// The value that several runs share. Their computed mean may be another number, by rounding, and
/// their deviation from it not 0.
fn shared(values: &[f64]) -> Option<f64> {
    let (first, others) = values.split_first()?;
    (!others.is_empty() && others.iter().all(|it| it == first)).then_some(*first)
}

/// The mean of a figure over runs, one for each seed.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    if values.is_empty() {
        return None;
    }
    if let Some(value) = shared(values) {
        return Some(Estimate::student(value, 0.0));
    }
    Some(match mean_interval(values, LEVEL) {
        Some(interval) => Estimate::student(interval.mean, interval.half_width),
        None => Estimate::alone(values.iter().sum::<f64>() / values.len() as f64),
    })
}

/// The standard deviation of a figure over runs, one for each seed; `None` for a single run.
pub(crate) fn deviation(values: &[f64]) -> Option<Estimate> {
    if shared(values).is_some() {
        return Some(Estimate::student(0.0, 0.0));
    }
    let (value, bounds) = deviation_interval(values, LEVEL)?;
    // statrs gives NaN for the lower quantile of chi-square with one degree of freedom, so two
    // values have no interval.
    let bounds = Some(bounds).filter(|it| it.low.is_finite() && it.high.is_finite());
    Some(Estimate::between(value, bounds))
}

/// The quotient of the means of two figures of the same seeds, pair by pair: with r the quotient,
/// its interval is Student's for the mean of (a - r b) / mean(b), which is the influence of a seed
/// on it. `None` if their numbers of seeds differ, or the quotient is not a finite number.
pub fn quotient(a: &[f64], b: &[f64]) -> Option<Estimate> {
    if a.is_empty() || a.len() != b.len() {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let divisor = mean(b);
    let r = mean(a) / divisor;
    if !r.is_finite() {
        return None;
    }
    let moves: Vec<f64> = a
        .iter()
        .zip(b)
        .map(|(a, b)| (a - r * b) / divisor)
        .collect();
    Some(match mean_interval(&moves, LEVEL) {
        Some(interval) => Estimate::student(r, interval.half_width),
        None => Estimate::alone(r),
    })
}

/// The difference of the means of two figures of the same seeds, pair by pair. `None` if their
/// numbers of seeds differ.
pub(crate) fn difference(a: &[f64], b: &[f64]) -> Option<Estimate> {
    let pairs = a.iter().zip(b).map(|(a, b)| a - b);
    (a.len() == b.len())
        .then(|| estimate(&pairs.collect::<Vec<_>>()))
        .flatten()
}

/// The values of all seeds' flows together.
pub struct Pooled {
    blocks: Blocks,
    /// For each of [`SHARES`], the percentile of each bootstrap sample. Empty for one run.
    replicates: Vec<Vec<f64>>,
}

/// The percentiles that have intervals.
const SHARES: [f64; 4] = [0.5, 0.95, 0.99, 0.999];

impl Pooled {
    /// The values of the `counted` flows of each run, which are given by their indices; flows
    /// without a value belong to their block, but not to the values. `None` without runs.
    pub fn new<'a>(
        runs: impl ExactSizeIterator<Item = &'a [Flow]>,
        counted: impl Fn(&Flow) -> bool,
        value: impl Fn(&Flow) -> Option<f64>,
    ) -> Option<Self> {
        let count = runs.len();
        let of_run = blocks_of_run(count);
        let mut values = Vec::new();
        for (run, flows) in (0..).zip(runs) {
            let mut flows: Vec<&Flow> = flows.iter().filter(|flow| counted(flow)).collect();
            flows.sort_unstable_by_key(|flow| flow.id);
            let all = flows.len() as u64;
            for (place, flow) in (0..).zip(flows) {
                let block = u64::from(of_run) * place / all;
                // The block's number is below `of_run`.
                values.extend(value(flow).map(|value| (value, run * of_run + block as u32)));
            }
        }
        let blocks = Blocks::new(values, u32::try_from(count).ok()?.checked_mul(of_run)?)?;
        let replicates = match count {
            1 => Vec::new(),
            _ => blocks.replicates(&SHARES),
        };
        Some(Self { blocks, replicates })
    }

    /// A percentile of each bootstrap sample.
    fn drawn(&self, p: f64) -> Option<&[f64]> {
        let place = SHARES.iter().position(|share| *share == p)?;
        self.replicates.get(place).map(Vec::as_slice)
    }

    /// `None` without values.
    pub fn percentile(&self, p: f64) -> Option<Estimate> {
        let value = self.blocks.all().percentile(p)?;
        let bounds = self
            .drawn(p)
            .and_then(|drawn| middle(drawn.iter().copied(), LEVEL));
        Some(Estimate::between(value, bounds))
    }

    /// A percentile, divided by that of another's values, which belong to the same flows: both take
    /// the same blocks into each sample.
    pub fn over(&self, other: &Self, p: f64) -> Option<Estimate> {
        self.beside(other, p, |a, b| a / b)
    }

    /// A percentile minus that of another's values, which also belong to the same flows.
    pub(crate) fn less(&self, other: &Self, p: f64) -> Option<Estimate> {
        self.beside(other, p, |a, b| a - b)
    }

    fn beside(&self, other: &Self, p: f64, of: impl Fn(f64, f64) -> f64) -> Option<Estimate> {
        let value = of(
            self.blocks.all().percentile(p)?,
            other.blocks.all().percentile(p)?,
        );
        let drawn = self.drawn(p).zip(other.drawn(p));
        let bounds =
            drawn.and_then(|(a, b)| middle(a.iter().zip(b).map(|(a, b)| of(*a, *b)), LEVEL));
        value.is_finite().then(|| Estimate::between(value, bounds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten times 0.1 is not 1 in floating point.
    #[test]
    fn equal_values_have_no_deviation() {
        for n in [2, 10, 40] {
            for value in [0.1, 1505.3, 1e-9] {
                let values = vec![value; n];
                let mean = estimate(&values).unwrap();
                assert_eq!((mean.value, mean.half_width), (value, Some(0.0)));
                let spread = deviation(&values).unwrap();
                assert_eq!((spread.value, spread.half_width), (0.0, Some(0.0)));
            }
        }
        assert_eq!(deviation(&[2.0]).map(|it| it.value), None);
        assert_eq!(estimate(&[0.1]).unwrap().half_width, None);
    }

    #[test]
    fn an_estimate_of_several_seeds_has_students_interval() {
        assert_eq!(estimate(&[]), None);
        let one = estimate(&[3.0]).unwrap();
        assert_eq!((one.value, one.half_width), (3.0, None));
        // 97.5 % of Student's t with 2 degrees of freedom is below 4.3027; the standard deviation
        // is 1.
        let three = estimate(&[1.0, 2.0, 3.0]).unwrap();
        let expected = 4.302_652_7 / 3_f64.sqrt();
        assert_eq!(three.value, 2.0);
        assert!(
            (three.half_width.unwrap() - expected).abs() < 1e-6,
            "{three:?}"
        );
        assert_eq!(three.low, three.half_width.map(|half| 2.0 - half));
        let scaled = three.scaled(10.0);
        assert_eq!(scaled.value, 20.0);
        assert_eq!(scaled.half_width, three.half_width.map(|half| 10.0 * half));
    }

    #[test]
    fn a_quotient_of_equal_pairs_has_a_narrow_interval() {
        let sure = quotient(&[2.0, 8.0, 5.0], &[1.0, 4.0, 2.5]).unwrap();
        assert_eq!((sure.value, sure.half_width), (2.0, Some(0.0)));
        let unsure = quotient(&[2.0, 8.0, 5.0], &[4.0, 1.0, 2.5]).unwrap();
        assert!(unsure.half_width.unwrap() > 2.0, "{unsure:?}");
        // One seed with 0 in the divisor does no harm; 0 in all of them does.
        assert_eq!(quotient(&[0.0, 2.0], &[0.0, 1.0]).unwrap().value, 2.0);
        assert_eq!(quotient(&[1.0], &[0.0]), None);
        assert_eq!(quotient(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(quotient(&[3.0], &[2.0]).unwrap().high, None);
    }

    #[test]
    fn a_difference_is_paired_or_spans_both_intervals() {
        let sure = difference(&[3.0, 9.0, 6.0], &[1.0, 7.0, 4.0]).unwrap();
        assert_eq!((sure.value, sure.half_width), (2.0, Some(0.0)));
        assert_eq!(difference(&[1.0, 2.0], &[1.0]), None);
        let [a, b] = [(5.0, 1.0), (2.0, 0.5)].map(|(value, half)| Estimate::student(value, half));
        let unpaired = a.less_unpaired(&b).unwrap();
        assert_eq!(unpaired.value, 3.0);
        assert_eq!((unpaired.low, unpaired.high), (Some(1.5), Some(4.5)));
    }
}
