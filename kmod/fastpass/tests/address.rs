// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The addresses of endpoints, and the classification of control packets.

use weft_mechanisms::common::tag::Tag;
use weft_mechanisms::fastpass::address::{
    self, arrival, sort, Addresses, Arrival, Ends, Load, Sort, NO_NUMBER,
};

fn v4(text: &str) -> u32 {
    text.parse::<std::net::Ipv4Addr>().unwrap().into()
}

#[test]
fn endpoints_are_numbered_host_by_host_rack_by_rack_and_pod_by_pod() {
    let fat_tree = Addresses {
        first: v4("10.0.0.2"),
        hosts: 2,
        racks: 2,
        pods: 4,
    };
    assert_eq!(fat_tree.count(), 16);
    for (address, endpoint) in [
        ("10.0.0.2", Some(0)),
        ("10.0.0.3", Some(1)),
        ("10.0.1.2", Some(2)),
        ("10.1.0.2", Some(4)),
        ("10.3.1.3", Some(15)),
        ("10.0.0.1", None),
        ("10.0.0.4", None),
        ("10.0.2.2", None),
        ("10.4.0.2", None),
        ("9.255.255.255", None),
        ("255.255.255.255", None),
    ] {
        assert_eq!(fat_tree.endpoint(v4(address)), endpoint, "{address}");
    }
}

#[test]
fn endpoints_and_addresses_correspond_one_to_one() {
    for (first, hosts, racks, pods) in [
        ("10.0.0.2", 2, 2, 4),
        ("192.168.1.200", 256, 1, 1),
        ("10.0.255.255", 256, 4, 4),
        ("10.0.0.2", 1, 256, 16),
        ("10.0.0.2", 3, 5, 7),
        ("0.0.0.0", 16, 1, 256),
    ] {
        let addresses = Addresses {
            first: v4(first),
            hosts,
            racks,
            pods,
        };
        let mut seen = std::collections::BTreeSet::new();
        for endpoint in 0..addresses.count() as u16 {
            let address = addresses.address(endpoint).unwrap();
            assert!(seen.insert(address));
            assert_eq!(addresses.endpoint(address), Some(endpoint));
        }
        assert_eq!(addresses.address(addresses.count() as u16), None);
        // Addresses in between belong to no endpoint.
        let (low, high) = (addresses.first, *seen.last().unwrap());
        for address in (low..=high).step_by(7) {
            let endpoint = addresses.endpoint(address);
            assert_eq!(endpoint.is_some(), seen.contains(&address), "{address:#x}");
        }
    }
}

const HOST: [u8; 4] = [10, 0, 0, 2];
const ARBITER: [u8; 4] = [10, 0, 0, 9];
const STANDBY: [u8; 4] = [10, 0, 1, 9];
const OTHER: [u8; 4] = [10, 0, 0, 3];

/// The ends as the host, or an arbiter's host, knows them.
fn ends(own: [u8; 4]) -> Ends {
    Ends {
        own: u32::from_be_bytes(own),
        arbiter: u32::from_be_bytes(ARBITER),
        standby: u32::from_be_bytes(STANDBY),
        port: 7,
    }
}

fn between(from: [u8; 4], to: [u8; 4], l4: u8, ports: [u16; 2]) -> Vec<u8> {
    let mut header = packet(l4, [0, 0], 0, ports);
    header[12..16].copy_from_slice(&from);
    header[16..20].copy_from_slice(&to);
    header
}

fn packet(l4: u8, fragment: [u8; 2], options: usize, ports: [u16; 2]) -> Vec<u8> {
    let mut header = vec![0x45 + options as u8, 0, 0, 60, 0, 0];
    header.extend(fragment);
    header.extend([64, l4, 0, 0]);
    header.extend([HOST, ARBITER].concat());
    header.extend(vec![1; 4 * options]);
    header.extend(ports.map(u16::to_be_bytes).concat());
    header.extend([0; 4]);
    header
}

