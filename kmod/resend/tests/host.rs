// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Hosts: "… which then retransmits the dropped packet".

use super::packets::{ipv4, segment, tcp};
use weft_mechanisms::heap::Heap;
use weft_mechanisms::resend::copies::Copies;
use weft_mechanisms::resend::host::{Counters, Host, DEVICES};
use weft_mechanisms::resend::notice::encode;
use weft_mechanisms::resend::segment::{Segment, IPV4};

type OneHost = Host<Heap, u32, &'static str>;

/// A host with a device of four copies.
fn host() -> (OneHost, u8) {
    let mut host = OneHost::new();
    let number = join(&mut host, 4);
    assert_eq!(host.connect(number, "eth0"), None);
    (host, number)
}

fn join(host: &mut OneHost, room: u32) -> u8 {
    let Ok(copies) = Copies::new(room);
    host.join(copies).ok().unwrap()
}

fn notice(segment: &Segment) -> Vec<u8> {
    ipv4(1, 0x0a09_0909, segment.source, 0, &encode(segment))
}

/// The device and the packet that the host sends because of a packet that arrives.
fn hear(host: &mut OneHost, packet: &[u8]) -> Option<(&'static str, u32)> {
    let mut sent = None;
    host.hear(IPV4, packet, |outlet, packet| {
        assert_eq!(sent.replace((*outlet, *packet)), None);
        true
    });
    sent
}

/// "On a packet drop, the switch informs the sender directly, which then retransmits the dropped
/// packet."
#[test]
fn the_sender_retransmits_the_dropped_packet_and_no_other() {
    let (mut host, eth0) = host();
    for number in 0..4 {
        assert_eq!(host.keep(eth0, segment(0, number), number, 1500), Ok(None));
    }
    assert_eq!(hear(&mut host, &notice(&segment(0, 2))), Some(("eth0", 2)));
    assert_eq!(host.counters().resent, 1);
}

/// "We choose this (potentially impractical) strategy to provide a bound on the performance that
/// can be achieved using any retransmission scheme."
#[test]
fn a_packet_is_retransmitted_however_often_it_is_dropped() {
    let (mut host, eth0) = host();
    assert_eq!(host.keep(eth0, segment(0, 0), 7, 1500), Ok(None));
    for number in 1..50 {
        assert_eq!(hear(&mut host, &notice(&segment(0, 0))), Some(("eth0", 7)));
        host.keep(eth0, segment(0, number), 0, 1500).unwrap();
    }
    assert_eq!(host.counters().resent, 49);
}

#[test]
fn a_late_notice_is_counted_and_left_to_the_timeout() {
    let (mut host, eth0) = host();
    for number in 0..5 {
        host.keep(eth0, segment(0, number), number, 1500).unwrap();
    }
    assert_eq!(hear(&mut host, &notice(&segment(0, 0))), None);
    let expected = Counters {
        received: 1,
        missed: 1,
        ..Counters::default()
    };
    assert_eq!(host.counters(), expected);
}

#[test]
fn a_notice_of_another_hosts_segment_sends_nothing() {
    let (mut host, eth0) = host();
    host.keep(eth0, segment(0, 0), 0, 1500).unwrap();
    let other = Segment {
        source: 9,
        ..segment(0, 0)
    };
    assert_eq!(hear(&mut host, &notice(&other)), None);
    assert_eq!(host.counters().missed, 1);
}

#[test]
fn a_malformed_notice_is_refused_and_other_packets_are_not_counted() {
    let (mut host, eth0) = host();
    host.keep(eth0, segment(0, 0), 0, 1500).unwrap();
    let mut packet = notice(&segment(0, 0));
    packet[22] ^= 1;
    assert_eq!(hear(&mut host, &packet), None);
    assert_eq!(hear(&mut host, &tcp(&segment(0, 0), 0x10, 0, 0)), None);
    let expected = Counters {
        malformed: 1,
        ..Counters::default()
    };
    assert_eq!(host.counters(), expected);
}

#[test]
fn a_copy_goes_by_the_device_that_sent_the_packet() {
    let (mut host, eth0) = host();
    let eth1 = join(&mut host, 2);
    assert_eq!(host.connect(eth1, "eth1"), None);
    host.keep(eth0, segment(0, 0), 0, 1500).unwrap();
    host.keep(eth1, segment(1, 0), 1, 1500).unwrap();
    assert_eq!(hear(&mut host, &notice(&segment(1, 0))), Some(("eth1", 1)));
    assert_eq!(hear(&mut host, &notice(&segment(0, 0))), Some(("eth0", 0)));
}

#[test]
fn copies_that_cannot_be_sent_are_counted() {
    let (mut host, eth0) = host();
    host.keep(eth0, segment(0, 0), 0, 1500).unwrap();
    host.hear(IPV4, &notice(&segment(0, 0)), |_, _| false);
    let expected = Counters {
        received: 1,
        failed: 1,
        ..Counters::default()
    };
    assert_eq!(host.counters(), expected);
}

#[test]
fn a_host_has_a_limited_number_of_devices_whose_copies_leave_with_them() {
    let mut host = OneHost::new();
    for device in 0..DEVICES {
        assert_eq!(usize::from(join(&mut host, 1)), device);
    }
    let Ok(copies) = Copies::new(1);
    assert!(host.join(copies).is_err());
    assert_eq!(host.keep(3, segment(0, 0), 5, 100), Ok(None));
    assert_eq!(host.copies(3), (1, 100));
    let (mut copies, outlet) = host.leave(3).unwrap();
    assert_eq!((copies.pop(), copies.pop(), outlet), (Some(5), None, None));
    assert_eq!(host.copies(3), (0, 0));
    assert_eq!(host.keep(3, segment(0, 0), 5, 100), Err(5));
    assert!(host.leave(3).is_none());
    assert_eq!(join(&mut host, 1), 3);
}

#[test]
fn other_room_begins_empty_and_the_old_copies_are_returned() {
    let (mut host, eth0) = host();
    host.keep(eth0, segment(0, 0), 7, 1500).unwrap();
    let Ok(room) = Copies::new(9);
    let mut old = host.replace(eth0, room).ok().unwrap();
    assert_eq!(old.pop(), Some(7));
    assert_eq!(host.copies(eth0), (0, 0));
    let Ok(room) = Copies::new(9);
    assert!(host.replace(5, room).is_err());
}
