// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The flow of a packet: equal within a flow, spread otherwise, and no input does harm.

use std::collections::BTreeSet;

use proptest::prelude::*;
use weft_mechanisms::common::flow::{Key, HEADERS};
use weft_mechanisms::common::tag::Tag;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const TCP: u8 = 6;
const UDP: u8 = 17;

const KEY: Key = Key::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210]);

/// The fields that identify a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tuple {
    source: u32,
    destination: u32,
    ports: [u16; 2],
    protocol: u8,
}

/// The fields that do not.
#[derive(Clone, Debug)]
struct Rest {
    tos: u8,
    length: u16,
    id: u16,
    dont_fragment: bool,
    ttl: u8,
    checksum: u16,
    /// In words.
    options: Vec<u32>,
    payload: Vec<u8>,
}

const TUPLE: Tuple = Tuple {
    source: 0x0a00_0001,
    destination: 0x0a00_0002,
    ports: [1000, 80],
    protocol: TCP,
};

fn plain() -> Rest {
    Rest {
        tos: 0,
        length: 40,
        id: 1,
        dont_fragment: true,
        ttl: 64,
        checksum: 0,
        options: Vec::new(),
        payload: vec![0; 16],
    }
}

fn ipv4(tuple: &Tuple, rest: &Rest) -> Vec<u8> {
    let mut bytes = vec![0x45 + rest.options.len() as u8, rest.tos];
    bytes.extend(rest.length.to_be_bytes());
    bytes.extend(rest.id.to_be_bytes());
    bytes.extend([
        u8::from(rest.dont_fragment) << 6,
        0,
        rest.ttl,
        tuple.protocol,
    ]);
    bytes.extend(rest.checksum.to_be_bytes());
    bytes.extend(tuple.source.to_be_bytes());
    bytes.extend(tuple.destination.to_be_bytes());
    for word in &rest.options {
        bytes.extend(word.to_be_bytes());
    }
    for port in tuple.ports {
        bytes.extend(port.to_be_bytes());
    }
    bytes.extend(&rest.payload);
    bytes
}

/// With addresses whose last words are the tuple's, and with `between` between the headers.
fn ipv6(tuple: &Tuple, next: u8, between: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x60, 1, 2, 3, 0, 20, next, 64];
    for address in [tuple.source, tuple.destination] {
        bytes.extend([0xfd; 12]);
        bytes.extend(address.to_be_bytes());
    }
    bytes.extend(between);
    for port in tuple.ports {
        bytes.extend(port.to_be_bytes());
    }
    bytes
}

fn flow(tuple: &Tuple) -> Option<u32> {
    KEY.flow(IPV4, &ipv4(tuple, &plain()))
}

fn tuples() -> impl Strategy<Value = Tuple> {
    let protocol = prop_oneof![Just(TCP), Just(UDP)];
    let numbers = (any::<u32>(), any::<u32>(), any::<[u16; 2]>(), protocol);
    numbers.prop_map(|(source, destination, ports, protocol)| Tuple {
        source,
        destination,
        ports,
        protocol,
    })
}

fn rests() -> impl Strategy<Value = Rest> {
    let numbers = (
        any::<u8>(),
        any::<u16>(),
        any::<u16>(),
        any::<bool>(),
        any::<u8>(),
        any::<u16>(),
    );
    let options = prop::collection::vec(any::<u32>(), 0..=10);
    let payload = prop::collection::vec(any::<u8>(), 0..40);
    (numbers, options, payload).prop_map(|(numbers, options, payload)| {
        let (tos, length, id, dont_fragment, ttl, checksum) = numbers;
        Rest {
            tos,
            length,
            id,
            dont_fragment,
            ttl,
            checksum,
            options,
            payload,
        }
    })
}

proptest! {
    #[test]
    fn the_packets_of_a_flow_have_one_hash(tuple in tuples(), rest in rests()) {
        let expected = flow(&tuple);
        prop_assert!(expected.is_some());
        let packet = ipv4(&tuple, &rest);
        prop_assert_eq!(KEY.flow(IPV4, &packet), expected);
        prop_assert_eq!(KEY.flow(IPV4, &packet[..packet.len().min(HEADERS)]), expected);
    }

    #[test]
    fn every_bit_of_the_5_tuple_counts(tuple in tuples(), bit in 0..96_u32) {
        let mut other = tuple;
        match bit {
            0..32 => other.source ^= 1 << bit,
            32..64 => other.destination ^= 1 << (bit - 32),
            64..80 => other.ports[0] ^= 1 << (bit - 64),
            _ => other.ports[1] ^= 1 << (bit - 80),
        }
        prop_assert_ne!(flow(&tuple), flow(&other));
        let v6 = |tuple: &Tuple| KEY.flow(IPV6, &ipv6(tuple, tuple.protocol, &[]));
        prop_assert!(v6(&tuple).is_some());
        prop_assert_ne!(v6(&tuple), v6(&other));
    }

    #[test]
    fn any_bytes_yield_a_flow_or_none(
        protocol in prop_oneof![Just(IPV4), Just(IPV6), any::<u16>()],
        first in prop_oneof![0x40..0x50_u8, Just(0x60)],
        mut bytes in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        if let Some(byte) = bytes.first_mut() {
            *byte = first;
        }
        let whole = KEY.flow(protocol, &bytes);
        // Nothing beyond these is read.
        prop_assert_eq!(KEY.flow(protocol, &bytes[..bytes.len().min(HEADERS)]), whole);
        // A truncated packet never passes for another flow.
        for len in 0..bytes.len() {
            let part = KEY.flow(protocol, &bytes[..len]);
            prop_assert!(part.is_none() || part == whole);
        }
    }
}

