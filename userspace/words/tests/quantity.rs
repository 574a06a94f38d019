// SPDX-License-Identifier: MIT OR Apache-2.0

//! Numbers with a unit.

use weft_words::quantity::exact;

/// The values that `tc` gives to units. It is only called with "1" and a unit.
fn one(text: &str) -> Option<u64> {
    match text {
        "1" | "1ns" => Some(1),
        "1us" => Some(1_000),
        "1kb" => Some(1_024),
        "1e3" => Some(1_000),
        "1s" => Some(1_000_000_000),
        _ => None,
    }
}

#[test]
fn whole_numbers_are_parsed() {
    for (text, number) in [
        ("0", 0),
        ("24", 24),
        ("+24", 24),
        ("007", 7),
        ("18446744073709551615", u64::MAX),
        ("0x18", 24),
        ("0XfF", 255),
        ("2kb", 2_048),
        ("2e3", 2_000),
    ] {
        assert_eq!(exact(text, one), Some(number), "{text}");
    }
}

#[test]
fn a_fraction_of_a_unit_is_exact_if_the_result_is_whole() {
    for (text, number) in [
        ("1.0", 1),
        ("1.", 1),
        (".5kb", 512),
        ("1.5us", 1_500),
        // As doubles, 1000.9999999999999 and 8_999_999.999999999.
        ("1.001us", 1_001),
        ("0.009000000s", 9_000_000),
        ("0.000000001s", 1),
    ] {
        assert_eq!(exact(text, one), Some(number), "{text}");
    }
}

#[test]
fn numbers_that_are_not_whole_or_do_not_fit_are_refused() {
    for text in [
        "1.5",
        "0.0001us",
        "1.0001kb",
        "0.0000000001s",
        "18446744073709551616",
        "20000000000s",
        "0x10000000000000000",
        "0x1.8",
        "1e-1",
        "-1",
        "-0",
    ] {
        assert_eq!(exact(text, one), None, "{text}");
    }
}

#[test]
fn words_and_malformed_numbers_are_refused() {
    for text in [
        "", ".", "+", "kb", "1.2.3", "1..2", "24x", "1 kb", "0x", "0x+1", "++1", "inf", "nan",
    ] {
        assert_eq!(exact(text, one), None, "{text}");
    }
    let long = format!("1.{}", "0".repeat(100));
    assert_eq!(exact(&long, one), None);
}
