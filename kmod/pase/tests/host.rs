// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Window, guard and probes of one flow together.

use std::num::{NonZeroU16, NonZeroU32};
use weft_mechanisms::common::window::Ack;
use weft_mechanisms::pase::host::Host;
use weft_mechanisms::pase::probe::{Answer, Timeout};
use weft_mechanisms::pase::window::Params;
use weft_mechanisms::pase::Verdict;

fn flow(queue: u8) -> Host {
    let params = Params {
        rtt_us: NonZeroU32::new(100).unwrap(),
        packet: NonZeroU16::new(1_000).unwrap(),
        queues: 8,
        guided: true,
    };
    Host::new(params, verdict(queue))
}

/// The reference rate is 20 packets in a round-trip time.
fn verdict(queue: u8) -> Verdict {
    Verdict {
        queue,
        rate: 200_000_000,
    }
}

fn ack(packets: u32) -> Ack {
    Ack {
        packets,
        marked: 0,
        rtt_us: None,
        limited: true,
    }
}

#[test]
fn while_the_guard_holds_the_window_is_one_packet_and_then_the_new_queues() {
    let mut flow = flow(3);
    for _ in 0..6 {
        flow.acknowledged(ack(1), false);
    }
    assert_eq!((flow.packets(), flow.queue()), (4, 3));
    flow.arbitrate(verdict(1), false);
    assert_eq!((flow.packets(), flow.queue(), flow.holding()), (1, 3, true));
    flow.acknowledged(ack(3), false);
    assert_eq!((flow.packets(), flow.queue()), (1, 3));
    flow.acknowledged(ack(1), true);
    assert!(flow.due() && !flow.holding());
    flow.arbitrate(verdict(1), true);
    assert_eq!((flow.packets(), flow.queue()), (20, 1));
    assert!(!flow.due());
}

#[test]
fn the_arbitrators_are_asked_once_in_a_window() {
    let mut flow = flow(1);
    for _ in 0..3 {
        for acked in 1..=20 {
            flow.acknowledged(ack(1), false);
            assert_eq!(flow.due(), acked == 20, "after {acked}");
        }
        flow.arbitrate(verdict(1), false);
    }
}

#[test]
fn a_timeout_asks_the_arbitrators_too() {
    let mut flow = flow(8);
    assert_eq!(flow.on_timeout(true), Timeout::Probe);
    assert!(flow.due());
    // The guard holds the queue: until the packets sent are acknowledged, a timeout is a probe.
    flow.arbitrate(verdict(1), false);
    assert_eq!(flow.on_timeout(true), Timeout::Probe);
    assert_eq!(flow.acknowledged(ack(0), false), Answer::Lost);
    flow.acknowledged(ack(1), true);
    flow.arbitrate(verdict(1), true);
    assert_eq!(flow.on_timeout(true), Timeout::Packet);
}

#[test]
fn without_probing_a_timeout_sends_the_packet_in_any_queue() {
    let mut flow = flow(8);
    for _ in 0..3 {
        assert_eq!(flow.on_timeout(false), Timeout::Packet);
        assert!(flow.due() && !flow.probing().probing());
    }
    assert_eq!((flow.probing().timeouts(), flow.probing().probes()), (3, 0));
    // No question is open that an acknowledgement without news would answer.
    assert_eq!(flow.acknowledged(ack(0), false), Answer::Nothing);
}

#[test]
fn a_new_flow_of_the_connection_begins_with_its_verdict() {
    let mut flow = flow(8);
    flow.arbitrate(verdict(2), false);
    flow.restart(verdict(1));
    assert_eq!(
        (flow.packets(), flow.queue(), flow.holding()),
        (20, 1, false)
    );
}

/// A flow's room in a socket is 104 bytes, of which 24 are the adapter's.
#[test]
fn its_state_leaves_room_in_a_socket() {
    assert!(size_of::<Host>() <= 56, "{} bytes", size_of::<Host>());
}
