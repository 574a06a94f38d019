// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The sentences of pFabric §4.1, one by one, and the choices that the paper leaves open.

use std::alloc::Layout;
use std::cell::Cell;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use weft_mechanisms::common::store::Store;
use weft_mechanisms::heap::Heap;
use weft_mechanisms::pfabric::queue::{Counters, Limits, PFabric, MAX_PACKETS, MOST_EVICTED};

/// Packets are their names.
type Queue<P = &'static str> = PFabric<P, Heap>;

const A: u32 = 0xA;
const B: u32 = 0xB;
const C: u32 = 0xC;

fn queue<P>(packets: u32, bytes: u32, starvation_prevention: bool) -> Queue<P> {
    let Ok(queue) = PFabric::new(Limits {
        packets,
        bytes,
        starvation_prevention,
    });
    queue
}

/// Queues a full-sized packet that evicts no other.
fn add<P: PartialEq + std::fmt::Debug>(queue: &mut Queue<P>, packet: P, flow: u32, rank: u32) {
    let evict = |evicted, _| panic!("{evicted:?} is evicted");
    assert_eq!(queue.enqueue(packet, rank, flow, 1500, evict), Ok(()));
}

/// The verdict on an arriving packet, and the packets evicted for it.
fn arrive(
    queue: &mut Queue,
    packet: &'static str,
    rank: u32,
    len: u32,
) -> (Result<(), &'static str>, Vec<&'static str>) {
    let mut evicted = Vec::new();
    // A separate flow: evictions do not depend on flows.
    let flow = queue.counters().evicted as u32 ^ rank.rotate_left(8) ^ queue.len();
    let verdict = queue.enqueue(packet, rank, flow, len, |packet, _| evicted.push(packet));
    (verdict, evicted)
}

fn drain<P>(queue: &mut Queue<P>) -> Vec<P> {
    std::iter::from_fn(|| queue.dequeue()).collect()
}

fn change<P: Copy>(
    queue: &mut Queue<P>,
    packets: u32,
    bytes: u32,
    starvation_prevention: bool,
) -> Vec<P> {
    let mut evicted = Vec::new();
    let mut old = std::mem::replace(queue, self::queue(packets, bytes, starvation_prevention));
    queue.take_over(&mut old, |packet, _| evicted.push(packet));
    evicted
}

/// The packets of Figure 2 in order of arrival. The text gives (a, 1), the last one, and the flow
/// of the second one; the other ranks are ours.
fn figure_2(starvation_prevention: bool) -> Queue<(char, u32)> {
    let mut queue = queue(24, 0, starvation_prevention);
    for (name, flow, rank) in [('b', B, 4), ('a', A, 3), ('c', C, 5), ('a', A, 1)] {
        add(&mut queue, (name, rank), flow, rank);
    }
    queue
}

/// "Even though the last packet (a, 1) has the highest priority, the second packet in the queue
/// which belongs to the same flow (a) is sent out because it arrived earlier."
#[test]
fn figure_2_the_second_packet_is_sent_out_because_it_arrived_earlier() {
    let mut queue = figure_2(true);
    assert_eq!(queue.peek(), Some(&('a', 3)));
    assert_eq!(queue.dequeue(), Some(('a', 3)));
    assert_eq!(queue.counters().overtaken, 1);
    // The rest in turn: (a, 1) is now its flow's earliest packet.
    assert_eq!(drain(&mut queue), [('a', 1), ('b', 4), ('c', 5)]);
    assert_eq!(queue.counters().overtaken, 1);
}

/// "At this point, we could simply send this highest priority packet out."
#[test]
fn figure_2_without_starvation_prevention_the_highest_priority_packet_is_sent_out() {
    let mut queue = figure_2(false);
    assert_eq!(queue.peek(), Some(&('a', 1)));
    assert_eq!(drain(&mut queue), [('a', 1), ('a', 3), ('b', 4), ('c', 5)]);
    assert_eq!(queue.counters().overtaken, 0);
}

