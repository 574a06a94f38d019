// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! One port: backpressure, scheduling, limits.

use super::rig::{
    from, hash, local, set, share, Rig, BDP, HRTT, LINK, MTU, REFRESH, SHAPE, TUNING,
};
use weft_mechanisms::bfc::egress::{
    Arrival, Cause, Scheduler, Shape, Threshold, Tuning, CONTROL, CONTROL_LIMIT,
};
use weft_mechanisms::bfc::elision::Elision;
use weft_mechanisms::bfc::fifo::Note;
use weft_mechanisms::bfc::flows::Assign;
use weft_mechanisms::bfc::ingress::Tell;
use weft_mechanisms::bfc::neighbour::Rules;
use weft_mechanisms::bfc::queue_set::QueueSet;
use weft_mechanisms::bfc::switch::Link;
use weft_mechanisms::common::share::ALPHA_1;

/// Packets arrive on device 1 and leave by port 1 (device 2).
const EGRESS: usize = 1;

/// Packets of one queue before the next one congests it.
const FULL: u64 = BDP / MTU as u64;

#[test]
fn bfc_pauses_a_flow_if_the_occupancy_of_its_queue_exceeds_the_pause_threshold() {
    let mut rig = Rig::new(2);
    // The 26th packet finds 25,000 bytes, which is Th; the 27th finds more.
    for _ in 0..=FULL {
        rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
        assert_eq!(rig.told(), []);
    }
    rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
    assert_eq!(rig.told(), [(1, Tell::Pause(5))]);
    assert_eq!(rig.ports[EGRESS].counters().congested, 1);
}

#[test]
fn a_single_packet_causes_no_congestion() {
    let tuning = Tuning {
        threshold: Threshold::Fixed(0),
        ..TUNING
    };
    let mut rig = Rig::with(&[(SHAPE, TUNING), (SHAPE, tuning)]);
    rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
    assert_eq!(rig.told(), []);
    rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
    assert_eq!(rig.told(), [(1, Tell::Pause(5))]);
}

#[test]
fn it_will_be_resumed_only_once_all_of_its_packets_that_exceeded_the_threshold_have_left() {
    let mut rig = Rig::new(2);
    for _ in 0..FULL + 4 {
        rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
    }
    assert_eq!(rig.told(), [(1, Tell::Pause(5))]);
    for _ in 1..FULL + 4 {
        rig.dequeue(EGRESS).unwrap();
        assert_eq!(
            rig.told(),
            [],
            "{} packets are left",
            rig.ports[EGRESS].len()
        );
    }
    rig.dequeue(EGRESS).unwrap();
    assert_eq!(rig.told(), [(1, Tell::Resume(5))]);
}

#[test]
fn an_upstream_queue_is_paused_if_any_of_its_flows_are_assigned_a_congested_queue() {
    // At two egress ports, and resumed when none of its flows have packets at a congested queue.
    let mut rig = Rig::new(3);
    for egress in [1, 2] {
        for _ in 0..FULL + 2 {
            rig.enqueue(egress, &from(1, 5, egress as u32)).unwrap();
        }
    }
    assert_eq!(rig.told(), [(1, Tell::Pause(5))]);
    rig.drain(1);
    assert_eq!(rig.told(), []);
    rig.drain(2);
    assert_eq!(rig.told(), [(1, Tell::Resume(5))]);
}

#[test]
fn the_other_flows_of_the_ingress_port_are_not_paused() {
    let mut rig = Rig::new(2);
    for _ in 0..FULL + 2 {
        rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
        // No HoL blocking: a queue below the threshold.
        if rig.ports[EGRESS].len() < 10 {
            rig.enqueue(EGRESS, &from(1, 6, 2)).unwrap();
        }
    }
    assert!(rig.told().contains(&(1, Tell::Pause(5))));
    let port = rig.ports[0].place().port;
    assert!(rig.switch.counter(port, 5) > 0);
    assert_eq!(rig.switch.counter(port, 6), 0);
}

