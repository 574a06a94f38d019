// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The sentences of §3.2, "Loss Recovery", one by one.

use proptest::prelude::*;
use weft_mechanisms::pase::probe::{Answer, Probing, Timeout};

/// "For flows belonging to the top queue, we use existing loss recovery mechanisms (i.e., timeout
/// based retransmissions)."
#[test]
fn in_the_top_queue_a_timeout_sends_the_packet() {
    let mut probing = Probing::default();
    for _ in 0..5 {
        assert_eq!(probing.on_timeout(1), Timeout::Packet);
    }
    assert_eq!((probing.timeouts(), probing.probes()), (5, 0));
    assert_eq!(probing.on_ack(false), Answer::Nothing);
}

/// "We use small probe packets instead of retransmitting the entire packet whenever a flow, mapped
/// to one of the lower priority queues, times out."
#[test]
fn in_a_lower_queue_a_timeout_sends_a_probe() {
    for queue in 2..=8 {
        let mut probing = Probing::default();
        assert_eq!(probing.on_timeout(queue), Timeout::Probe);
        assert!(probing.probing());
    }
}

/// "If we receive an ACK for the probe packet (but not the original packet), it is a sign that the
/// data packet was lost, so we retransmit the original data packet."
#[test]
fn an_ack_for_the_probe_but_not_the_packet_says_that_it_was_lost() {
    let mut probing = Probing::default();
    probing.on_timeout(2);
    assert_eq!(probing.on_ack(false), Answer::Lost);
    // Once.
    assert_eq!(probing.on_ack(false), Answer::Nothing);
    assert!(!probing.probing());
}

#[test]
fn an_ack_for_the_packet_says_that_it_had_only_waited() {
    let mut probing = Probing::default();
    probing.on_timeout(2);
    assert_eq!(probing.on_ack(true), Answer::Arrived);
    // The probe's own ACK, behind it, says nothing.
    assert_eq!(probing.on_ack(false), Answer::Nothing);
}

/// "If the probe packet is also delayed (no ACK received), we increase our timeout value (and
/// resend another probe)."
#[test]
fn while_no_ack_is_received_each_timeout_sends_another_probe() {
    let mut probing = Probing::default();
    for probes in 1..1_000 {
        assert_eq!(probing.on_timeout(8), Timeout::Probe);
        assert_eq!(probing.probes(), probes);
    }
    assert_eq!(probing.on_ack(false), Answer::Lost);
}

#[test]
fn a_flow_that_came_to_the_top_queue_sends_the_packet_at_the_next_timeout() {
    let mut probing = Probing::default();
    probing.on_timeout(8);
    assert_eq!(probing.on_timeout(1), Timeout::Packet);
    assert_eq!(probing.on_ack(false), Answer::Nothing);
}

proptest! {
    #[test]
    fn a_packet_is_found_lost_only_after_a_probe_of_its_own(
        events in prop::collection::vec((0..3_u8, 1..=8_u8), 0..300),
    ) {
        let mut probing = Probing::default();
        let mut out = false;
        for (event, queue) in events {
            match event {
                0 => out = probing.on_timeout(queue) == Timeout::Probe,
                _ => {
                    let lost = probing.on_ack(event == 1) == Answer::Lost;
                    prop_assert_eq!(lost, out && event == 2);
                    out = false;
                }
            }
            prop_assert_eq!(probing.probing(), out);
        }
    }
}
