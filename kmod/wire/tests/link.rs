// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! A link against an exact simulation of one wire: the same packets, in the same order, at the same
//! nanosecond, however late the timers are.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use proptest::prelude::*;
use weft_core::wire::line::Params;
use weft_core::wire::link::{arrival, Ends, Link, BUDGET};

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
    queue: Vec<usize>,
    in_flight: VecDeque<(usize, u64)>,
    /// Whether the packet launched last still counts for its socket.
    owned: bool,
    /// Packets whose socket was released, in order.
    released: Vec<usize>,
    delivered: Vec<(usize, u64)>,
    /// The queue holds its packets back.
    closed: bool,
    /// It says that it need not be asked in time.
    timeless: bool,
}

impl Ends for Test {
    fn waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    fn launch(&mut self, begin: impl FnOnce(u32, u32) -> u64) -> bool {
        if self.closed {
            return false;
        }
        let best = (0..self.queue.len()).min_by_key(|&i| (self.packets[self.queue[i]].rank, i));
        let Some(best) = best else { return false };
        let index = self.queue.remove(best);
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
}

impl Test {
    fn poll(&mut self, link: &mut Link, now: u64) {
        link.advance(now, self);
        while link.deliver(now, self) {
            let delivered = self.in_flight.pop_front().unwrap();
            self.delivered.push(delivered);
        }
    }

    fn arrive(&mut self, link: &mut Link, index: usize) {
        let now = self.packets[index].at;
        link.advance(now, self);
        let idle = !self.waiting();
        self.queue.push(index);
        if idle {
            link.arrived(now);
        }
    }
}

/// Runs all packets through a link whose timers fire late by what `lateness` says, in turn.
fn run(params: Params, packets: &[Packet], lateness: &[u64], timeless: bool) -> (Test, Link) {
    let mut link = Link::new(params);
    let mut test = Test {
        packets: packets.to_vec(),
        timeless,
        ..Test::default()
    };
    let mut lateness = lateness.iter().cycle();
    let mut now = 0;
    for (index, packet) in packets.iter().enumerate() {
        // Timers that fire before the arrival, each as late as it is.
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

/// When each packet is delivered, in order of delivery, in exact arithmetic (10^9 parts of a byte
/// time, so that nothing is rounded but the result).
fn exact(params: Params, packets: &[Packet]) -> Vec<(usize, u64)> {
    let rate = u128::from(params.rate.get());
    let mut waiting: Vec<usize> = Vec::new();
    let mut next = 0;
    let mut delivered = Vec::new();
    // The start of the busy period, and bytes times 10^9 sent since.
    let (mut since, mut sent) = (0u128, 0u128);
    loop {
        let free = (since * rate + sent) / rate;
        while next < packets.len() && u128::from(packets[next].at) < free {
            waiting.push(next);
            next += 1;
        }
        if waiting.is_empty() {
            if next == packets.len() {
                return delivered;
            }
            let at = u128::from(packets[next].at);
            if at > free {
                (since, sent) = (at, 0);
            }
            waiting.push(next);
            next += 1;
        }
        let best = (0..waiting.len())
            .min_by_key(|&i| (packets[waiting[i]].rank, i))
            .unwrap();
        let index = waiting.remove(best);
        sent += u128::from(packets[index].len) * 1_000_000_000;
        let end = (since * rate + sent) / rate;
        delivered.push((index, end as u64 + params.delay));
    }
}

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
        let params = params(rate, delay);
        let expected = exact(params, &packets);
        let (test, link) = run(params, &packets, &lateness, timeless);
        prop_assert_eq!(&test.delivered, &expected);
        prop_assert_eq!(link.lateness().count(), packets.len() as u64);
        prop_assert!(test.released.len() == packets.iter().filter(|p| p.owned).count());
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

#[test]
fn a_socket_is_released_when_the_serialization_ends_not_when_the_packet_arrives() {
    let packet = Packet {
        at: 1_000,
        len: 1_000,
        rank: 0,
        owned: true,
    };
    let mut link = Link::new(params(1_000_000_000, 1_000_000));
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
        // What each wire would do with its timers on time.
        let mut expected: Vec<u64> = packets.iter().map(|packet| packet.at).collect();
        for _ in 0..WIRES {
            let arrivals: Vec<Packet> =
                packets.iter().zip(&expected).map(|(&packet, &at)| Packet { at, ..packet }).collect();
            expected = exact(params, &arrivals).into_iter().map(|(_, at)| at).collect();
        }

        let mut lateness = lateness.iter().map(|part| (part * f64::from(slack)) as u64).cycle();
        let mut wires: Vec<(Link, Test, Option<u64>)> = (0..WIRES)
            .map(|_| (Link::new(params), Test { packets: packets.clone(), timeless, ..Test::default() }, None))
            .collect();
        let mut sources = packets.iter().enumerate().peekable();
        let mut now = 0;
        loop {
            // Each wire's timer, set anew as the kernel's is: a time that it has is kept while it is
            // within the slack.
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
            // What arrives at which wire, and since when.
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
                let at = arrival(now, Some(due), slack);
                link.advance(at, test);
                let idle = !test.waiting();
                test.queue.push(index);
                if idle {
                    link.arrived(at);
                }
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
fn an_arrival_is_put_back_to_when_it_was_due_within_the_slack() {
    assert_eq!(arrival(1_000, None, 100), 1_000);
    assert_eq!(arrival(1_000, Some(950), 100), 950);
    assert_eq!(arrival(1_000, Some(900), 100), 900);
    // Later than allowed, or of somebody else's: not further than the slack, and not into the future.
    assert_eq!(arrival(1_000, Some(10), 100), 900);
    assert_eq!(arrival(1_000, Some(2_000), 100), 1_000);
    assert_eq!(arrival(50, Some(10), 100), 10);
}

#[test]
fn nobody_is_woken_for_the_end_of_a_packet_on_which_nobody_depends() {
    let packet = Packet {
        at: 1_000,
        len: 1_000,
        rank: 0,
        owned: false,
    };
    let mut link = Link::new(params(1_000_000_000, 1_000_000));
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
        let mut link = Link::new(params(1_000_000_000, 1_000_000));
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
fn what_a_stalled_queue_withheld_begins_when_it_gives_it() {
    let packet = Packet {
        at: 1_000,
        len: 1_000,
        rank: 0,
        owned: false,
    };
    let mut link = Link::new(params(1_000_000_000, 0));
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

#[test]
fn one_call_begins_no_more_packets_than_its_budget() {
    let count = BUDGET as usize + 10;
    let packet = Packet {
        at: 1_000,
        len: 1,
        rank: 0,
        owned: false,
    };
    let mut link = Link::new(params(1_000_000_000, 1_000_000));
    let mut test = Test {
        packets: vec![packet; count],
        ..Test::default()
    };
    for index in 0..count {
        test.arrive(&mut link, index);
    }
    // The first one began when the second one arrived.
    assert_eq!(test.in_flight.len(), 1);
    link.advance(500_000, &mut test);
    assert_eq!(test.in_flight.len(), 1 + BUDGET as usize);
    // There is more to do at once.
    assert!(link.next_event(&test).unwrap() <= 500_000);
    link.advance(500_000, &mut test);
    assert_eq!(test.in_flight.len(), count);
}
