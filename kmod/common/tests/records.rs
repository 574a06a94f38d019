// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Hop records: their place in packets, checksums, and what a sender computes from two of them
//! against a link that counts in nanoseconds.

use proptest::prelude::*;
use weft_mechanisms::common::records::{
    append, find, from_ipv4, from_ipv6, shift_for, to_ipv4, to_ipv6, with_option, without_option,
    Change, Departure, Head, Records, BLOCK, HOPS, IPV4_SIZE, IPV6_SIZE,
};

/// 15 µs: 1,875 units of 8 ns.
const RTT: u64 = 15_000;
const UNIT: u64 = 8;

fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(((sum & 0xffff) + (sum >> 16)) as u16)
}

fn plain_ipv4() -> [u8; 20] {
    let mut header = [0; 20];
    header[..4].copy_from_slice(&[0x45, 0, 5, 0xb4]);
    header[8..10].copy_from_slice(&[64, 6]);
    header[12..].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    let check = checksum(&header);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    header
}

/// An IPv4 header with an empty block.
fn ipv4() -> Vec<u8> {
    let option = to_ipv4([0; BLOCK]);
    let header = with_option(plain_ipv4(), &option).expect("there is room");
    [&header[..], &option].concat()
}

/// An IPv6 header with an empty block.
fn ipv6() -> Vec<u8> {
    let mut header = vec![0; 40];
    header[0] = 0x60;
    header[6] = 60;
    header.extend(to_ipv6([0; BLOCK], 6));
    header
}

fn departure(queue: u64, sent: u64, time: u64) -> Departure {
    Departure { queue, sent, time }
}

fn pass(packet: &mut [u8], link: u32, departure: Departure) -> bool {
    let found = find(packet).expect("it has a block");
    append(packet, found, link, RTT, departure)
}

fn records(packet: &[u8]) -> Records {
    let (at, _) = find(packet).expect("it has a block");
    Records::from_block(packet[at..].first_chunk().expect("it is whole"))
}

/// The packet's records after a path of one link with the number 1.
fn after(departure: Departure) -> Records {
    let mut packet = ipv4();
    assert!(pass(&mut packet, 1, departure));
    records(&packet)
}

#[test]
fn the_bytes_on_the_wire_never_change() {
    assert_eq!((IPV4_SIZE, IPV6_SIZE, BLOCK, HOPS), (40, 48, 38, 6));
    let mut packet = ipv4();
    assert_eq!(packet[20..22], [0xde, 40]);
    let link = departure(0x1234 * UNIT, 0x5678 * UNIT, 0x19abc * UNIT);
    assert!(pass(&mut packet, 5, link));
    // One record, a shift of 3, and the digest (0 · 45 + 1) ^ 5.
    let start = [0x11, 0x84, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc];
    assert_eq!(packet[22..30], start);
    assert_eq!(packet[30..], [0; 30]);

    let mut packet = ipv6();
    assert!(pass(&mut packet, 5, link));
    assert_eq!(packet[40..44], [6, 5, 0x3e, 38]);
    assert_eq!(packet[44..52], start);
    assert_eq!(packet[82..], [1, 4, 0, 0, 0, 0]);
}

/// "nHop": six links fit, and the seventh only leaves a sign.
#[test]
fn a_block_has_room_for_six_links() {
    for mut packet in [ipv4(), ipv6()] {
        let length = packet.len();
        for hop in 0..6 {
            assert_eq!(records(&packet).head().hops(), hop);
            assert!(pass(&mut packet, 1, departure(hop as u64, 0, 0)));
        }
        for _ in 0..2 {
            let before = packet.clone();
            assert!(!pass(&mut packet, 1, departure(9, 9, 9)));
            let (at, head) = find(&packet).expect("it has a block");
            assert_eq!((head.hops(), head.to_word()[0] >> 4), (6, 7));
            assert_eq!(packet[at + 2..], before[at + 2..]);
        }
        assert_eq!(packet.len(), length);
    }
}

#[test]
fn each_base_round_trip_time_has_1024_to_2047_units() {
    assert_eq!(shift_for(RTT), 3);
    for rtt in [1_024, 2_047, 2_048, 13_000, 15_000_000, 10_000_000_000] {
        assert!((1_024..2_048).contains(&(rtt >> shift_for(rtt))), "{rtt}");
    }
    assert_eq!((shift_for(0), shift_for(1_000)), (0, 0));
    assert_eq!(shift_for(u64::MAX), 27);
}

#[test]
fn a_sender_sees_what_the_link_did_between_two_packets() {
    let before = after(departure(800, 1_600, 80_000));
    let now = after(departure(400, 2_800, 82_400));
    let changes: Vec<_> = now.since(&before, 2_000).collect();
    let expected = Change {
        interval: 2_400,
        sent: 1_200,
        before: 800,
        queue: 400,
    };
    assert_eq!(changes, [expected]);
}

/// "pathID"
#[test]
fn records_of_another_path_say_nothing() {
    let through = |links: &[u32]| {
        let mut packet = ipv4();
        for link in links {
            assert!(pass(&mut packet, *link, departure(0, 0, 80_000)));
        }
        records(&packet)
    };
    let path = through(&[1, 2, 3]);
    for other in [&[1, 2][..], &[1, 2, 4], &[1, 4, 3], &[2, 2, 3], &[3, 2, 1]] {
        assert_eq!(path.since(&through(other), 800).count(), 0, "{other:?}");
    }
    assert_eq!(
        Records::default().since(&Records::default(), 800).count(),
        0
    );
}

