// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sizes in bytes, as iproute2 prints them.

/// A size in bytes, in the format of iproute2's `print_size()`. The unit is the largest of `Gb`,
/// `Mb` and `Kb`, which are powers of 1024 bytes, of which it is a multiple, with a small tolerance
/// (less than 1024 bytes for `Gb` or `Mb`, 16 bytes for `Kb`); otherwise `b`.
///
/// The format is that of iproute2 7.2 for every version: that of 6.1 lacks `Gb` and takes 32 bits.
/// Numbers of more than six digits are exact, while iproute2 rounds them.
pub fn text(bytes: u64) -> String {
    for (power, unit, tolerance) in [(30, "Gb", 1024), (20, "Mb", 1024), (10, "Kb", 16)] {
        let scale = 1_u64 << power;
        let count = bytes / scale + u64::from(bytes % scale >= scale / 2);
        let rounded = u128::from(count) << power;
        if bytes >= scale && rounded.abs_diff(bytes.into()) < tolerance {
            return format!("{count}{unit}");
        }
    }
    format!("{bytes}b")
}

/// A size in bytes that reads back as itself: as [`text`] if that is exact, otherwise in bytes.
pub fn exact(bytes: u64) -> String {
    match bytes % 1024 {
        0 => text(bytes),
        _ => format!("{bytes}b"),
    }
}
