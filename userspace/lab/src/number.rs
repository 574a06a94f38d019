// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers with only their significant digits.

/// The most digits after the point.
const MOST: usize = 9;

/// The digits after the point that make three significant digits: 842, 12.3, 1.04, 0.104, 0.00104.
pub fn decimals(value: f64) -> usize {
    let value = value.abs();
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    // The first number of digits that does not leave too few of them.
    let is_enough = |decimals: &usize| value * 10_f64.powi(*decimals as i32) >= 99.95;
    (0..MOST).find(is_enough).unwrap_or(MOST)
}

/// A number without a unit.
pub fn digits(value: f64) -> String {
    rounded(value, decimals(value))
}

/// A number with this many digits after the point; a whole number, such as a count, has none.
pub fn rounded(value: f64, decimals: usize) -> String {
    let decimals = if value.fract() == 0.0 { 0 } else { decimals };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_with_three_digits() {
        for (value, expected) in [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (0.004_132, "0.00413"),
            (0.000_002_73, "0.00000273"),
            (-0.000_999_6, "-0.00100"),
            (1e-12, "0.000000000"),
            (0.999_9, "1.00"),
            (1.041, "1.04"),
            (9.996, "10.0"),
            (9.95, "9.95"),
            (99.96, "100"),
            (8285.4, "8285"),
            (21.0, "21"),
        ] {
            assert_eq!(digits(value), expected);
        }
    }
}