/// "Packets that arrived earlier might never get serviced since more packets from that flow keep
/// arriving."
#[test]
fn packets_that_arrived_earlier_are_serviced_though_more_packets_from_their_flow_keep_arriving() {
    for prevention in [true, false] {
        let mut queue = queue(24, 0, prevention);
        // The rank is the remaining size: it falls with every packet of the flow.
        add(&mut queue, 100, A, 100);
        let mut sent = Vec::new();
        for remaining in (1..100).rev() {
            add(&mut queue, remaining, A, remaining);
            sent.extend(queue.dequeue());
        }
        if prevention {
            assert!(
                sent.iter().copied().eq((2..=100).rev()),
                "in order of arrival: {sent:?}"
            );
            assert_eq!(queue.counters().overtaken, 99);
        } else {
            assert!(!sent.contains(&100), "the first packet starves: {sent:?}");
        }
    }
}

/// "Simply the earliest packet in the queue that has the same flow-id as the packet with the
/// highest priority."
#[test]
fn only_packets_of_the_same_flow_are_sent_before_the_one_with_the_highest_priority() {
    let mut queue = queue(24, 0, true);
    add(&mut queue, "c first", C, 8);
    add(&mut queue, "b first", B, 7);
    add(&mut queue, "a first", A, 9);
    add(&mut queue, "b urgent", B, 1);
    add(&mut queue, "b last", B, 6);
    let order = ["b first", "b urgent", "b last", "c first", "a first"];
    assert_eq!(drain(&mut queue), order);
}

/// "If the queue is not full, the packet is just added to the end of the queue."
#[test]
fn if_the_queue_is_not_full_the_packet_is_just_added() {
    let mut queue = queue(3, 0, true);
    for packet in ["1", "2", "3"] {
        assert_eq!(arrive(&mut queue, packet, u32::MAX, 1500), (Ok(()), vec![]));
    }
    assert_eq!((queue.len(), queue.bytes()), (3, 4500));
}

/// "If the queue is full, … find the packet with the lowest priority. That packet is dropped … and
/// the new packet is added."
#[test]
fn if_the_queue_is_full_the_packet_with_the_lowest_priority_is_dropped() {
    let mut queue = queue(3, 0, true);
    for (packet, rank) in [("5", 5), ("9", 9), ("7", 7)] {
        assert_eq!(arrive(&mut queue, packet, rank, 1500), (Ok(()), vec![]));
    }
    assert_eq!(arrive(&mut queue, "6", 6, 100), (Ok(()), vec!["9"]));
    assert_eq!(arrive(&mut queue, "0", 0, 100), (Ok(()), vec!["7"]));
    assert_eq!(drain(&mut queue), ["0", "5", "6"]);
    let Counters {
        evicted,
        evicted_bytes,
        rejected,
        ..
    } = queue.counters();
    assert_eq!((evicted, evicted_bytes, rejected), (2, 3000, 0));
}

/// "When a packet is dropped in pFabric, by design, it has the lowest priority among all buffered
/// packets" (§4.3).
#[test]
fn an_arriving_packet_with_the_lowest_priority_is_the_one_dropped() {
    let mut queue = queue(2, 0, true);
    for (packet, rank) in [("5", 5), ("7", 7)] {
        assert_eq!(arrive(&mut queue, packet, rank, 1500), (Ok(()), vec![]));
    }
    assert_eq!(arrive(&mut queue, "8", 8, 100), (Err("8"), vec![]));
    assert_eq!(drain(&mut queue), ["5", "7"]);
    let Counters {
        evicted,
        rejected,
        rejected_bytes,
        ..
    } = queue.counters();
    assert_eq!((evicted, rejected, rejected_bytes), (0, 1, 100));
}

#[test]
fn of_equal_ranks_the_earliest_is_sent_first() {
    for prevention in [true, false] {
        let mut queue = queue(24, 0, prevention);
        for (packet, flow) in [("1", C), ("2", A), ("3", B), ("4", A)] {
            add(&mut queue, packet, flow, 7);
        }
        // With starvation prevention too: the earliest of all is the earliest of its flow.
        assert_eq!(drain(&mut queue), ["1", "2", "3", "4"]);
        assert_eq!(queue.counters().overtaken, 0);
    }
}

#[test]
fn of_equal_ranks_the_latest_is_dropped() {
    let mut queue = queue(3, 0, true);
    for packet in ["1", "2", "3"] {
        assert_eq!(arrive(&mut queue, packet, 7, 1500), (Ok(()), vec![]));
    }
    assert_eq!(arrive(&mut queue, "4", 7, 1500), (Err("4"), vec![]));
    assert_eq!(arrive(&mut queue, "5", 6, 1500), (Ok(()), vec!["3"]));
    assert_eq!(arrive(&mut queue, "6", 6, 1500), (Ok(()), vec!["2"]));
    assert_eq!(drain(&mut queue), ["5", "6", "1"]);
}

