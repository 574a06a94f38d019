// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The wire's law, against exact arithmetic.

use proptest::prelude::*;
use std::num::NonZeroU64;
use weft_mechanisms::wire::line::{Params, Transmission, Wire};

const NS_PER_S: u128 = 1_000_000_000;

/// From 1 kbit/s to 400 Gbit/s, in bytes per second: the qdisc's range.
const RATES: std::ops::RangeInclusive<u64> = 125..=50_000_000_000;

/// 10 Gbit/s: 0.8 ns per byte.
const TEN_GIGABIT: u64 = 1_250_000_000;

fn params(rate: u64, delay: u64, overhead: u32, mpu: u32) -> Params {
    let rate = NonZeroU64::new(rate).unwrap();
    Params {
        rate,
        delay,
        overhead,
        mpu,
    }
}

fn wire(rate: u64, delay: u64) -> Wire {
    Wire::new(params(rate, delay, 0, 0))
}

/// The time of `bytes`, in ns, rounded down.
fn duration(bytes: u128, rate: u64) -> u64 {
    u64::try_from(bytes * NS_PER_S / u128::from(rate)).unwrap()
}

/// The bytes that each frame occupies, one by one: `len` is split as evenly as possible.
fn bytes_by_frame(len: u32, segments: u32, overhead: u32, mpu: u32) -> u128 {
    let frames = (0..segments).map(|i| len / segments + u32::from(i < len % segments));
    frames
        .map(|frame| u128::from((frame + overhead).max(mpu)))
        .sum()
}

#[test]
fn a_packet_takes_its_length_over_the_rate_and_then_the_delay() {
    let mut wire = wire(TEN_GIGABIT, 2_000);
    wire.ready(1_000);
    assert_eq!(wire.next_start(), 1_000);
    let expected = Transmission {
        start: 1_000,
        end: 2_200,
        delivery: 4_200,
    };
    assert_eq!(wire.begin(1500, 1), expected);
    assert_eq!(
        (wire.busy_until(), wire.next_start(), wire.busy_ns()),
        (2_200, 2_200, 1_200)
    );
}

#[test]
fn a_late_timer_does_not_lower_throughput() {
    let mut wire = wire(TEN_GIGABIT, 0);
    wire.ready(0);
    // No call passes the time: the packets begin where the previous ones ended.
    let ends: Vec<_> = (0..4).map(|_| wire.begin(1500, 1).end).collect();
    assert_eq!(ends, [1_200, 2_400, 3_600, 4_800]);
}

#[test]
fn a_packet_that_is_ready_while_the_wire_is_busy_begins_when_it_is_free() {
    let mut wire = wire(TEN_GIGABIT, 0);
    wire.ready(0);
    wire.begin(1500, 1);
    for now in [1, 1_199, 1_200] {
        wire.ready(now);
        assert_eq!(wire.next_start(), 1_200);
    }
    wire.ready(1_201);
    assert_eq!(wire.next_start(), 1_201);
}

#[test]
fn of_two_calls_of_ready_the_later_one_counts() {
    let mut wire = wire(TEN_GIGABIT, 0);
    wire.ready(100);
    wire.ready(150);
    assert_eq!(wire.begin(1500, 1).start, 150);
}

#[test]
fn a_held_packet_begins_no_earlier_and_the_idle_time_is_lost() {
    let mut wire = wire(3, 0);
    wire.ready(0);
    // 333,333,333 ns and a third.
    assert_eq!(wire.begin(1, 1).end, 333_333_333);
    wire.not_before(333_333_333);
    assert_eq!(wire.begin(1, 1).end, 666_666_666);
    // Earlier than it could: nothing changes, and the three thirds add up to one.
    wire.not_before(5);
    assert_eq!(wire.begin(1, 1).end, 1_000_000_000);
    wire.begin(1, 1);
    wire.not_before(2_000_000_000);
    assert_eq!(wire.next_start(), 2_000_000_000);
    let last = wire.begin(1, 1);
    assert_eq!((last.start, last.end), (2_000_000_000, 2_333_333_333));
    assert_eq!(wire.busy_ns(), 1_333_333_333 + 333_333_333);
}

#[test]
fn the_remainder_is_carried_while_packets_go_back_to_back() {
    // 3 bytes per second: a byte takes 333,333,333 1/3 ns.
    let mut wire = wire(3, 0);
    wire.ready(0);
    let ends: Vec<_> = (0..6).map(|_| wire.begin(1, 1).end).collect();
    assert_eq!(
        ends,
        [
            333_333_333,
            666_666_666,
            1_000_000_000,
            1_333_333_333,
            1_666_666_666,
            2_000_000_000
        ]
    );
}

#[test]
fn an_arrival_at_the_very_end_of_a_packet_leaves_no_gap() {
    let mut wire = wire(3, 0);
    for end in [333_333_333, 666_666_666, 1_000_000_000] {
        wire.ready(wire.busy_until());
        assert_eq!(wire.begin(1, 1).end, end);
    }
}

#[test]
fn an_idle_gap_drops_the_remainder() {
    let mut wire = wire(3, 0);
    wire.ready(0);
    wire.begin(2, 1);
    wire.ready(666_666_667);
    assert_eq!(wire.begin(1, 1).end, 1_000_000_000);
}

