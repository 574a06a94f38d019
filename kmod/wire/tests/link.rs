// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! A link against an exact simulation of one wire: the same packets, in the same order, at the same
//! nanosecond, however late the timers are.

use std::collections::{BTreeSet, VecDeque};
use std::num::NonZeroU64;

use proptest::prelude::*;
use weft_mechanisms::common::xorshift::Xorshift32;
use weft_mechanisms::wire::line::Params;
use weft_mechanisms::wire::link::{arrival, Ends, Link, BATCH};

/// A packet: when it arrives (ns), its length (bytes) and its rank.
#[derive(Clone, Copy, Debug)]
struct Packet {
    at: u64,
    len: u32,
    rank: u32,
    owned: bool,
}

fn params(rate: u64, delay: u64) -> Params {
    Params {
        rate: NonZeroU64::new(rate).unwrap(),
        delay,
        overhead: 0,
        mpu: 0,
    }
}

/// A queue that serves the lowest rank first, and the packets in flight.
#[derive(Default)]
struct Test {
    packets: Vec<Packet>,
    /// By rank, then by arrival.
    queue: BTreeSet<(u32, usize)>,
    in_flight: VecDeque<(usize, u64)>,
    /// Whether the packet launched last still counts for its socket.
    owned: bool,
    /// Packets whose socket was released, in order.
    released: Vec<usize>,
    delivered: Vec<(usize, u64)>,
    /// The queue holds its packets back.
    closed: bool,
    /// It declares that it need not be asked in time.
    timeless: bool,
    launched: usize,
    /// The most packets that began in one call.
    most_launched: usize,
    bytes: u32,
    /// The most bytes in flight, except for the packet launched last.
    most_bytes: u32,
}

impl Ends for Test {
    fn waiting(&self) -> u32 {
        self.queue.len() as u32
    }

    fn launch(&mut self, begin: impl FnOnce(u32, u32) -> u64) -> bool {
        if self.closed {
            return false;
        }
        let Some((_, index)) = self.queue.pop_first() else {
            return false;
        };
        self.launched += 1;
        self.most_bytes = self.most_bytes.max(self.bytes);
        self.bytes += self.packets[index].len;
        self.in_flight
            .push_back((index, begin(self.packets[index].len, 1)));
        self.owned = self.packets[index].owned;
        true
    }

    fn timeless(&self) -> bool {
        self.timeless
    }

    fn owned(&self) -> bool {
        self.owned
    }

    fn sent(&mut self) {
        if self.owned {
            self.released.push(self.in_flight.back().unwrap().0);
            self.owned = false;
        }
    }

    fn first_delivery(&self) -> Option<u64> {
        self.in_flight.front().map(|&(_, at)| at)
    }

    fn in_flight(&self) -> u32 {
        self.bytes
    }
}

impl Test {
    fn advance(&mut self, link: &mut Link, now: u64) {
        self.launched = 0;
        link.advance(now, self);
        self.most_launched = self.most_launched.max(self.launched);
    }

    /// Like the kernel, asks for one packet after the other, until there is none.
    fn poll(&mut self, link: &mut Link, now: u64) {
        self.advance(link, now);
        while link.deliver(now, self) {
            let delivered = self.in_flight.pop_front().unwrap();
            self.bytes -= self.packets[delivered.0].len;
            self.delivered.push(delivered);
            self.advance(link, now);
        }
    }

    fn arrive(&mut self, link: &mut Link, index: usize) {
        self.arrive_at(link, index, self.packets[index].at);
    }

    fn arrive_at(&mut self, link: &mut Link, index: usize, at: u64) {
        self.advance(link, at);
        let first = self.waiting() == 0;
        self.queue.insert((self.packets[index].rank, index));
        link.arrived(at, first);
    }
}

/// Runs all packets through a link whose timers are late by the values of `lateness`, in turn.
fn run(params: Params, packets: &[Packet], lateness: &[u64], timeless: bool) -> (Test, Link) {
    run_limited(params, u32::MAX, packets, lateness, timeless)
}