/// "∼36KB or 24 full-sized packets in our simulations."
#[test]
fn a_queue_of_36_kilobytes_holds_24_full_sized_packets() {
    let mut queue = queue(MAX_PACKETS, 36_000, true);
    for i in 0..24 {
        add(&mut queue, i, i, 9);
    }
    assert_eq!(queue.enqueue(24, 9, A, 1500, |_, _| panic!()), Err(24));
    assert_eq!(
        (queue.len(), queue.bytes(), queue.flows()),
        (24, 36_000, 24)
    );
}

/// "In the worst-case of minimum size 64B packets, we have … at most ∼600 numbers."
#[test]
fn a_queue_of_36_kilobytes_holds_562_packets_of_64_bytes() {
    let mut queue = queue(MAX_PACKETS, 36_000, true);
    let queued = (0..1000)
        .filter(|&i| queue.enqueue(i, i, i, 64, |_, _| panic!()).is_ok())
        .count();
    assert_eq!(queued, 562);
}

#[test]
fn a_longer_packet_takes_the_place_of_several_shorter_ones_the_least_urgent_first() {
    let mut queue = queue(24, 1000, true);
    for (packet, rank) in [("5", 5), ("9", 9), ("7", 7), ("9 again", 9), ("8", 8)] {
        assert_eq!(arrive(&mut queue, packet, rank, 200), (Ok(()), vec![]));
    }
    assert_eq!(
        arrive(&mut queue, "6", 6, 500),
        (Ok(()), vec!["9 again", "9", "8"])
    );
    assert_eq!((queue.len(), queue.bytes()), (3, 900));
    assert_eq!(drain(&mut queue), ["5", "6", "7"]);
}

#[test]
fn no_packet_is_evicted_in_vain() {
    let mut queue = queue(24, 1000, true);
    for (packet, rank) in [("5", 5), ("9", 9), ("7", 7), ("9 again", 9), ("8", 8)] {
        assert_eq!(arrive(&mut queue, packet, rank, 200), (Ok(()), vec![]));
    }
    // 600 bytes are less urgent than 7: one too few.
    assert_eq!(
        arrive(&mut queue, "7 again", 7, 601),
        (Err("7 again"), vec![])
    );
    assert_eq!(
        arrive(&mut queue, "7 again", 7, 600),
        (Ok(()), vec!["9 again", "9", "8"])
    );
}

/// A call takes a bounded time, even if it rejects: of 8,700 packets of 60 bytes, which a packet of
/// 524,280 bytes would replace, it visits 256.
#[test]
fn a_packet_evicts_256_packets_at_most() {
    let mut queue = queue(MAX_PACKETS, 522_000, true);
    for id in 0..8_700_u32 {
        assert_eq!(queue.enqueue(id, 9, id, 60, |_, _| panic!()), Ok(()));
    }
    let mut evicted = 0;
    let mut arrive = |len| {
        evicted = 0;
        let verdict = queue.enqueue(u32::MAX, 1, 1, len, |_, _| evicted += 1);
        (verdict, evicted)
    };
    assert_eq!(arrive(257 * 60), (Err(u32::MAX), 0));
    assert_eq!(arrive(256 * 60 + 1), (Err(u32::MAX), 0));
    assert_eq!(arrive(256 * 60), (Ok(()), MOST_EVICTED));
}

#[test]
fn a_packet_longer_than_the_limit_is_rejected_and_evicts_nothing() {
    let mut queue = queue(24, 1000, true);
    assert_eq!(arrive(&mut queue, "9", 9, 400), (Ok(()), vec![]));
    assert_eq!(
        arrive(&mut queue, "too long", 0, 1001),
        (Err("too long"), vec![])
    );
    assert_eq!(
        arrive(&mut queue, "just right", 0, 1000),
        (Ok(()), vec!["9"])
    );
}

