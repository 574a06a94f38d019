// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The queue of a flow's packets.

use super::rig::{from, local, set, Rig, HRTT, SHAPE, TUNING};
use std::collections::BTreeSet;
use weft_mechanisms::bfc::egress::{Arrival, Shape, Tuning, MAX_CLASSES, MAX_DATA_QUEUES};
use weft_mechanisms::bfc::flows::Assign;
use weft_mechanisms::bfc::ingress::Tell;

const STICKY: u64 = 2 * HRTT;

#[test]
fn a_new_flow_is_assigned_to_an_empty_queue_if_one_is_available() {
    let mut rig = Rig::new(1);
    let queues: BTreeSet<u16> = (0..31).map(|flow| rig.queue_of(0, &local(flow))).collect();
    assert_eq!(queues.len(), 31, "no two flows share a queue");
    assert!(queues.iter().all(|queue| (1..=31).contains(queue)));
    let counters = rig.ports[0].counters();
    assert_eq!((counters.activations, counters.collisions), (31, 0));
}

#[test]
fn queues_are_shared_only_if_all_are_in_use_and_then_a_random_one_is() {
    let mut rig = Rig::new(1);
    for flow in 0..31 {
        rig.queue_of(0, &local(flow));
    }
    let mut times = [0; 32];
    for flow in 31..1000 {
        times[usize::from(rig.queue_of(0, &local(flow)))] += 1;
    }
    assert_eq!(times[0], 0);
    assert!(
        times[1..].iter().all(|times| (10..60).contains(times)),
        "{times:?}"
    );
    assert!(rig.ports[0].counters().collisions >= 960);
}

#[test]
fn as_long_as_the_flow_is_active_its_packets_go_into_the_same_queue() {
    let mut rig = Rig::new(1);
    let queue = rig.queue_of(0, &local(7));
    rig.queue_of(0, &local(8));
    for _ in 0..20 {
        rig.now += 100 * STICKY;
        assert_eq!(rig.queue_of(0, &local(7)), queue);
        // One of its packets is always inside.
        while rig.dequeue(0).unwrap().upstream_queue != queue {}
    }
    assert_eq!(rig.ports[0].counters().activations, 2);
}

#[test]
fn a_new_queue_assignment_only_happens_when_the_timestamp_is_older_than_the_sticky_threshold() {
    for (idle, sticks) in [
        (0, true),
        (STICKY - 1, true),
        (STICKY, false),
        (1 << 40, false),
    ] {
        let mut rig = Rig::new(1);
        let queue = rig.queue_of(0, &local(7));
        rig.now += 10 * STICKY;
        rig.drain(0);
        rig.now += idle;
        let again = rig.queue_of(0, &local(7));
        assert_eq!(again == queue, sticks, "{idle} ns after its last packet");
        assert_eq!(rig.ports[0].counters().activations, 2);
    }
}

#[test]
fn the_timestamp_is_updated_by_enqueue_too() {
    let mut rig = Rig::new(1);
    let queue = rig.queue_of(0, &local(7));
    for _ in 0..5 {
        rig.drain(0);
        rig.now += STICKY - 1;
        assert_eq!(rig.queue_of(0, &local(7)), queue);
    }
}

#[test]
fn the_sticky_time_can_be_set() {
    let mut rig = Rig::with(&[(
        SHAPE,
        Tuning {
            sticky: Some(0),
            ..TUNING
        },
    )]);
    let queue = rig.queue_of(0, &local(7));
    rig.drain(0);
    assert_ne!(rig.queue_of(0, &local(7)), queue);
}

#[test]
fn the_search_for_an_empty_queue_wraps_around() {
    let mut rig = Rig::new(1);
    let queues: Vec<u16> = (0..40)
        .map(|flow| {
            let queue = rig.queue_of(0, &local(flow));
            rig.drain(0);
            queue
        })
        .collect();
    let expected: Vec<u16> = (1..=31).chain(1..=9).collect();
    assert_eq!(queues, expected);
}

