// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A host between its packets and an arbiter, over a network that loses and delays, with late
//! timers. Waiting packets are sent in their order, in timeslots given for them, as many in each as
//! fit; and the host is called, and calls, only as in the kernel.

use std::collections::{BTreeMap, HashMap, VecDeque};

use proptest::prelude::*;

use super::arbiter;
use super::exchange::{Random, Wanted};
use crate::fastpass::calendar::HORIZON;
use crate::fastpass::frame::MAX_SIZE;
use crate::fastpass::host::{Host, Next, Shape, Terms};
use crate::fastpass::queues::{Head, Order};
use crate::fastpass::session::{Demands as _, Secret, Session};
use weft_mechanisms::heap::Heap;

const ID: u16 = 3;
/// More than one control packet can hold.
const COUNT: u16 = 80;
const TIMESLOT: u64 = 100;
const CAPACITY: u32 = 1000;
const TERMS: Terms = Terms {
    timeslot: TIMESLOT,
    capacity: CAPACITY,
    limit: 500,
    late: 250,
    gather: TIMESLOT,
    hold: 0,
    interval: 700,
    timeout: 4000,
    skew: 0,
    report: 5000,
};

const SHAPE: Shape = Shape {
    id: ID,
    endpoints: COUNT,
    paths: 0,
    classes: 1,
    order: Order::Fifo,
};

/// The faults.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// Percent of control packets that are lost.
    loss: u64,
    /// The smallest delay in ns, and the most that jitter adds, by which packets overtake each
    /// other.
    delay: u64,
    jitter: u64,
    /// The greatest lateness of a timer in ns, and that of one in fifty.
    late: u64,
    rarely_late: u64,
    /// How many timeslots ahead they are given.
    lead: u64,
    /// Restarts of the arbiter per thousand timeslots.
    restarts: u64,
}

const NONE: Trouble = Trouble {
    loss: 0,
    delay: 300,
    jitter: 0,
    late: 0,
    rarely_late: 0,
    lead: 10,
    restarts: 0,
};

struct World {
    random: Random,
    trouble: Trouble,
    now: u64,
    /// ns by which the host's clock is behind.
    skew: u64,
    shape: Shape,
    host: Host<Heap>,
    session: Session<Heap>,
    secret: Secret,
    wanted: Wanted,
    /// Packets on their way: the arrival time, whether to the arbiter, and the bytes.
    network: Vec<(u64, bool, Vec<u8>)>,
    /// By stream and bin.
    waiting: HashMap<(u16, u32), VecDeque<Head>>,
    /// The destination of each given timeslot, and the costs of the packets sent in it.
    given: BTreeMap<u64, (u16, Vec<u32>)>,
    /// When the qdisc is asked for packets, and when the host sends messages.
    dequeue_at: Option<u64>,
    pump_at: Option<u64>,
    said_at: Vec<u64>,
    /// When packets arrived of whose stream none waited.
    first_at: Vec<u64>,
    /// When a session last began.
    reset_at: u64,
    sent: u64,
    /// The stream and the bin of each packet that was sent.
    order: Vec<(u16, u32)>,
    next_slot: u64,
}

impl World {
    fn new(seed: u64, trouble: Trouble) -> Self {
        Self::skewed(seed, trouble, 0)
    }

    fn skewed(seed: u64, trouble: Trouble, skew: u64) -> Self {
        Self::of(seed, trouble, SHAPE, Terms { skew, ..TERMS })
    }

    fn of(seed: u64, trouble: Trouble, shape: Shape, terms: Terms) -> Self {
        let mut random = Random::new(seed);
        let seed = random.draw();
        Self {
            random,
            trouble,
            now: 1_000_000,
            skew: terms.skew,
            shape,
            host: Host::new(shape, seed, terms).unwrap(),
            session: Session::new(ID, COUNT * shape.classes, TERMS.timeout).unwrap(),
            secret: Secret([1, 2]),
            wanted: Wanted::default(),
            network: Vec::new(),
            waiting: HashMap::new(),
            given: BTreeMap::new(),
            dequeue_at: None,
            pump_at: None,
            said_at: Vec::new(),
            first_at: Vec::new(),
            reset_at: 0,
            sent: 0,
            order: Vec::new(),
            next_slot: 0,
        }
    }

    fn send(&mut self, to_arbiter: bool, bytes: Vec<u8>) {
        if !self.random.percent(self.trouble.loss) {
            let delay = self.trouble.delay + self.random.below(self.trouble.jitter + 1);
            let arrival = self.now + delay;
            self.network.push((arrival, to_arbiter, bytes));
        }
    }

    /// Like the namespace's work.
    fn pump(&mut self) {
        let mut bytes = [0; MAX_SIZE];
        while let Some(len) = self.host.poll(self.now, &mut bytes) {
            self.said_at.push(self.now);
            self.send(true, bytes[..len].to_vec());
        }
        self.pump_at = self.host.next_poll();
    }

