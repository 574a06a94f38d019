// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers with a unit, exactly.
//!
//! iproute2 multiplies numbers as `double` and cuts off what does not fit an integer: 1.5 bytes are
//! one, and 1.001 µs are 1000 ns. So it is asked only what a unit stands for.

/// What `text` stands for: a decimal number, with a fraction or without, times what `one` says is 1 of
/// its unit; or a hexadecimal number after `0x`, without a unit.
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
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
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