/// Like `run`, with a limit.
fn run_limited(
    params: Params,
    limit: u32,
    packets: &[Packet],
    lateness: &[u64],
    timeless: bool,
) -> (Test, Link) {
    let mut link = Link::new(params, limit);
    let mut test = Test {
        packets: packets.to_vec(),
        timeless,
        ..Test::default()
    };
    let mut lateness = lateness.iter().cycle();
    let mut now = 0;
    for (index, packet) in packets.iter().enumerate() {
        // Timers that fire before the arrival, each with its lateness.
        while let Some(event) = link.next_event(&test) {
            let fires = event.max(now) + lateness.next().unwrap();
            if fires >= packet.at {
                break;
            }
            now = fires;
            test.poll(&mut link, now);
        }
        now = packet.at;
        test.arrive(&mut link, index);
    }
    while let Some(event) = link.next_event(&test) {
        now = event.max(now) + lateness.next().unwrap();
        test.poll(&mut link, now);
    }
    (test, link)
}

/// The result of an exact wire.
struct Exact {
    /// Each packet and when it is delivered, in order of delivery.
    delivered: Vec<(usize, u64)>,
    /// Time spent serializing.
    busy_ns: u64,
}

/// One packet after the other, in exact arithmetic (10^9 parts of a byte time, so that only the
/// result is rounded).
fn exact(params: Params, packets: &[Packet]) -> Exact {
    exact_limited(params, u32::MAX, packets)
}

/// Like `exact`, with a limit: a packet begins once enough earlier ones have been delivered that
/// less than the limit is in flight. Simultaneous events happen in this order: arrivals,
/// deliveries, the beginning.
fn exact_limited(params: Params, limit: u32, packets: &[Packet]) -> Exact {
    let rate = u128::from(params.rate.get());
    let mut arrivals = packets.iter().enumerate().peekable();
    let mut waiting = BTreeSet::new();
    let mut in_flight: VecDeque<(u128, u32)> = VecDeque::new();
    let mut bytes = 0;
    let (mut delivered, mut busy_ns) = (Vec::new(), 0);
    // The start of the busy period, and bytes times 10^9 sent since.
    let (mut since, mut sent) = (0u128, 0u128);
    loop {
        let mut start = (since * rate + sent) / rate;
        while let Some((index, packet)) = arrivals.next_if(|next| u128::from(next.1.at) < start) {
            waiting.insert((packet.rank, index));
        }
        if waiting.is_empty() {
            let Some((index, packet)) = arrivals.next() else {
                return Exact { delivered, busy_ns };
            };
            if u128::from(packet.at) > start {
                start = packet.at.into();
                (since, sent) = (start, 0);
            }
            waiting.insert((packet.rank, index));
        }
        while in_flight.front().is_some_and(|packet| packet.0 < start) {
            bytes -= in_flight.pop_front().unwrap().1;
        }
        while bytes >= limit {
            let (at, len) = in_flight.pop_front().unwrap();
            bytes -= len;
            if at > start {
                start = at;
                (since, sent) = (start, 0);
            }
            while let Some((index, packet)) =
                arrivals.next_if(|next| u128::from(next.1.at) <= start)
            {
                waiting.insert((packet.rank, index));
            }
        }
        let (_, index) = waiting.pop_first().unwrap();
        sent += u128::from(packets[index].len) * 1_000_000_000;
        let end = (since * rate + sent) / rate;
        busy_ns += (end - start) as u64;
        let delivery = end + u128::from(params.delay);
        in_flight.push_back((delivery, packets[index].len));
        bytes = bytes.saturating_add(packets[index].len);
        delivered.push((index, delivery as u64));
    }
}

/// Some packets, far apart or together.
fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let packet = (0u64..3_000, 1u32..2_000, 0u32..4, any::<bool>());
    prop::collection::vec(packet, 1..80).prop_map(|packets| {
        let mut at = 1;
        packets
            .into_iter()
            .map(|(gap, len, rank, owned)| {
                at += gap;
                Packet {
                    at,
                    len,
                    rank,
                    owned,
                }
            })
            .collect()
    })
}