#[test]
fn tcp_and_udp_between_the_same_ports_are_two_flows() {
    let udp = Tuple {
        protocol: UDP,
        ..TUPLE
    };
    assert_ne!(flow(&TUPLE), flow(&udp));
}

#[test]
fn the_two_directions_of_a_connection_are_two_flows() {
    let back = Tuple {
        source: TUPLE.destination,
        destination: TUPLE.source,
        ports: [TUPLE.ports[1], TUPLE.ports[0]],
        ..TUPLE
    };
    assert_ne!(flow(&TUPLE), flow(&back));
}

#[test]
fn a_tag_does_not_change_the_flow() {
    let tag = Tag {
        rank: 5,
        upstream_queue: 9,
    };
    let [a, b, c, d, e, f, g, h] = tag.to_ipv4();
    let options = vec![
        u32::from_be_bytes([a, b, c, d]),
        u32::from_be_bytes([e, f, g, h]),
    ];
    let tagged = ipv4(&TUPLE, &Rest { options, ..plain() });
    assert_eq!(KEY.flow(IPV4, &tagged), flow(&TUPLE));

    let tagged = ipv6(&TUPLE, 60, &tag.to_ipv6(TCP));
    let untagged = KEY.flow(IPV6, &ipv6(&TUPLE, TCP, &[]));
    assert!(untagged.is_some());
    assert_eq!(KEY.flow(IPV6, &tagged), untagged);
}

#[test]
fn fragments_are_left_to_the_dissector() {
    let whole = ipv4(&TUPLE, &plain());
    // More fragments to come; an offset; both.
    for (high, low) in [(0x20, 0), (0, 1), (0x1f, 0xff), (0x3f, 0xff)] {
        let mut fragment = whole.clone();
        fragment[6] = high;
        fragment[7] = low;
        assert_eq!(KEY.flow(IPV4, &fragment), None);
    }
    assert_eq!(
        KEY.flow(IPV6, &ipv6(&TUPLE, 44, &[TCP, 0, 0, 1, 0, 0, 0, 0])),
        None
    );
}

#[test]
fn other_protocols_are_left_to_the_dissector() {
    for protocol in (0..=255).filter(|protocol| ![TCP, UDP].contains(protocol)) {
        assert_eq!(flow(&Tuple { protocol, ..TUPLE }), None);
        assert_eq!(
            KEY.flow(IPV6, &ipv6(&TUPLE, protocol, &[protocol; 8])),
            None
        );
    }
    // Two headers of options, one that is longer, ARP, a VLAN header, the other version.
    assert_eq!(
        KEY.flow(IPV6, &ipv6(&TUPLE, 60, &[60, 0, 1, 4, 0, 0, 0, 0])),
        None
    );
    let mut long = [0; 16];
    (long[0], long[1]) = (TCP, 1);
    assert_eq!(KEY.flow(IPV6, &ipv6(&TUPLE, 60, &long)), None);
    let packet = ipv4(&TUPLE, &plain());
    for ethertype in [0x0806, 0x8100, IPV6] {
        assert_eq!(KEY.flow(ethertype, &packet), None);
    }
    assert_eq!(KEY.flow(IPV4, &ipv6(&TUPLE, TCP, &[])), None);
}

#[test]
fn an_impossible_header_length_is_left_to_the_dissector() {
    let mut packet = ipv4(&TUPLE, &plain());
    for length in 0..5 {
        packet[0] = 0x40 + length;
        assert_eq!(KEY.flow(IPV4, &packet), None);
    }
}

/// The flows of a load generator often differ in one port only. In a flow table, as many pairs of
/// them share an entry as with random hashing.
#[test]
fn neighbouring_flows_spread_like_random_ones() {
    const FLOWS: u16 = 1000;
    const ENTRIES: u64 = 3100;
    const KEYS: u64 = 200;
    let mut shared = 0;
    for number in 0..KEYS {
        let key = Key::new([
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            number << 40 | 0x5555,
        ]);
        let mut entries = vec![0_u64; ENTRIES as usize];
        let mut hashes = BTreeSet::new();
        for port in 0..FLOWS {
            let tuple = Tuple {
                ports: [1024 + port, 9],
                ..TUPLE
            };
            let hash = key.flow(IPV4, &ipv4(&tuple, &plain())).unwrap();
            hashes.insert(hash);
            entries[((u64::from(hash) * ENTRIES) >> 32) as usize] += 1;
        }
        assert!(hashes.len() >= usize::from(FLOWS) - 1, "key {number}");
        shared += entries
            .iter()
            .map(|n| n * n.saturating_sub(1) / 2)
            .sum::<u64>();
    }
    let pairs = u64::from(FLOWS) * u64::from(FLOWS - 1) / 2 * KEYS;
    // 32,000 pairs with a standard deviation of some 180.
    let expected = pairs / ENTRIES;
    assert!(
        shared.abs_diff(expected) < 1000,
        "{shared}, {expected} by chance"
    );
}

#[test]
fn each_key_gives_another_hash() {
    let packet = ipv4(&TUPLE, &plain());
    let keys = (0..1000).map(|number| Key::new([number, 7]));
    let hashes: BTreeSet<_> = keys.map(|key| key.flow(IPV4, &packet)).collect();
    assert!(hashes.len() >= 999);
}