#[test]
fn of_the_empty_queues_paused_ones_are_assigned_last() {
    let mut rig = Rig::new(1);
    let all_but_two: Vec<u16> = (1..=29).collect();
    rig.hear(1, Tell::State(set(&all_but_two)));
    assert_eq!(rig.queue_of(0, &local(0)), 30);
    assert_eq!(rig.queue_of(0, &local(1)), 31);
    assert_eq!(rig.queue_of(0, &local(2)), 1, "empty, though paused");
    assert_eq!(rig.ports[0].counters().collisions, 0);
}

#[test]
fn flows_that_map_to_the_same_index_are_assigned_to_the_same_queue() {
    let mut rig = Rig::with(&[(
        Shape {
            entries: 1,
            ..SHAPE
        },
        TUNING,
    )]);
    let queue = rig.queue_of(0, &local(1));
    assert_eq!(rig.queue_of(0, &local(2)), queue);
    assert_eq!(rig.queue_of(0, &local(3)), queue);
    let counters = rig.ports[0].counters();
    assert_eq!(
        (counters.activations, counters.collisions),
        (1, 0),
        "they are one flow here"
    );
}

#[test]
fn with_a_table_of_100_times_the_queues_index_collisions_are_rare() {
    // "the probability of index collisions is less than 1%" for as many flows as queues.
    let mut rig = Rig::new(1);
    let (mut flows, mut shared) = (0_u32, 0_u32);
    let mut random = weft_mechanisms::common::xorshift::Xorshift32::new(1);
    for _ in 0..1000 {
        let mut queues = BTreeSet::new();
        for _ in 0..31 {
            let flow = Arrival {
                flow: random.draw(),
                ..local(0)
            };
            flows += 1;
            shared += u32::from(!queues.insert(rig.queue_of(0, &flow)));
        }
        rig.drain(0);
        rig.now += STICKY;
    }
    assert!(shared * 100 < flows, "{shared} of {flows}");
}

#[test]
fn stochastic_assignment_goes_by_the_hash_alone() {
    let shape = Shape {
        assign: Assign::Stochastic,
        ..SHAPE
    };
    let mut rig = Rig::with(&[(shape, TUNING), (shape, TUNING)]);
    let mut seen = BTreeSet::new();
    for flow in 0..1000 {
        let queue = rig.queue_of(0, &local(flow));
        assert_eq!(
            rig.queue_of(1, &local(flow)),
            queue,
            "the same at each switch"
        );
        seen.insert(queue);
    }
    assert_eq!(seen.len(), 31);
    // The birthday paradox of §3.2, at its simplest.
    assert!(rig.ports[0].counters().collisions > 900);
}

#[test]
fn single_assigns_all_flows_to_a_single_queue() {
    let shape = Shape {
        assign: Assign::Single,
        ..SHAPE
    };
    let mut rig = Rig::with(&[(shape, TUNING)]);
    assert!((0..100).all(|flow| rig.queue_of(0, &local(flow)) == 1));
    assert_eq!(rig.ports[0].counters().collisions, 99);
}

#[test]
fn a_flow_with_priority_x_is_only_assigned_to_physical_queues_associated_with_that_priority() {
    for classes in 1..=MAX_CLASSES {
        let shape = Shape { classes, ..SHAPE };
        let mut rig = Rig::with(&[(shape, TUNING)]);
        let mut owner = [None; 32];
        for flow in 0..400 {
            let rank = flow % u32::from(classes);
            let packet = Arrival {
                rank,
                ..local(flow)
            };
            let queue = usize::from(rig.queue_of(0, &packet));
            assert_eq!(*owner[queue].get_or_insert(rank), rank, "queue {queue}");
        }
        assert!(owner[1..].iter().all(Option::is_some), "{owner:?}");
        let of = |class| owner.iter().filter(|owner| **owner == Some(class)).count();
        let sizes: Vec<usize> = (0..classes.into()).map(of).collect();
        let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
        assert!(most - least <= 1, "evenly: {sizes:?}");
    }
}

