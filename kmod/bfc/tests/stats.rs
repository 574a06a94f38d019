// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Statistics of the `bfc` qdisc: a fixed layout.

use proptest::prelude::*;
use weft_mechanisms::bfc::stats::{QueueStats, Stats};

#[test]
fn the_layout_never_changes() {
    assert_eq!((Stats::SIZE, QueueStats::SIZE), (252, 24));
    let mut bytes = Vec::new();
    bytes.extend(0_u32.to_ne_bytes());
    for field in 1..=3_u32 {
        bytes.extend(field.to_ne_bytes());
    }
    for field in 4..=16_u64 {
        bytes.extend(field.to_ne_bytes());
    }
    bytes.extend(17_u32.to_ne_bytes());
    for field in 18..=33_u64 {
        bytes.extend(field.to_ne_bytes());
    }
    let stats = Stats {
        occupied: 1,
        paused: 2,
        active: 3,
        threshold: 4,
        hrtt: 5,
        activations: 6,
        collisions: 7,
        congested: 8,
        elided: 9,
        unmarked: 10,
        dropped_limit: 11,
        dropped_buffer: 12,
        dropped_memory: 13,
        dropped_control: 14,
        highest_backlog: 15,
        paused_ns: 16,
        pausing: 17,
        pauses_sent: 18,
        resumes_sent: 19,
        bitmaps_sent: 20,
        unsent: 21,
        pauses_received: 22,
        resumes_received: 23,
        bitmaps_received: 24,
        lapsed: 25,
        malformed: 26,
        foreign: 27,
        replayed: 28,
        buffer_backlog: 29,
        highest_buffer_backlog: 30,
        longest: 31,
        dropped_share: 32,
        released: 33,
    };
    assert_eq!(stats.to_bytes(), bytes[..]);
    assert_eq!(Stats::from_bytes(&bytes), Some(stats));

    let queue = QueueStats {
        number: 2,
        class: 3,
        paused: 1,
        paused_ns: 5,
    };
    let mut bytes = Vec::new();
    for field in [1_u32, 2, 3, 1] {
        bytes.extend(field.to_ne_bytes());
    }
    bytes.extend(5_u64.to_ne_bytes());
    assert_eq!(queue.to_bytes(), bytes[..]);
    assert_eq!(QueueStats::from_bytes(&bytes), Some(queue));
}

#[test]
fn statistics_of_a_port_and_of_a_queue_are_distinguished() {
    let port = Stats::default().to_bytes();
    let queue = QueueStats::default().to_bytes();
    assert_eq!(QueueStats::from_bytes(&port), None);
    assert_eq!(Stats::from_bytes(&[&queue[..], &port].concat()), None);
}

#[test]
fn statistics_may_be_longer_in_a_newer_kernel_and_never_shorter() {
    let mut bytes = [0; Stats::SIZE + 9];
    bytes[4..].fill(0xff);
    let stats = Stats::from_bytes(&bytes[..Stats::SIZE]);
    assert!(stats.is_some());
    assert_eq!(Stats::from_bytes(&bytes), stats);
    for length in 0..Stats::SIZE {
        assert_eq!(Stats::from_bytes(&bytes[..length]), None);
    }
}

proptest! {
    #[test]
    fn statistics_are_read_back(bytes in prop::collection::vec(any::<u8>(), Stats::SIZE)) {
        let mut bytes = bytes;
        bytes[..4].copy_from_slice(&Stats::KIND.to_ne_bytes());
        prop_assert_eq!(&Stats::from_bytes(&bytes).unwrap().to_bytes()[..], &bytes);
        bytes[..4].copy_from_slice(&QueueStats::KIND.to_ne_bytes());
        let queue = QueueStats::from_bytes(&bytes).unwrap();
        prop_assert_eq!(&queue.to_bytes()[..], &bytes[..QueueStats::SIZE]);
    }
}
