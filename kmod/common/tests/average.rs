// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The moving average, against wider numbers.

use proptest::prelude::*;
use weft_mechanisms::common::average::average;

#[test]
fn a_part_of_the_time_has_that_weight() {
    assert_eq!(average(100, 200, 0, 8), 100);
    assert_eq!(average(100, 200, 2, 8), 125);
    assert_eq!(average(100, 200, 8, 8), 200);
    assert_eq!(average(100, 200, 9, 8), 200);
    assert_eq!(average(5, 5, 3, 0), 5);
}

proptest! {
    #[test]
    fn it_is_exact_while_products_fit(
        (before, new) in (0..1_u64 << 29, 0..1_u64 << 29),
        (whole, part) in (1..1_u64 << 34, 0.0..=1.0_f64),
    ) {
        let part = (whole as f64 * part) as u64;
        let wide = |a: u64, b: u64| u128::from(a) * u128::from(b);
        let sum = wide(before, whole - part) + wide(new, part);
        let expected = (sum + u128::from(whole / 2)) / u128::from(whole);
        prop_assert_eq!(u128::from(average(before, new, part, whole)), expected);
    }

    #[test]
    fn it_lies_between_the_two(before: u64, new: u64, part: u64, whole: u64) {
        let (before, new) = (before >> 8, new >> 8);
        let found = average(before, new, part, whole);
        prop_assert!((before.min(new)..=before.max(new)).contains(&found), "{found}");
    }
}