#[test]
fn ranks_beyond_the_last_class_belong_to_the_last_class() {
    let mut rig = Rig::with(&[(
        Shape {
            classes: 2,
            ..SHAPE
        },
        TUNING,
    )]);
    for rank in [1, 2, 1000, u32::MAX] {
        let packet = Arrival {
            rank,
            ..local(rank)
        };
        assert!(rig.queue_of(0, &packet) > 15, "rank {rank}");
    }
}

#[test]
fn a_flow_that_changes_its_class_changes_its_queue() {
    let mut rig = Rig::with(&[(
        Shape {
            classes: 2,
            ..SHAPE
        },
        TUNING,
    )]);
    let first = rig.queue_of(0, &local(5));
    let second = rig.queue_of(
        0,
        &Arrival {
            rank: 1,
            ..local(5)
        },
    );
    assert!(first <= 15 && second > 15);
    rig.drain(0);
    rig.check();
}

#[test]
fn all_the_incast_flows_at_an_egress_port_are_assigned_to_the_same_queue() {
    let shape = Shape {
        incast: Some(9),
        ..SHAPE
    };
    let mut rig = Rig::with(&[(shape, TUNING)]);
    let incast = |flow| Arrival {
        rank: 9,
        ..local(flow)
    };
    assert!((0..100).all(|flow| rig.queue_of(0, &incast(flow)) == 31));
    // "This frees up queues for non-incast traffic", and no incast packet goes there.
    let queues: BTreeSet<u16> = (100..130)
        .map(|flow| rig.queue_of(0, &local(flow)))
        .collect();
    assert_eq!(queues, (1..=30).collect());
    assert!((200..300).all(|flow| rig.queue_of(0, &local(flow)) != 31));
    rig.drain(0);
    rig.check();
}

#[test]
fn the_incast_queue_belongs_to_the_class_of_the_label() {
    let shape = Shape {
        classes: 2,
        incast: Some(0),
        ..SHAPE
    };
    let mut rig = Rig::with(&[(shape, TUNING)]);
    assert_eq!(rig.queue_of(0, &local(1)), 15);
    let shape = Shape {
        incast: Some(1),
        ..shape
    };
    let mut rig = Rig::with(&[(shape, TUNING)]);
    assert_eq!(
        rig.queue_of(
            0,
            &Arrival {
                rank: 1,
                ..local(1)
            }
        ),
        31
    );
    assert_eq!(rig.queue_of(0, &local(1)), 1);
}

#[test]
fn only_packets_that_are_sampled_count_in_their_entry() {
    let tuning = Tuning {
        sample: 50,
        ..TUNING
    };
    let mut rig = Rig::with(&[(SHAPE, tuning), (SHAPE, tuning)]);
    for _ in 0..1000 {
        rig.enqueue(0, &from(2, 3, 7)).unwrap();
    }
    let congested = rig.ports[0].counters().congested;
    let counted = u64::from(rig.switch.inside(rig.ports[1].place().port));
    assert!(
        congested > 900 && (congested * 2 / 5..congested * 3 / 5).contains(&counted),
        "{counted} of {congested}"
    );
    rig.check();
    rig.drain(0);
    assert_eq!(rig.switch.inside(rig.ports[1].place().port), 0);
    rig.check();
}

#[test]
fn a_port_has_up_to_1023_data_queues() {
    let shape = Shape {
        queues: MAX_DATA_QUEUES,
        entries: 1_024_000,
        ..SHAPE
    };
    let mut rig = Rig::with(&[(shape, TUNING)]);
    let queues: BTreeSet<u16> = (0..2000)
        .map(|flow| rig.queue_of(0, &local(flow)))
        .collect();
    assert_eq!(queues, (1..=1023).collect());
    assert_eq!(rig.ports[0].queues(), 1024);
    rig.check();
    assert_eq!(rig.drain(0).len(), 2000);
    rig.check();
}
