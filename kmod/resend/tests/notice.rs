// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Notices: "the switch informs the sender directly".

use super::packets::{ipv4, segment, tcp};
use proptest::prelude::*;
use weft_mechanisms::resend::notice::{decode, encode, is_notice, Malformed, MAGIC, SIZE, TYPE};
use weft_mechanisms::resend::segment::{Segment, IPV4};

const SWITCH: u32 = 0x0a09_0909;

/// The packet that carries a message to the source of a segment.
fn packet(segment: &Segment, message: &[u8]) -> Vec<u8> {
    ipv4(1, SWITCH, segment.source, 0, message)
}

#[test]
fn the_bytes_of_a_notice_never_change() {
    let segment = Segment {
        source: 0x0a00_0001,
        destination: 0x0a00_0002,
        source_port: 0x1234,
        destination_port: 0x5678,
        sequence: 0x9abc_def0,
        acknowledgement: 0x0102_0304,
        length: 1448,
    };
    assert_eq!((TYPE, SIZE, &MAGIC), (253, 28, b"weft"));
    let mut expected = [253, 0, 0, 0].to_vec();
    expected.extend(b"weft");
    expected.extend([
        10, 0, 0, 2, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 0, 0, 5, 0xa8,
    ]);
    let message = encode(&segment);
    assert_eq!(
        (&message[..2], &message[4..]),
        (&expected[..2], &expected[4..])
    );
    let sum: u32 = message
        .chunks(2)
        .map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])))
        .sum();
    assert_eq!(sum % 0xffff, 0);
}

#[test]
fn a_notice_names_the_segment_whose_source_receives_it() {
    let segment = segment(4, 5);
    let packet = packet(&segment, &encode(&segment));
    assert!(is_notice(IPV4, &packet));
    assert_eq!(decode(IPV4, &packet), Some(Ok(segment)));
}

#[test]
fn padding_of_a_short_frame_is_ignored() {
    let segment = segment(4, 5);
    let mut packet = packet(&segment, &encode(&segment));
    packet.resize(60, 0);
    assert_eq!(decode(IPV4, &packet), Some(Ok(segment)));
}

#[test]
fn other_packets_are_no_notices() {
    let segment = segment(4, 5);
    let message = encode(&segment);
    let mut others = vec![
        (IPV4, tcp(&segment, 0x10, 0, 0)),
        (0x86dd, packet(&segment, &message)),
        (IPV4, packet(&segment, &message[..7])),
        (IPV4, Vec::new()),
    ];
    // An echo request, and another experiment.
    for (at, byte) in [(0, 8), (4, b'W')] {
        let mut message = message;
        message[at] = byte;
        others.push((IPV4, packet(&segment, &message)));
    }
    for (protocol, packet) in others {
        assert!(!is_notice(protocol, &packet));
        assert_eq!(decode(protocol, &packet), None);
    }
}

#[test]
fn a_malformed_notice_is_refused_with_its_reason() {
    let segment = segment(4, 5);
    let message = encode(&segment);
    let refusal = |message: &[u8]| {
        let packet = packet(&segment, message);
        assert!(is_notice(IPV4, &packet));
        decode(IPV4, &packet).unwrap().unwrap_err()
    };
    for size in 8..SIZE {
        assert_eq!(refusal(&message[..size]), Malformed::Length);
    }
    assert_eq!(refusal(&[&message[..], &[0]].concat()), Malformed::Length);
    let mut code = message;
    code[1] = 1;
    assert_eq!(refusal(&code), Malformed::Code);
    for at in [2, 3].into_iter().chain(8..SIZE) {
        let mut flipped = message;
        flipped[at] ^= 0x40;
        assert_eq!(refusal(&flipped), Malformed::Checksum);
    }
}

proptest! {
    #[test]
    fn a_notice_survives_encoding(
        (source, destination, source_port, destination_port) in any::<(u32, u32, u16, u16)>(),
        (sequence, acknowledgement, length) in any::<(u32, u32, u32)>(),
        options in 0..11_usize,
    ) {
        let segment =
            Segment { source, destination, source_port, destination_port, sequence, acknowledgement, length };
        let packet = ipv4(1, SWITCH, source, 4 * options, &encode(&segment));
        prop_assert_eq!(decode(IPV4, &packet), Some(Ok(segment)));
    }
}
