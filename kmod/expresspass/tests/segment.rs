// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Which packets need credits.

use super::flow;
use proptest::prelude::*;
use weft_mechanisms::expresspass::segment::{number, Sort, HEADERS, IPV4};

/// An IPv4 packet with `options` bytes of options, which must not be fragmented.
fn ipv4(protocol: u8, options: usize, payload: &[u8]) -> Vec<u8> {
    let length = (20 + options + payload.len()) as u16;
    let mut packet = vec![0x45 + (options / 4) as u8, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend(flow(3).source.to_be_bytes());
    packet.extend(flow(3).destination.to_be_bytes());
    packet.resize(20 + options, 1);
    packet.extend(payload);
    let sum = !checksum(&packet[..20 + options]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

fn checksum(header: &[u8]) -> u16 {
    let words = header
        .chunks(2)
        .map(|it| u32::from(it[0]) << 8 | u32::from(it[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    ((sum & 0xffff) + (sum >> 16)) as u16
}

/// A TCP packet with some bytes of options and of payload.
fn tcp(options: usize, tcp_options: usize, payload: usize) -> Vec<u8> {
    let mut bytes = flow(3).source_port.to_be_bytes().to_vec();
    bytes.extend(flow(3).destination_port.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend([
        (((20 + tcp_options) / 4) << 4) as u8,
        0x10,
        0,
        0,
        0,
        0,
        0,
        0,
    ]);
    bytes.resize(20 + tcp_options + payload, 0);
    ipv4(6, options, &bytes)
}

const DATA: Sort = Sort::Data {
    flow: super::Flow {
        source: 0x0a00_0001,
        destination: 0x0a00_0002,
        source_port: 40_003,
        destination_port: 80,
    },
    number: Some(0x1234),
};

#[test]
fn a_segment_with_payload_needs_a_credit() {
    for (options, tcp_options) in [(0, 0), (40, 0), (0, 40), (40, 40), (12, 12)] {
        for payload in [1, 2, 1448] {
            let packet = tcp(options, tcp_options, payload);
            let headers = &packet[..packet.len().min(HEADERS)];
            assert_eq!(Sort::of(IPV4, headers), DATA);
        }
        // An acknowledgement, a handshake.
        assert_eq!(Sort::of(IPV4, &tcp(options, tcp_options, 0)), Sort::Other);
    }
}

#[test]
fn padding_of_a_short_frame_is_no_payload() {
    let mut packet = tcp(0, 0, 0);
    packet.resize(46, 0);
    assert_eq!(Sort::of(IPV4, &packet), Sort::Other);
}

#[test]
fn fragments_and_other_protocols_need_no_credit() {
    let mut packet = tcp(0, 0, 100);
    assert_eq!(Sort::of(0x86dd, &packet), Sort::Other);
    packet[6] = 0x20;
    assert_eq!(Sort::of(IPV4, &packet), Sort::Other);
    packet[6..8].copy_from_slice(&[0, 1]);
    assert_eq!(Sort::of(IPV4, &packet), Sort::Other);
    assert_eq!(Sort::of(IPV4, &ipv4(1, 0, &[0; 30])), Sort::Other);
    assert_eq!(Sort::of(IPV4, &ipv4(17, 0, &[0; 30])), Sort::Datagram);
}

#[test]
fn a_packet_that_may_be_fragmented_carries_no_number() {
    let mut packet = tcp(0, 0, 100);
    packet[6] = 0;
    let before = packet.clone();
    assert!(matches!(
        Sort::of(IPV4, &packet),
        Sort::Data { number: None, .. }
    ));
    number(&mut packet, 7);
    assert_eq!(packet, before);
}

proptest! {
    #[test]
    fn the_number_is_written_with_a_correct_checksum(
        first in any::<u16>(), second in any::<u16>(), options in 0..=10_usize,
    ) {
        let mut packet = tcp(options * 4, 0, 100);
        for written in [first, second] {
            number(&mut packet, written);
            let is_written = match Sort::of(IPV4, &packet) {
                Sort::Data { number, .. } => number == Some(written),
                _ => false,
            };
            prop_assert!(is_written);
            prop_assert_eq!(checksum(&packet[..20 + options * 4]), 0xffff);
        }
    }

    #[test]
    fn any_bytes_are_sorted(bytes in prop::collection::vec(any::<u8>(), 0..100), value: u16) {
        let _ = Sort::of(IPV4, &bytes);
        number(&mut bytes.clone(), value);
    }
}