#[test]
fn when_the_number_of_active_queues_increases_th_decreases() {
    let mut rig = Rig::new(2);
    for flow in 1..=5 {
        rig.enqueue(EGRESS, &from(1, 9, flow)).unwrap();
    }
    // Five active queues: Th is 5,000 bytes.
    for _ in 1..=5 {
        rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
        assert_eq!(rig.told(), []);
    }
    rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
    assert_eq!(rig.told(), [(1, Tell::Pause(5))]);
}

#[test]
fn bfc_nics_do_not_generate_any_backpressure() {
    let mut rig = Rig::new(2);
    for _ in 0..100 {
        rig.enqueue(EGRESS, &local(1)).unwrap();
    }
    let counters = rig.ports[EGRESS].counters();
    assert!(counters.congested > 0);
    assert_eq!(counters.unmarked, 0);
    assert_eq!(rig.told(), []);
}

#[test]
fn packets_without_an_upstream_queue_or_from_an_unknown_port_cause_no_backpressure() {
    let mut rig = Rig::new(2);
    for unknown in [from(1, 0, 1), from(77, 5, 1), from(1, 1024, 1)] {
        for _ in 0..FULL + 2 {
            rig.enqueue(EGRESS, &unknown).unwrap();
        }
        rig.drain(EGRESS);
    }
    let counters = rig.ports[EGRESS].counters();
    assert_eq!((counters.congested, counters.unmarked), (3, 3));
    assert_eq!(rig.told(), []);
}

#[test]
fn backpressure_is_skipped_for_packets_that_come_from_an_elided_port() {
    let tuning = Tuning {
        elision: Elision::new([1].into_iter()),
        ..TUNING
    };
    let mut rig = Rig::with(&[(SHAPE, TUNING), (SHAPE, tuning), (SHAPE, TUNING)]);
    for _ in 0..FULL + 2 {
        rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
    }
    assert_eq!(rig.told(), []);
    assert_eq!(rig.ports[EGRESS].counters().elided, 1);
    // Between these two ports only.
    rig.drain(EGRESS);
    for _ in 0..FULL + 2 {
        rig.enqueue(EGRESS, &from(3, 5, 1)).unwrap();
        rig.enqueue(2, &from(1, 6, 1)).unwrap();
    }
    let mut told = rig.told();
    told.sort_by_key(|(device, _)| *device);
    assert_eq!(told, [(1, Tell::Pause(6)), (3, Tell::Pause(5))]);
}

#[test]
fn each_packet_is_marked_with_the_queue_in_which_it_waits() {
    let mut rig = Rig::new(1);
    for flow in 0..5 {
        let queue = rig.queue_of(0, &local(flow));
        let packet = rig.dequeue(0).unwrap();
        assert_eq!(packet.upstream_queue, queue);
    }
}

#[test]
fn when_we_pause_a_queue_that_pauses_all_of_the_flows_assigned_to_that_queue_and_no_other() {
    let mut rig = Rig::with(&[
        (
            Shape {
                entries: 1,
                ..SHAPE
            },
            TUNING,
        ),
        (SHAPE, TUNING),
    ]);
    rig.enqueue(0, &local(1)).unwrap();
    rig.enqueue(0, &local(2)).unwrap();
    rig.enqueue(1, &local(1)).unwrap();
    rig.enqueue(1, &local(2)).unwrap();
    rig.hear(1, Tell::Pause(1));
    rig.hear(2, Tell::Pause(1));
    assert!(rig.dequeue(0).is_none());
    assert_eq!(rig.ports[0].len(), 2);
    assert_eq!(rig.dequeue(1).unwrap().upstream_queue, 2);
    assert!(rig.dequeue(1).is_none());
    rig.hear(1, Tell::Resume(1));
    assert_eq!(rig.drain(0).len(), 2);
}

