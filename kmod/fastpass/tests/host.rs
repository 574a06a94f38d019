// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A host between its packets and an arbiter, over a network that loses and delays, with timers
//! that are late: what waits is sent in the order in which it came, in timeslots that were given
//! for it, as much in each as fits; and it is called, and calls, only as the kernel does.

use std::collections::{BTreeMap, HashMap, VecDeque};

use proptest::prelude::*;

use super::arbiter;
use super::exchange::{Random, Wanted};
use crate::fastpass::calendar::HORIZON;
use crate::fastpass::frame::MAX_SIZE;
use crate::fastpass::host::{Host, Next, Terms};
use crate::fastpass::session::{Demands as _, Secret, Session};
use weft_mechanisms::heap::Heap;

const ID: u16 = 3;
/// More than a packet of the protocol has room for.
const COUNT: u16 = 80;
const TIMESLOT: u64 = 100;
const CAPACITY: u32 = 1000;
const TERMS: Terms = Terms {
    timeslot: TIMESLOT,
    capacity: CAPACITY,
    limit: 500,
    late: 250,
    gather: TIMESLOT,
    interval: 700,
    timeout: 4000,
    skew: 0,
    report: 5000,
};

/// What goes wrong.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// Percent of packets of the protocol that are lost.
    loss: u64,
    /// ns that they take at least, and so many more at most: then they overtake each other.
    delay: u64,
    jitter: u64,
    /// ns that a timer is late at most, and of one in fifty.
    late: u64,
    rarely_late: u64,
    /// Timeslots ahead of which they are given.
    lead: u64,
    /// In a thousand timeslots the arbiter starts anew.
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
    host: Host<Heap>,
    session: Session<Heap>,
    secret: Secret,
    wanted: Wanted,
    /// When it arrives, whether at the arbiter, what it is.
    network: Vec<(u64, bool, Vec<u8>)>,
    waiting: HashMap<u16, VecDeque<u32>>,
    /// To whom a timeslot was given, and the costs of what was sent in it.
    given: BTreeMap<u64, (u16, Vec<u32>)>,
    /// When the qdisc is asked for packets, and when the host is to say something.
    dequeue_at: Option<u64>,
    pump_at: Option<u64>,
    said_at: Vec<u64>,
    sent: u64,
    next_slot: u64,
}

impl World {
    fn new(seed: u64, trouble: Trouble) -> Self {
        Self::skewed(seed, trouble, 0)
    }

