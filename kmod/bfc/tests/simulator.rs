// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The rules of the authors' simulator (github.com/prateshg/BFC_NS3_NSDI2022) that the paper's text
//! does not have: `ns3-backpressure/src/point-to-point/model/qbb-net-device.cc`, named here by its
//! functions.

use super::rig::{from, local, set, share, Rig, BDP, MTU, RATE, SHAPE, TUNING};
use weft_mechanisms::bfc::egress::{
    Arrival, Cause, Pushback, Shape, Threshold, Tuning, CONTROL, CONTROL_LIMIT,
    CONTROL_PACKETS_LIMIT,
};
use weft_mechanisms::bfc::flows::Assign;
use weft_mechanisms::bfc::ingress::Tell;

/// Packets arrive on device 1 and leave by port 1 (device 2).
const EGRESS: usize = 1;

const BACKLOGGED: Tuning = Tuning {
    pushback: Pushback::Backlogged,
    ..TUNING
};

/// Packets of rank 0 are control packets, and data has rank 1.
const WITH_CONTROL: Shape = Shape {
    control: Some(0),
    ..SHAPE
};

fn data(device: u32, upstream_queue: u16, flow: u32) -> Arrival {
    Arrival {
        rank: 1,
        ..from(device, upstream_queue, flow)
    }
}

/// An acknowledgement in a tagged packet.
fn acknowledgement(device: u32, upstream_queue: u16, flow: u32) -> Arrival {
    Arrival {
        len: 60,
        ..from(device, upstream_queue, flow)
    }
}

/// `Send`: `UpdatePauseState` is asked if the entry's `size` exceeds 1, this packet included.
#[test]
fn the_only_packet_of_its_flow_does_not_push_back() {
    let shape = Shape {
        assign: Assign::Single,
        ..SHAPE
    };
    for (tuning, expected) in [
        (TUNING, vec![(1, Tell::Pause(6))]),
        (BACKLOGGED, Vec::new()),
    ] {
        let mut rig = Rig::with(&[(shape, tuning); 2]);
        // Another flow, from this host, fills the queue that all flows share.
        for _ in 0..2 * BDP / u64::from(MTU) {
            rig.enqueue(EGRESS, &local(1)).unwrap();
        }
        let congested = rig.ports[EGRESS].counters().congested;
        rig.enqueue(EGRESS, &from(1, 6, 2)).unwrap();
        assert_eq!(rig.told(), expected);
        let counters = rig.ports[EGRESS].counters();
        assert_eq!(
            counters.congested,
            congested + 1,
            "it found its queue congested"
        );
        // The second one does: its flow is backlogged here.
        rig.enqueue(EGRESS, &from(1, 7, 2)).unwrap();
        assert_eq!(rig.told(), [(1, Tell::Pause(7))]);
        rig.check();
    }
}

#[test]
fn a_flow_pushes_back_again_only_after_another_second_packet() {
    let shape = Shape {
        assign: Assign::Single,
        ..SHAPE
    };
    let mut rig = Rig::with(&[(shape, BACKLOGGED); 2]);
    let port = rig.ports[0].place().port;
    for round in 0..3 {
        for _ in 0..=BDP / u64::from(MTU) {
            rig.enqueue(EGRESS, &local(1)).unwrap();
        }
        for (nth, expected) in [0, 1, 2].into_iter().enumerate() {
            rig.enqueue(EGRESS, &from(1, 6, 2)).unwrap();
            let counter = rig.switch.counter(port, 6);
            assert_eq!(counter, expected, "round {round}, packet {nth}");
        }
        rig.drain(EGRESS);
        assert_eq!(rig.switch.counter(port, 6), 0);
    }
}

/// The flow table does not know packets of the incast queue, so none of them is known to be alone.
#[test]
fn packets_of_an_incast_push_back_as_before() {
    let shape = Shape {
        incast: Some(5),
        ..SHAPE
    };
    let tuning = Tuning {
        threshold: Threshold::Fixed(0),
        ..BACKLOGGED
    };
    let mut rig = Rig::with(&[(shape, tuning); 2]);
    for flow in [1, 2] {
        let arrival = Arrival {
            rank: 5,
            ..from(1, flow, flow.into())
        };
        rig.enqueue(EGRESS, &arrival).unwrap();
    }
    assert_eq!(rig.told(), [(1, Tell::Pause(2))]);
}

/// `UpdatePauseState`: `mark_up` is 1.5.
#[test]
fn the_threshold_is_one_and_a_half_times_the_papers() {
    for (percent, packets) in [(100, 25), (150, 37), (4, 1), (1, 0), (10_000, 2_500)] {
        let threshold = Threshold::OneHopBdp {
            rate: RATE,
            percent,
        };
        let tuning = Tuning {
            threshold,
            ..TUNING
        };
        let mut rig = Rig::with(&[(SHAPE, tuning); 2]);
        let th = BDP * u64::from(percent) / 100;
        assert_eq!(rig.ports[EGRESS].threshold(&rig.switch), th);
        // The packet after these finds Th or less.
        for _ in 0..=packets {
            rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
            assert_eq!(rig.told(), [], "{percent} %");
        }
        rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
        assert_eq!(rig.told(), [(1, Tell::Pause(5))], "{percent} %");
        assert_eq!(rig.ports[EGRESS].counters().congested, 1);
    }
}