#[test]
fn the_packets_of_a_paused_queue_wait_for_the_resume_or_until_the_pause_lapses() {
    let mut rig = Rig::new(1);
    rig.enqueue(0, &local(1)).unwrap();
    rig.hear(1, Tell::Pause(1));
    let port = rig.ports[0].place().port;
    assert!(rig.dequeue(0).is_none());
    let lapse = rig.switch.lapse(port).expect("it tells when to ask again");
    assert_eq!(lapse, rig.now + 1_000_000);
    rig.now = lapse - 1;
    assert!(rig.dequeue(0).is_none());
    rig.now = lapse;
    assert!(rig.dequeue(0).is_some());
    assert_eq!(rig.switch.lapse(port), None);
    let state = rig.queue(0, 1).unwrap();
    assert_eq!((state.paused, state.paused_ns), (false, 1_000_000));
    assert_eq!(rig.paused_ns(0), 1_000_000);
    assert_eq!(rig.switch.counters(port).lapsed, 1);
}

#[test]
fn an_idle_port_knows_what_is_paused_and_for_how_long() {
    for resumed in [true, false] {
        let mut rig = Rig::new(1);
        // Four queues that have sent all their packets.
        for flow in 0..4 {
            rig.enqueue(0, &local(flow)).unwrap();
        }
        rig.drain(0);
        rig.hear(1, Tell::State(set(&[1, 2, 3, 4])));
        rig.now += 100_000;
        assert_eq!(rig.census(0).paused, 4);
        assert_eq!(rig.paused_ns(0), 400_000, "as yet");
        // One by one.
        for queue in 1..4 {
            rig.now += 100_000;
            rig.hear(1, Tell::Resume(queue));
        }
        let expected = match resumed {
            true => {
                rig.now += 100_000;
                rig.hear(1, Tell::Resume(4));
                500_000
            }
            false => 400_000 + 1_000_000,
        };
        // Nothing happens for long, and then packets arrive again.
        for _ in 0..3 {
            rig.now += 1_000_000_000;
            assert_eq!(rig.census(0).paused, 0);
            for (queue, expected) in (1..).zip([200_000, 300_000, 400_000, expected]) {
                let state = rig.queue(0, queue).unwrap();
                assert_eq!((state.paused, state.paused_ns), (false, expected));
            }
            assert_eq!(rig.paused_ns(0), 900_000 + expected);
            rig.enqueue(0, &local(0)).unwrap();
            rig.drain(0);
        }
    }
}

#[test]
fn a_port_with_packets_waits_for_the_watchdog_and_sends_them() {
    let mut rig = Rig::new(1);
    let place = *rig.ports[0].place();
    let rules = Rules {
        watchdog: 300_000,
        ..Rules::NONE
    };
    rig.switch.set_link(place.port, &Link { rules, ..LINK });
    for flow in 1..=2 {
        rig.enqueue(0, &local(flow)).unwrap();
    }
    rig.hear(1, Tell::Pause(1));
    let begun = rig.now;
    rig.now += 200_000;
    rig.hear(1, Tell::Pause(2));
    assert_eq!(rig.drain(0), []);
    assert_eq!(rig.switch.lapse(place.port), Some(begun + 300_000));
    rig.now = begun + 299_999;
    assert_eq!(rig.drain(0), []);
    rig.now = begun + 300_000;
    assert_eq!(rig.drain(0), [1]);
    assert_eq!(rig.switch.lapse(place.port), Some(begun + 500_000));
    assert_eq!(rig.switch.counters(place.port).released, 1);
    assert_eq!((rig.census(0).paused, rig.paused_ns(0)), (1, 400_000));
    rig.now = begun + 500_000;
    assert_eq!(rig.drain(0), [2]);
    rig.check();
}

