// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sizes in bytes, as iproute2 prints them.

/// A size in bytes, in the words of iproute2's `print_size()`: in the largest of `Gb`, `Mb` and
/// `Kb`, which are powers of 1024 bytes, that it is a multiple of, give or take a little (less
/// than 1024 bytes in a `Gb` or `Mb`, 16 bytes in a `Kb`), otherwise in `b`.
///
/// It is that of iproute2 7.2, for any version: that of 6.1 has no `Gb`, and takes 32 bits. And it
/// is exact where iproute2's is not: numbers of more than six digits, which iproute2 rounds.
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