    /// Like each use of the shared state.
    fn news(&mut self) {
        if self.host.next_poll().is_some_and(|at| at <= self.now) {
            self.pump();
        }
    }

    fn arrive(&mut self, destination: u16, cost: u32) {
        self.arrive_at(destination, 0, Head { cost, rank: 0 });
    }

    fn arrive_at(&mut self, stream: u16, bin: u32, head: Head) {
        let in_stream = self.waiting.iter().filter(|((it, _), _)| *it == stream);
        let waiting: usize = in_stream.map(|(_, waiting)| waiting.len()).sum();
        let fits = waiting < TERMS.limit as usize;
        assert_eq!(self.host.arrive(self.now, stream, bin, head.cost), fits);
        if waiting == 0 {
            self.first_at.push(self.now);
        }
        if fits {
            let waiting = self.waiting.entry((stream, bin)).or_default();
            waiting.push_back(head);
        }
        self.news();
        self.dequeue();
    }

    fn dequeue(&mut self) {
        loop {
            let waiting = &self.waiting;
            let first = |stream, bin| waiting.get(&(stream, bin))?.front().copied();
            let next = self.host.next(self.now, first);
            self.news();
            match next {
                Next::Send(entry, bin) => {
                    let stream = entry.destination;
                    let waiting = self.waiting.get_mut(&(stream, bin)).unwrap();
                    let head = waiting.pop_front().unwrap();
                    self.sent += 1;
                    self.order.push((stream, bin));
                    self.check(stream, entry.path, head.cost);
                }
                Next::Wait(until) => {
                    assert!(until > self.now);
                    let late = match self.random.below(50) {
                        0 => self.trouble.rarely_late,
                        _ => self.trouble.late,
                    };
                    self.dequeue_at = Some(until + self.random.below(late + 1));
                    return;
                }
                Next::Nothing => {
                    self.dequeue_at = None;
                    return;
                }
            }
        }
    }

    /// A packet is sent: there must be a timeslot for it, now, with room.
    fn check(&mut self, destination: u16, path: u8, cost: u32) {
        let clock = self.now - self.skew;
        let earliest = clock.saturating_sub(TERMS.late + TIMESLOT) / TIMESLOT;
        let mut slots = self.given.range_mut(earliest..=clock / TIMESLOT);
        let slot = slots.find(|(slot, (to, _))| **slot as u8 == path && *to == destination);
        let (slot, (_, sent)) = slot.unwrap_or_else(|| panic!("{destination} has none now"));
        sent.push(cost);
        let all: u32 = sent.iter().sum();
        assert!(all <= CAPACITY || sent.len() == 1, "{slot}: {sent:?}");
        if all > CAPACITY {
            // Earlier timeslots, in which nothing was sent, were saved up for it.
            let before = self.given.range(..clock / TIMESLOT + 1).rev();
            let idle = before.filter(|(_, (to, sent))| *to == destination && sent.is_empty());
            assert!(idle.count() as u32 + 1 >= all.div_ceil(CAPACITY));
        }
    }

    fn receive(&mut self, to_arbiter: bool, bytes: &[u8]) {
        if to_arbiter {
            let (now, session) = (self.now, &mut self.session);
            let (_, reset) = arbiter::receive(session, now, bytes, self.secret, &mut self.wanted);
            if let Some(reset) = reset {
                self.send(false, reset);
            }
            self.answer();
        } else {
            let resets = self.host.counters().resets;
            let news = self.host.receive(self.now, bytes);
            if self.host.counters().resets > resets {
                self.reset_at = self.now;
            }
            self.news();
            if news == Some(true) {
                self.dequeue();
            }
        }
    }

    /// The arbiter sends its messages.
    fn answer(&mut self) {
        let mut bytes = [0; MAX_SIZE];
        while let Some(len) = self.session.poll(self.now, false, &mut bytes) {
            self.send(false, bytes[..len].to_vec());
        }
    }

    /// The arbiter gives a batch of timeslots, some of them to this host.
    fn allocate(&mut self) {
        let first = self.now / TIMESLOT + self.trouble.lead;
        if first < self.next_slot + 4 {
            return;
        }
        for slot in first..first + 4 {
            let mut wanting: Vec<u16> = self.wanted.0.keys().copied().collect();
            wanting.sort_unstable();
            if wanting.is_empty() || self.random.percent(20) {
                continue;
            }
            let destination = wanting[self.random.below(wanting.len() as u64) as usize];
            let path = slot as u8;
            if !self.session.give(slot, destination, path) {
                self.answer();
                assert!(self.session.give(slot, destination, path));
            }
            let left = self.wanted.0.get_mut(&destination).unwrap();
            *left -= 1;
            if *left == 0 {
                self.wanted.0.remove(&destination);
            }
            self.given.insert(slot, (destination, Vec::new()));
        }
        self.next_slot = first;
        self.answer();
    }