#[test]
fn the_times_of_a_member_begin_when_it_joins() {
    let mut rig = Rig::new(1);
    rig.hear(1, Tell::State(set(&[1, 40])));
    rig.now += 500;
    let second = rig.add(1, &SHAPE, TUNING);
    rig.now += 70;
    assert_eq!((rig.paused_ns(0), rig.paused_ns(second)), (570, 70));
    assert_eq!(rig.queue(second, 40 - 31).unwrap().paused_ns, 70);
    // Another member in its place.
    let place = *rig.ports[second].place();
    rig.switch.leave(&place);
    rig.now += 1_000;
    rig.hear(1, Tell::State(set(&[])));
    let third = rig.add(1, &SHAPE, TUNING);
    assert_eq!((rig.paused_ns(0), rig.paused_ns(third)), (1_570, 0));
}

#[test]
fn pauses_of_nonexistent_queues_have_no_effect() {
    let mut rig = Rig::new(1);
    rig.enqueue(0, &local(1)).unwrap();
    rig.hear(1, Tell::State(set(&[0, 32, 500, 1023])));
    assert_eq!(rig.ports[0].census().paused, 0);
    assert!(rig.dequeue(0).is_some());
    rig.check();
}

#[test]
fn control_frames_are_sent_ahead_of_data_and_cannot_be_paused() {
    let mut rig = Rig::new(1);
    rig.enqueue(0, &local(1)).unwrap();
    rig.hear(1, Tell::State(QueueSet::from_words([u64::MAX; 16])));
    let frame = rig.packet(&Arrival {
        len: 60,
        ..local(0)
    });
    let id = frame.id;
    rig.ports[0].enqueue_control(frame, 60).unwrap();
    assert_eq!(rig.queue(0, CONTROL).unwrap().packets, 1);
    assert_eq!(rig.dequeue(0).map(|packet| packet.id), Some(id));
    assert!(rig.dequeue(0).is_none());
    let control = rig.queue(0, CONTROL).unwrap();
    assert_eq!(
        (control.sent, control.sent_bytes, control.bytes),
        (1, 60, 0)
    );
    assert_eq!(rig.ports[0].bytes(), u64::from(MTU), "they take no buffer");
}

#[test]
fn a_flood_of_control_frames_is_dropped() {
    let mut rig = Rig::new(1);
    let mut queued = 0;
    let cause = loop {
        let frame = rig.packet(&local(0));
        match rig.ports[0].enqueue_control(frame, 1_000) {
            Ok(()) => queued += 1_000,
            Err((_, cause)) => break cause,
        }
    };
    assert_eq!(cause, Cause::Control);
    assert!(queued <= CONTROL_LIMIT && queued + 1_000 > CONTROL_LIMIT);
    assert_eq!(rig.ports[0].counters().dropped_control, 1);
}

#[test]
fn the_packet_scheduler_uses_deficit_round_robin_among_the_queues_that_are_not_paused() {
    let mut rig = Rig::new(1);
    // Flow 1 in packets of 100 bytes, flow 2 of 1000, flow 3 paused.
    for _ in 0..1000 {
        for (flow, len) in [(1, 100), (2, 1000), (3, 1000)] {
            rig.enqueue(0, &Arrival { len, ..local(flow) }).unwrap();
        }
    }
    rig.hear(1, Tell::Pause(3));
    let mut bytes = [0; 4];
    for _ in 0..660 {
        let packet = rig.dequeue(0).unwrap();
        bytes[usize::from(packet.upstream_queue)] += packet.len;
    }
    assert_eq!(bytes[3], 0);
    assert!(bytes[1].abs_diff(bytes[2]) <= 2 * MTU, "{bytes:?}");
    assert!(bytes[1] > 50_000);
    // It returns, and does not catch up on its missed turns.
    rig.hear(1, Tell::Resume(3));
    let mut bytes = [0; 4];
    for _ in 0..120 {
        let packet = rig.dequeue(0).unwrap();
        bytes[usize::from(packet.upstream_queue)] += packet.len;
    }
    assert!(bytes[3].abs_diff(bytes[2]) <= 2 * MTU, "{bytes:?}");
}

