// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A header is never found outside of its packet, whatever the offsets are.

use proptest::prelude::*;
use weft_mechanisms::common::header::{linear_from, within};

#[test]
fn a_header_inside_the_packet_is_found() {
    // 64 bytes of room, an Ethernet header of 14, an IP header in a piece of 94 bytes.
    assert_eq!(linear_from(64, 78, 94), Some(14..94));
    assert_eq!(within(64, 78, 24, 1514), Some(14..38));
    // Only the memory ahead of it.
    assert_eq!(linear_from(64, 78, 14), Some(14..14));
    assert_eq!(within(64, 78, 0, 14), Some(14..14));
}

#[test]
fn a_header_that_was_never_set_is_not_found() {
    // 0 is in the room ahead of the packet; 65,535 is the kernel's value for no header.
    for header in [0, 1, 63, 65_535] {
        assert_eq!(linear_from(64, header, 94), None, "{header}");
        assert_eq!(within(64, header, 1, 94), None, "{header}");
    }
}

/// Regression: the length wrapped to less than the packet has, and 4 GiB were written.
#[test]
fn a_length_that_wraps_is_refused() {
    assert_eq!(within(64, 78, u32::MAX, 1514), None);
    assert_eq!(within(64, 78, u32::MAX - 13, 1514), None);
    assert_eq!(within(64, 78, 1501, 1514), None);
    assert_eq!(within(64, 78, 1500, 1514), Some(14..1514));
}

/// Numbers at the ends of their range, and near each other.
fn number() -> impl Strategy<Value = usize> {
    prop_oneof![
        0..200_usize,
        65_500..65_536_usize,
        Just(usize::MAX),
        any::<usize>(),
    ]
}

fn length() -> impl Strategy<Value = u32> {
    prop_oneof![0..200_u32, u32::MAX - 200..=u32::MAX, any::<u32>()]
}

proptest! {
    #[test]
    fn any_header_that_is_found_is_inside_the_packet(
        room in number(),
        header in number(),
        linear in length(),
        len in length(),
        more in length(),
    ) {
        let before = header as i128 - room as i128;
        let inside = before >= 0 && before <= i128::from(linear);
        match linear_from(room, header, linear as usize) {
            Some(bytes) => {
                prop_assert!(inside);
                prop_assert_eq!(bytes, header - room..linear as usize);
            }
            None => prop_assert!(!inside),
        }

        let packet = linear.saturating_add(more);
        let inside = before >= 0 && before + i128::from(len) <= i128::from(packet);
        match within(room, header, len, packet) {
            Some(bytes) => {
                prop_assert!(inside);
                prop_assert_eq!(bytes.len(), len as usize);
                prop_assert_eq!(bytes.start as usize, header - room);
            }
            None => prop_assert!(!inside),
        }
    }
}