#[test]
fn a_new_rate_counts_for_the_next_packet() {
    let mut wire = wire(3, 5);
    wire.ready(0);
    wire.begin(2, 1);
    let faster = params(TEN_GIGABIT, 7, 0, 0);
    wire.set_params(faster);
    assert_eq!(wire.params(), faster);
    // The remainder, in thirds of a nanosecond, is dropped.
    let expected = Transmission {
        start: 666_666_666,
        end: 666_666_674,
        delivery: 666_666_681,
    };
    assert_eq!(wire.begin(10, 1), expected);
}

#[test]
fn a_shorter_delay_does_not_reorder() {
    let mut wire = wire(TEN_GIGABIT, 10_000);
    wire.ready(0);
    assert_eq!(wire.begin(1500, 1).delivery, 11_200);
    wire.set_params(params(TEN_GIGABIT, 0, 0, 0));
    let deliveries: Vec<_> = (0..9).map(|_| wire.begin(1500, 1).delivery).collect();
    let expected = [
        11_200, 11_200, 11_200, 11_200, 11_200, 11_200, 11_200, 11_200, 12_000,
    ];
    assert_eq!(deliveries, expected);
}

#[test]
fn overhead_and_mpu_count_per_frame() {
    let on_wire = |len, segments, overhead, mpu| {
        // One nanosecond per byte.
        let mut wire = Wire::new(params(1_000_000_000, 0, overhead, mpu));
        wire.begin(len, segments).end
    };
    assert_eq!(on_wire(1514, 1, 24, 84), 1538);
    assert_eq!(on_wire(60, 1, 24, 84), 84);
    assert_eq!(on_wire(61, 1, 24, 84), 85);
    assert_eq!(on_wire(40, 1, 24, 84), 84);
    assert_eq!(on_wire(40, 1, 0, 0), 40);
    assert_eq!(on_wire(10 * 1514, 10, 24, 84), 10 * 1538);
    // Frames of 60 and 61 bytes: none falls short.
    assert_eq!(on_wire(605, 10, 24, 84), 605 + 240);
    // Frames of 59 and 60 bytes: those of 60 are at the minimum.
    assert_eq!(on_wire(595, 10, 24, 84), 840);
    assert_eq!(on_wire(100, 0, 24, 84), 124);
}

#[test]
fn reset_makes_the_wire_idle_and_keeps_the_time_it_was_busy() {
    let mut wire = wire(3, 1_000_000_000);
    wire.ready(0);
    wire.begin(4, 1);
    wire.reset();
    assert_eq!(
        (wire.busy_until(), wire.next_start(), wire.busy_ns()),
        (0, 0, 1_333_333_333)
    );
    wire.ready(10);
    let expected = Transmission {
        start: 10,
        end: 1_000_000_010,
        delivery: 2_000_000_010,
    };
    assert_eq!(wire.begin(3, 1), expected);
}

#[test]
fn nothing_overflows_at_the_ends_of_all_ranges() {
    for rate in [1, u64::MAX] {
        let mut wire = Wire::new(params(rate, u64::MAX, u32::MAX, u32::MAX));
        wire.ready(u64::MAX - 1);
        for _ in 0..3 {
            let Transmission {
                start,
                end,
                delivery,
            } = wire.begin(u32::MAX, u32::MAX);
            assert!(start >= u64::MAX - 1 && end >= start && delivery == u64::MAX);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 8 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// "The rate is exact in the long run": after every packet of a busy period, the elapsed time
    /// is that of all its bytes together.
    #[test]
    fn throughput_is_exact_while_packets_go_back_to_back(
        rate in RATES, start in 0..u64::MAX / 4, delay in 0..10_000_000_000_u64,
        overhead in 0..1000_u32, mpu in 0..2000_u32,
        packets in prop::collection::vec((0..70_000_u32, 1..50_u32), 1..200),
    ) {
        let mut wire = Wire::new(params(rate, delay, overhead, mpu));
        wire.ready(start);
        let (mut bytes, mut last) = (0, start);
        for (len, segments) in packets {
            bytes += bytes_by_frame(len, segments, overhead, mpu);
            let sent = wire.begin(len, segments);
            prop_assert_eq!(sent.start, last);
            prop_assert_eq!(sent.end, start + duration(bytes, rate));
            prop_assert_eq!(sent.delivery, sent.end + delay);
            prop_assert_eq!(wire.busy_ns(), sent.end - start);
            last = sent.end;
        }
    }

    /// Whatever happens: one packet at a time, in order, none before it is ready.
    #[test]
    fn packets_are_serialized_one_at_a_time_and_delivered_in_order(
        events in prop::collection::vec(
            (0..3_000_u64, 0..10_000_u32, any::<bool>(), 0..20_000_u64, RATES), 1..200),
    ) {
        let mut wire = wire(TEN_GIGABIT, 5_000);
        let (mut now, mut busy) = (0, 0);
        let mut last = Transmission { start: 0, end: 0, delivery: 0 };
        for (gap, len, change, delay, rate) in events {
            now += gap;
            if change {
                wire.set_params(params(rate, delay, 0, 0));
            }
            wire.ready(now);
            prop_assert_eq!(wire.next_start(), now.max(last.end));
            let sent = wire.begin(len, 1);
            prop_assert_eq!(sent.start, now.max(last.end));
            let rate = wire.params().rate.get();
            let alone = duration(len.into(), rate);
            prop_assert!((alone..=alone + 1).contains(&(sent.end - sent.start)));
            prop_assert!(sent.delivery >= last.delivery);
            prop_assert!(sent.delivery == last.delivery
                || sent.delivery == sent.end + wire.params().delay);
            busy += sent.end - sent.start;
            prop_assert_eq!(wire.busy_ns(), busy);
            last = sent;
        }
    }
}