#[test]
fn a_scaled_threshold_is_divided_among_the_active_queues() {
    let threshold = Threshold::OneHopBdp {
        rate: RATE,
        percent: 150,
    };
    let tuning = Tuning {
        threshold,
        ..TUNING
    };
    let mut rig = Rig::with(&[(SHAPE, tuning); 2]);
    for flow in 1..=5 {
        rig.enqueue(EGRESS, &from(1, 9, flow)).unwrap();
    }
    assert_eq!(rig.ports[EGRESS].threshold(&rig.switch), 7_500);
    for _ in 1..=7 {
        rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
        assert_eq!(rig.told(), []);
    }
    rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
    assert_eq!(rig.told(), [(1, Tell::Pause(5))]);
}

/// `DequeueRR` and `DequeueQCN` look into the queue of acknowledgements and pauses before they look
/// at pauses.
#[test]
fn acknowledgements_are_sent_first_even_if_all_queues_are_paused() {
    let mut rig = Rig::with(&[(WITH_CONTROL, TUNING)]);
    let waiting = rig.enqueue(0, &data(0, 0, 1)).unwrap();
    rig.hear(1, Tell::State(set(&(0..1_024).collect::<Vec<u16>>())));
    let first = rig.enqueue(0, &acknowledgement(0, 0, 1)).unwrap();
    let second = rig.enqueue(0, &acknowledgement(0, 0, 2)).unwrap();
    assert_eq!((first.1, second.1), (CONTROL, CONTROL));
    assert_eq!(rig.drain(0), [first.0, second.0]);
    rig.hear(1, Tell::State(set(&[])));
    assert_eq!(rig.drain(0), [waiting.0]);
}

/// `Send`: "pause or cnp, doesn't need admission control, just go".
#[test]
fn acknowledgements_take_neither_a_queue_nor_an_entry_nor_buffer() {
    let tuning = Tuning {
        limit: 0,
        share: share(0, 0),
        threshold: Threshold::Fixed(0),
        ..TUNING
    };
    let mut rig = Rig::with(&[(WITH_CONTROL, tuning); 2]);
    for flow in 0..100 {
        rig.enqueue(EGRESS, &acknowledgement(1, 5, flow)).unwrap();
    }
    assert_eq!(rig.told(), [], "and push nothing back");
    assert_eq!(rig.ports[EGRESS].bytes(), 0);
    assert_eq!(rig.switch.bytes().0, 0);
    assert_eq!(rig.ports[EGRESS].len(), 100);
    let counters = rig.ports[EGRESS].counters();
    assert_eq!((counters.activations, counters.congested), (0, 0));
    assert_eq!(rig.census(EGRESS).occupied, 0);
    let control = rig.queue(EGRESS, CONTROL).unwrap();
    assert_eq!((control.packets, control.bytes), (100, 6_000));
    // The next hop must not pause a queue in which they did not wait.
    assert_eq!(rig.dequeue(EGRESS).unwrap().upstream_queue, 0);
    rig.check();
}

#[test]
fn acknowledgements_leave_room_for_pauses() {
    let mut rig = Rig::with(&[(WITH_CONTROL, TUNING)]);
    let mut queued = 0_u64;
    let cause = loop {
        match rig.enqueue(0, &acknowledgement(0, 0, 1)) {
            Ok(_) => queued += 60,
            Err(cause) => break cause,
        }
    };
    assert_eq!(cause, Cause::Control);
    assert!(queued <= CONTROL_PACKETS_LIMIT && queued + 60 > CONTROL_PACKETS_LIMIT);
    let mut frames = 0_u64;
    loop {
        let frame = rig.packet(&local(0));
        match rig.ports[0].enqueue_control(frame, 60) {
            Ok(()) => frames += 60,
            Err((_, cause)) => break assert_eq!(cause, Cause::Control),
        }
    }
    assert!(frames >= CONTROL_LIMIT / 2 - 60, "{frames} bytes of frames");
    assert_eq!(rig.ports[0].counters().dropped_control, 2);
    // Data does not depend on the control queue's room.
    rig.enqueue(0, &data(0, 0, 1)).unwrap();
    rig.check();
}

#[test]
fn without_a_control_rank_acknowledgements_are_data() {
    let mut rig = Rig::new(2);
    let (_, queue) = rig.enqueue(EGRESS, &acknowledgement(1, 5, 1)).unwrap();
    assert_ne!(queue, CONTROL);
    assert_eq!(rig.ports[EGRESS].bytes(), 60);
}