    fn skewed(seed: u64, trouble: Trouble, skew: u64) -> Self {
        let mut random = Random::new(seed);
        let seed = random.draw();
        Self {
            random,
            trouble,
            now: 1_000_000,
            skew,
            host: Host::new(ID, COUNT, 0, seed, Terms { skew, ..TERMS }).unwrap(),
            session: Session::new(ID, COUNT, TERMS.timeout).unwrap(),
            secret: Secret([1, 2]),
            wanted: Wanted::default(),
            network: Vec::new(),
            waiting: HashMap::new(),
            given: BTreeMap::new(),
            dequeue_at: None,
            pump_at: None,
            said_at: Vec::new(),
            sent: 0,
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

    /// As the namespace's work does.
    fn pump(&mut self) {
        let mut bytes = [0; MAX_SIZE];
        while let Some(len) = self.host.poll(self.now, &mut bytes) {
            self.said_at.push(self.now);
            self.send(true, bytes[..len].to_vec());
        }
        self.pump_at = self.host.next_poll();
    }

    /// As after each use of what is shared.
    fn news(&mut self) {
        if self.host.next_poll().is_some_and(|at| at <= self.now) {
            self.pump();
        }
    }

    fn arrive(&mut self, destination: u16, cost: u32) {
        let waiting = self.waiting.entry(destination).or_default();
        let fits = waiting.len() < TERMS.limit as usize;
        assert_eq!(self.host.arrive(self.now, destination, cost), fits);
        if fits {
            waiting.push_back(cost);
        }
        self.news();
        self.dequeue();
    }

    fn dequeue(&mut self) {
        loop {
            let waiting = &self.waiting;
            let first = |destination| waiting.get(&destination)?.front().copied();
            let next = self.host.next(self.now, first);
            self.news();
            match next {
                Next::Send(entry) => {
                    let destination = entry.destination;
                    let waiting = self.waiting.get_mut(&destination).unwrap();
                    let cost = waiting.pop_front().unwrap();
                    self.sent += 1;
                    self.check(destination, entry.path, cost);
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

    /// A packet goes: there must be a timeslot for it, now, with room.
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
            // It was saved up for, in timeslots in which nothing was sent.
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
            let news = self.host.receive(self.now, bytes);
            self.news();
            if news == Some(true) {
                self.dequeue();
            }
        }
    }

    /// The arbiter says what it has to.
    fn answer(&mut self) {
        let mut bytes = [0; MAX_SIZE];
        while let Some(len) = self.session.poll(self.now, &mut bytes) {
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
                self.session = Session::new(ID, COUNT, TERMS.timeout).unwrap();
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

    /// From now on nothing goes wrong, and all that waits goes.
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

/// A burst of packets to one destination, and how long after the last one.
fn bursts(longest: u32) -> impl Strategy<Value = Vec<(u64, u16, Vec<u32>)>> {
    let cost = prop_oneof![3 => 1_u32..=longest, 2 => Just(CAPACITY), 3 => Just(84_u32)];
    let gap = prop_oneof![3 => Just(0_u64), 3 => 0_u64..500, 1 => 0_u64..20_000];
    let burst = prop_oneof![9 => 1_usize..8, 1 => 80_usize..200];
    let burst = burst.prop_flat_map(move |n| prop::collection::vec(cost.clone(), n));
    prop::collection::vec((gap, 0..COUNT / 8, burst), 1..30)
}

fn run(world: &mut World, bursts: &[(u64, u16, Vec<u32>)]) {
    for (gap, destination, costs) in bursts {
        world.pass(world.now + gap);
        // Spread over all of them, as the protocol's packets have not room for all.
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
    fn when_nothing_goes_wrong_each_timeslot_that_was_asked_for_is_used(
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
        // Said in rounds; the first is answered by a RESET, and the next one is due at once.
        let mut rounds = world.said_at.clone();
        rounds.dedup();
        for pair in rounds.windows(2).skip(1) {
            prop_assert!(pair[1] - pair[0] >= TERMS.interval, "{:?}", pair);
        }
    }

    #[test]
    fn whatever_goes_wrong_what_waits_goes_in_timeslots_that_were_given_for_it(
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
fn packets_share_timeslots_as_long_as_they_fit() {
    let mut world = World::new(1, NONE);
    // 600, 400 | 700 | 1000 | 300, 84, 84; and of another one 2500 | | | 1.
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
fn one_request_asks_for_a_whole_burst() {
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
fn a_burst_in_a_pause_is_asked_for_when_the_pause_ends() {
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
fn more_than_may_be_outstanding_is_asked_for_as_timeslots_come() {
    let terms = Terms {
        limit: 100_000,
        ..TERMS
    };
    let mut host = Host::<Heap>::new(ID, COUNT, 0, 1, terms).unwrap();
    let packets = 70_000;
    for _ in 0..packets {
        assert!(host.arrive(1_000_000, 7, CAPACITY));
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
        session.give(slot, 7, 0);
        while let Some(len) = session.poll(now, &mut bytes) {
            host.receive(now, &bytes[..len]);
        }
        now += TIMESLOT;
        while let Next::Send(_) = host.next(now, |_| (sent < packets).then_some(CAPACITY)) {
            sent += 1;
        }
        assert!(now < 1_000_000 + 2 * packets * TIMESLOT, "{sent} sent");
    }
    assert_eq!(host.outstanding(), 0);
}

#[test]
fn what_is_cleared_leaves_its_timeslots_unused_and_what_comes_then_is_asked_for() {
    let mut world = World::new(5, NONE);
    for _ in 0..20 {
        world.arrive(7, CAPACITY);
    }
    world.pass(world.now + 15 * TIMESLOT);
    world.host.clear();
    let left = world.waiting.remove(&7).map_or(0, |waiting| waiting.len());
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
fn nobody_unknown_and_nobody_beyond_the_limit_gets_in() {
    let mut host = Host::<Heap>::new(ID, COUNT, 0, 1, TERMS).unwrap();
    assert!(!host.arrive(0, COUNT, 84));
    for _ in 0..TERMS.limit {
        assert!(host.arrive(0, 7, 84));
    }
    assert!(!host.arrive(0, 7, 84));
    assert!(host.arrive(0, 8, 84));
    assert_eq!(host.counters().full, 2);
}

/// Whatever the options, and however long it takes to say something: a round is what was due when
/// it began, once, and as long as it took nothing is said after it.
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
            let mut host = Host::<Heap>::new(ID, MANY, paths, 1, terms).unwrap();
            for destination in 0..destinations {
                assert!(host.arrive(1_000_000, destination, CAPACITY));
            }
            // Nobody answers.
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