/// Bursts of up to some 1,000 packets with pauses between them: each as fast as possible or as slow
/// as the wire, of one length or mixed, with owners or without.
fn bursts() -> impl Strategy<Value = Vec<Packet>> {
    let burst = (
        prop_oneof![Just(0u64), 0..2_000_000u64],
        prop_oneof![1..10usize, 50..200usize, 200..1_200usize],
        prop_oneof![Just(0u64), 0..3_000u64],
        prop_oneof![
            Just(1u32..2),
            Just(60..61),
            Just(1_500..1_501),
            Just(1..2_000),
            Just(60..65_000)
        ],
        1u32..5,
        prop_oneof![Just(0u64), Just(0), Just(1), Just(2)],
    );
    let bursts = prop::collection::vec(burst, 1..6);
    (bursts, any::<u32>()).prop_map(|(bursts, seed)| {
        let mut random = Xorshift32::new(seed);
        let mut draw = |end: u64| u64::from(random.below(end as u32));
        let mut at = 1;
        let mut packets = Vec::new();
        for (pause, count, gap, lens, ranks, owners) in bursts {
            at += pause;
            for _ in 0..count {
                at += draw(2 * gap);
                packets.push(Packet {
                    at,
                    len: lens.start + draw((lens.end - lens.start).into()) as u32,
                    rank: draw(ranks.into()) as u32,
                    owned: draw(2) < owners,
                });
            }
        }
        packets
    })
}

/// Timers on time, late by less than a packet takes, by some packets, and by whole bursts.
fn lateness() -> impl Strategy<Value = Vec<u64>> {
    let one = prop_oneof![Just(0u64), 0..1_000u64, 0..20_000u64, 0..5_000_000u64];
    prop::collection::vec(one, 1..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 2_000 }))]

    #[test]
    fn late_timers_change_no_delivery_time_and_no_order(
        rate in prop::sample::select(vec![125, 1_000_000, 1_250_000_000, 3_333_333_333, 50_000_000_000u64]),
        delay in prop::sample::select(vec![0, 700, 1_000_000u64]),
        packets in packets(),
        lateness in prop::collection::vec(0u64..20_000, 1..20),
        timeless in any::<bool>(),
    ) {
        ensure_exact(params(rate, delay), &packets, &lateness, timeless)?;
    }

    #[test]
    fn timers_on_time_are_never_late(
        packets in packets(),
        delay in prop::sample::select(vec![0, 500, 5_000_000u64]),
        timeless in any::<bool>(),
    ) {
        let (_, link) = run(params(1_000_000, delay), &packets, &[0], timeless);
        prop_assert_eq!(link.lateness().max_ns(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 500 }))]

    /// More than any number of packets in the code, and on wires that hold more.
    #[test]
    fn late_timers_change_nothing_after_bursts_on_long_wires(
        rate in prop::sample::select(vec![1_000_000, 125_000_000, 1_250_000_000, 3_333_333_333u64]),
        delay in prop::sample::select(vec![0, 10_000, 1_000_000, 100_000_000u64]),
        packets in bursts(),
        lateness in lateness(),
        timeless in any::<bool>(),
    ) {
        ensure_exact(params(rate, delay), &packets, &lateness, timeless)?;
    }
}