#[test]
fn a_limit_in_packets_and_one_in_bytes_hold_together() {
    let mut queue = queue(2, 1000, true);
    assert_eq!(arrive(&mut queue, "9", 9, 100), (Ok(()), vec![]));
    assert_eq!(arrive(&mut queue, "8", 8, 800), (Ok(()), vec![]));
    // One packet too many.
    assert_eq!(arrive(&mut queue, "7", 7, 100), (Ok(()), vec!["9"]));
    // One packet too many, and its 800 bytes make enough room.
    assert_eq!(arrive(&mut queue, "6", 6, 900), (Ok(()), vec!["8"]));
    // One packet too many, and one byte.
    assert_eq!(arrive(&mut queue, "5", 5, 901), (Ok(()), vec!["7", "6"]));
}

#[test]
fn the_shortest_packets_and_the_longest_are_counted_right() {
    let mut queue = queue(2, 0, true);
    assert_eq!(arrive(&mut queue, "1", 1, u32::MAX), (Ok(()), vec![]));
    assert_eq!(arrive(&mut queue, "2", 2, u32::MAX), (Ok(()), vec![]));
    assert_eq!(queue.bytes(), 2 * u64::from(u32::MAX));
    assert_eq!(arrive(&mut queue, "0", 0, 1), (Ok(()), vec!["2"]));
    assert_eq!(queue.bytes(), 1 + u64::from(u32::MAX));
    assert_eq!(queue.counters().highest_bytes, 2 * u64::from(u32::MAX));
}

#[test]
fn a_change_that_shrinks_the_queue_keeps_the_most_urgent_packets() {
    let mut queue = queue(24, 0, true);
    for (packet, flow, rank) in [("5", A, 5), ("9", B, 9), ("7", B, 7), ("9 again", C, 9)] {
        add(&mut queue, packet, flow, rank);
    }
    assert_eq!(change(&mut queue, 3, 0, true), ["9 again"]);
    assert_eq!(change(&mut queue, 3, 3000, true), ["9"]);
    assert_eq!((queue.len(), queue.bytes(), queue.flows()), (2, 3000, 2));
    assert_eq!(
        queue.limits(),
        Limits {
            packets: 3,
            bytes: 3000,
            starvation_prevention: true
        }
    );
    let Counters {
        evicted,
        evicted_bytes,
        ..
    } = queue.counters();
    assert_eq!((evicted, evicted_bytes), (2, 3000));
    assert_eq!(drain(&mut queue), ["5", "7"]);
}

#[test]
fn a_change_keeps_order_of_arrival_counters_and_peaks() {
    let mut queue = queue(4, 0, true);
    for (packet, flow, rank) in [("1", A, 9), ("2", B, 7), ("3", C, 7), ("4", A, 7)] {
        add(&mut queue, packet, flow, rank);
    }
    assert_eq!(queue.enqueue("no", 9, A, 1500, |_, _| panic!()), Err("no"));
    let before = queue.counters();
    assert_eq!(before.highest_len, 4);
    assert!(change(&mut queue, 65_536, 0, true).is_empty());
    assert_eq!(queue.counters(), before);
    add(&mut queue, "5", B, 8);
    // Rank 7 in order of arrival; its last packet is overtaken by the first of flow a.
    assert_eq!(drain(&mut queue), ["2", "3", "1", "4", "5"]);
    assert_eq!(queue.counters().overtaken, 1);
}

#[test]
fn a_change_turns_starvation_prevention_off_and_on() {
    let mut queue = figure_2(true);
    assert!(change(&mut queue, 24, 0, false).is_empty());
    assert_eq!(queue.peek(), Some(&('a', 1)));
    assert!(change(&mut queue, 24, 0, true).is_empty());
    assert_eq!(drain(&mut queue), [('a', 3), ('a', 1), ('b', 4), ('c', 5)]);
}

#[test]
fn a_queue_whose_packets_were_taken_is_empty_and_usable() {
    let mut old = figure_2(true);
    let mut new = queue(2, 0, true);
    new.take_over(&mut old, |_, _| ());
    assert_eq!(
        (old.len(), old.bytes(), old.flows(), old.peek()),
        (0, 0, 0, None)
    );
    add(&mut old, ('d', 0), A, 0);
    assert_eq!(drain(&mut old), [('d', 0)]);
    assert_eq!(drain(&mut new), [('a', 3), ('a', 1)]);
}