#[test]
fn packets_assigned_to_the_same_queue_are_scheduled_in_fifo_order() {
    for scheduler in [Scheduler::Fq, Scheduler::Srf] {
        let mut rig = Rig::with(&[(Shape { scheduler, ..SHAPE }, TUNING)]);
        let ids: Vec<u32> = (0..50)
            .map(|rank| {
                rig.enqueue(
                    0,
                    &Arrival {
                        rank: 50 - rank,
                        ..local(1)
                    },
                )
                .unwrap()
                .0
            })
            .collect();
        assert_eq!(rig.drain(0), ids);
    }
}

#[test]
fn the_switch_schedules_queues_in_order_of_remaining_size_of_the_packet_at_the_head() {
    let shape = Shape {
        scheduler: Scheduler::Srf,
        ..SHAPE
    };
    let mut rig = Rig::with(&[(shape, TUNING)]);
    let mut enqueue = |flow, rank| {
        rig.enqueue(
            0,
            &Arrival {
                rank,
                ..local(flow)
            },
        )
        .unwrap()
        .0
    };
    let long = [enqueue(1, 9_000), enqueue(1, 8_000)];
    let short = [enqueue(2, 2_000), enqueue(2, 1_000)];
    let middle = [enqueue(3, 5_000), enqueue(3, 500)];
    let expected = [short, middle, long].concat();
    assert_eq!(rig.drain(0), expected);
    rig.check();
}

#[test]
fn a_short_flow_that_is_paused_does_not_hold_up_a_longer_one() {
    let shape = Shape {
        scheduler: Scheduler::Srf,
        ..SHAPE
    };
    let mut rig = Rig::with(&[(shape, TUNING)]);
    let short = rig
        .enqueue(
            0,
            &Arrival {
                rank: 1,
                ..local(1)
            },
        )
        .unwrap();
    let long = rig
        .enqueue(
            0,
            &Arrival {
                rank: 9,
                ..local(2)
            },
        )
        .unwrap();
    rig.hear(1, Tell::Pause(short.1));
    rig.check();
    assert_eq!(rig.drain(0), [long.0]);
    rig.hear(1, Tell::Resume(short.1));
    assert_eq!(rig.drain(0), [short.0]);
}

#[test]
fn a_lower_class_is_served_only_when_no_higher_one_may_send() {
    let mut rig = Rig::with(&[(
        Shape {
            classes: 4,
            ..SHAPE
        },
        TUNING,
    )]);
    let mut expected = Vec::new();
    for rank in [3, 1, 2, 0, 3, 1, 2, 0] {
        let packet = Arrival {
            rank,
            ..local(rank)
        };
        expected.push((rank, rig.enqueue(0, &packet).unwrap().0));
    }
    expected.sort_unstable();
    let expected: Vec<u32> = expected.iter().map(|(_, id)| *id).collect();
    assert_eq!(rig.drain(0), expected);
    // Work conserving: a paused class is skipped.
    let high = rig.enqueue(0, &local(100)).unwrap();
    let low = rig
        .enqueue(
            0,
            &Arrival {
                rank: 3,
                ..local(101)
            },
        )
        .unwrap();
    rig.hear(1, Tell::Pause(high.1));
    assert_eq!(rig.drain(0), [low.0]);
}