/// A limit around the capacity of the wire.
fn limits() -> impl Strategy<Value = u32> {
    prop_oneof![1..100_000u32, Just(1), Just(1_500), 100_000..5_000_000u32]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 1 } else { 200 }))]

    #[test]
    fn a_packet_that_the_limit_held_begins_when_there_is_room(
        rate in prop::sample::select(vec![1_000_000, 125_000_000, 1_250_000_000, 3_333_333_333u64]),
        delay in prop::sample::select(vec![0, 10_000, 1_000_000, 100_000_000u64]),
        limit in limits(),
        packets in bursts(),
        timeless in any::<bool>(),
    ) {
        let params = params(rate, delay);
        let expected = exact_limited(params, limit, &packets);
        let (test, link) = run_limited(params, limit, &packets, &[0], timeless);
        prop_assert_eq!(&test.delivered, &expected.delivered);
        prop_assert_eq!(link.busy_ns(), expected.busy_ns);
        prop_assert_eq!(link.lateness().max_ns(), 0);
        prop_assert!(test.most_bytes < limit);
    }

    /// However late the timers are, if nothing arrives meanwhile.
    #[test]
    fn a_burst_passes_a_limited_wire_as_if_timers_were_on_time(
        rate in prop::sample::select(vec![1_000_000, 1_250_000_000u64]),
        delay in prop::sample::select(vec![0, 10_000, 1_000_000u64]),
        limit in limits(),
        mut packets in bursts(),
        lateness in lateness(),
        timeless in any::<bool>(),
    ) {
        for packet in &mut packets {
            packet.at = 1;
        }
        let params = params(rate, delay);
        let expected = exact_limited(params, limit, &packets);
        let (test, link) = run_limited(params, limit, &packets, &lateness, timeless);
        prop_assert_eq!(&test.delivered, &expected.delivered);
        prop_assert_eq!(link.busy_ns(), expected.busy_ns);
        prop_assert!(test.most_bytes < limit);
    }

    /// If packets do arrive, no packet is early, none is lost, and the limit still holds.
    #[test]
    fn late_timers_at_the_limit_make_no_packet_early(
        delay in prop::sample::select(vec![0, 10_000, 1_000_000u64]),
        limit in limits(),
        packets in bursts(),
        lateness in lateness(),
        timeless in any::<bool>(),
    ) {
        let (test, _) = run_limited(params(TEN, delay), limit, &packets, &lateness, timeless);
        prop_assert_eq!(test.delivered.len(), packets.len());
        prop_assert!(test.most_bytes < limit);
        let mut free = 0;
        for &(index, at) in &test.delivered {
            let Packet { at: arrival, len, .. } = packets[index];
            // 0.8 ns a byte, of which the last packet may have left less than 1 ns.
            let sent = u64::from(len) * 4 / 5;
            prop_assert!(at >= arrival + sent + delay, "{} at {}", index, at);
            prop_assert!(at + 1 >= free + sent, "{} at {}", index, at);
            free = at;
        }
    }

    /// A limit far above the bytes in flight changes nothing, and neither does its accounting.
    #[test]
    fn a_limit_that_is_not_reached_holds_nothing_back(
        packets in bursts(),
        lateness in lateness(),
        timeless in any::<bool>(),
    ) {
        let params = params(TEN, 1_000_000);
        let (test, link) = run(params, &packets, &lateness, timeless);
        prop_assert_eq!(link.held(), 0);
        let (same, link) = run_limited(params, test.most_bytes + 1, &packets, &lateness, timeless);
        prop_assert_eq!(link.held(), 0);
        prop_assert_eq!(same.delivered, test.delivered);
    }
}

#[test]
fn a_limited_wire_sends_its_limit_in_each_delay_and_counts_what_it_held() {
    let packet = Packet {
        at: 1,
        len: 1_500,
        rank: 0,
        owned: false,
    };
    // Two packets, of 1.2 µs, are less than the limit, three are not: then it waits for the first.
    let (test, link) = run_limited(params(TEN, 10_000), 3_001, &[packet; 7], &[0], true);
    let deliveries: Vec<u64> = test.delivered.iter().map(|&(_, at)| at).collect();
    let round = [1_200, 2_400, 3_600].map(|sent| 1 + sent + 10_000);
    assert_eq!(deliveries[..3], round);
    assert_eq!(deliveries[3..6], round.map(|at| at + 11_200));
    assert_eq!(deliveries[6], round[0] + 22_400);
    assert_eq!((link.held(), test.most_bytes), (4, 3_000));
}

#[test]
fn a_larger_limit_lets_packets_begin_that_the_old_one_held() {
    let packet = Packet {
        at: 0,
        len: 1_000,
        rank: 0,
        owned: false,
    };
    let params = params(1_000_000_000, 1_000_000);
    let mut link = Link::new(params, 1);
    let mut test = Test {
        packets: vec![packet; 3],
        timeless: true,
        ..Test::default()
    };
    for index in 0..3 {
        test.arrive(&mut link, index);
    }
    test.poll(&mut link, 5_000);
    assert_eq!((test.in_flight.len(), link.held()), (1, 1));
    assert_eq!(link.next_event(&test), Some(1_001_000));
    link.set_params(7_000, params, 10_000, &mut test);
    while let Some(event) = link.next_event(&test) {
        test.poll(&mut link, event);
    }
    let delivered = [(0, 1_001_000), (1, 1_008_000), (2, 1_009_000)];
    assert_eq!(
        (test.delivered.as_slice(), link.held()),
        (&delivered[..], 1)
    );
}

