// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Pause frames, by the sentences of IEEE 802.3, Annex 31D, and IEEE 802.1Q.

use proptest::prelude::*;
use weft_mechanisms::port::frame::{Frame, Malformed, ETHERTYPE, GROUP, PRIORITIES, SIZE};

#[test]
fn the_bytes_of_a_frame_are_those_of_the_standard() {
    assert_eq!(ETHERTYPE, 0x8808);
    assert_eq!(GROUP, [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01]);
    let mut expected = [0; SIZE];
    expected[..4].copy_from_slice(&[0x01, 0x01, 0x00, 0x08]);
    expected[10..12].copy_from_slice(&[0xff, 0xfe]);
    assert_eq!(Frame::about(3, 0xfffe).encode(), expected);
}

#[test]
fn a_frame_is_padded_with_zeros_to_the_minimum_of_ethernet() {
    // With addresses, type and frame check sequence: 64 bytes.
    assert_eq!(6 + 6 + 2 + SIZE + 4, 64);
    let frame = Frame {
        times: [Some(u16::MAX); PRIORITIES],
    };
    assert_eq!(frame.encode()[3], 0xff);
    assert_eq!(frame.encode()[20..], [0; 26]);
}

#[test]
fn the_high_byte_of_the_enable_vector_is_zero_when_sent_and_ignored_when_received() {
    let mut bytes = Frame::about(7, 1).encode();
    assert_eq!(bytes[2], 0);
    bytes[2] = 0xff;
    assert_eq!(Frame::decode(&bytes), Ok(Frame::about(7, 1)));
}

#[test]
fn the_time_of_a_priority_that_is_not_enabled_is_ignored() {
    let mut bytes = Frame::about(2, 9).encode();
    bytes[4..20].fill(0x55);
    let frame = Frame::decode(&bytes).unwrap();
    assert_eq!(frame, Frame::about(2, 0x5555));
    assert_eq!((frame.time(1), frame.time(8)), (None, None));
}

#[test]
fn a_time_of_zero_resumes_and_differs_from_no_time() {
    assert_eq!(Frame::about(0, 0).time(0), Some(0));
    assert_ne!(Frame::about(0, 0).encode(), Frame::default().encode());
}

#[test]
fn a_pause_of_the_whole_link_is_another_opcode() {
    let mut bytes = Frame::about(3, 9).encode();
    bytes[0] = 0;
    assert_eq!(Frame::decode(&bytes), Err(Malformed::Opcode));
}

#[test]
fn a_truncated_frame_is_refused_and_padding_is_not_needed() {
    let bytes = Frame::about(3, 9).encode();
    for size in 0..20 {
        assert_eq!(Frame::decode(&bytes[..size]), Err(Malformed::Length));
    }
    assert_eq!(Frame::decode(&bytes[..20]), Ok(Frame::about(3, 9)));
}

proptest! {
    #[test]
    fn a_frame_survives_encoding(times: [Option<u16>; PRIORITIES]) {
        let frame = Frame { times };
        prop_assert_eq!(Frame::decode(&frame.encode()), Ok(frame));
    }
}
