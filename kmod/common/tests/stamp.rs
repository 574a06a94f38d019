// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The codes of utilisations, and their place in the tag.

use proptest::prelude::*;
use weft_mechanisms::common::stamp::{code_of, utilisation_of, Stamps, BITS, LIMIT, MAX_CODE, ONE};
use weft_mechanisms::common::tag::Tag;

#[test]
fn each_code_is_that_of_its_own_utilisation() {
    for code in 1..=MAX_CODE {
        assert_eq!(code_of(utilisation_of(code)), code);
    }
    // 0 stands for no stamp, so the smallest utilisation has the next one.
    assert_eq!(code_of(0), 1);
    assert_eq!(code_of(u32::MAX), MAX_CODE);
    assert!(utilisation_of(MAX_CODE) < LIMIT);
}

#[test]
fn the_numbers_on_the_wire_never_change() {
    assert_eq!((BITS, MAX_CODE), (11, 2047));
    assert_eq!(code_of(ONE), 7 << 7);
    assert_eq!(code_of(ONE / 2), 6 << 7);
    assert_eq!(code_of(ONE / 64), 1 << 7);
    assert_eq!(code_of(ONE / 64 - 1), 127);
    let stamps = Stamps {
        stamp: 5,
        echo: 896,
    };
    assert_eq!(stamps.to_rank(), 896 << 11 | 5);
}

#[test]
fn both_fit_into_a_tag_with_an_upstream_queue() {
    let stamps = Stamps {
        stamp: MAX_CODE,
        echo: MAX_CODE,
    };
    let tag = Tag {
        rank: stamps.to_rank(),
        upstream_queue: 255,
    };
    assert_eq!(tag.on_the_wire(), tag);
    assert_eq!(Stamps::from_rank(tag.rank), Some(stamps));
    assert_eq!(Stamps::from_rank(1 << 22), None);
    assert_eq!(Stamps::from_rank(u32::MAX), None);
}

proptest! {
    #[test]
    fn a_code_is_at_most_four_thousandths_off(utilisation in ONE / 64..LIMIT) {
        let found = utilisation_of(code_of(utilisation));
        prop_assert!(found.abs_diff(utilisation) <= utilisation / 255 + 1, "{found}");
    }

    #[test]
    fn codes_preserve_the_order(a: u32, b: u32) {
        prop_assert_eq!(code_of(a.max(b)), code_of(a).max(code_of(b)));
    }

    #[test]
    fn what_is_written_is_read(stamp in 0..=MAX_CODE, echo in 0..=MAX_CODE) {
        let stamps = Stamps { stamp, echo };
        prop_assert_eq!(Stamps::from_rank(stamps.to_rank()), Some(stamps));
    }
}
