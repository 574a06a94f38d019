// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rates, sizes and times as `tc` reads them (iproute2's `get_rate64`, `get_size`, `get_time`,
//! `get_time64`): a number that may have decimals and a unit in any case. What `tc` would round,
//! cut off or wrap around is refused here only where it does not fit.

/// In byte/s. A number alone is bit/s; `k` is 1000, `ki` 1024, `bps` bytes.
pub(super) fn rate(text: &str) -> Option<u64> {
    const POWERS: &[(&str, f64)] = &[
        ("", 1.0),
        ("k", 1e3),
        ("ki", 1024.0),
        ("m", 1e6),
        ("mi", 1_048_576.0),
        ("g", 1e9),
        ("gi", 1_073_741_824.0),
        ("t", 1e12),
        ("ti", 1_099_511_627_776.0),
    ];
    let (number, unit) = split(text)?;
    let (power, bits) = match unit.strip_suffix("bit") {
        Some(power) => (power, 1.0),
        None if unit.is_empty() => ("", 1.0),
        None => (unit.strip_suffix("bps")?, 8.0),
    };
    whole(number * bits * find(POWERS, power)? / 8.0)
}

/// In bytes. A number alone is bytes; `k` is 1024.
pub(super) fn size(text: &str) -> Option<u32> {
    const UNITS: &[(&str, f64)] = &[
        ("", 1.0),
        ("b", 1.0),
        ("k", 1024.0),
        ("kb", 1024.0),
        ("kbit", 128.0),
        ("m", 1_048_576.0),
        ("mb", 1_048_576.0),
        ("mbit", 131_072.0),
        ("g", 1_073_741_824.0),
        ("gb", 1_073_741_824.0),
        ("gbit", 134_217_728.0),
    ];
    let (number, unit) = split(text)?;
    whole(number * find(UNITS, &unit)?)?.try_into().ok()
}

/// In µs; a number alone is µs.
pub(super) fn microseconds(text: &str) -> Option<u32> {
    const UNITS: &[(&str, f64)] = &[("", 1.0), ("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    time(text, UNITS)?.try_into().ok()
}

/// In ns; a number alone is ns.
pub(super) fn nanoseconds(text: &str) -> Option<u64> {
    const UNITS: &[(&str, f64)] = &[("", 1.0), ("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    time(text, UNITS)
}

/// Decimal, or hexadecimal after `0x`.
pub(super) fn number(text: &str) -> Option<u32> {
    long_number(text)?.try_into().ok()
}

/// Decimal, or hexadecimal after `0x`.
pub(super) fn long_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Between 0 and 1.
pub(super) fn probability(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    (unit.is_empty() && number <= 1.0).then_some(number)
}

fn time(text: &str, units: &[(&str, f64)]) -> Option<u64> {
    let (number, unit) = split(text)?;
    // Also `sec`, `secs`, `msec`, and so on.
    let short = unit.strip_suffix("ecs").or(unit.strip_suffix("ec"));
    let unit = short.filter(|short| short.ends_with('s')).unwrap_or(&unit);
    whole(number * find(units, unit)?)
}

fn split(text: &str) -> Option<(f64, String)> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    Some((number.parse().ok()?, unit.to_ascii_lowercase()))
}

fn find(units: &[(&str, f64)], unit: &str) -> Option<f64> {
    units
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|&(_, scale)| scale)
}

/// Without its fraction, as C's conversion has it.
fn whole(value: f64) -> Option<u64> {
    (value < u64::MAX as f64).then_some(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bits_unless_they_say_bytes() {
        assert_eq!(rate("10mbit"), Some(1_250_000));
        assert_eq!(rate("10Mbit"), Some(1_250_000));
        assert_eq!(rate("800"), Some(100));
        assert_eq!(rate("1.5gbit"), Some(187_500_000));
        assert_eq!(rate("1kibit"), Some(128));
        assert_eq!(rate("10kbps"), Some(10_000));
        assert_eq!(rate("400gbit"), Some(50_000_000_000));
        for wrong in [
            "", "mbit", "10 mbit", "10mb", "-1mbit", "1e3", "nan", "10%", "1bits",
        ] {
            assert_eq!(rate(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(size("15k"), Some(15_360));
        assert_eq!(size("15Kb"), Some(15_360));
        assert_eq!(size("1mb"), Some(1 << 20));
        assert_eq!(size("1514b"), Some(1514));
        assert_eq!(size("8kbit"), Some(1024));
        for wrong in ["4gb", "1kib", "x", "1p"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_alone_are_microseconds_or_nanoseconds_as_tc_has_it() {
        assert_eq!(microseconds("5"), Some(5));
        assert_eq!(microseconds("5ms"), Some(5000));
        assert_eq!(microseconds("1.5msec"), Some(1500));
        assert_eq!(microseconds("1secs"), Some(1_000_000));
        assert_eq!(microseconds("5ns"), None);
        assert_eq!(nanoseconds("5"), Some(5));
        assert_eq!(nanoseconds("200us"), Some(200_000));
        assert_eq!(nanoseconds("10usecs"), Some(10_000));
        assert_eq!(nanoseconds("1ec"), None);
    }
}
