// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers of bytes as people write them.

use crate::error::{Result, invalid};

const UNITS: [(&str, u64); 13] = [
    ("", 1),
    ("B", 1),
    ("k", 1_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("M", 1_000_000),
    ("MB", 1_000_000),
    ("G", 1_000_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// Bytes: `1460`, `20kB`, `1.5MB`, `64KiB`; k, M and G are powers of 1000.
///
/// # Errors
///
/// If it is no number, has an unknown unit, or is not a whole number of bytes below 2^53.
pub fn bytes(text: &str) -> Result<u64> {
    let text = text.trim();
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = UNITS.iter().find(|(name, _)| *name == unit.trim());
    let (Ok(number), Some((_, factor))) = (number.parse::<f64>(), factor) else {
        return invalid(format!(
            "`{text}` is not a size: expected for example 1460, 20kB, 1.5MB or 64KiB"
        ));
    };
    let bytes = number * *factor as f64;
    // Decimal fractions are not exact in binary: 1.1 MB is meant to be whole.
    let whole = bytes.round();
    if (bytes - whole).abs() > 1e-6 || whole >= (1_u64 << 53) as f64 {
        return invalid(format!("`{text}` is not a whole number of bytes"));
    }
    Ok(whole as u64)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        for (text, expected) in [
            ("0", 0),
            ("1460", 1460),
            ("20kB", 20_000),
            ("1.1MB", 1_100_000),
            ("64KiB", 65_536),
            ("2 GB", 2_000_000_000),
        ] {
            assert_eq!(bytes(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "k",
            "1.5",
            "1.0005k",
            "-1",
            "3 bits",
            "1e3",
            "1..2",
            "99999999G",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