    /// Lets time pass, event by event.
    fn pass(&mut self, until: u64) {
        while self.now < until {
            self.now += 1 + self.random.below(30);
            if self.random.below(1000 * TIMESLOT / 15) < self.trouble.restarts {
                let streams = COUNT * self.shape.classes;
                self.session = Session::new(ID, streams, TERMS.timeout).unwrap();
                self.secret = Secret([self.random.draw(), 2]);
                self.wanted.forget();
            }
            let now = self.now;
            let due = |(arrival, ..): &(u64, bool, Vec<u8>)| *arrival <= now;
            let (arrived, left) = std::mem::take(&mut self.network).into_iter().partition(due);
            self.network = left;
            let arrived: Vec<(u64, bool, Vec<u8>)> = arrived;
            for (_, to_arbiter, bytes) in arrived {
                self.receive(to_arbiter, &bytes);
            }
            self.allocate();
            self.answer();
            if self.pump_at.is_some_and(|at| at <= now) {
                self.pump();
            }
            if self.dequeue_at.is_some_and(|at| at <= now) {
                self.dequeue();
            }
        }
    }

    fn is_done(&self) -> bool {
        self.waiting.values().all(VecDeque::is_empty)
    }

    /// From now on there are no faults, and all waiting packets are sent.
    fn finish(&mut self) {
        self.trouble = NONE;
        for _ in 0..3000 {
            if self.is_done() {
                break;
            }
            self.pass(self.now + 20 * TIMESLOT);
        }
        assert!(self.is_done(), "{} wait", self.host.packets());
        assert_eq!(self.host.packets(), 0);
        self.pass(self.now + 400 * TIMESLOT);
        assert_eq!((self.host.outstanding(), self.host.ahead()), (0, 0));
    }
}

/// A burst of packets to one destination, and the time since the last one.
fn bursts(longest: u32) -> impl Strategy<Value = Vec<(u64, u16, Vec<u32>)>> {
    let cost = prop_oneof![3 => 1_u32..=longest, 2 => Just(CAPACITY), 3 => Just(84_u32)];
    let gap = prop_oneof![3 => Just(0_u64), 3 => 0_u64..500, 1 => 0_u64..20_000];
    let burst = prop_oneof![9 => 1_usize..8, 1 => 80_usize..200];
    let burst = burst.prop_flat_map(move |n| prop::collection::vec(cost.clone(), n));
    prop::collection::vec((gap, 0..COUNT / 8, burst), 1..30)
}

/// Bursts of several flows, acknowledgements and packets that open connections, in any class.
fn run_mixed(world: &mut World, bursts: &[(u64, u16, Vec<u32>)]) {
    let Shape { classes, order, .. } = world.shape;
    for (gap, destination, costs) in bursts {
        world.pass(world.now + gap);
        let to = destination * 8 + (costs.len() % 8) as u16;
        for cost in costs.iter().filter(|_| to != ID) {
            let draw = world.random.draw() as u32;
            let (bin, cost) = match draw % 8 {
                0 | 1 => (order.acks(), 84),
                2 => (order.openings(), 84),
                _ => (order.bin(draw >> 8), *cost),
            };
            let class = match bin < order.acks() {
                true => world.random.below(classes.into()) as u16,
                false => 0,
            };
            let stream = world.host.stream(to, class, bin, bin);
            let rank = world.random.below(1000) as u32;
            world.arrive_at(stream, bin, Head { cost, rank });
        }
    }
}

