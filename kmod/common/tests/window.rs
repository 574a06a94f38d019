// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Tests of the round-trip time of an acknowledgement.

use weft_mechanisms::common::window::sampled_rtt_us;

fn sampled(packets: u32, was_resent: bool, sample_us: i64) -> Option<u32> {
    sampled_rtt_us(packets, was_resent, sample_us).map(u32::from)
}

#[test]
fn a_packet_sent_once_gives_its_round_trip_time() {
    assert_eq!(sampled(2, false, 250), Some(250));
}

#[test]
fn an_acknowledgement_in_the_same_microsecond_takes_one_microsecond() {
    assert_eq!(sampled(1, false, 0), Some(1));
}

#[test]
fn a_retransmitted_packet_gives_no_round_trip_time() {
    assert_eq!(sampled(1, true, 250), None);
}

#[test]
fn an_acknowledgement_of_nothing_gives_no_round_trip_time() {
    assert_eq!(sampled(0, false, 250), None);
    assert_eq!(sampled(1, false, -1), None);
}

#[test]
fn a_round_trip_time_beyond_32_bits_is_clamped() {
    assert_eq!(sampled(1, false, 1 << 40), Some(u32::MAX));
    assert_eq!(sampled(1, false, i64::MAX), Some(u32::MAX));
}
