// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Both ends over a network that loses, delays, reorders, repeats and forges, while either of them
//! restarts: in the end every requested timeslot has arrived, and none twice.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;
use weft_mechanisms::fastpass::endpoint::Endpoint;
use weft_mechanisms::fastpass::frame::{Entry, Header, MAX_SIZE};
use weft_mechanisms::fastpass::session::{Demands, Has, Received, Secret, Session};
use weft_mechanisms::heap::Heap;

const ID: u16 = 3;
/// More than one packet can hold.
const COUNT: u16 = 90;
const TIMEOUT: u64 = 25;
/// A request for more waits while the arbiter owes at least this many timeslots.
const PLENTY: u32 = 8;

/// An arbiter that stores the demand, and satisfies it in any order.
#[derive(Default)]
pub(super) struct Wanted(pub(super) HashMap<u16, u32>);

impl Demands for Wanted {
    fn request(&mut self, destination: u16, slots: u32, has: Has) -> bool {
        let wanted = self.0.entry(destination).or_default();
        assert_eq!(*wanted, has.owed);
        *wanted += slots;
        true
    }

    fn forget(&mut self) {
        self.0.clear();
    }

    fn report(&mut self, _time: u64, _entry: Entry) {}
}

/// xorshift64 (Marsaglia 2003).
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, end: u64) -> u64 {
        (self.draw() >> 16) % end
    }

    pub(super) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The probability of faults, in percent of packets; restarts per thousand steps.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    loss: u64,
    repeat: u64,
    forge: u64,
    /// The most steps that a packet takes.
    delay: u64,
    restarts: u64,
}

const NONE: Trouble = Trouble {
    loss: 0,
    repeat: 0,
    forge: 0,
    delay: 5,
    restarts: 0,
};

struct World {
    random: Random,
    now: u64,
    endpoint: Endpoint<Heap>,
    session: Session<Heap>,
    secret: Secret,
    /// RESETs to send, by the cookies that they repeat.
    resets: Vec<u64>,
    wanted: Wanted,
    /// Packets on their way: the arrival time, whether to the arbiter, and the bytes.
    network: Vec<(u64, bool, Vec<u8>)>,
    /// All packets so far.
    seen: Vec<Vec<u8>>,
    timeslot: u64,
    /// Since the endpoint's last start.
    asked: HashMap<u16, u32>,
    came: HashMap<u16, u32>,
    timeslots: HashSet<u64>,
    packets: u64,
}