#[test]
fn control_packets_are_recognized_by_both_endpoints() {
    let sort = |own, from, to, ports| sort(0x0800, &between(from, to, 17, ports), &ends(own));
    let address = u32::from_be_bytes;
    for arbiter in [ARBITER, STANDBY] {
        // From a host's kernel to an arbiter, if the socket is the kernel's.
        let kernel = sort(HOST, HOST, arbiter, [700, 7]);
        assert_eq!(kernel, Sort::ToArbiter(address(arbiter)));
        // From an arbiter to a host, and to the other arbiter.
        for to in [HOST, ARBITER, STANDBY] {
            let expected = Sort::OfArbiter(address(to));
            assert_eq!(sort(arbiter, arbiter, to, [7, 700]), expected);
            assert_eq!(sort(arbiter, arbiter, to, [7, 7]), expected);
        }
    }
}

#[test]
fn a_program_that_uses_the_control_port_waits_for_a_timeslot() {
    let sort = |own, from, to, ports| sort(0x0800, &between(from, to, 17, ports), &ends(own));
    for ports in [[7, 9], [9, 7], [7, 7]] {
        // To another host.
        let data = Sort::To(u32::from_be_bytes(OTHER), Load::Other);
        assert_eq!(sort(HOST, HOST, OTHER, ports), data, "{ports:?}");
        // On an arbiter's host, from another address of it.
        assert_eq!(sort(ARBITER, HOST, OTHER, ports), data, "{ports:?}");
        // With an arbiter's address.
        assert_eq!(sort(HOST, ARBITER, OTHER, ports), data, "{ports:?}");
    }
    // From the control port to another port of the arbiter.
    let data = Sort::To(u32::from_be_bytes(ARBITER), Load::Other);
    assert_eq!(sort(HOST, HOST, ARBITER, [7, 9]), data);
    // Without a second arbiter, 0 is not an arbiter's address.
    let one = Ends {
        standby: 0,
        ..ends([0; 4])
    };
    let header = between([0; 4], [0; 4], 17, [7, 7]);
    assert_eq!(
        address::sort(0x0800, &header, &one),
        Sort::To(0, Load::Other)
    );
}

#[test]
fn ports_are_read_wherever_the_header_ends() {
    let to = Sort::To(u32::from_be_bytes(ARBITER), Load::Other);
    let tcp = Sort::To(u32::from_be_bytes(ARBITER), Load::Tcp);
    let control = Sort::ToArbiter(u32::from_be_bytes(ARBITER));
    for options in 0..=10 {
        let sort =
            |l4, fragment, ports| sort(0x0800, &packet(l4, fragment, options, ports), &ends(HOST));
        assert_eq!(sort(17, [0x40, 0], [9, 7]), control);
        assert_eq!(sort(17, [0, 0], [9, 7]), control);
        assert_eq!(sort(17, [0x20, 0], [9, 7]), control);
        assert_eq!(sort(17, [0, 0], [9, 9]), to);
        assert_eq!(sort(6, [0, 0], [7, 7]), tcp);
        // Later fragments.
        assert_eq!(sort(17, [0, 1], [7, 7]), to);
        assert_eq!(sort(17, [0x21, 0], [7, 7]), to);
    }
}

/// A TCP segment with these options of IP and TCP, in words, and this many bytes of payload.
fn segment(options: [usize; 2], flags: u8, payload: usize) -> Vec<u8> {
    let [ip, tcp] = options;
    let length = 40 + 4 * (ip + tcp) + payload;
    let mut packet = vec![0x45 + ip as u8, 0];
    packet.extend((length as u16).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 2, 10, 0, 0, 3]);
    packet.extend(vec![1; 4 * ip]);
    packet.extend([0; 12]);
    packet.extend([0x50 + (tcp as u8) * 16, flags]);
    packet.resize(length, 0);
    packet
}