#[test]
fn records_that_changed_places_or_wrapped_say_nothing() {
    let first = after(departure(0, 0, 80_000));
    let second = after(departure(0, 800, 81_600));
    assert_eq!(second.since(&first, 1_600).count(), 1);
    assert_eq!(first.since(&second, 1_600).count(), 0);
    // A link's clock wraps after 2^16 units.
    let wrap = UNIT << 16;
    let later = after(departure(0, 800, 81_600 + wrap));
    assert_eq!(later.since(&first, 1_600 + wrap).count(), 0);
    assert_eq!(later.since(&first, u64::MAX).count(), 0);
}

#[test]
fn records_of_a_reserved_unit_say_nothing() {
    for (shift, expected) in [(27, 1), (28, 0), (31, 0)] {
        let mut blocks = [[0; BLOCK]; 2];
        for (block, time) in blocks.iter_mut().zip([0, 1]) {
            block[..2].copy_from_slice(&(1_u16 << 12 | shift << 7).to_be_bytes());
            block[7] = time;
        }
        let [first, second] = blocks.map(|block| Records::from_block(&block));
        assert_eq!(
            second.since(&first, 1 << shift).count(),
            expected,
            "{shift}"
        );
    }
}

#[test]
fn removing_the_option_gives_the_packet_back() {
    let packet = ipv4();
    let (header, option) = packet.split_first_chunk().expect("20 bytes");
    let option = option.try_into().expect("40 bytes");
    assert_eq!(from_ipv4(&option), Some(&[0; BLOCK]));
    assert_eq!(without_option(*header, &option), Some(plain_ipv4()));
    // Not the only option; another one; a packet that is too short.
    assert_eq!(with_option(*header, &option), None);
    assert_eq!(without_option(plain_ipv4(), &option), None);
    let mut short = *header;
    short[2..4].copy_from_slice(&[0, 59]);
    assert_eq!(without_option(short, &option), None);
    let mut other = option;
    other[0] = 0x9e;
    assert_eq!(from_ipv4(&other), None);
}

#[test]
fn other_packets_have_no_block() {
    assert_eq!(find(&[]), None);
    assert_eq!(find(&plain_ipv4()), None);
    for packet in [ipv4(), ipv6()] {
        assert!(find(&packet).is_some());
        for length in 0..packet.len() - 6 {
            let found = find(&packet[..length]);
            assert!(found.is_none() || length >= 20 + IPV4_SIZE, "{length}");
        }
        let kind = if packet[0] == 0x4f { 20 } else { 42 };
        for at in [0, kind, kind + 1] {
            let mut other = packet.clone();
            other[at] ^= 0x20;
            assert_eq!(find(&other), None, "{at}");
        }
    }
}

proptest! {
    #[test]
    fn every_word_is_read_back(word: [u8; 2]) {
        prop_assert_eq!(Head::from_word(word).to_word(), word);
    }

    #[test]
    fn an_ipv4_checksum_stays_right(
        block: [[u8; 19]; 2],
        links in prop::collection::vec((any::<u32>(), any::<[u64; 3]>()), 0..9),
    ) {
        let block: [u8; BLOCK] = block.concat().try_into().expect("38 bytes");
        let option = to_ipv4(block);
        let header = with_option(plain_ipv4(), &option).expect("there is room");
        let mut packet = [&header[..], &option].concat();
        for (link, [queue, sent, time]) in links {
            prop_assert_eq!(checksum(&packet), 0);
            pass(&mut packet, link, departure(queue, sent, time));
        }
        prop_assert_eq!(checksum(&packet), 0);
        let (header, option) = packet.split_first_chunk().expect("20 bytes");
        let option = option.try_into().expect("40 bytes");
        prop_assert_eq!(without_option(*header, &option), Some(plain_ipv4()));
        let block = from_ipv4(&option).expect("it is the option");
        let header = to_ipv6(*block, 6);
        prop_assert_eq!(from_ipv6(&header), Some(block));
    }

    /// Two packets through up to six links, with whatever delays and clocks.
    #[test]
    fn the_changes_are_those_of_the_links(
        rtt in 1_000_u64..10_000_000_000,
        start: [u64; HOPS],
        // Parts of the round-trip time: the interval, what was sent meanwhile, two queues.
        links in prop::collection::vec(
            (0.01..15.0_f64, 0.0..1.0_f64, 0.0..30.0_f64, 0.0..30.0_f64),
            1..=HOPS,
        ),
    ) {
        let unit = 1_u64 << shift_for(rtt);
        let ns = |parts: f64| (parts * rtt as f64) as u64;
        let (mut first, mut second) = (ipv6(), ipv6());
        let mut expected = Vec::new();
        for (number, (interval, busy, before, queue)) in links.into_iter().enumerate() {
            let change = Change {
                interval: ns(interval).max(unit),
                sent: ns(interval * busy),
                before: ns(before),
                queue: ns(queue),
            };
            let time = start[number] >> 1;
            let sent = start[HOPS - 1 - number] >> 1;
            for (packet, departure) in [
                (&mut first, departure(change.before, sent, time)),
                (
                    &mut second,
                    departure(change.queue, sent + change.sent, time + change.interval),
                ),
            ] {
                let found = find(packet).expect("it has a block");
                prop_assert!(append(packet, found, number as u32, rtt, departure));
            }
            expected.push(change);
        }
        let (first, second) = (records(&first), records(&second));
        let found: Vec<_> = second.since(&first, ns(8.0)).collect();
        prop_assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            for (found, expected) in [
                (found.interval, expected.interval),
                (found.sent, expected.sent),
                (found.before, expected.before),
                (found.queue, expected.queue),
            ] {
                prop_assert!(found.abs_diff(expected) <= unit, "{found} {expected}");
            }
        }
    }
}