fn run(world: &mut World, bursts: &[(u64, u16, Vec<u32>)]) {
    for (gap, destination, costs) in bursts {
        world.pass(world.now + gap);
        // Spread over all of them, because one control packet cannot hold all.
        let destination = destination * 8 + (costs.len() % 8) as u16;
        for cost in costs {
            if destination != ID {
                world.arrive(destination, *cost);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn without_faults_each_requested_timeslot_is_used(
        seed in any::<u64>(), bursts in bursts(CAPACITY * 5 / 2),
    ) {
        let mut world = World::new(seed, NONE);
        run(&mut world, &bursts);
        world.finish();
        let counters = *world.host.counters();
        prop_assert_eq!(counters.scheduled, world.sent);
        prop_assert_eq!(
            (counters.wasted, counters.missed, counters.lost, counters.unkept),
            (0, 0, 0, 0)
        );
        prop_assert_eq!(counters.used, world.given.len() as u64);
        // Messages come in rounds; the next one after a RESET is due at once. Only the first packet
        // of a burst has a round before the interval is over.
        let mut rounds = world.said_at.clone();
        rounds.dedup();
        for pair in rounds.windows(2).filter(|pair| pair[0] >= world.reset_at) {
            let mut first = world.first_at.iter();
            let least = match first.any(|at| (pair[0]..=pair[1]).contains(at)) {
                true => TERMS.interval / 4,
                false => TERMS.interval,
            };
            prop_assert!(pair[1] - pair[0] >= least, "{:?}", pair);
        }
        // The first packet's request waits for a quarter of the interval and for the rest of its
        // burst, and no longer. Time passes in steps of up to 30.
        let longest = TERMS.interval / 4 + TERMS.gather + 60;
        for at in world.first_at.iter().filter(|at| **at > world.reset_at) {
            let said = rounds.iter().find(|said| *said >= at);
            prop_assert!(said.is_some_and(|said| said - at <= longest), "{}: {:?}", at, said);
        }
    }

    #[test]
    fn whatever_goes_wrong_packets_use_only_timeslots_allocated_for_them(
        seed in any::<u64>(),
        bursts in bursts(CAPACITY * 4),
        loss in 0_u64..60,
        delay in 1_u64..400,
        jitter in prop_oneof![Just(0_u64), 1_u64..4000],
        late in prop_oneof![Just(0_u64), 0_u64..600],
        rarely_late in prop_oneof![Just(0_u64), Just(10_000), Just(2 * HORIZON * TIMESLOT)],
        lead in prop_oneof![Just(0_u64), 0_u64..40, HORIZON - 10..HORIZON + 10],
        restarts in prop_oneof![Just(0_u64), 0_u64..20],
        skew in prop_oneof![Just(0_u64), 0_u64..500, 0_u64..10_000],
    ) {
        let trouble = Trouble { loss, delay, jitter, late, rarely_late, lead, restarts };
        let mut world = World::skewed(seed, trouble, skew);
        run(&mut world, &bursts);
        world.pass(world.now + 100 * TIMESLOT);
        world.finish();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn flows_classes_and_held_acknowledgements_waste_no_timeslot(
        seed in any::<u64>(),
        bursts in bursts(CAPACITY * 5 / 2),
        classes in 1_u16..=4,
        order in prop_oneof![Just(Order::Fifo), Just(Order::Drr), Just(Order::Rank)],
        hold in prop_oneof![Just(0_u64), 1_u64..20_000],
    ) {
        let shape = Shape { classes, order, ..SHAPE };
        let mut world = World::of(seed, NONE, shape, Terms { hold, ..TERMS });
        run_mixed(&mut world, &bursts);
        world.finish();
        let counters = *world.host.counters();
        prop_assert_eq!(counters.scheduled, world.sent);
        prop_assert_eq!((counters.missed, counters.lost, counters.unkept), (0, 0, 0));
        prop_assert_eq!(counters.used + counters.wasted, world.given.len() as u64);
        // Acknowledgements that are still held take a timeslot that another packet has requested,
        // if it would otherwise be wasted.
        prop_assert_eq!(counters.wasted, 0);
    }

    #[test]
    fn whatever_goes_wrong_flows_and_classes_use_only_timeslots_allocated_for_them(
        seed in any::<u64>(),
        bursts in bursts(CAPACITY * 4),
        loss in 0_u64..60,
        jitter in prop_oneof![Just(0_u64), 1_u64..4000],
        rarely_late in prop_oneof![Just(0_u64), Just(10_000), Just(2 * HORIZON * TIMESLOT)],
        restarts in prop_oneof![Just(0_u64), 0_u64..20],
        order in prop_oneof![Just(Order::Fifo), Just(Order::Drr), Just(Order::Rank)],
        hold in prop_oneof![Just(0_u64), 1_u64..20_000],
    ) {
        let trouble = Trouble { loss, jitter, rarely_late, restarts, late: 300, ..NONE };
        let shape = Shape { classes: 4, order, ..SHAPE };
        let mut world = World::of(seed, trouble, shape, Terms { hold, ..TERMS });
        run_mixed(&mut world, &bursts);
        world.pass(world.now + 100 * TIMESLOT);
        world.finish();
    }
}

/// A world in which a long flow to endpoint 7 has filled a bin, and packets of a short one arrive
/// behind it.
fn behind_a_long_flow(order: Order, ranks: [u32; 2]) -> usize {
    let shape = Shape { order, ..SHAPE };
    let mut world = World::of(1, NONE, shape, TERMS);
    let cost = CAPACITY;
    let [long, short] = [1, 2].map(|flow| match order {
        Order::Fifo => 0,
        _ => flow,
    });
    for _ in 0..100 {
        let rank = ranks[0];
        world.arrive_at(7, long, Head { cost, rank });
    }
    for _ in 0..5 {
        let rank = ranks[1];
        world.arrive_at(7, short, Head { cost, rank });
    }
    world.finish();
    // How many packets have been sent when the short flow is over.
    let last = match order {
        Order::Fifo => world.order.len() - 1,
        _ => world.order.iter().rposition(|it| it.1 == short).unwrap(),
    };
    last + 1
}

#[test]
fn a_short_flow_waits_in_a_fifo_and_not_in_other_orders() {
    assert_eq!(behind_a_long_flow(Order::Fifo, [1, 1]), 105);
    assert_eq!(behind_a_long_flow(Order::Drr, [1, 1]), 10);
    assert_eq!(behind_a_long_flow(Order::Rank, [2, 1]), 5);
    assert_eq!(behind_a_long_flow(Order::Rank, [1, 2]), 105);
}

#[test]
fn a_connection_is_opened_in_the_next_timeslot_before_any_data() {
    for order in [Order::Fifo, Order::Drr, Order::Rank] {
        for hold in [0, 20_000] {
            let shape = Shape { order, ..SHAPE };
            let mut world = World::of(1, NONE, shape, Terms { hold, ..TERMS });
            for _ in 0..100 {
                let (cost, rank) = (CAPACITY, 0);
                world.arrive_at(7, 0, Head { cost, rank });
            }
            world.pass(world.now + 30 * TIMESLOT);
            let before = world.order.len();
            assert!((1..90).contains(&before), "{order:?}: {before}");
            let (cost, rank) = (84, 500);
            world.arrive_at(7, order.openings(), Head { cost, rank });
            world.finish();
            assert_eq!(world.order[before], (7, order.openings()), "{order:?}");
            assert_eq!(world.order.len(), 101);
        }
    }
}

#[test]
fn acknowledgements_and_new_connections_leave_flows_in_their_turn() {
    let order = Order::Drr;
    let shape = Shape { order, ..SHAPE };
    let mut world = World::of(1, NONE, shape, TERMS);
    let rank = 0;
    for bin in [1, 2, 3] {
        for _ in 0..30 {
            let cost = CAPACITY;
            world.arrive_at(7, bin, Head { cost, rank });
        }
    }
    for step in 0..60 {
        world.pass(world.now + 2 * TIMESLOT);
        let bin = [order.acks(), order.openings()][step % 2];
        let cost = 84;
        world.arrive_at(7, bin, Head { cost, rank });
    }
    world.finish();
    let sent = world.order.iter().map(|(_, bin)| *bin);
    let flows: Vec<u32> = sent.filter(|bin| *bin < order.acks()).collect();
    assert!(flows.chunks(3).all(|turn| turn == [1, 2, 3]), "{flows:?}");
}

#[test]
fn a_short_flow_does_not_wait_while_acknowledgements_of_a_long_flow_keep_coming() {
    for order in [Order::Fifo, Order::Drr, Order::Rank] {
        let shape = Shape { order, ..SHAPE };
        let hold = 5_000;
        let mut world = World::of(1, NONE, shape, Terms { hold, ..TERMS });
        let ack = Head { cost: 84, rank: 0 };
        let short = Head { cost: 900, rank: 0 };
        let mut longest = 0;
        let mut arrived = None;
        for step in 0_u32..4_000 {
            // A timeslot holds 11, so more than one timeslot of them is always outstanding.
            world.arrive_at(7, order.acks(), ack);
            if step % 200 == 199 {
                world.arrive_at(7, 0, short);
                arrived.get_or_insert(world.now);
            }
            world.pass(world.now + 60);
            let is_waiting = world.waiting.get(&(7, 0)).is_some_and(|it| !it.is_empty());
            if let Some(since) = arrived {
                longest = longest.max(world.now - since);
            }
            if !is_waiting {
                arrived = None;
            }
        }
        world.finish();
        // The interval between requests, a batch and the lead, and a timeslot for acknowledgements.
        let limit = TERMS.interval + 25 * TIMESLOT;
        assert!(longest <= limit, "{order:?}: {longest}");
    }
}

#[test]
fn acknowledgements_do_not_wait_for_the_data_of_a_long_flow() {
    for order in [Order::Fifo, Order::Drr, Order::Rank] {
        let shape = Shape { order, ..SHAPE };
        let mut world = World::of(
            1,
            NONE,
            shape,
            Terms {
                hold: 2_000,
                ..TERMS
            },
        );
        let acks = order.acks();
        let head = |cost| Head { cost, rank: 0 };
        for _ in 0..400 {
            world.arrive_at(7, 0, head(CAPACITY));
        }
        world.arrive_at(7, acks, head(84));
        world.pass(world.now + 2_000 + TERMS.interval);
        let before = world.order.len();
        world.pass(world.now + 10 * TIMESLOT);
        let mut sent = world.order.iter();
        let place = sent.position(|(_, bin)| *bin == acks);
        assert!(
            place.is_some_and(|at| at <= before + 2),
            "{order:?}: {place:?}"
        );
        world.finish();
    }
}

#[test]
fn acknowledgements_share_timeslots_that_are_requested_together_after_a_hold_time() {
    let hold = 20_000;
    let acks = Order::Fifo.acks();
    let ack = Head { cost: 84, rank: 0 };
    let mut world = World::of(1, NONE, SHAPE, Terms { hold, ..TERMS });
    world.arrive(9, CAPACITY);
    world.finish();
    let begin = world.now;
    // Fewer than fit.
    for _ in 0..7 {
        world.arrive_at(7, acks, ack);
        world.pass(world.now + 1000);
    }
    assert_eq!(asked(&world, 7), 0);
    world.pass(begin + hold + TERMS.interval + NONE.delay + 60);
    assert_eq!(asked(&world, 7), 1);
    world.finish();
    let before = world.given.len();
    // 11 fit: 25 need three timeslots.
    for _ in 0..25 {
        world.arrive_at(7, acks, ack);
    }
    world.pass(world.now + hold / 2);
    assert_eq!(asked(&world, 7), 1);
    while asked(&world, 7) == 1 {
        world.pass(world.now + 60);
    }
    assert_eq!(asked(&world, 7), 4, "one request for all of them");
    world.finish();
    assert_eq!(world.given.len(), before + 3);
    // Another stream's acknowledgements have waited for more than half of the time: one request
    // names both streams.
    let said = |world: &World| (asked(world, 7), asked(world, 9));
    let (first, second) = said(&world);
    world.arrive_at(7, acks, ack);
    world.pass(world.now + hold / 4);
    world.arrive_at(9, acks, ack);
    while said(&world) == (first, second) {
        world.pass(world.now + 60);
    }
    assert_eq!(said(&world), (first + 1, second + 1));
    world.finish();
    // A single one, and a packet of another bin that needs a timeslot at once.
    world.arrive_at(7, acks, ack);
    world.arrive(7, CAPACITY);
    world.pass(world.now + hold / 2);
    assert_eq!(asked(&world, 7), first + 2);
    assert_eq!(world.order.last(), Some(&(7, 0)));
    world.finish();
    assert_eq!(world.order.last(), Some(&(7, acks)));
    assert_eq!(world.host.counters().wasted, 0);
}

#[test]
fn a_flow_that_becomes_more_urgent_does_not_overtake_itself() {
    let shape = Shape {
        classes: 4,
        order: Order::Rank,
        ..SHAPE
    };
    let mut host = Host::<Heap>::new(shape, 1, TERMS).unwrap();
    assert_eq!(host.stream(7, 3, 5, 50), 31);
    // Clamped to the number of classes.
    assert_eq!(host.stream(7, 9, 5, 50), 31);
    assert_eq!(host.stream(7, 2, 5, 50), 30);
    assert!(host.arrive(0, 30, 5, 100));
    assert_eq!(host.stream(7, 1, 5, 50), 30);
    assert_eq!(host.stream(7, 2, 5, 50), 30);
    // Less urgent, of another flow, or to another destination.
    assert_eq!(host.stream(7, 3, 5, 50), 31);
    assert_eq!(host.stream(7, 1, 6, 50), 29);
    assert_eq!(host.stream(8, 1, 5, 50), 33);
    // Another flow that shares the bin goes ahead of it.
    assert_eq!(host.stream(7, 1, 5, 51), 29);
    assert_eq!(host.stream(7, 0, 5, 50), 30);
    host.clear();
    assert_eq!(host.stream(7, 1, 5, 50), 29);
}

#[test]
fn a_host_whose_clock_is_behind_sends_as_much_later() {
    for skew in [0, 1, 70, 12_345] {
        let mut world = World::skewed(1, NONE, skew);
        world.arrive(7, 1000);
        while world.host.ahead() == 0 {
            world.pass(world.now + 1);
        }
        let (&slot, (_, sent)) = world.given.first_key_value().unwrap();
        assert!(sent.is_empty());
        assert_eq!(world.dequeue_at, Some(slot * TIMESLOT + skew));
        world.finish();
        assert_eq!(world.host.counters().missed, 0);
        assert!(
            world.host.counters().late_max < 31,
            "that is the clock's step"
        );
    }
}

#[test]
fn packets_share_a_timeslot_if_they_fit() {
    let mut world = World::new(1, NONE);
    // 600, 400 | 700 | 1000 | 300, 84, 84; and to another destination 2500 | | | 1.
    for cost in [600, 400, 700, 1000, 300, 84, 84] {
        world.arrive(7, cost);
    }
    for cost in [2500, 1] {
        world.arrive(9, cost);
    }
    world.finish();
    let used = |to: u16| {
        let slots = world.given.values().filter(move |(it, _)| *it == to);
        slots.map(|(_, sent)| sent.clone()).collect::<Vec<_>>()
    };
    let shared = [vec![600, 400], vec![700], vec![1000], vec![300, 84, 84]];
    assert_eq!(used(7), shared);
    assert_eq!(used(9), [vec![], vec![], vec![2500], vec![1]]);
}

/// The timeslots to `destination` that the arbiter knows of: given, or still wanted.
fn asked(world: &World, destination: u16) -> u32 {
    let given = world.given.values().filter(|(to, _)| *to == destination);
    let wanted = world.wanted.0.get(&destination).copied().unwrap_or(0);
    given.count() as u32 + wanted
}

#[test]
fn one_request_covers_a_whole_burst() {
    for size in [1, 2, 8, 40] {
        let mut world = World::new(1, NONE);
        world.arrive(9, CAPACITY);
        world.finish();
        let said = world.said_at.len();
        // One after the other, as TCP sends them; the kernel runs the work after the first.
        for _ in 0..size {
            world.arrive(7, CAPACITY);
        }
        // Less than an interval: no second request has left yet.
        world.pass(world.now + TERMS.gather + NONE.delay + 60);
        assert_eq!(world.said_at.len(), said + 1, "{size} packets");
        assert_eq!(asked(&world, 7), size, "{size} packets");
        world.finish();
    }
}

#[test]
fn a_burst_during_a_pause_is_requested_when_the_pause_ends() {
    let mut world = World::new(1, NONE);
    world.arrive(9, CAPACITY);
    world.finish();
    world.arrive(7, CAPACITY);
    world.pass(world.now + TERMS.gather + 60);
    let spoke = *world.said_at.last().unwrap();
    for _ in 0..5 {
        world.arrive(7, CAPACITY);
    }
    world.pass(spoke + TERMS.interval + 60 + NONE.delay);
    assert_eq!(asked(&world, 7), 6);
    world.finish();
}

#[test]
fn the_first_packet_of_a_burst_waits_for_a_quarter_of_the_interval() {
    let mut world = World::new(1, NONE);
    world.arrive(9, CAPACITY);
    world.finish();
    world.arrive(7, CAPACITY);
    world.pass(world.now + TERMS.gather + 60);
    let (rounds, spoke) = (world.said_at.len(), *world.said_at.last().unwrap());
    // More of the same would wait.
    world.arrive(7, CAPACITY);
    world.arrive(9, CAPACITY);
    world.arrive(9, CAPACITY);
    let due = spoke + (TERMS.interval / 4).max(TERMS.gather);
    world.pass(due + TERMS.gather + 60);
    assert_eq!(world.said_at.len(), rounds + 1);
    assert!(*world.said_at.last().unwrap() >= due);
    // They join it, and are followed by a pause of their own.
    world.pass(world.now + NONE.delay);
    assert_eq!((asked(&world, 7), asked(&world, 9)), (2, 3));
    let spoke = *world.said_at.last().unwrap();
    world.arrive(7, CAPACITY);
    world.arrive(9, CAPACITY);
    world.pass(spoke + TERMS.interval - 60);
    assert_eq!(world.said_at.len(), rounds + 1);
    world.finish();
}

/// A packet that shares the rest of the interval with one that waits in it already.
#[test]
fn the_first_packet_of_a_burst_gathers_its_burst_although_another_request_waits() {
    let mut world = World::new(1, NONE);
    world.arrive(9, CAPACITY);
    world.finish();
    world.arrive(7, CAPACITY);
    world.pass(world.now + TERMS.gather + 60);
    let rounds = world.said_at.len();
    world.arrive(7, CAPACITY);
    world.pass(world.now + 3 * TERMS.gather);
    assert_eq!(world.said_at.len(), rounds);
    // The pause has lasted a quarter already.
    for _ in 0..5 {
        world.arrive(9, CAPACITY);
    }
    assert_eq!(world.said_at.len(), rounds);
    world.pass(world.now + TERMS.gather + 60 + NONE.delay);
    assert_eq!(world.said_at.len(), rounds + 1);
    assert_eq!((asked(&world, 7), asked(&world, 9)), (2, 6));
    world.finish();
}

#[test]
fn a_request_waits_while_the_arbiter_has_enough_outstanding() {
    let mut world = World::new(1, NONE);
    for _ in 0..200 {
        world.arrive(7, CAPACITY);
    }
    world.pass(world.now + 20 * TIMESLOT);
    assert_eq!(asked(&world, 7), 200);
    for _ in 0..10 {
        world.arrive(7, CAPACITY);
        world.pass(world.now + TERMS.interval + 400);
    }
    assert_eq!(asked(&world, 7), 200);
    // Another destination's request does not wait, and does not include any of them.
    world.arrive(9, CAPACITY);
    world.pass(world.now + TERMS.interval + 400);
    assert_eq!((asked(&world, 7), asked(&world, 9)), (200, 1));
    // The arbiter learns of the rest before it has given all that it owes.
    while asked(&world, 7) == 200 {
        world.pass(world.now + TIMESLOT);
    }
    assert_eq!(asked(&world, 7), 210);
    assert!(world.wanted.0[&7] > 10 + 8, "{:?}", world.wanted.0);
    world.finish();
}

#[test]
fn demand_beyond_the_limit_is_requested_as_timeslots_arrive() {
    let terms = Terms {
        limit: 100_000,
        ..TERMS
    };
    let mut host = Host::<Heap>::new(SHAPE, 1, terms).unwrap();
    let packets = 70_000;
    for _ in 0..packets {
        assert!(host.arrive(1_000_000, 7, 0, CAPACITY));
    }
    assert_eq!(host.outstanding(), crate::fastpass::MAX_OUTSTANDING);
    let mut session = Session::<Heap>::new(ID, COUNT, TERMS.timeout).unwrap();
    let mut wanted = Wanted::default();
    let (mut now, mut sent, mut bytes) = (1_000_000, 0, [0; MAX_SIZE]);
    while sent < packets {
        while let Some(len) = host.poll(now, &mut bytes) {
            let secret = Secret([1, 2]);
            let (_, reset) =
                arbiter::receive(&mut session, now, &bytes[..len], secret, &mut wanted);
            if let Some(reset) = reset {
                host.receive(now, &reset);
            }
        }
        let slot = now / TIMESLOT + 1;
        if session.give(slot, 7, 0) {
            *wanted.0.get_mut(&7).unwrap() -= 1;
        }
        while let Some(len) = session.poll(now, false, &mut bytes) {
            host.receive(now, &bytes[..len]);
        }
        now += TIMESLOT;
        let head = Head {
            cost: CAPACITY,
            rank: 0,
        };
        while let Next::Send(..) = host.next(now, |_, _| (sent < packets).then_some(head)) {
            sent += 1;
        }
        assert!(now < 1_000_000 + 2 * packets * TIMESLOT, "{sent} sent");
    }
    assert_eq!(host.outstanding(), 0);
}

#[test]
fn cleared_packets_leave_their_timeslots_unused_and_later_packets_are_requested_anew() {
    let mut world = World::new(5, NONE);
    for _ in 0..20 {
        world.arrive(7, CAPACITY);
    }
    world.pass(world.now + 15 * TIMESLOT);
    world.host.clear();
    let left = world
        .waiting
        .remove(&(7, 0))
        .map_or(0, |waiting| waiting.len());
    assert!(left > 0);
    for _ in 0..30 {
        world.arrive(9, CAPACITY);
    }
    world.finish();
    let counters = world.host.counters();
    assert!(counters.wasted > 0 && counters.missed == 0, "{counters:?}");
    assert_eq!(counters.wasted, left as u64);
}

#[test]
fn packets_to_unknown_endpoints_or_beyond_the_limit_are_refused() {
    let mut host = Host::<Heap>::new(SHAPE, 1, TERMS).unwrap();
    assert!(!host.arrive(0, COUNT, 0, 84));
    for _ in 0..TERMS.limit {
        assert!(host.arrive(0, 7, 0, 84));
    }
    assert!(!host.arrive(0, 7, 0, 84));
    assert!(host.arrive(0, 8, 0, 84));
    // Nor is there room in a bin that does not exist.
    assert!(!host.arrive(0, 8, Order::Fifo.bins(), 84));
    assert_eq!(host.counters().full, 3);
}

#[test]
fn requests_for_first_packets_take_at_most_half_of_the_time() {
    for (interval, step) in [(20_000, 1), (20_000, 4_000), (20_000, 50_000), (0, 3_000)] {
        let terms = Terms {
            interval,
            timeout: 100_000_000,
            ..TERMS
        };
        let mut host = Host::<Heap>::new(SHAPE, 1, terms).unwrap();
        let (mut now, mut bytes) = (1_000_000, [0; MAX_SIZE]);
        assert!(host.arrive(now, 0, 0, CAPACITY));
        now += TERMS.gather;
        for destination in 4..60 {
            let began = now;
            while host.poll(now, &mut bytes).is_some() {
                now += step;
            }
            let longest = host.next_poll().unwrap();
            assert_eq!(longest, now + interval.max(now - began));
            assert!(host.arrive(now, destination, 0, CAPACITY));
            // The timer has to be set again.
            assert_eq!(host.next_poll(), Some(0));
            assert_eq!(host.poll(now, &mut bytes), None);
            let pause = (interval / 4).max(now - began);
            let next = host.next_poll().unwrap();
            assert_eq!(next, now + pause.max(TERMS.gather));
            now = next;
        }
    }
}

/// Whatever the options, and however long messages take: a round consists of the messages that were
/// due when it began, each once, and is followed by as long a silence.
#[test]
fn a_round_ends_however_long_it_takes() {
    const MANY: u16 = 4096;
    for (destinations, step) in [(1, 12_000), (1, 1), (MANY, 400), (MANY, 12_000)] {
        for (paths, interval) in [(0, 20_000), (4, 20_000), (0, 0), (4, 0)] {
            let terms = Terms {
                interval,
                timeout: 10_000,
                report: 10_000,
                ..TERMS
            };
            let shape = Shape {
                endpoints: MANY,
                paths,
                ..SHAPE
            };
            let mut host = Host::<Heap>::new(shape, 1, terms).unwrap();
            for destination in 0..destinations {
                assert!(host.arrive(1_000_000, destination, 0, CAPACITY));
            }
            // No answer comes.
            let (mut now, mut bytes) = (1_000_000, [0; MAX_SIZE]);
            let frames = usize::from(destinations).div_ceil(crate::fastpass::frame::MOST);
            for _ in 0..100 {
                let (began, mut said) = (now, 0);
                while host.poll(now, &mut bytes).is_some() {
                    said += 1;
                    now += step;
                    assert!(said <= frames + 1, "{said} of {frames}, {step} ns each");
                }
                let next = host.next_poll().unwrap();
                let pause = interval.max(now - began);
                assert!(next >= now + pause || said == 0, "{said}, {pause} ns");
                now = now.max(next);
            }
        }
    }
}