fn endpoint(seed: u64) -> Endpoint<Heap> {
    let mut endpoint = Endpoint::new(ID, COUNT, seed, TIMEOUT).unwrap();
    endpoint.set_plenty(PLENTY);
    endpoint
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let seed = random.draw();
        Self {
            random,
            now: 1000,
            endpoint: endpoint(seed),
            session: Session::new(ID, COUNT, TIMEOUT).unwrap(),
            secret: Secret([seed, 1]),
            resets: Vec::new(),
            wanted: Wanted::default(),
            network: Vec::new(),
            seen: Vec::new(),
            timeslot: 1 << 40,
            asked: HashMap::new(),
            came: HashMap::new(),
            timeslots: HashSet::new(),
            packets: 0,
        }
    }

    fn ask(&mut self, destination: u16, slots: u32) {
        let added = self.endpoint.ask(destination, slots);
        *self.asked.entry(destination).or_default() += added;
    }

    fn send(&mut self, to_arbiter: bool, bytes: Vec<u8>, trouble: Trouble) {
        self.packets += 1;
        let copies = 1 + u64::from(self.random.percent(trouble.repeat));
        for _ in 0..copies {
            if !self.random.percent(trouble.loss) {
                let arrival = self.now + 1 + self.random.below(trouble.delay);
                self.network.push((arrival, to_arbiter, bytes.clone()));
            }
        }
        if self.seen.len() < 5000 {
            self.seen.push(bytes);
        }
    }

    /// Sends an old packet, with a wrong bit or without.
    fn forge(&mut self) {
        let Some(last) = self.seen.len().checked_sub(1) else {
            return;
        };
        let old = self.random.below(last as u64 + 1) as usize;
        let mut bytes = self.seen[old].clone();
        if self.random.percent(50) {
            let bit = self.random.below(bytes.len() as u64 * 8) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let to_arbiter = self.random.percent(50);
        self.network.push((self.now, to_arbiter, bytes));
    }

    fn restart(&mut self) {
        if self.random.percent(50) {
            self.session = Session::new(ID, COUNT, TIMEOUT).unwrap();
            self.secret = Secret([self.random.draw(), 1]);
            self.wanted.0.clear();
        } else {
            let seed = self.random.draw();
            self.endpoint = endpoint(seed);
            self.asked.clear();
            self.came.clear();
        }
    }

    fn step(&mut self, trouble: Trouble) {
        self.now += 1;
        if self.random.below(1000) < trouble.restarts {
            self.restart();
        }
        if self.random.percent(trouble.forge) {
            self.forge();
        }
        let wanted: Vec<_> = self.wanted.0.iter().filter(|(_, n)| **n > 0).collect();
        let mut wanted: Vec<u16> = wanted.into_iter().map(|(d, _)| *d).collect();
        wanted.sort_unstable();
        for destination in wanted {
            if self.random.percent(50) {
                self.timeslot += 1 + self.random.below(3);
                if self.session.give(self.timeslot, destination, 2) {
                    *self.wanted.0.get_mut(&destination).unwrap() -= 1;
                }
            }
        }
        self.poll(trouble);
        let now = self.now;
        let network = std::mem::take(&mut self.network);
        let (due, later) = network.into_iter().partition(|(at, ..)| *at <= now);
        self.network = later;
        for (_, to_arbiter, bytes) in due {
            self.deliver(to_arbiter, &bytes);
        }
        for (destination, came) in &self.came {
            assert!(*came <= self.asked[destination], "{destination}");
        }
    }

    fn poll(&mut self, trouble: Trouble) {
        let mut bytes = [0; MAX_SIZE];
        while let Some(size) = self.endpoint.poll(self.now, &mut bytes) {
            self.send(true, bytes[..size].to_vec(), trouble);
        }
        for cookie in std::mem::take(&mut self.resets) {
            let size = self.session.reset(&self.secret, cookie, &mut bytes);
            self.send(false, bytes[..size].to_vec(), trouble);
        }
        // Timeslots may wait for others.
        let holds = self.random.percent(30);
        while let Some(size) = self.session.poll(self.now, holds, &mut bytes) {
            self.send(false, bytes[..size].to_vec(), trouble);
        }
    }

    fn deliver(&mut self, to_arbiter: bool, bytes: &[u8]) {
        if to_arbiter {
            let Ok(header) = Header::read(bytes) else {
                return;
            };
            let received = self
                .session
                .receive(self.now, header, &self.secret, &mut self.wanted);
            if let Received::Unsynchronised { cookie } = received {
                self.resets.push(cookie);
            }
            return;
        }
        let (came, timeslots) = (&mut self.came, &mut self.timeslots);
        self.endpoint.receive(bytes, |granted| {
            assert!(timeslots.insert(granted.timeslot), "it came twice");
            assert_eq!(granted.path, 2);
            *came.entry(granted.destination).or_default() += 1;
        });
    }

    /// Without faults all owed timeslots arrive, and then both ends are silent.
    fn settle(&mut self) {
        self.ask(0, 1);
        for _ in 0..100 * TIMEOUT {
            self.step(NONE);
        }
        self.asked.retain(|_, asked| *asked > 0);
        assert_eq!(self.came, self.asked);
        for destination in 0..COUNT {
            assert_eq!(self.endpoint.outstanding(destination), 0);
        }
        assert!(self.wanted.0.values().all(|wanted| *wanted == 0));
        assert_eq!(self.endpoint.next_poll(self.now), None);
        assert_eq!(self.session.next_poll(self.now), None);
        assert!(self.endpoint.is_synchronised());
    }
}

fn trouble() -> impl Strategy<Value = Trouble> {
    let restarts = prop_oneof![Just(0), Just(3), Just(30)];
    (0..=60_u64, 0..40_u64, 0..60_u64, 1..60_u64, restarts).prop_map(
        |(loss, repeat, forge, delay, restarts)| Trouble {
            loss,
            repeat,
            forge,
            delay,
            restarts,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn exactly_the_requested_timeslots_arrive(seed: u64, trouble in trouble(), busy in 1..40_u64) {
        let mut world = World::new(seed);
        for _ in 0..1500 {
            if world.random.percent(busy) {
                let destination = world.random.below(u64::from(COUNT)) as u16;
                let slots = world.random.below(30) as u32;
                world.ask(destination, slots);
            }
            world.step(trouble);
        }
        world.settle();
    }
}

#[test]
fn a_third_of_all_packets_may_be_lost() {
    let trouble = Trouble { loss: 30, ..NONE };
    let mut world = World::new(7);
    for step in 0..20_000 {
        if step % 10 == 0 {
            world.ask((step / 10 % u64::from(COUNT)) as u16, 3);
        }
        world.step(trouble);
    }
    let came: u32 = world.came.values().sum();
    assert!(came > 5900, "{came} of 6000 came before the end");
    // Only timeouts repair it, yet it takes few packets.
    assert!(world.packets < 4 * 6000, "{}", world.packets);
    world.settle();
}

#[test]
fn a_silent_endpoint_is_contacted_less_and_less_often_and_at_once_when_it_returns() {
    const LONG: u64 = 1_000_000;
    let mut world = World::new(1);
    world.ask(5, 3);
    let lost = Trouble { loss: 100, ..NONE };
    let before = world.timeslot;
    while world.timeslot == before {
        world.step(NONE);
    }
    // Timeslots given since then are on no packet that arrives.
    world.network.clear();
    for _ in 0..10 * TIMEOUT {
        world.step(lost);
    }
    let mut bytes = [0; MAX_SIZE];
    let mut said = 0;
    for _ in 0..LONG {
        world.now += 1;
        said += u64::from(world.session.poll(world.now, false, &mut bytes).is_some());
    }
    assert!((30..60).contains(&said), "{said} in {LONG}");
    world.ask(6, 1);
    for _ in 0..2 * TIMEOUT {
        world.step(NONE);
    }
    assert_eq!(world.came, world.asked);
    world.settle();
}
