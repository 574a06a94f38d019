// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The names of segments.

use super::packets::{ipv4, segment, tcp};
use proptest::prelude::*;
use weft_mechanisms::resend::segment::{Segment, HEADERS, IPV4};

const ACK: u8 = 0x10;

#[test]
fn a_segment_with_payload_has_its_sequence_number_and_length() {
    let expected = segment(3, 7);
    assert_eq!(
        Segment::read(IPV4, &tcp(&expected, ACK, 0, 12)),
        Some(expected)
    );
}

#[test]
fn options_of_either_header_do_not_change_the_name() {
    // The records of links, and TCP's longest options.
    for (options, tcp_options) in [(0, 0), (40, 0), (0, 40), (40, 40), (8, 12)] {
        let packet = tcp(&segment(1, 1), ACK, options, tcp_options);
        assert_eq!(Segment::read(IPV4, &packet), Some(segment(1, 1)));
        let headers = &packet[..packet.len().min(HEADERS)];
        assert_eq!(Segment::read(IPV4, headers), Some(segment(1, 1)));
    }
}

#[test]
fn syn_and_fin_take_a_sequence_number_each() {
    for (flags, length) in [(2, 1), (2 | ACK, 1), (1 | ACK, 1), (1 | ACK, 1001), (3, 2)] {
        let expected = Segment {
            length,
            ..segment(0, 9)
        };
        assert_eq!(
            Segment::read(IPV4, &tcp(&expected, flags, 0, 0)),
            Some(expected)
        );
    }
}

#[test]
fn acknowledgements_differ_by_their_number() {
    for acknowledgement in [0, 1, u32::MAX] {
        let expected = Segment {
            acknowledgement,
            length: 0,
            ..segment(0, 9)
        };
        let packet = tcp(&expected, ACK, 0, 12);
        assert_eq!(Segment::read(IPV4, &packet), Some(expected));
    }
}

#[test]
fn other_packets_have_no_name() {
    let packet = tcp(&segment(0, 1), ACK, 0, 0);
    assert_eq!(Segment::read(0x86dd, &packet), None);
    let udp = |packet: &mut Vec<u8>| packet[9] = 17;
    let fragment = |packet: &mut Vec<u8>| packet[7] = 1;
    let more_fragments = |packet: &mut Vec<u8>| packet[6] = 0x20;
    let version = |packet: &mut Vec<u8>| packet[0] = 0x65;
    let short_header = |packet: &mut Vec<u8>| packet[0] = 0x44;
    let short_tcp = |packet: &mut Vec<u8>| packet[32] = 0x40;
    let short_length = |packet: &mut Vec<u8>| packet[2..4].copy_from_slice(&[0, 39]);
    let cut = |packet: &mut Vec<u8>| packet.truncate(39);
    let empty = |packet: &mut Vec<u8>| packet.clear();
    for change in [
        udp,
        fragment,
        more_fragments,
        version,
        short_header,
        short_tcp,
        short_length,
        cut,
        empty,
    ] {
        let mut packet = packet.clone();
        change(&mut packet);
        assert_eq!(Segment::read(IPV4, &packet), None, "{packet:?}");
    }
    assert_eq!(Segment::read(IPV4, &ipv4(1, 1, 2, 0, &[0; 40])), None);
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 24..120),
        protocol in prop::sample::select(vec![1_u8, 6]),
    ) {
        // Most random bytes are another protocol's.
        (bytes[0], bytes[9]) = (0x45 + bytes[0] % 3, protocol);
        if let Some(segment) = Segment::read(IPV4, &bytes) {
            prop_assert!(segment.length < 1 << 17);
        }
    }

    #[test]
    fn each_segment_is_read_back(
        (source, destination) in any::<(u32, u32)>(),
        (source_port, destination_port) in any::<(u16, u16)>(),
        (sequence, acknowledgement) in any::<(u32, u32)>(),
        (length, options, tcp_options) in (0..9000_u32, 0..11_usize, 0..11_usize),
    ) {
        let segment =
            Segment { source, destination, source_port, destination_port, sequence, acknowledgement, length };
        let packet = tcp(&segment, ACK, 4 * options, 4 * tcp_options);
        prop_assert_eq!(Segment::read(IPV4, &packet), Some(segment));
    }
}