#[test]
fn drops_by_a_full_port_or_switch_are_counted_by_cause() {
    let tuning = Tuning {
        limit: 10_000,
        share: share(15_000, 0),
        ..TUNING
    };
    let mut rig = Rig::with(&[(SHAPE, tuning), (SHAPE, tuning)]);
    for _ in 0..10 {
        rig.enqueue(0, &local(1)).unwrap();
    }
    assert_eq!(rig.enqueue(0, &local(1)), Err(Cause::Limit));
    for _ in 0..5 {
        rig.enqueue(1, &local(1)).unwrap();
    }
    assert_eq!(rig.enqueue(1, &local(1)), Err(Cause::Buffer));
    let (a, b) = (rig.ports[0].counters(), rig.ports[1].counters());
    assert_eq!((a.dropped_limit, a.dropped_buffer), (1, 0));
    assert_eq!((b.dropped_limit, b.dropped_buffer), (0, 1));
    assert_eq!((a.highest_bytes, b.highest_bytes), (10_000, 5_000));
    assert_eq!(rig.alive(), 15, "a dropped packet is the caller's");
    rig.check();
}

/// A neighbour that pauses everything must not fill the switch.
#[test]
fn a_port_that_is_stuck_leaves_room_for_the_others() {
    // α, and the bytes of 90,000 that stuck ports may hold: one alone, and two.
    for (alpha, one, two) in [
        (ALPHA_1 / 2, 30_000, 50_000),
        (ALPHA_1, 45_000, 68_000),
        (8 * ALPHA_1, 80_000, 89_000),
        (0, 90_000, 90_000),
    ] {
        let tuning = Tuning {
            share: share(90_000, alpha),
            ..TUNING
        };
        let mut rig = Rig::with(&[(SHAPE, tuning); 3]);
        let all = QueueSet::from_words([u64::MAX; 16]);
        let mut filled = Vec::new();
        for port in 0..2 {
            rig.hear(port as u32 + 1, Tell::State(all));
            let cause = loop {
                if let Err(cause) = rig.enqueue(port, &local(1)) {
                    break cause;
                }
            };
            let expected = match alpha {
                0 => Cause::Buffer,
                _ => Cause::Share,
            };
            assert_eq!(cause, expected);
            filled.push(rig.switch.bytes().0);
        }
        assert_eq!(filled, [one, two], "{alpha}");
        // The third one sends as before, a packet at a time.
        let mut sent = 0;
        for _ in 0..50 {
            sent += u32::from(rig.enqueue(2, &local(2)).is_ok());
            sent -= u32::from(rig.dequeue(2).is_none() && alpha != 0);
        }
        assert_eq!(sent, if alpha == 0 { 0 } else { 50 });
        let counters = rig.ports[0].counters();
        let dropped = (counters.dropped_share, counters.dropped_buffer);
        assert_eq!(dropped, if alpha == 0 { (0, 1) } else { (1, 0) });
        rig.check();
    }
}

#[test]
fn a_share_of_an_unlimited_buffer_is_unlimited() {
    for alpha in [0, 1, u32::MAX] {
        let tuning = Tuning {
            share: share(u64::MAX, alpha),
            ..TUNING
        };
        let mut rig = Rig::with(&[(SHAPE, tuning)]);
        let long = Arrival {
            len: u32::MAX,
            ..local(1)
        };
        for _ in 0..100 {
            rig.enqueue(0, &long).unwrap();
        }
    }
}

#[test]
fn a_dropped_packet_leaves_no_trace() {
    let tuning = Tuning {
        limit: 30_000,
        ..TUNING
    };
    let mut rig = Rig::with(&[(SHAPE, TUNING), (SHAPE, tuning)]);
    for _ in 0..30 {
        rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap();
    }
    let (port, bytes) = (rig.ports[0].place().port, rig.switch.bytes());
    let counted = rig.switch.counter(port, 5);
    for _ in 0..10 {
        rig.enqueue(EGRESS, &from(1, 5, 1)).unwrap_err();
    }
    assert_eq!(rig.switch.counter(port, 5), counted);
    assert_eq!(rig.switch.bytes(), bytes);
    rig.check();
}

