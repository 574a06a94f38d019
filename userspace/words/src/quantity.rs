// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers with a unit, exactly.
//!
//! iproute2 and others multiply numbers as `double` and cut off what does not fit an integer: 1.5
//! bytes are one, and 1.001 µs are 1000 ns. Here a number is a decimal one of any length, its unit
//! says what 1 of it is, and what is not whole is refused.

/// Units of time, in ns.
pub const TIMES: &[(&str, u64)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// Why a text is no quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It is no number, or its unit is none.
    Form,
    /// It is a number with a unit, but not a whole one, or too large.
    Size,
}

/// Unsigned decimal digits, with a fraction or without, and one of `units`, in any case: its name
/// and what 1 of it is. The name `""` is that of no unit.
///
/// # Errors
///
/// [`Wrong::Size`] if it is not whole or does not fit, otherwise [`Wrong::Form`].
pub fn read(text: &str, units: &[(&str, u64)]) -> Result<u64, Wrong> {
    let (number, unit) = split(text);
    let mut units = units.iter();
    let (_, one) = units
        .find(|(name, _)| unit.eq_ignore_ascii_case(name))
        .ok_or(Wrong::Form)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(Wrong::Form);
    }
    // Zeros at the end say nothing, and may be many.
    let fraction = fraction.trim_end_matches('0');
    scaled(&format!("{whole}.{fraction}"), *one).ok_or(Wrong::Size)
}

/// A value in the largest of `units`, which are given from the smallest, in which it is whole.
pub fn show(value: u64, units: &[(&str, u64)]) -> String {
    let whole = |(_, one): &&(&str, u64)| value != 0 && value.is_multiple_of(*one);
    match units.iter().rev().find(whole).or(units.first()) {
        Some((unit, one)) => format!("{}{unit}", value / one),
        None => value.to_string(),
    }
}

/// What `text` stands for: a decimal number, with a fraction or without, times what `one` says is 1
/// of its unit; or a hexadecimal number after `0x`, without a unit.
///
/// `None` if it is no such number, is not whole, or does not fit.
pub fn exact(text: &str, one: impl FnOnce(&str) -> Option<u64>) -> Option<u64> {
    let text = text.strip_prefix('+').unwrap_or(text);
    if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
        // The sign would be a second one.
        let number = u64::from_str_radix(digits, 16).ok();
        return number
            .filter(|_| !digits.starts_with('+'))?
            .checked_mul(one("1")?);
    }
    let (number, unit) = split(text);
    // With an exponent below 0, that one may not be whole itself.
    if unit.contains('-') {
        return None;
    }
    scaled(number, one(&format!("1{unit}"))?)
}

/// A decimal number, with a fraction or without, times a scale.
///
/// `None` if it is no such number, is not whole, or does not fit.
pub fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // Fails without a digit, and with a second point.
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let parts = 10_u128.checked_pow(fraction.len().try_into().ok()?)?;
    let product = digits.checked_mul(scale.into())?;
    if product % parts != 0 {
        return None;
    }
    (product / parts).try_into().ok()
}

/// The digits and points that a text begins with, and the rest, which is its unit.
pub fn split(text: &str) -> (&str, &str) {
    let other = |c: char| !c.is_ascii_digit() && c != '.';
    text.split_at(text.find(other).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_quantity_is_a_number_and_a_unit() {
        for (text, expected) in [
            ("14.6us", Ok(14_600)),
            ("2S", Ok(2_000_000_000)),
            ("0.000000001s", Ok(1)),
            (
                "1.5000000000000000000000000000000000000000000000000000us",
                Ok(1_500),
            ),
            ("0.5ns", Err(Wrong::Size)),
            ("18446744073709551615ns", Ok(u64::MAX)),
            ("18446744073709551616ns", Err(Wrong::Size)),
            (
                "99999999999999999999999999999999999999999s",
                Err(Wrong::Size),
            ),
            ("5", Err(Wrong::Form)),
            ("5 us", Err(Wrong::Form)),
            ("-5us", Err(Wrong::Form)),
            ("+5us", Err(Wrong::Form)),
            (".5us", Err(Wrong::Form)),
            ("5.us", Err(Wrong::Form)),
            ("1.2.3us", Err(Wrong::Form)),
            ("1e3us", Err(Wrong::Form)),
            ("us", Err(Wrong::Form)),
            ("", Err(Wrong::Form)),
        ] {
            assert_eq!(read(text, TIMES), expected, "{text}");
        }
        assert_eq!(read("7", &[("", 1)]), Ok(7));
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(value: u64) {
            prop_assert_eq!(read(&show(value, TIMES), TIMES), Ok(value));
        }

        /// A fraction is what it is in the smaller unit.
        #[test]
        fn a_fraction_is_exact(whole in 0_u64..1 << 40, thousandths in 0_u64..1000) {
            let text = format!("{whole}.{thousandths:03}us");
            prop_assert_eq!(read(&text, TIMES), Ok(whole * 1000 + thousandths));
        }
    }
}