#[test]
fn clear_yields_every_packet_and_keeps_the_counters() {
    let mut queue = figure_2(true);
    let mut out = Vec::new();
    queue.clear(|packet| out.push(packet));
    assert_eq!(out, [('a', 1), ('a', 3), ('b', 4), ('c', 5)]);
    assert_eq!((queue.len(), queue.bytes(), queue.flows()), (0, 0, 0));
    assert_eq!(queue.dequeue(), None);
    assert_eq!(queue.counters().highest_len, 4);
    add(&mut queue, ('d', 7), A, 7);
    assert_eq!(drain(&mut queue), [('d', 7)]);
}

/// The largest queue: every index is in use, and the ranks fill the whole trie.
#[test]
fn a_queue_of_65536_packets_sends_them_in_order_of_rank() {
    let packets = if cfg!(miri) { 300 } else { MAX_PACKETS };
    let mut queue = queue(packets, 0, true);
    // A permutation: an odd factor.
    let rank = |i: u32| i.wrapping_mul(0x9E37_79B1);
    for i in 0..packets {
        add(&mut queue, rank(i), i, rank(i));
    }
    queue.check_invariants().unwrap();
    assert_eq!((queue.len(), queue.flows()), (packets, packets));
    let mut order: Vec<_> = (0..packets).map(rank).collect();
    order.sort_unstable();
    let worst = order.pop().unwrap();
    let mut evicted = None;
    assert_eq!(
        queue.enqueue(0, 0, 0, 1500, |packet, _| evicted = Some(packet)),
        Ok(())
    );
    assert_eq!(evicted, Some(worst));
    order.insert(0, 0);
    assert_eq!(drain(&mut queue), order);
    queue.check_invariants().unwrap();
}

#[test]
fn limits_outside_their_range_are_clamped() {
    assert_eq!(queue::<()>(0, 0, true).limits().packets, 1);
    assert_eq!(queue::<()>(u32::MAX, 0, true).limits().packets, 65_536);
}

thread_local! {
    /// Allocations that will still succeed, and bytes allocated, on this thread.
    static ALLOCATIONS: Cell<u32> = const { Cell::new(u32::MAX) };
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// A heap that counts, and that runs out of memory.
enum Counting {}

impl Store for Counting {
    type Of<T> = Vec<T>;
    type Shared<T: Send + Sync> = Arc<T>;
    type Error = ();

    fn share<T: Send + Sync>(value: T) -> Result<Arc<T>, ()> {
        Ok(Arc::new(value))
    }

    fn allocate<T>(n: usize, make: impl FnMut() -> T) -> Result<Vec<T>, ()> {
        let left = ALLOCATIONS.get().checked_sub(1).ok_or(())?;
        ALLOCATIONS.set(left);
        BYTES.set(BYTES.get() + Layout::array::<T>(n).unwrap().size());
        Ok(std::iter::repeat_with(make).take(n).collect())
    }
}

#[test]
fn without_memory_there_is_an_error_and_no_queue() {
    let limits = Limits {
        packets: 24,
        bytes: 0,
        starvation_prevention: true,
    };
    let succeeds = (0..).find(|&allocations| {
        ALLOCATIONS.set(allocations);
        PFabric::<(), Counting>::new(limits).is_ok()
    });
    assert_eq!(succeeds, Some(5), "each of five arrays can be missing");
}

#[test]
fn it_takes_120_to_124_bytes_per_packet_and_none_after_construction() {
    for packets in [2, 24, 1000, 1025, 65_536] {
        BYTES.set(0);
        let limits = Limits {
            packets,
            bytes: 0,
            starvation_prevention: true,
        };
        let mut queue: PFabric<NonZeroUsize, Counting> = PFabric::new(limits).unwrap();
        let each = BYTES.get() as f64 / f64::from(packets);
        assert!(
            (120.0..=124.0).contains(&each),
            "{each} bytes for each of {packets} packets"
        );
        ALLOCATIONS.set(0);
        assert!(queue.enqueue(NonZeroUsize::MIN, 1, 1, 1, |_, _| ()).is_ok());
        assert_eq!(queue.dequeue(), Some(NonZeroUsize::MIN));
        ALLOCATIONS.set(u32::MAX);
    }
}

#[test]
fn packets_left_in_a_dropped_queue_are_dropped() {
    let alive = Rc::new(());
    let mut queue = queue(24, 0, true);
    for rank in 0..3 {
        add(&mut queue, Rc::clone(&alive), rank, rank);
    }
    assert_eq!(Rc::strong_count(&alive), 4);
    drop(queue);
    assert_eq!(Rc::strong_count(&alive), 1);
}
