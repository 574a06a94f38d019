// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The policies' ranks: the paper's sentences, and the whole against exact arithmetic.

use proptest::prelude::*;
use std::cell::Cell;
use weft_mechanisms::common::rank::{
    self, before, rank, stream_offset, Basis, Fallback, Policy, Ranked, Rules, Said, NO_DEADLINE,
};

const SIZE: u64 = 1_000_000;

const fn rules(policy: Policy) -> Rules {
    Rules {
        policy,
        fallback: Fallback::Sent,
        fixed: 77,
    }
}

/// The rank of a packet of a flow that declared its size.
fn of_size(policy: Policy, size: u64, sent: i64) -> u32 {
    let said = Said {
        size,
        ..Said::default()
    };
    let ranked = rank(rules(policy), said, sent, clockless, socketless);
    assert_eq!(ranked.basis, Basis::Policy);
    ranked.rank
}

fn clockless() -> u64 {
    panic!("nobody needs to know the time")
}

fn socketless() -> Option<u64> {
    panic!("nobody needs to know what is queued")
}

/// "… the priority is set to be the remaining flow size" (pFabric §4.1).
#[test]
fn the_priority_is_set_to_be_the_remaining_flow_size() {
    for sent in [0, 1, 1460, SIZE - 1] {
        let rank = of_size(Policy::Remaining, SIZE, sent as i64);
        assert_eq!(u64::from(rank), SIZE - sent);
    }
}

/// "… packets that are transmitted earlier have lower priority than packets that are transmitted
/// later (because they have relatively higher remaining flow sizes in their priority fields)"
/// (§4.1). A higher number is a lower priority.
#[test]
fn packets_that_are_transmitted_earlier_have_lower_priority() {
    let ranks = (0..1000).map(|n| of_size(Policy::Remaining, SIZE, n * 1000));
    let ranks: Vec<u32> = ranks.collect();
    assert!(ranks.windows(2).all(|pair| pair[0] > pair[1]));
}

/// "… using absolute flow size as the priority instead of remaining flow size" (§4.1).
#[test]
fn absolute_flow_size_is_the_same_for_all_packets() {
    for sent in [-5_000, 0, 1, 1460, SIZE as i64 - 1] {
        assert_eq!(of_size(Policy::Size, SIZE, sent), SIZE as u32);
    }
}

#[test]
fn unsent_bytes_of_the_previous_flow_are_its_remaining_size() {
    assert_eq!(of_size(Policy::Remaining, SIZE, -1), 1);
    assert_eq!(of_size(Policy::Remaining, SIZE, -40_000), 40_000);
    let ranked = rank(
        rules(Policy::Sent),
        Said::default(),
        -40_000,
        clockless,
        socketless,
    );
    assert_eq!(ranked.rank, 0);
}

#[test]
fn a_packet_beyond_the_size_belongs_to_a_next_flow_of_unknown_size() {
    let said = Said {
        size: SIZE,
        ..Said::default()
    };
    for policy in [Policy::Remaining, Policy::Size] {
        for beyond in [0, 1, 1460] {
            let sent = (SIZE + beyond) as i64;
            let ranked = rank(rules(policy), said, sent, clockless, socketless);
            assert_eq!(ranked.basis, Basis::Beyond);
            assert_eq!(u64::from(ranked.rank), beyond);
        }
    }
}

#[test]
fn flows_with_a_deadline_precede_all_flows_without_one() {
    let at = |deadline, size, now| {
        let said = Said {
            size,
            deadline,
            class: 0,
        };
        rank(rules(Policy::Deadline), said, 0, || now, socketless).rank
    };
    const S: u64 = 1_000_000_000;
    assert_eq!(at(20 * S, 7, 17 * S), 3_000_000, "microseconds");
    assert_eq!(at(20 * S, 7, 20 * S), 0);
    assert_eq!(at(20 * S, 7, 21 * S), 0, "missed");
    assert_eq!(at(u64::MAX, 7, 0), NO_DEADLINE - 1);
    assert_eq!(at(0, 7, 0), NO_DEADLINE + 7);
    assert_eq!(at(0, u64::MAX, 0), u32::MAX);
}

#[test]
fn a_fixed_rank_is_the_class_or_one_number_for_all_flows() {
    let of = |class| {
        let said = Said {
            class,
            ..Said::default()
        };
        rank(rules(Policy::Fixed), said, 5, clockless, socketless).rank
    };
    assert_eq!((of(0), of(5), of(u32::MAX)), (77, 5, u32::MAX));
}

#[test]
fn the_queued_bytes_are_read_once_and_only_where_they_matter() {
    let rules = Rules {
        fallback: Fallback::Queued,
        ..rules(Policy::Remaining)
    };
    let asked = Cell::new(0);
    let queued = || {
        asked.set(asked.get() + 1);
        Some(900)
    };
    let said = |size| Said {
        size,
        ..Said::default()
    };
    let within = rank(rules, said(SIZE), 10, clockless, queued);
    assert_eq!((within.rank, asked.get()), (SIZE as u32 - 10, 0));
    let unknown = rank(rules, said(0), 10, clockless, queued);
    assert_eq!((unknown.rank, unknown.basis), (900, Basis::Fallback));
    assert_eq!(asked.get(), 1);
    // A socket that cannot tell, such as UDP's.
    let datagram = rank(rules, said(0), 10, clockless, || None);
    assert_eq!((datagram.rank, datagram.basis), (10, Basis::Fallback));
}

