// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The option in a packet: one that `int` finds, in a packet that is otherwise the same.

use crate::common::tests::tag::checksum;
use weft_mechanisms::carry::options::Telemetry;
use weft_mechanisms::carry::telemetry::{changed, insert, records_of, UNSTAMPED};
use weft_mechanisms::common::{records, stamp::Stamps, tag};

/// A UDP packet of `length` bytes as pktgen makes it.
fn packet(length: u16) -> Vec<u8> {
    let mut packet = vec![0; length.into()];
    packet[..20].copy_from_slice(&[
        0x45, 0, 0, 0, 0, 1, 0, 0, 32, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    let check = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&check.to_be_bytes());
    packet[20..24].copy_from_slice(&[4, 0, 0, 9]);
    packet[24..26].copy_from_slice(&(length - 20).to_be_bytes());
    packet[26..28].copy_from_slice(&[0xbe, 0xef]);
    packet
}

/// Inserts an option as the kernel module does.
fn with<const N: usize>(option: [u8; N]) -> Vec<u8> {
    let mut packet = packet(1486);
    assert!(insert(&mut packet[..changed(N) as usize], option));
    packet
}

#[test]
fn a_packet_with_an_option_keeps_its_length_and_its_ports() {
    fn check<const N: usize>(option: [u8; N]) {
        let packet = with(option);
        let header = 20 + N;
        assert_eq!(usize::from(packet[0]), 0x40 + header / 4);
        assert_eq!(packet[2..4], 1486_u16.to_be_bytes());
        assert_eq!(checksum(&packet[..header]), 0);
        assert_eq!(packet[20..header], option);
        assert_eq!(packet[header..header + 4], [4, 0, 0, 9]);
        let udp = u16::from_be_bytes([packet[header + 4], packet[header + 5]]);
        assert_eq!(usize::from(udp), 1486 - header);
        assert_eq!(packet[header + 6..header + 8], [0, 0]);
    }
    check(records_of(0));
    check(records_of(6));
    check(UNSTAMPED);
}

#[test]
fn int_finds_the_requested_number_of_records() {
    for (telemetry, links) in [
        (Telemetry::None, None),
        (Telemetry::Room, Some(0)),
        (Telemetry::Records, Some(3)),
        (Telemetry::Full, Some(6)),
        (Telemetry::Tag, None),
    ] {
        assert_eq!(telemetry.links(), links);
        if let Some(links) = links {
            let (at, head) = records::find(&with(records_of(links))).unwrap();
            assert_eq!(at, 22);
            assert_eq!(head.hops(), usize::from(links));
            assert!(!head.echo);
        }
    }
}

#[test]
fn int_finds_a_tag_without_a_stamp() {
    let (at, tag) = tag::read(&with(UNSTAMPED)).unwrap();
    assert_eq!(at, 24);
    assert_eq!(Stamps::from_rank(tag.rank), Some(Stamps::default()));
}

#[test]
fn other_packets_stay_as_they_are() {
    let tcp = |packet: &mut Vec<u8>| packet[9] = 6;
    let with_options = |packet: &mut Vec<u8>| packet[0] = 0x46;
    let ipv6 = |packet: &mut Vec<u8>| packet[0] = 0x60;
    let short = |packet: &mut Vec<u8>| packet.truncate(changed(UNSTAMPED.len()) as usize - 1);
    let empty = |packet: &mut Vec<u8>| packet.clear();
    for change in [tcp, with_options, ipv6, short, empty] {
        let mut packet = packet(100);
        change(&mut packet);
        let before = packet.clone();
        assert!(!insert(&mut packet, UNSTAMPED));
        assert_eq!(packet, before);
    }
}
