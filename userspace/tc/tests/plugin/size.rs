// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sizes: the texts are those of `sprint_size()` in iproute2 7.2, unless a test states otherwise.

use weft_tc::size::{exact, text};

#[test]
fn sizes_below_a_kilobyte_are_bytes() {
    assert_eq!(text(0), "0b");
    assert_eq!(text(84), "84b");
    assert_eq!(text(1007), "1007b");
    assert_eq!(text(1023), "1023b");
}

#[test]
fn sizes_within_16_bytes_of_a_kilobyte_are_kilobytes() {
    assert_eq!(text(1024), "1Kb");
    assert_eq!(text(1039), "1Kb");
    assert_eq!(text(1040), "1040b");
    assert_eq!(text(2 * 1024 - 16), "2032b");
    assert_eq!(text(2 * 1024 - 15), "2Kb");
    assert_eq!(text(36 * 1024), "36Kb");
    assert_eq!(text(36_000), "36000b");
}

#[test]
fn sizes_within_a_kilobyte_of_a_megabyte_are_megabytes() {
    const MB: u64 = 1 << 20;
    assert_eq!(text(MB - 1), "1024Kb");
    assert_eq!(text(MB), "1Mb");
    assert_eq!(text(MB + 1023), "1Mb");
    assert_eq!(text(MB + 1024), "1025Kb");
    assert_eq!(text(2 * MB - 1024), "2047Kb");
    assert_eq!(text(2 * MB - 1023), "2Mb");
    assert_eq!(text(MB + MB / 2), "1536Kb");
}

#[test]
fn sizes_within_a_kilobyte_of_a_gigabyte_are_gigabytes() {
    const GB: u64 = 1 << 30;
    assert_eq!(text(GB - 1), "1024Mb");
    assert_eq!(text(GB), "1Gb");
    assert_eq!(text(GB + 1023), "1Gb");
    assert_eq!(text(4 * GB), "4Gb");
    assert_eq!(text(u32::MAX.into()), "4Gb");
}

/// iproute2 rounds to six digits: `4.1943e+06Kb`, `1.71799e+10Gb`, `1.80144e+16Kb`.
#[test]
fn large_numbers_are_exact() {
    assert_eq!(text((4 << 30) - 1024), "4194303Kb");
    assert_eq!(text(u64::MAX), "17179869184Gb");
    assert_eq!(text(u64::MAX - 2048), "18014398509481982Kb");
    assert_eq!(text(u64::MAX - 100_100), "18446744073709451515b");
}

#[test]
fn an_exact_size_is_never_rounded() {
    for (bytes, shown) in [
        (0, "0b"),
        (1024, "1Kb"),
        (1025, "1025b"),
        ((1 << 20) + 1023, "1049599b"),
        ((1 << 20) + 1024, "1025Kb"),
        (1 << 30, "1Gb"),
        (u32::MAX.into(), "4294967295b"),
    ] {
        assert_eq!(exact(bytes), shown);
    }
}