#[test]
fn the_counter_is_decremented_however_a_packet_leaves() {
    let mut rig = Rig::new(3);
    for egress in [1, 2] {
        for _ in 0..60 {
            rig.enqueue(egress, &from(1, 5, 1)).unwrap();
        }
    }
    assert_eq!(rig.told(), [(1, Tell::Pause(5))]);
    // Sent, purged.
    for _ in 0..10 {
        rig.dequeue(1);
    }
    let mut purged = 0;
    let now = rig.now;
    rig.ports[1].clear(&mut rig.switch, now, |_| purged += 1);
    assert_eq!(purged, 50);
    assert_eq!(rig.told(), []);
    rig.ports[2].clear(&mut rig.switch, now, |_| purged += 1);
    assert_eq!((purged, rig.alive()), (110, 0));
    assert_eq!(rig.told(), [(1, Tell::Resume(5))]);
    assert_eq!(rig.switch.bytes().0, 0);
    rig.check();
}

#[test]
fn a_purged_port_forgets_its_neighbour_and_works_again() {
    for scheduler in [Scheduler::Fq, Scheduler::Srf] {
        let mut rig = Rig::with(&[(Shape { scheduler, ..SHAPE }, TUNING)]);
        for flow in 0..50 {
            rig.enqueue(0, &local(flow)).unwrap();
        }
        let frame = rig.packet(&local(0));
        rig.ports[0].enqueue_control(frame, 60).unwrap();
        rig.hear(1, Tell::State(set(&[1, 2, 3, 20])));
        rig.dequeue(0);
        let now = rig.now;
        rig.ports[0].clear(&mut rig.switch, now, drop);
        assert_eq!(
            (rig.ports[0].len(), rig.ports[0].bytes(), rig.alive()),
            (0, 0, 0)
        );
        assert_eq!(rig.ports[0].census(), Default::default());
        rig.check();
        let ids: Vec<u32> = (0..3)
            .map(|flow| rig.enqueue(0, &local(flow)).unwrap().0)
            .collect();
        assert_eq!(rig.drain(0), ids);
    }
}

#[test]
fn queued_packets_stay_when_limits_shrink() {
    let mut rig = Rig::new(1);
    for _ in 0..20 {
        rig.enqueue(0, &local(1)).unwrap();
    }
    rig.ports[0].tune(Tuning {
        limit: 5_000,
        quantum: 10,
        ..TUNING
    });
    assert_eq!(rig.enqueue(0, &local(1)), Err(Cause::Limit));
    assert_eq!(rig.drain(0).len(), 20);
    rig.enqueue(0, &local(1)).unwrap();
}

#[test]
fn a_flow_that_runs_out_of_packets_upstream_is_paused_again_in_the_same_queue() {
    // §3.3.2, "sticky queue assignment": the downstream switch still has the flow's packets.
    let mut rig = Rig::new(1);
    let queue = rig.queue_of(0, &local(1));
    rig.drain(0);
    rig.hear(1, Tell::Pause(queue));
    rig.now += HRTT;
    assert_eq!(rig.queue_of(0, &local(1)), queue);
    assert!(rig.dequeue(0).is_none());
}

#[test]
fn the_census_counts_queues_by_state() {
    let mut rig = Rig::new(1);
    for flow in 0..3 {
        rig.enqueue(0, &local(flow)).unwrap();
    }
    rig.hear(1, Tell::State(set(&[2, 9])));
    rig.dequeue(0);
    let census = rig.ports[0].census();
    assert_eq!((census.occupied, census.paused, census.active), (2, 2, 1));
    rig.now += 500;
    let paused = rig.queue(0, 2).unwrap();
    assert_eq!(
        (paused.packets, paused.bytes, paused.paused),
        (1, 1000, true)
    );
    assert_eq!(paused.paused_ns, 500, "until now");
    assert_eq!(rig.queue(0, 32), None);
}