#[test]
fn an_acknowledgement_without_payload_is_distinguished_from_other_segments() {
    let to = |load| Sort::To(v4("10.0.0.3"), load);
    let ends = ends(HOST);
    for ip in 0..=10 {
        for tcp in 0..=10 {
            let sort = |flags, payload| sort(0x0800, &segment([ip, tcp], flags, payload), &ends);
            for flags in [0x10, 0x18, 0x50, 0xd0] {
                assert_eq!(sort(flags, 0), to(Load::Ack), "{flags:#x}");
                assert_eq!(sort(flags, 1), to(Load::Tcp), "{flags:#x}");
            }
            // SYN, SYN and ACK; with congestion control's flags.
            for flags in [0x02, 0x12, 0xc2, 0x52] {
                assert_eq!(sort(flags, 0), to(Load::Opening), "{flags:#x}");
                assert_eq!(sort(flags, 1), to(Load::Opening), "{flags:#x}");
            }
            // FIN, RST, nothing, and what no connection begins with.
            for flags in [0x11, 0x14, 0x04, 0, 0x03, 0x06, 0x13] {
                assert_eq!(sort(flags, 0), to(Load::Tcp), "{flags:#x}");
            }
        }
    }
    // A truncated header, and one longer than its packet.
    let whole = segment([0, 3], 0x10, 0);
    for len in 20..34 {
        assert_eq!(sort(0x0800, &whole[..len], &ends), to(Load::Tcp), "{len}");
    }
    assert_eq!(sort(0x0800, &whole[..34], &ends), to(Load::Ack));
    let mut short = whole.clone();
    short[3] = 19;
    assert_eq!(sort(0x0800, &short, &ends), to(Load::Tcp));
    // A fragment.
    let mut fragment = whole;
    fragment[7] = 1;
    assert_eq!(sort(0x0800, &fragment, &ends), to(Load::Tcp));
}

#[test]
fn truncated_or_non_ipv4_packets_are_read_as_far_as_possible() {
    let to = u32::from_be_bytes(ARBITER);
    let whole = packet(17, [0, 0], 0, [9, 7]);
    for len in 0..whole.len() {
        let expected = match len {
            0..20 => Sort::Other,
            20..24 => Sort::To(to, Load::Other),
            _ => Sort::ToArbiter(to),
        };
        assert_eq!(sort(0x0800, &whole[..len], &ends(HOST)), expected, "{len}");
    }
    assert_eq!(sort(0x86dd, &whole, &ends(HOST)), Sort::Other);
    let mut sixth = whole.clone();
    sixth[0] = 0x65;
    assert_eq!(sort(0x0800, &sixth, &ends(HOST)), Sort::Other);
    // A header that claims to be too short: the place of the ports is not read beyond it.
    let mut short = whole;
    short[0] = 0x40;
    assert_eq!(sort(0x0800, &short, &ends(HOST)), Sort::To(to, Load::Other));
}

#[test]
fn the_tag_of_an_arriving_packet_has_its_path_and_its_number() {
    let tag = |upstream_queue, rank| Tag {
        rank,
        upstream_queue,
    };
    let tagged = |l4, ports, tag: Tag| {
        let mut header = packet(l4, [0, 0], 2, ports);
        header[20..28].copy_from_slice(&tag.to_ipv4());
        header
    };
    let read = |header: &[u8]| arrival(0x0800, header);
    let expected = Arrival {
        from: u32::from_be_bytes(HOST),
        to: u32::from_be_bytes(ARBITER),
        path: 3,
        number: Some(65_535),
    };
    let data = tagged(6, [7, 9], tag(4, 65_535));
    assert_eq!(read(&data), Some(expected));
    let expected = Arrival {
        path: 255,
        number: None,
        ..expected
    };
    let control = tagged(17, [9, 7], tag(256, NO_NUMBER));
    assert_eq!(read(&control), Some(expected));
    // A program's packet between the same ports has a number like any other.
    let expected = Arrival {
        number: Some(1),
        ..expected
    };
    assert_eq!(read(&tagged(17, [9, 7], tag(256, 1))), Some(expected));
    // No path, no tag, not IPv4, and half of a packet.
    assert_eq!(read(&tagged(6, [7, 9], tag(0, 1))), None);
    assert_eq!(read(&packet(6, [0, 0], 2, [7, 9])), None);
    assert_eq!(arrival(0x86dd, &data), None);
    for len in 0..28 {
        assert_eq!(read(&data[..len]), None, "{len}");
    }
}
