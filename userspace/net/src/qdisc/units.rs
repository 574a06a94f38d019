// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rates, sizes and times as `tc` reads them (iproute2's `get_rate64`, `get_size`, `get_time`,
//! `get_time64`): a number that may have decimals and a unit in any case. For sizes and for times
//! in nanoseconds, values that `tc` would truncate are refused here. Other values are refused only
//! if they do not fit: they are read as `double`, by hand, so that the kernel gets the bytes that
//! `tc` sends.

use weft_words::quantity;

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
    let (number, unit) = split(text);
    let number: f64 = number.parse().ok()?;
    let (power, bits) = match unit.strip_suffix("bit") {
        Some(power) => (power, 1.0),
        None if unit.is_empty() => ("", 1.0),
        None => (unit.strip_suffix("bps")?, 8.0),
    };
    whole(number * bits * find(POWERS, power)? / 8.0)
}

/// In bytes, whole ones. A number alone is bytes; `k` is 1024.
pub(super) fn size(text: &str) -> Option<u32> {
    long_size(text)?.try_into().ok()
}

/// Like [`size`], without an upper limit.
pub(super) fn long_size(text: &str) -> Option<u64> {
    const UNITS: &[(&str, u64)] = &[
        ("", 1),
        ("b", 1),
        ("k", 1 << 10),
        ("kb", 1 << 10),
        ("kbit", 1 << 7),
        ("m", 1 << 20),
        ("mb", 1 << 20),
        ("mbit", 1 << 17),
        ("g", 1 << 30),
        ("gb", 1 << 30),
        ("gbit", 1 << 27),
    ];
    quantity::read(text, UNITS).ok()
}

/// In µs; a number alone is µs.
pub(super) fn microseconds(text: &str) -> Option<u32> {
    const UNITS: &[(&str, f64)] = &[("", 1.0), ("us", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (number, unit) = split(text);
    let number: f64 = number.parse().ok()?;
    whole(number * find(UNITS, short(&unit))?)?.try_into().ok()
}

/// In ns, whole ones; a number alone is ns.
pub(super) fn nanoseconds(text: &str) -> Option<u64> {
    let (number, unit) = quantity::split(text);
    let one = match unit {
        "" => 1,
        unit => find(quantity::TIMES, short(&unit.to_ascii_lowercase()))?,
    };
    quantity::scaled(number, one)
}

/// In C syntax: decimal, hexadecimal after `0x`, octal after `0`.
pub(super) fn number(text: &str) -> Option<u32> {
    long_number(text)?.try_into().ok()
}

/// Like [`number`], with 64 bits.
pub(super) fn long_number(text: &str) -> Option<u64> {
    let hexadecimal = text.strip_prefix("0x").or(text.strip_prefix("0X"));
    let (digits, radix) = match (hexadecimal, text.strip_prefix('0')) {
        (Some(digits), _) => (digits, 16),
        (None, Some(digits)) if !digits.is_empty() => (digits, 8),
        _ => (text, 10),
    };
    // A sign is not allowed.
    let plain = digits.chars().all(|c| c.is_digit(radix));
    u64::from_str_radix(digits, radix).ok().filter(|_| plain)
}

/// Between 0 and 1.
pub(super) fn probability(text: &str) -> Option<f64> {
    let (number, unit) = split(text);
    let number: f64 = number.parse().ok()?;
    (unit.is_empty() && number <= 1.0).then_some(number)
}

/// A unit of time; also `sec`, `secs`, `msec`, and so on.
fn short(unit: &str) -> &str {
    let short = unit.strip_suffix("ecs").or(unit.strip_suffix("ec"));
    short.filter(|short| short.ends_with('s')).unwrap_or(unit)
}

/// The number, and its unit in lower case.
fn split(text: &str) -> (&str, String) {
    let (number, unit) = quantity::split(text);
    (number, unit.to_ascii_lowercase())
}

fn find<T: Copy>(units: &[(&str, T)], unit: &str) -> Option<T> {
    units
        .iter()
        .find(|(name, _)| *name == unit)
        .map(|&(_, scale)| scale)
}

/// Without its fraction, like C's conversion.
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
        assert_eq!(size("1.5kb"), Some(1536));
        assert_eq!(size("4294967295"), Some(u32::MAX));
        for wrong in [
            "4gb",
            "4294967296",
            "1kib",
            "x",
            "1p",
            "",
            ".",
            "-1",
            "1.2.3",
        ] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_fraction_of_a_byte_or_nanosecond_is_refused() {
        for wrong in ["1.5", "1.0001kb", "0.1"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
        for wrong in ["1.5", "0.5ns", "1.0001us", "20000000000s", "-1", ""] {
            assert_eq!(nanoseconds(wrong), None, "{wrong}");
        }
        // As doubles, 1000.9999999999999.
        assert_eq!(nanoseconds("1.001us"), Some(1001));
        assert_eq!(nanoseconds("0.000000001s"), Some(1));
        assert_eq!(nanoseconds("18446744073709551615"), Some(u64::MAX));
    }

    #[test]
    fn numbers_are_read_as_c_reads_them() {
        for (text, expected) in [
            ("10", Some(10)),
            ("010", Some(8)),
            ("0", Some(0)),
            ("00", Some(0)),
            ("0x10", Some(16)),
            ("0XfF", Some(255)),
            ("08", None),
            ("0x", None),
            ("+1", None),
            ("-1", None),
            ("1k", None),
            ("", None),
        ] {
            assert_eq!(long_number(text), expected, "{text}");
        }
    }

    #[test]
    fn times_without_a_unit_are_microseconds_or_nanoseconds_as_in_tc() {
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
