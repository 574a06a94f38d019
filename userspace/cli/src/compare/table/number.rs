// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers with as many digits as mean something.

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
    /// The largest in which no time of a row is below 1.
    pub(crate) fn of(row: &[Option<Estimate>]) -> Self {
        let times = row.iter().flatten().map(|it| it.mean);
        let least = times.fold(f64::INFINITY, f64::min);
        let fits = |unit: &&Unit| least.is_finite() && least >= unit.ns;
        *UNITS.iter().find(fits).unwrap_or(&UNITS[3])
    }
}

/// A figure; a confidence interval has its mean's last digit.
pub(crate) fn show(estimate: Option<Estimate>) -> String {
    match estimate {
        None => "–".to_owned(),
        Some(Estimate {
            mean,
            half_width: None,
        }) => digits(mean),
        Some(Estimate {
            mean,
            half_width: Some(half),
        }) => {
            let decimals = decimals(mean);
            format!("{mean:.decimals$} ± {half:.decimals$}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(mean: f64, half_width: Option<f64>) -> Option<Estimate> {
        Some(Estimate { mean, half_width })
    }

    #[test]
    fn an_interval_ends_where_its_mean_does() {
        assert_eq!(show(None), "–");
        assert_eq!(show(estimate(1.041, None)), "1.04");
        assert_eq!(show(estimate(1.041, Some(12.346))), "1.04 ± 12.35");
        assert_eq!(show(estimate(259.2, Some(5.9))), "259 ± 6");
    }

    #[test]
    fn a_row_has_the_largest_unit_in_which_none_is_below_one() {
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