#[test]
fn the_longest_queue_excludes_control_frames() {
    let mut rig = Rig::new(1);
    for _ in 0..10 {
        let frame = rig.packet(&local(0));
        rig.ports[0].enqueue_control(frame, 1_000).unwrap();
    }
    assert_eq!(rig.ports[0].longest(), 0);
    for flow in [1, 2, 2, 2, 3] {
        rig.enqueue(0, &local(flow)).unwrap();
    }
    assert_eq!(rig.ports[0].longest(), 3_000);
    rig.drain(0);
    assert_eq!(rig.ports[0].longest(), 0);
}

#[test]
fn rates_and_times_at_their_ends_do_not_overflow() {
    for (rate, hrtt) in [
        (u64::MAX, u64::MAX),
        (50_000_000_000, 10_000_000_000),
        (1, 1),
    ] {
        let tuning = Tuning {
            threshold: Threshold::OneHopBdp { rate, percent: 100 },
            ..TUNING
        };
        let mut rig = Rig::with(&[(SHAPE, tuning)]);
        let link = weft_mechanisms::bfc::switch::Link {
            hrtt,
            refresh: REFRESH,
            ..super::rig::LINK
        };
        rig.switch.set_link(0, &link);
        rig.now = u64::MAX;
        rig.enqueue(0, &local(1)).unwrap();
        rig.enqueue(0, &local(1)).unwrap();
        let expected = u128::from(rate) * u128::from(hrtt) / 1_000_000_000;
        if rate != u64::MAX {
            assert_eq!(u128::from(rig.ports[0].threshold(&rig.switch)), expected);
        }
    }
}

#[test]
fn a_note_fits_64_bits() {
    for note in [
        Note::NOTHING,
        Note {
            entry: 1_023_999,
            ingress: 1023,
            upstream_queue: 1023,
        },
        Note {
            entry: 0,
            ingress: 0,
            upstream_queue: 1,
        },
    ] {
        assert_eq!(Note::from_bits(note.to_bits()), note);
    }
}

#[test]
fn an_impossible_shape_is_corrected() {
    for (queues, classes) in [(0, 0), (1, 8), (u16::MAX, u8::MAX)] {
        let shape = Shape {
            queues,
            classes,
            entries: 0,
            assign: Assign::Dynamic,
            incast: Some(0),
            ..SHAPE
        };
        let mut rig = Rig::new(0);
        let place = super::rig::join(&mut rig.switch, 1, 1, &super::rig::LINK, 0, 0).unwrap();
        let mut port =
            weft_mechanisms::bfc::egress::Egress::new(super::rig::memory(&shape), TUNING, place, 0);
        for rank in 0..10 {
            let arrival = Arrival {
                rank,
                flow: hash(rank),
                ..local(0)
            };
            let packet = rig.packet(&arrival);
            let result = port.enqueue(&mut rig.switch, packet, &arrival, 0, |packet, _| packet);
            assert!(result.is_ok());
        }
        port.check_invariants().unwrap();
        assert!(port.dequeue(&mut rig.switch, 0).is_some());
        port.check_invariants().unwrap();
    }
}

#[test]
fn a_queue_gains_no_credit_from_pauses_during_its_turn() {
    let mut rig = Rig::new(1);
    for _ in 0..12_000 {
        for (flow, len) in [(1, 100), (2, MTU)] {
            rig.enqueue(0, &Arrival { len, ..local(flow) }).unwrap();
        }
    }
    for _ in 0..1_000 {
        while rig.dequeue(0).unwrap().upstream_queue != 1 {}
        rig.hear(1, Tell::Pause(1));
        assert_eq!(rig.dequeue(0).unwrap().upstream_queue, 2);
        rig.hear(1, Tell::Resume(1));
    }
    // No pauses from here on: the packets that queue 1 sends in a row while queue 2 has packets.
    let (mut row, mut longest) = (0, 0);
    for _ in 0..10_000 {
        let packet = rig.dequeue(0).unwrap();
        row = if packet.upstream_queue == 1 {
            row + packet.len
        } else {
            0
        };
        longest = longest.max(row);
    }
    assert!(longest <= MTU, "{longest} bytes in a row");
}
