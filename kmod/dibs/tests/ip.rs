// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Reading and writing headers, against the plain sum of RFC 791.

use proptest::prelude::*;
use weft_mechanisms::dibs::ip::{cap_ttl, set_ce, Ecn, Header, Reach};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// The one's complement sum of all words, the checksum included: 0xffff if it is correct.
fn sum(header: &[u8]) -> u16 {
    let words = header
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn ipv4(tos: u8, ttl: u8, from: [u8; 4], to: [u8; 4], rest: [u8; 6]) -> Vec<u8> {
    let [a, b, c, d, e, protocol] = rest;
    let mut header = vec![0x45, tos, a, b, c, d, e, 0, ttl, protocol, 0, 0];
    header.extend(from);
    header.extend(to);
    let checksum = !sum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

fn ipv6(class: u8, limit: u8, from: [u8; 2], to: [u8; 2]) -> Vec<u8> {
    let mut header = vec![0x60 | class >> 4, class << 4 | 5, 1, 2, 0, 0, 17, limit];
    for [a, b] in [from, to] {
        header.extend([a, b]);
        header.extend([7; 14]);
    }
    header
}

fn read(protocol: u16, header: &[u8]) -> (Ecn, Reach) {
    let Header { ecn, reach, .. } = Header::read(protocol, header);
    (ecn, reach)
}

const ECN: [Ecn; 4] = [Ecn::NotCapable, Ecn::Capable, Ecn::Capable, Ecn::Marked];

#[test]
fn the_last_two_bits_of_the_class_say_whether_a_packet_may_be_marked() {
    for (class, ecn) in (0xfc..=0xff).zip(ECN) {
        let header = ipv4(class, 9, [10, 0, 0, 1], [10, 0, 0, 2], [0; 6]);
        assert_eq!(read(IPV4, &header), (ecn, Reach::Routed));
        let header = ipv6(class, 9, [0x20, 1], [0x20, 1]);
        assert_eq!(read(IPV6, &header), (ecn, Reach::Routed));
    }
}

#[test]
fn a_packet_without_remaining_hops_is_not_forwarded() {
    for (ttl, reach) in [
        (0, Reach::Expires),
        (1, Reach::Expires),
        (2, Reach::Routed),
        (255, Reach::Routed),
    ] {
        let header = ipv4(0, ttl, [10, 0, 0, 1], [10, 0, 0, 2], [0; 6]);
        assert_eq!(read(IPV4, &header), (Ecn::NotCapable, reach));
        let header = ipv6(0, ttl, [0x20, 1], [0x20, 1]);
        assert_eq!(read(IPV6, &header), (Ecn::NotCapable, reach));
    }
}

#[test]
fn packets_with_link_local_addresses_stay_on_the_link() {
    let host = [10, 0, 0, 1];
    for (from, to) in [
        (host, [224, 0, 0, 5]),
        (host, [255, 255, 255, 255]),
        (host, [169, 254, 3, 4]),
        ([169, 254, 3, 4], host),
    ] {
        let header = ipv4(1, 9, from, to, [0; 6]);
        assert_eq!(read(IPV4, &header), (Ecn::Capable, Reach::Link));
    }
    let host = [0x20, 1];
    for (from, to) in [
        (host, [0xff, 2]),
        (host, [0xfe, 0x80]),
        (host, [0xfe, 0xbf]),
        ([0xfe, 0x80], host),
    ] {
        let header = ipv6(1, 9, from, to);
        assert_eq!(read(IPV6, &header), (Ecn::Capable, Reach::Link));
    }
    for near in [[0xfe, 0x7f], [0xfe, 0xc0], [0xfd, 0x80]] {
        assert_eq!(read(IPV6, &ipv6(1, 9, near, near)).1, Reach::Routed);
    }
}

/// Neighbours probe each other by unicast, also from and to addresses that are routed.
#[test]
fn neighbour_discovery_stays_on_the_link_whatever_its_addresses() {
    let message = |kind: u8| {
        let mut packet = ipv6(0, 255, [0x20, 1], [0x20, 1]);
        packet[6] = 58;
        packet.extend([kind, 0, 0, 0]);
        packet
    };
    for kind in 0..=255 {
        let link = matches!(kind, 133..=137 | 141 | 142 | 148 | 149);
        let reach = if link { Reach::Link } else { Reach::Routed };
        assert_eq!(read(IPV6, &message(kind)).1, reach, "type {kind}");
        // In UDP it is a port.
        let mut packet = message(kind);
        packet[6] = 17;
        assert_eq!(read(IPV6, &packet).1, Reach::Routed);
    }
    // If the message's type is elsewhere, it may be one of these.
    assert_eq!(read(IPV6, &message(1)[..40]).1, Reach::Link);
}

#[test]
fn a_truncated_or_foreign_header_is_not_read() {
    let whole = ipv4(1, 9, [10, 0, 0, 1], [10, 0, 0, 2], [0; 6]);
    assert_eq!(Header::read(IPV4, &whole[..19]), Header::NONE);
    assert_eq!(Header::read(IPV6, &whole), Header::NONE);
    assert_eq!(Header::read(0x0806, &whole), Header::NONE);
    let whole = ipv6(1, 9, [0x20, 1], [0x20, 1]);
    assert_eq!(Header::read(IPV6, &whole[..39]), Header::NONE);
    assert_eq!(Header::read(IPV4, &whole), Header::NONE);
    assert_eq!(Header::read(IPV6, &[]), Header::NONE);
}

proptest! {
    #[test]
    fn marks_and_hops_are_written_and_the_checksum_follows(
        tos in any::<u8>(),
        ttl in any::<u8>(),
        cap in any::<u8>(),
        from in any::<[u8; 4]>(),
        to in any::<[u8; 4]>(),
        rest in any::<[u8; 6]>(),
    ) {
        let before = ipv4(tos, ttl, from, to, rest);
        let mut after = before.clone();
        set_ce(&mut after);
        cap_ttl(&mut after, cap);
        prop_assert_eq!(sum(&after), 0xffff);
        let marked = if tos & 3 == 0 { tos } else { tos | 3 };
        prop_assert_eq!((after[1], after[8]), (marked, ttl.min(cap)));
        for at in (0..20).filter(|at| ![1, 8, 10, 11].contains(at)) {
            prop_assert_eq!(after[at], before[at]);
        }

        let before = ipv6(tos, ttl, [from[0], from[1]], [to[0], to[1]]);
        let mut after = before.clone();
        set_ce(&mut after);
        cap_ttl(&mut after, cap);
        prop_assert_eq!(after, ipv6(marked, ttl.min(cap), [from[0], from[1]], [to[0], to[1]]));
    }

    #[test]
    fn any_bytes_are_handled(bytes in prop::collection::vec(any::<u8>(), 0..60), ttl in any::<u8>()) {
        for protocol in [IPV4, IPV6] {
            let header = Header::read(protocol, &bytes);
            prop_assert!(header.len as usize <= bytes.len());
        }
        let mut after = bytes.clone();
        set_ce(&mut after);
        cap_ttl(&mut after, ttl);
        prop_assert_eq!(after.len(), bytes.len());
    }
}