fn ensure_exact(
    params: Params,
    packets: &[Packet],
    lateness: &[u64],
    timeless: bool,
) -> Result<(), TestCaseError> {
    let expected = exact(params, packets);
    let (test, link) = run(params, packets, lateness, timeless);
    prop_assert_eq!(&test.delivered, &expected.delivered);
    prop_assert_eq!(link.busy_ns(), expected.busy_ns);
    prop_assert_eq!(link.lateness().count(), packets.len() as u64);
    let owned = packets.iter().filter(|packet| packet.owned).count();
    prop_assert_eq!(test.released.len(), owned);
    Ok(())
}

/// 10 Gbit/s.
const TEN: u64 = 1_250_000_000;

/// 100 packets at once, and one 501 µs later, on a wire of 1 ms. They are forwarded, so no socket
/// needs to know when one has been sent.
#[test]
fn a_packet_behind_a_burst_does_not_begin_before_it_arrived() {
    let early = Packet {
        at: 1,
        len: 1_500,
        rank: 1,
        owned: false,
    };
    for rank in [1, 0] {
        let mut packets = vec![early; 100];
        packets.push(Packet {
            at: 501_000,
            rank,
            ..early
        });
        let (test, link) = run(params(TEN, 1_000_000), &packets, &[0], true);
        // The burst takes 120 µs: the wire is idle when it comes.
        assert_eq!(test.delivered.last(), Some(&(100, 1_502_200)));
        assert_eq!(link.busy_ns(), 101 * 1_200);
    }
}

/// At most a batch of waiting packets begins in one call, as long as timers are punctual.
#[test]
fn a_timer_bounds_the_packets_that_one_call_begins() {
    let packet = Packet {
        at: 1,
        len: 1_500,
        rank: 0,
        owned: false,
    };
    for count in [2, 50, 1 + BATCH as usize, 1_000, 5_000] {
        let mut packets = vec![packet; count];
        packets.push(Packet {
            at: 900_000,
            ..packet
        });
        let (test, _) = run(params(TEN, 1_000_000), &packets, &[0], true);
        // The first one began when the second one arrived.
        assert_eq!(
            test.most_launched,
            (count - 1).min(BATCH as usize),
            "{count}"
        );
        assert_eq!(test.delivered.len(), packets.len());
    }
}

/// Changes apply to packets that begin later: not to packets that should have begun before.
#[test]
fn new_parameters_do_not_apply_to_packets_that_should_have_begun() {
    let packet = Packet {
        at: 0,
        len: 1_500,
        rank: 0,
        owned: false,
    };
    let mut link = Link::new(params(TEN, 1_000_000), u32::MAX);
    let mut test = Test {
        packets: vec![packet; 200],
        timeless: true,
        ..Test::default()
    };
    for index in 0..200 {
        test.arrive(&mut link, index);
    }
    // 100 have begun at 119.5 µs; from the next one on, the wire is ten times slower.
    link.set_params(119_500, params(TEN / 10, 1_000_000), u32::MAX, &mut test);
    while let Some(event) = link.next_event(&test) {
        test.poll(&mut link, event);
    }
    let expected: Vec<(usize, u64)> = (0..200)
        .map(|index| {
            let sent =
                (index as u64 + 1).min(100) * 1_200 + (index as u64).saturating_sub(99) * 12_000;
            (index, sent + 1_000_000)
        })
        .collect();
    assert_eq!(test.delivered, expected);
}

