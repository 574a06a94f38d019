// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Attributes: the format of `struct nlattr`, and the refusals.

use super::message::{attribute, attributes};
use proptest::prelude::*;
use weft_mechanisms::common::nla::{
    read_u32, read_u64, read_u8, say_once, Attributes, Refusal, RefusalKind,
};

/// Everything the iterator yields.
fn all(bytes: &[u8]) -> Vec<Result<(u16, &[u8]), Refusal>> {
    Attributes::new(bytes).collect()
}

const TRUNCATED: Refusal = Refusal::invalid(c"Attribute is truncated");
const JUNK: Refusal = Refusal::invalid(c"Junk after the last attribute");

#[test]
fn an_empty_message_has_no_attributes() {
    assert_eq!(all(&[]), []);
}

#[test]
fn payloads_of_any_size_are_read_without_their_padding() {
    let payload = [1, 2, 3, 4, 5, 6, 7, 8, 9];
    for size in 0..=payload.len() {
        let bytes = attributes(&[(1, &payload[..size]), (2, &[0xff])]);
        let expected: [Result<(u16, &[u8]), _>; 2] = [Ok((1, &payload[..size])), Ok((2, &[0xff]))];
        assert_eq!(all(&bytes), expected, "{size} bytes");
    }
}

#[test]
fn the_flag_bits_are_not_part_of_the_type() {
    const NESTED: u16 = 1 << 15;
    const NET_BYTEORDER: u16 = 1 << 14;
    for flags in [NESTED, NET_BYTEORDER, NESTED | NET_BYTEORDER] {
        let bytes = attribute(7 | flags, &[]);
        assert_eq!(all(&bytes), [Ok((7, &[][..]))]);
    }
    let bytes = attribute(u16::MAX, &[]);
    assert_eq!(all(&bytes), [Ok((0x3fff, &[][..]))]);
}

#[test]
fn the_last_attribute_needs_no_padding() {
    for missing in 1..=3 {
        let mut bytes = attribute(1, &[0xff]);
        bytes.truncate(bytes.len() - missing);
        assert_eq!(all(&bytes), [Ok((1, &[0xff][..]))], "{missing} missing");
    }
}

#[test]
fn one_to_three_bytes_after_the_last_attribute_are_junk() {
    for junk in 1..=3 {
        let mut bytes = attribute(1, &[1, 2, 3, 4]);
        bytes.extend(vec![0; junk]);
        let expected: [Result<(u16, &[u8]), _>; 2] = [Ok((1, &[1, 2, 3, 4])), Err(JUNK)];
        assert_eq!(all(&bytes), expected, "{junk} bytes");
        assert_eq!(all(&bytes[8..]), [Err(JUNK)], "{junk} bytes alone");
    }
}

#[test]
fn a_length_shorter_than_the_header_is_refused_and_ends_the_iteration() {
    for length in 0..4_u16 {
        let mut bytes = attributes(&[(1, &[]), (2, &[])]);
        bytes[..2].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(all(&bytes), [Err(TRUNCATED)], "length {length}");
    }
}

#[test]
fn a_length_past_the_end_is_refused() {
    for length in [9, 10, 12, u16::MAX] {
        let mut bytes = attribute(1, &[1, 2, 3, 4]);
        bytes[..2].copy_from_slice(&length.to_ne_bytes());
        assert_eq!(all(&bytes), [Err(TRUNCATED)], "length {length}");
    }
}

#[test]
fn the_longest_attribute_is_read_whole() {
    let payload = vec![0x5a; usize::from(u16::MAX) - 4];
    let mut bytes = attribute(1, &payload);
    assert_eq!(all(&bytes), [Ok((1, &payload[..]))]);
    bytes.extend(attribute(2, &[]));
    assert_eq!(all(&bytes).len(), 2);
}

#[test]
fn a_number_of_the_wrong_size_is_refused_with_its_attribute() {
    let wrong = |attr| Refusal {
        message: c"Attribute has the wrong size",
        attr: Some(attr),
        kind: RefusalKind::Invalid,
    };
    let payload = [0xff; 9];
    for size in 0..=payload.len() {
        let payload = &payload[..size];
        let expected = |right: usize, max: u64| {
            if size == right {
                Ok(max)
            } else {
                Err(wrong(5))
            }
        };
        assert_eq!(
            read_u8(5, payload).map(u64::from),
            expected(1, u8::MAX.into())
        );
        assert_eq!(
            read_u32(5, payload).map(u64::from),
            expected(4, u32::MAX.into())
        );
        assert_eq!(read_u64(5, payload), expected(8, u64::MAX));
    }
}

#[test]
fn numbers_are_host_endian() {
    assert_eq!(read_u8(1, &[7]), Ok(7));
    assert_eq!(read_u32(1, &0x0102_0304_u32.to_ne_bytes()), Ok(0x0102_0304));
    let number = 0x0102_0304_0506_0708_u64;
    assert_eq!(read_u64(1, &number.to_ne_bytes()), Ok(number));
}

#[test]
fn an_option_may_be_given_once() {
    let mut slot = None;
    assert_eq!(say_once(&mut slot, 3, 1), Ok(()));
    let twice = Refusal::invalid_attr(c"Attribute given twice", 3);
    assert_eq!(say_once(&mut slot, 3, 2), Err(twice));
    assert_eq!(slot, Some(1), "the first word stands");
}

proptest! {
    #[test]
    fn any_list_of_attributes_is_read_back(
        list in prop::collection::vec(
            (0_u16..1 << 14, prop::collection::vec(any::<u8>(), 0..40)),
            0..20,
        ),
    ) {
        let bytes: Vec<u8> = list
            .iter()
            .flat_map(|(attr, payload)| attribute(*attr, payload))
            .collect();
        let expected: Vec<_> = list
            .iter()
            .map(|(attr, payload)| Ok((*attr, payload.as_slice())))
            .collect();
        prop_assert_eq!(all(&bytes), expected);
    }

    #[test]
    fn truncating_a_message_loses_attributes_at_its_end_only(
        list in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        let bytes: Vec<u8> = list.iter().flat_map(|payload| attribute(1, payload)).collect();
        let short = &bytes[..cut.index(bytes.len())];
        let read = all(short);
        let whole = read.iter().take_while(|attribute| attribute.is_ok()).count();
        for (attribute, payload) in read.iter().zip(&list).take(whole) {
            prop_assert_eq!(attribute, &Ok((1, payload.as_slice())));
        }
        prop_assert!(read.len() <= whole + 1, "nothing follows a refusal");
    }
}
