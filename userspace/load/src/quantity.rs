// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sizes in bytes as people write them.

use weft_words::quantity::{self, Wrong};

use crate::error::{Result, invalid};

const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("k", 1_000),
    ("kb", 1_000),
    ("m", 1_000_000),
    ("mb", 1_000_000),
    ("g", 1_000_000_000),
    ("gb", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("tb", 1_000_000_000_000),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

/// Parses bytes: `1460`, `20kB`, `1.5MB`, `64KiB`, units in any case; k, M, G and T are powers of
/// 1000.
///
/// # Errors
///
/// If it is not a number, has an unknown unit, or is not a whole number of bytes below 2^53.
pub fn bytes(text: &str) -> Result<u64> {
    let (number, unit) = quantity::split(text.trim());
    let unit = unit.trim();
    // Joined with the number, digits after a space would be some of its digits.
    let read = match unit.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        true => Err(Wrong::Form),
        false => quantity::read(&format!("{number}{unit}"), &UNITS),
    };
    match read {
        Ok(bytes) if bytes < 1 << 53 => Ok(bytes),
        Ok(_) | Err(Wrong::Size) => invalid(format!(
            "`{text}` is not a whole number of bytes below 2^53"
        )),
        Err(Wrong::Form) => invalid(format!(
            "`{text}` is not a size: expected for example 1460, 20kB, 1.5MB or 64KiB"
        )),
    }
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
            ("20kb", 20_000),
            ("1TB", 1_000_000_000_000),
            ("2 GB", 2_000_000_000),
            ("20KB", 20_000),
            ("1mib", 1 << 20),
        ] {
            assert_eq!(bytes(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn malformed_sizes_are_refused() {
        for text in [
            "",
            "k",
            "1.5",
            "1.0005k",
            "-1",
            "3 bits",
            "1e3",
            "1..2",
            "2 5kB",
            "1 000",
            "1 .5kB",
            "99999999G",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
