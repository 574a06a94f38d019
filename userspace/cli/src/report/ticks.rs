// SPDX-License-Identifier: MIT OR Apache-2.0

//! The range of an axis, and the values that it labels.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};

/// The scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    Linear,
    Log,
    /// Whole numbers, each of which represents a value.
    Steps,
}

/// The ends of an axis, and its labelled values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Ticks {
    scale: Scale,
    pub(super) from: f64,
    pub(super) to: f64,
    pub(super) at: Vec<f64>,
}

/// Approximate number of labels on an axis.
const ABOUT: usize = 5;

impl Ticks {
    /// An axis for these values; a logarithmic axis ignores values that are not positive.
    pub(super) fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Option<Self> {
        let fits = |value: &f64| value.is_finite() && (scale != Scale::Log || *value > 0.0);
        let (low, high) = values
            .filter(fits)
            .map(|value| (value, value))
            .reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))?;
        Some(match scale {
            Scale::Linear => Self::linear(low, high),
            Scale::Log => Self::log(low, high),
            Scale::Steps => Self::steps(low, high),
        })
    }

    /// The place of a value as a share of the axis.
    pub(super) fn share(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear | Scale::Steps => (value - self.from) / (self.to - self.from),
            Scale::Log => (value / self.from).ln() / (self.to / self.from).ln(),
        }
    }

    /// An axis of `count` rows from 0, each with a label at its middle.
    pub(super) fn rows(count: usize) -> Self {
        Self {
            scale: Scale::Linear,
            from: 0.0,
            to: count as f64,
            at: (0..count).map(|row| row as f64 + 0.5).collect(),
        }
    }

    /// Labels each number.
    fn steps(low: f64, high: f64) -> Self {
        const MARGIN: f64 = 0.3;
        Self {
            scale: Scale::Steps,
            from: low - MARGIN,
            to: high + MARGIN,
            at: (low as i64..=high as i64).map(|n| n as f64).collect(),
        }
    }

    /// From 0 or the smallest value to a little above the largest one.
    fn linear(low: f64, high: f64) -> Self {
        let low = low.min(0.0);
        let span = if high > low { high - low } else { 1.0 };
        let rough = span / ABOUT as f64;
        let decade = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0]
            .map(|factor| factor * decade)
            .into_iter()
            .find(|step| *step >= rough)
            .unwrap_or(10.0 * decade);
        let (first, last) = ((low / step).ceil() as i64, (low + span) / step);
        let last = (last + 1e-9).floor() as i64;
        Self {
            scale: Scale::Linear,
            from: low,
            to: low + span * 1.03,
            at: (first..=last).map(|n| n as f64 * step).collect(),
        }
    }

    /// A little more than the values. Powers of ten have labels, and some values between if there
    /// are few.
    fn log(low: f64, high: f64) -> Self {
        // At least a tenth of a factor of two, and 3 % of the axis.
        let margin = (high / low).powf(0.03).max(1.07);
        let (from, to) = (low / margin, high * margin);
        let at = |digits: &[f64]| -> Vec<f64> {
            let decades = from.log10().floor() as i32..=to.log10().ceil() as i32;
            decades
                .flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)))
                .filter(|value| (from..=to).contains(value))
                .collect()
        };
        let choices: [&[f64]; 5] = [
            &[1.0],
            &[1.0, 3.0],
            &[1.0, 2.0, 5.0],
            &[1.0, 1.5, 2.0, 3.0, 5.0, 7.0],
            &[
                1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0,
            ],
        ];
        let named = choices.map(at);
        let enough = named.iter().find(|at| at.len() + 1 >= ABOUT);
        let most = || named.iter().max_by_key(|at| at.len());
        let at = enough.or_else(most).cloned().unwrap_or_default();
        Self {
            scale: Scale::Log,
            from,
            to,
            at,
        }
    }
}

