// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers with their significant digits.

use weft_lab::number::{decimals, digits};
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
    let Some(estimate) = estimate else {
        return "–".to_owned();
    };
    let value = estimate.value;
    let decimals = decimals(value);
    match (estimate.half_width, estimate.low, estimate.high) {
        // All seeds gave the same value.
        (Some(0.0), ..) => digits(value),
        (Some(half), ..) => format!("{value:.decimals$} ± {half:.decimals$}"),
        (None, Some(low), Some(high)) if low < high => {
            format!("{value:.decimals$} [{low:.decimals$}, {high:.decimals$}]")
        }
        _ => digits(value),
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
        let mut drawn = Estimate::alone(12.34);
        (drawn.low, drawn.high) = (Some(11.02), Some(14.99));
        assert_eq!(show(Some(drawn)), "12.3 [11.0, 15.0]");
        (drawn.low, drawn.high) = (Some(12.34), Some(12.34));
        assert_eq!(show(Some(drawn)), "12.3");
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
