// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers with only their significant digits.

/// The digits after the point that make three significant digits: 842, 12.3, 1.04, 0.104, 0.0104.
pub fn decimals(value: f64) -> usize {
    match value.abs() {
        0.0 => 0,
        0.0..0.0995 => 4,
        0.0995..0.995 => 3,
        0.995..9.995 => 2,
        9.995..99.95 => 1,
        _ => 0,
    }
}

/// A number without a unit.
pub fn digits(value: f64) -> String {
    // Counts are whole numbers.
    let decimals = match value.fract() == 0.0 {
        true => 0,
        false => decimals(value),
    };
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
            (0.999_9, "1.00"),
            (1.041, "1.04"),
            (9.996, "10.0"),
            (99.96, "100"),
            (8285.4, "8285"),
            (21.0, "21"),
        ] {
            assert_eq!(digits(value), expected);
        }
    }
}