impl Ranged for Ticks {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (begin, end): (i32, i32)) -> i32 {
        begin + (self.share(*value) * f64::from(end - begin)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight().allow_light_points() {
            true => Vec::new(),
            false => self.at.clone(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.from..self.to
    }
}

/// 1, 20, 0.25, 1500, 20k, 3M.
pub(super) fn number(value: f64) -> String {
    scaled(value, &[(1e9, "G"), (1e6, "M"), (1e4, "k")], "")
}

/// 400 B, 10 kB, 1.5 MB.
pub(super) fn bytes(value: f64) -> String {
    scaled(value, &[(1e9, " GB"), (1e6, " MB"), (1e3, " kB")], " B")
}

/// 10 µs, 1.5 ms, 2 s.
pub(super) fn time(ns: f64) -> String {
    scaled(ns, &[(1e9, " s"), (1e6, " ms"), (1e3, " µs")], " ns")
}

fn scaled(value: f64, units: &[(f64, &str)], smallest: &str) -> String {
    // A tick is computed and may be slightly less than its exact value.
    let fits = |unit: &&(f64, &str)| value.abs() * 1.000_001 >= unit.0;
    let (divisor, name) = units.iter().find(fits).map_or((1.0, smallest), |it| *it);
    let divisor = if name == "k" { 1e3 } else { divisor };
    let text = format!("{:.3}", value / divisor);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}{name}", if text == "-0" { "0" } else { text })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: Scale, values: [f64; 2]) -> Vec<String> {
        let ticks = Ticks::new(scale, values.into_iter()).unwrap();
        assert!(ticks.from <= values[0] && values[1] <= ticks.to);
        assert!(
            ticks
                .at
                .iter()
                .all(|at| (ticks.from..=ticks.to).contains(at))
        );
        ticks.at.into_iter().map(number).collect()
    }

    #[test]
    fn linear_ticks_are_round_and_few() {
        let cases: [([f64; 2], &[&str]); 4] = [
            ([0.0, 1.0], &["0", "0.2", "0.4", "0.6", "0.8", "1"]),
            ([3.0, 38.0], &["0", "10", "20", "30"]),
            ([0.0, 224_000.0], &["0", "50k", "100k", "150k", "200k"]),
            ([0.0, 0.0], &["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        ];
        for (values, expected) in cases {
            assert_eq!(ticks(Scale::Linear, values), expected, "{values:?}");
        }
    }

    #[test]
    fn log_ticks_are_powers_of_ten_or_round_numbers_between() {
        let cases: [([f64; 2], &[&str]); 3] = [
            ([1_000.0, 3e7], &["1000", "10k", "100k", "1M", "10M"]),
            ([1.0, 60.0], &["1", "3", "10", "30"]),
            (
                [1.1, 3.4],
                &["1.2", "1.4", "1.6", "1.8", "2", "2.5", "3", "3.5"],
            ),
        ];
        for (values, expected) in cases {
            assert_eq!(ticks(Scale::Log, values), expected, "{values:?}");
        }
    }

    #[test]
    fn an_axis_with_one_value_encloses_it() {
        for value in [1.0, 1e6, 3e-4] {
            let ticks = Ticks::new(Scale::Log, [value; 2].into_iter()).unwrap();
            assert!(ticks.from < value && value < ticks.to);
        }
        assert_eq!(Ticks::new(Scale::Log, [0.0, f64::NAN].into_iter()), None);
        assert_eq!(Ticks::new(Scale::Linear, std::iter::empty()), None);
    }

    #[test]
    fn each_step_has_a_tick() {
        assert_eq!(ticks(Scale::Steps, [0.0, 3.0]), ["0", "1", "2", "3"]);
        assert_eq!(ticks(Scale::Steps, [0.0, 0.0]), ["0"]);
    }

    #[test]
    fn ticks_have_the_largest_unit_that_keeps_them_whole() {
        assert_eq!(bytes(1e3), "1 kB");
        assert_eq!(bytes(999_999.999_999), "1 MB");
        assert_eq!(bytes(100.0), "100 B");
        assert_eq!(time(10_f64.powi(4)), "10 µs");
        assert_eq!(time(1.5e6), "1.5 ms");
        assert_eq!(number(0.0), "0");
        assert_eq!(number(0.25), "0.25");
        assert_eq!(number(2_000.0), "2000");
        assert_eq!(number(20_000.0), "20k");
    }
}
