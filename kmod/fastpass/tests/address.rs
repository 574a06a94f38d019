// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Who is which endpoint, and which packets are the control protocol's.

use weft_mechanisms::common::tag::Tag;
use weft_mechanisms::fastpass::address::{arrival, sort, Addresses, Arrival, Sort};

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
fn each_endpoint_has_an_address_and_no_address_two_endpoints() {
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
        // Whatever lies between is nobody's.
        let (low, high) = (addresses.first, *seen.last().unwrap());
        for address in (low..=high).step_by(7) {
            let endpoint = addresses.endpoint(address);
            assert_eq!(endpoint.is_some(), seen.contains(&address), "{address:#x}");
        }
    }
}

fn packet(l4: u8, fragment: [u8; 2], options: usize, ports: [u16; 2]) -> Vec<u8> {
    let mut header = vec![0x45 + options as u8, 0, 0, 60, 0, 0];
    header.extend(fragment);
    header.extend([64, l4, 0, 0, 10, 0, 0, 2, 10, 0, 0, 3]);
    header.extend(vec![1; 4 * options]);
    header.extend(ports.map(u16::to_be_bytes).concat());
    header.extend([0; 4]);
    header
}

#[test]
fn the_control_protocols_packets_are_known_by_their_port_wherever_the_header_ends() {
    let to = Sort::To(v4("10.0.0.3"), false);
    for options in 0..=10 {
        let sort = |l4, fragment, ports| sort(0x0800, &packet(l4, fragment, options, ports), 7);
        let control = Sort::Control(v4("10.0.0.3"));
        assert_eq!(sort(17, [0x40, 0], [7, 9]), control);
        assert_eq!(sort(17, [0, 0], [9, 7]), control);
        assert_eq!(sort(17, [0x20, 0], [9, 7]), control);
        assert_eq!(sort(17, [0, 0], [9, 9]), to);
        assert_eq!(sort(6, [0, 0], [7, 7]), Sort::To(v4("10.0.0.3"), true));
        // Later fragments.
        assert_eq!(sort(17, [0, 1], [7, 7]), to);
        assert_eq!(sort(17, [0x21, 0], [7, 7]), to);
    }
}

#[test]
fn what_is_cut_off_or_no_ipv4_is_read_as_far_as_it_goes() {
    let whole = packet(17, [0, 0], 0, [7, 7]);
    for len in 0..whole.len() {
        let expected = match len {
            0..20 => Sort::Other,
            20..24 => Sort::To(v4("10.0.0.3"), false),
            _ => Sort::Control(v4("10.0.0.3")),
        };
        assert_eq!(sort(0x0800, &whole[..len], 7), expected, "{len}");
    }
    assert_eq!(sort(0x86dd, &whole, 7), Sort::Other);
    let mut sixth = whole.clone();
    sixth[0] = 0x65;
    assert_eq!(sort(0x0800, &sixth, 7), Sort::Other);
    // A header that is said to be shorter than any: what is in the place of ports is not read beyond it.
    let mut short = whole;
    short[0] = 0x40;
    assert_eq!(sort(0x0800, &short, 7), Sort::To(v4("10.0.0.3"), false));
}

#[test]
fn what_comes_says_its_path_and_its_number_in_its_tag() {
    let tag = |upstream_queue, rank| Tag {
        rank,
        upstream_queue,
    };
    let tagged = |l4, ports, tag: Tag| {
        let mut header = packet(l4, [0, 0], 2, ports);
        header[20..28].copy_from_slice(&tag.to_ipv4());
        header
    };
    let read = |header: &[u8]| arrival(0x0800, header, 7);
    let expected = Arrival {
        from: v4("10.0.0.2"),
        to: v4("10.0.0.3"),
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
    assert_eq!(read(&tagged(17, [7, 9], tag(256, 1))), Some(expected));
    // No path, no tag, no IPv4, and half of a packet.
    assert_eq!(read(&tagged(6, [7, 9], tag(0, 1))), None);
    assert_eq!(read(&packet(6, [0, 0], 2, [7, 9])), None);
    assert_eq!(arrival(0x86dd, &data, 7), None);
    for len in 0..28 {
        assert_eq!(read(&data[..len]), None, "{len}");
    }
}