#[test]
fn sequence_numbers_wrap_and_may_precede_the_acknowledged_one() {
    assert_eq!(stream_offset(5_000, 100, 100), 5_000);
    assert_eq!(stream_offset(5_000, 100, 1_560), 6_460);
    assert_eq!(stream_offset(5_000, u32::MAX, 9), 5_010);
    // Retransmitted although it was acknowledged meanwhile.
    assert_eq!(stream_offset(5_000, 1_560, 100), 3_540);
    assert_eq!(before(3_540, 5_000), 1_460);
    assert_eq!(before(5_000, 3_540), -1_460);
}

#[test]
fn the_numbers_of_the_socket_interface_never_change() {
    let policies = Policy::ALL
        .iter()
        .map(|policy| (*policy as u32, policy.name()));
    let expected = [
        "remaining",
        "size",
        "sent",
        "deadline",
        "fixed",
        "echo",
        "records",
    ];
    assert!(policies.eq((0..).zip(expected)));
    let fallbacks = Fallback::ALL
        .iter()
        .map(|fallback| (*fallback as u32, fallback.name()));
    assert!(fallbacks.eq([(0, "sent"), (1, "queued")]));
    for number in 0..7 {
        let policy = Policy::ALL.get(number as usize).copied();
        assert_eq!(Policy::from_number(number), policy);
    }
}

/// The table in `ebpf/README.md`, in unbounded numbers.
fn exact(rules: Rules, said: Said, sent: i64, now: u64, queued: Option<u64>) -> Ranked {
    let [size, sent] = [said.size.into(), i128::from(sent)];
    let within = size != 0 && sent < size;
    let basis = match () {
        () if size == 0 => Basis::Fallback,
        () if within => Basis::Policy,
        () => Basis::Beyond,
    };
    let attained = (sent - if basis == Basis::Beyond { size } else { 0 }).max(0);
    let fallback = match (rules.fallback, queued) {
        (Fallback::Queued, Some(queued)) => queued.into(),
        _ => attained,
    };
    let remaining = match basis {
        Basis::Policy if sent < 0 => -sent,
        Basis::Policy => size - sent,
        _ => fallback,
    };
    let half = i128::from(NO_DEADLINE);
    let (rank, basis) = match rules.policy {
        Policy::Remaining => (remaining, basis),
        Policy::Size => (if within { size } else { fallback }, basis),
        Policy::Sent => (sent.max(0), Basis::Policy),
        Policy::Deadline if said.deadline == 0 => (half + remaining.min(half - 1), basis),
        Policy::Deadline => {
            let left = (i128::from(said.deadline) - i128::from(now)).max(0);
            ((left / 1000).min(half - 1), Basis::Policy)
        }
        Policy::Fixed if said.class == 0 => (rules.fixed.into(), Basis::Policy),
        Policy::Fixed => (said.class.into(), Basis::Policy),
        Policy::Echo | Policy::Records => (0, Basis::Policy),
    };
    let rank = rank.min(u32::MAX.into()) as u32;
    Ranked { rank, basis }
}

/// Numbers of each length, and those next to a power of two.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        (any::<u64>(), 0..64_u32).prop_map(|(number, bits)| number >> bits),
        (0..64_u32, -2..3_i64).prop_map(|(bit, d)| (1_u64 << bit).wrapping_add_signed(d)),
        (0..5_u64).prop_map(|d| u64::MAX - d),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 32 } else { 8192 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_rank_is_exact(
        policy in prop::sample::select(Policy::ALL),
        fallback in prop::sample::select(Fallback::ALL),
        fixed in any::<u32>(),
        class in prop_oneof![Just(0), any::<u32>()],
        size in number(),
        place in prop_oneof![number().prop_map(|n| (false, n)), (-2..3_i64).prop_map(|d| (true, d as u64))],
        deadline in number(),
        now in prop_oneof![number().prop_map(|n| (false, n)), (-3000..3000_i64).prop_map(|d| (true, d as u64))],
        queued in prop::option::of(number()),
    ) {
        // Anywhere, or close to the flow's end and the deadline.
        let sent = if place.0 { size.wrapping_add(place.1) } else { place.1 } as i64;
        let now = if now.0 { deadline.wrapping_add(now.1) } else { now.1 };
        let (rules, said) = (Rules { policy, fallback, fixed }, Said { size, deadline, class });
        let ranked = rank::rank(rules, said, sent, || now, || queued);
        prop_assert_eq!(ranked, exact(rules, said, sent, now, queued));
    }

    #[test]
    fn offsets_match_an_unlimited_stream(
        base in any::<u64>(), acked in number(), first in any::<u32>(), distance in any::<i32>(),
    ) {
        let sequence = first.wrapping_add_signed(distance);
        let offset = stream_offset(acked, first, sequence);
        let exact = i128::from(acked) + i128::from(distance);
        prop_assert_eq!(offset, exact.rem_euclid(1 << 64) as u64);
        let beginning = acked.wrapping_sub(base);
        prop_assert_eq!(before(beginning, acked), base as i64);
    }
}