#[test]
fn a_socket_is_released_when_the_serialization_ends_not_when_the_packet_arrives() {
    let packet = Packet {
        at: 1_000,
        len: 1_000,
        rank: 0,
        owned: true,
    };
    let mut link = Link::new(params(1_000_000_000, 1_000_000), u32::MAX);
    let mut test = Test {
        packets: vec![packet],
        ..Test::default()
    };
    test.arrive(&mut link, 0);
    test.poll(&mut link, 1_000);
    assert_eq!(link.next_event(&test), Some(2_000));
    test.poll(&mut link, 1_999);
    assert!(test.released.is_empty());
    test.poll(&mut link, 2_000);
    assert_eq!(test.released, [0]);
    assert!(test.delivered.is_empty());
    assert_eq!(link.next_event(&test), Some(1_002_000));
    test.poll(&mut link, 1_002_000);
    assert_eq!(test.delivered, [(0, 1_002_000)]);
}

proptest! {
    /// Wires in a row, whose timers fire late by at most the slack.
    #[test]
    fn lateness_within_the_slack_does_not_add_up(
        gaps in prop::collection::vec((0u64..2_000_000, 64u32..1_515), 1..60),
        slack in 1u32..200_000,
        lateness in prop::collection::vec(0.0..=1.0f64, 1..20),
        timeless in any::<bool>(),
    ) {
        const WIRES: usize = 4;
        let params = params(1_250_000, 200_000);
        let mut at = 0;
        let packets: Vec<Packet> = gaps.iter().map(|&(gap, len)| {
            at += gap;
            Packet { at, len, rank: 0, owned: false }
        }).collect();
        // The result of each wire with punctual timers.
        let mut expected: Vec<u64> = packets.iter().map(|packet| packet.at).collect();
        for _ in 0..WIRES {
            let arrivals: Vec<Packet> =
                packets.iter().zip(&expected).map(|(&packet, &at)| Packet { at, ..packet }).collect();
            expected = exact(params, &arrivals).delivered.into_iter().map(|(_, at)| at).collect();
        }

        let mut lateness = lateness.iter().map(|part| (part * f64::from(slack)) as u64).cycle();
        let mut wires: Vec<(Link, Test, Option<u64>)> = (0..WIRES)
            .map(|_| (Link::new(params, u32::MAX), Test { packets: packets.clone(), timeless, ..Test::default() }, None))
            .collect();
        let mut sources = packets.iter().enumerate().peekable();
        let mut now = 0;
        loop {
            // Each wire's timer, set like the kernel's: its current time is kept while it is within
            // the slack.
            for (link, test, timer) in &mut wires {
                let event = link.next_event(test);
                *timer = match (event, *timer) {
                    (None, _) => None,
                    (Some(event), Some(timer)) if (event..=event + u64::from(slack)).contains(&timer) => Some(timer),
                    (Some(event), _) => Some(event.max(now) + lateness.next().unwrap()),
                };
            }
            let timer = (0..WIRES).filter_map(|wire| Some((wires[wire].2?, wire))).min();
            let source = sources.peek().map(|(_, packet)| packet.at);
            let arriving = match (timer, source) {
                (None, None) => break,
                (Some((at, _)), Some(source)) if source < at => None,
                (None, Some(_)) => None,
                (Some((at, wire)), _) => Some((at, wire)),
            };
            // The arrivals at each wire, and their times.
            let mut arrivals = VecDeque::new();
            match arriving {
                None => {
                    let (index, packet) = sources.next().unwrap();
                    now = packet.at;
                    arrivals.push_back((0, index, packet.at));
                }
                Some((at, wire)) => {
                    now = at;
                    let (link, test, timer) = &mut wires[wire];
                    *timer = None;
                    let before = test.delivered.len();
                    test.poll(link, now);
                    arrivals.extend(test.delivered[before..].iter().map(|&(index, due)| (wire + 1, index, due)));
                }
            }
            while let Some((wire, index, due)) = arrivals.pop_front() {
                let Some((link, test, _)) = wires.get_mut(wire) else { continue };
                test.arrive_at(link, index, arrival(now, Some(due), slack));
                let before = test.delivered.len();
                test.poll(link, now);
                arrivals.extend(test.delivered[before..].iter().map(|&(index, due)| (wire + 1, index, due)));
            }
        }
        let last = &wires[WIRES - 1].1.delivered;
        prop_assert_eq!(last.iter().map(|&(_, at)| at).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn an_arrival_counts_from_its_due_time_within_the_slack() {
    assert_eq!(arrival(1_000, None, 100), 1_000);
    assert_eq!(arrival(1_000, Some(950), 100), 950);
    assert_eq!(arrival(1_000, Some(900), 100), 900);
    // Later than allowed, or from elsewhere: not beyond the slack, and not in the future.
    assert_eq!(arrival(1_000, Some(10), 100), 900);
    assert_eq!(arrival(1_000, Some(2_000), 100), 1_000);
    assert_eq!(arrival(50, Some(10), 100), 10);
}

#[test]
fn no_timer_fires_for_the_end_of_a_packet_that_nothing_awaits() {
    let packet = Packet {
        at: 1_000,
        len: 1_000,
        rank: 0,
        owned: false,
    };
    let mut link = Link::new(params(1_000_000_000, 1_000_000), u32::MAX);
    let mut test = Test {
        packets: vec![packet],
        ..Test::default()
    };
    test.arrive(&mut link, 0);
    test.poll(&mut link, 1_000);
    assert_eq!(link.next_event(&test), Some(1_002_000));
}

#[test]
fn a_queue_that_reads_no_clock_is_asked_at_the_next_delivery() {
    let packet = Packet {
        at: 1_000,
        len: 1_000,
        rank: 0,
        owned: false,
    };
    for (timeless, events) in [
        (true, vec![1_002_000, 1_003_000, 1_004_000]),
        (false, vec![2_000, 3_000, 1_002_000, 1_003_000, 1_004_000]),
    ] {
        let mut link = Link::new(params(1_000_000_000, 1_000_000), u32::MAX);
        let mut test = Test {
            packets: vec![packet; 3],
            timeless,
            ..Test::default()
        };
        for index in 0..3 {
            test.arrive(&mut link, index);
        }
        let mut seen = Vec::new();
        test.poll(&mut link, 1_000);
        while let Some(event) = link.next_event(&test) {
            seen.push(event);
            test.poll(&mut link, event);
        }
        assert_eq!(seen, events);
        let delivered = [(0, 1_002_000), (1, 1_003_000), (2, 1_004_000)];
        assert_eq!(test.delivered, delivered);
    }
}

#[test]
fn packets_that_a_stalled_queue_withheld_begin_when_it_releases_them() {
    let packet = Packet {
        at: 1_000,
        len: 1_000,
        rank: 0,
        owned: false,
    };
    let mut link = Link::new(params(1_000_000_000, 0), u32::MAX);
    let mut test = Test {
        packets: vec![packet],
        closed: true,
        ..Test::default()
    };
    test.arrive(&mut link, 0);
    test.poll(&mut link, 1_000);
    // The queue wakes the qdisc itself, as its own timer does.
    assert_eq!(link.next_event(&test), None);
    test.closed = false;
    test.poll(&mut link, 5_000);
    test.poll(&mut link, 6_000);
    assert_eq!(test.delivered, [(0, 6_000)]);
}

/// However many there are: an arrival may come next.
#[test]
fn one_call_begins_all_overdue_packets() {
    let count = 10_000;
    let packet = Packet {
        at: 1_000,
        len: 1,
        rank: 0,
        owned: false,
    };
    let mut link = Link::new(params(1_000_000_000, 1_000_000), u32::MAX);
    let mut test = Test {
        packets: vec![packet; count],
        ..Test::default()
    };
    for index in 0..count {
        test.arrive(&mut link, index);
    }
    // The first one began when the second one arrived.
    assert_eq!(test.in_flight.len(), 1);
    link.advance(5_999, &mut test);
    assert_eq!(test.in_flight.len(), 5_000);
    link.advance(500_000, &mut test);
    assert_eq!(test.in_flight.len(), count);
    assert_eq!(link.busy_ns(), count as u64);
    // Only deliveries remain.
    assert_eq!(link.next_event(&test), Some(1_001_001));
}
