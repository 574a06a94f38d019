// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers with their significant digits.

use weft_lab::number::{decimals, rounded};
use weft_lab::results::Estimate;

/// A unit of times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unit {
    pub(crate) name: &'static str,
    pub(crate) ns: f64,
}

const UNITS: [Unit; 4] = [
    Unit { name: "s", ns: 1e9 },
    Unit {
        name: "ms",
        ns: 1e6,
    },
    Unit {
        name: "µs",
        ns: 1e3,
    },
    Unit {
        name: "ns",
        ns: 1.0,
    },
];

impl Unit {
    /// The largest unit in which no time of a row is below 1.
    pub(crate) fn of(row: &[Option<Estimate>]) -> Self {
        let times = row.iter().flatten().map(|it| it.value);
        let least = times.fold(f64::INFINITY, f64::min);
        let fits = |unit: &&Unit| least.is_finite() && least >= unit.ns;
        *UNITS.iter().find(fits).unwrap_or(&UNITS[3])
    }
}

/// Formats a figure and its confidence interval with the same last digit: `A ± B` for Student's t,
/// `A [L, H]` for a bootstrap.
pub(crate) fn show(estimate: Option<Estimate>) -> String {
    estimate.map_or_else(|| "–".to_owned(), |it| show_with(it, usual(it)))
}

/// Three significant digits. A small figure has no more decimals than its interval needs.
fn usual(estimate: Estimate) -> usize {
    const FEW: usize = 4;
    let of_interval = estimate.half_width.filter(|half| *half > 0.0).map(decimals);
    let most = of_interval.map_or(usize::MAX, |it| it.max(FEW));
    decimals(estimate.value).min(most)
}

/// The same with more digits where the usual three would put the figure on the other side of one of
/// these limits, or on the limit: 0.99984 beside 0.9999.
pub(crate) fn show_beside(estimate: Option<Estimate>, limits: &[f64]) -> String {
    /// A figure that is closer to a limit than this many digits can show equals it for a reader.
    const MORE: usize = 6;
    let Some(estimate) = estimate else {
        return show(None);
    };
    let value = estimate.value;
    let usual = usual(estimate);
    let is_distinct = |decimals: &usize| {
        let rounded: f64 = format!("{value:.decimals$}").parse().unwrap_or(value);
        let side = |limit: &f64| rounded.total_cmp(limit) == value.total_cmp(limit);
        limits.iter().all(side)
    };
    let decimals = (usual..=usual + MORE).find(is_distinct).unwrap_or(usual);
    show_with(estimate, decimals)
}

fn show_with(estimate: Estimate, decimals: usize) -> String {
    let value = estimate.value;
    match (estimate.half_width, estimate.low, estimate.high) {
        // All seeds gave the same value.
        (Some(0.0), ..) => rounded(value, decimals),
        (Some(half), ..) => format!("{value:.decimals$} ± {half:.decimals$}"),
        (None, Some(low), Some(high)) if low < high => {
            format!("{value:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
        }
        _ => rounded(value, decimals),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(value: f64, half_width: Option<f64>) -> Option<Estimate> {
        Some(Estimate {
            half_width,
            ..Estimate::alone(value)
        })
    }

    #[test]
    fn an_interval_has_as_many_decimals_as_its_mean() {
        assert_eq!(show(None), "–");
        assert_eq!(show(estimate(1.041, None)), "1.04");
        assert_eq!(show(estimate(1.041, Some(12.346))), "1.04 ± 12.35");
        assert_eq!(show(estimate(259.2, Some(5.9))), "259 ± 6");
        assert_eq!(show(estimate(0.006_76, Some(0.010_87))), "0.0068 ± 0.0109");
        assert_eq!(
            show(estimate(0.000_021, Some(0.000_004))),
            "0.0000210 ± 0.0000040"
        );
        assert_eq!(show(estimate(0.000_003, None)), "0.00000300");
        let mut drawn = Estimate::alone(12.34);
        (drawn.low, drawn.high) = (Some(11.02), Some(14.99));
        assert_eq!(show(Some(drawn)), "12.3 [11.0, 15.0]");
        (drawn.low, drawn.high) = (Some(12.34), Some(12.34));
        assert_eq!(show(Some(drawn)), "12.3");
    }

    #[test]
    fn a_figure_is_on_the_side_of_a_limit_on_which_it_was_measured() {
        let beside = |value, limits: &[f64]| show_beside(estimate(value, None), limits);
        assert_eq!(beside(0.999_838, &[0.9999]), "0.9998");
        assert_eq!(beside(0.999_838, &[1.0]), "0.9998");
        assert_eq!(beside(1.000_036, &[1.0]), "1.00004");
        assert_eq!(beside(1.0, &[1.0]), "1");
        assert_eq!(beside(1.041, &[1.0, 2.0]), "1.04");
        assert_eq!(beside(2.996, &[3.0]), "2.996");
        assert_eq!(beside(1.0 - 1e-12, &[1.0]), "1.00");
        let interval = show_beside(estimate(2.996, Some(0.0021)), &[3.0]);
        assert_eq!(interval, "2.996 ± 0.002");
        assert_eq!(show_beside(None, &[1.0]), "–");
    }

    #[test]
    fn a_row_has_the_largest_unit_in_which_no_number_is_below_one() {
        let unit = |means: &[f64]| {
            let row: Vec<_> = means.iter().map(|mean| estimate(*mean, None)).collect();
            Unit::of(&row).name
        };
        assert_eq!(unit(&[48_900.0, 3e9]), "µs");
        assert_eq!(unit(&[1e9]), "s");
        assert_eq!(unit(&[0.5]), "ns");
        assert_eq!(Unit::of(&[None]).name, "ns");
    }
}
