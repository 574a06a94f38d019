// SPDX-License-Identifier: MIT OR Apache-2.0

//! Requests that come too late for a batch, and the timeslots that they get of it.

mod fat_tree;

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_arbiter::Lags;
use weft_arbiter::fabric::Component;
use weft_arbiter::faults::Fault;
use weft_arbiter::service::{Secret, Service, Settings};
use weft_mechanisms::fastpass::endpoint::{Endpoint, Granted};
use weft_mechanisms::fastpass::frame::MAX_SIZE;
use weft_mechanisms::heap::Heap;

use fat_tree::{FAT_TREE, LEAD, SETTINGS, TIMEOUT, TIMESLOT, TRAVEL};

const SECRET: Secret = Secret([0x5eed, 0xc0de]);

/// The busy pair, whose demand keeps the arbiter allocating batches.
const BUSY: (u16, u16) = (0, 15);

struct World {
    now: u64,
    service: Service,
    endpoints: Vec<Endpoint<Heap>>,
    /// What each endpoint was given.
    given: Vec<(u16, Granted)>,
}

impl World {
    /// All endpoints have a session, and the arbiter has allocated nothing.
    fn new(settings: Settings) -> Self {
        let endpoints = (0..16).map(|id| {
            let Ok(endpoint) = Endpoint::new(id, 16, u64::from(id) + 77, TIMEOUT);
            endpoint
        });
        let mut world = Self {
            now: 5_000_000,
            service: Service::new(settings, SECRET).unwrap(),
            endpoints: endpoints.collect(),
            given: Vec::new(),
        };
        world.endpoints.iter_mut().for_each(Endpoint::enquire);
        for _ in 0..10 {
            world.tell();
            world.tick();
        }
        assert_eq!(world.service.counters().sessions, 16);
        world
    }

    /// A world with a demand of the busy pair, shortly before its third batch is due.
    fn busy(settings: Settings) -> Self {
        let mut world = Self::new(settings);
        world.ask(BUSY, 200);
        world.tick();
        world.now = world.service.next_event();
        world.tick();
        assert_eq!(world.service.counters().batches, 2);
        world.now += (settings.batch as u64 - 1) * TIMESLOT;
        world
    }

    /// The first timeslot after the batches so far.
    fn end(&self) -> u64 {
        self.given.iter().map(|(_, it)| it.timeslot).max().unwrap() + 1
    }

    /// All endpoints send their messages.
    fn tell(&mut self) {
        let mut bytes = [0; MAX_SIZE];
        for (id, endpoint) in (0..).zip(&mut self.endpoints) {
            while let Some(len) = endpoint.poll(self.now, &mut bytes) {
                let address = Ipv4Addr::from(FAT_TREE.address(id).unwrap());
                let from = SocketAddrV4::new(address, 700);
                self.service.receive(self.now, from, &bytes[..len]);
            }
        }
    }

    fn ask(&mut self, (from, to): (u16, u16), slots: u32) {
        assert_eq!(self.endpoints[usize::from(from)].ask(to, slots), slots);
        self.tell();
    }

    fn hear(&mut self, said: Vec<(SocketAddrV4, Vec<u8>)>) {
        for (to, bytes) in said {
            let id = FAT_TREE.endpoint((*to.ip()).into()).unwrap();
            let given = &mut self.given;
            let heard = |granted| given.push((id, granted));
            self.endpoints[usize::from(id)].receive(&bytes, heard);
        }
    }

    fn tick(&mut self) {
        let mut said = Vec::new();
        let send = |to, bytes: &[u8]| said.push((to, bytes.to_vec()));
        self.service.tick(self.now, send);
        self.hear(said);
    }

    /// The timeslots that the pair is given without a further batch.
    fn at_once(&mut self, (from, to): (u16, u16)) -> Vec<u64> {
        let before = self.service.counters().batches;
        self.given.clear();
        let mut said = Vec::new();
        let send = |to, bytes: &[u8]| said.push((to, bytes.to_vec()));
        self.service.poll(self.now, send);
        self.hear(said);
        assert_eq!(self.service.counters().batches, before);
        let given = self.given.iter();
        let given = given.filter(|(id, it)| (*id, it.destination) == (from, to));
        let mut timeslots: Vec<_> = given.map(|(_, it)| it.timeslot).collect();
        // A datagram names runs of them last.
        timeslots.sort_unstable();
        timeslots
    }

    /// The first timeslot that an endpoint can be told of in time.
    fn first(&self) -> u64 {
        (self.now + TRAVEL).div_ceil(TIMESLOT)
    }
}

#[test]
fn late_request_gets_the_next_timeslots_in_which_both_ends_are_free() {
    let mut world = World::busy(SETTINGS);
    let end = world.end();
    let first = world.first();
    world.ask((3, 9), 3);
    assert!(world.service.is_hurried());
    let given = world.at_once((3, 9));
    assert!(!world.service.is_hurried());
    assert_eq!(given, [first, first + 1, first + 2]);
    assert!(first + 4 < end);
    let counters = world.service.counters();
    assert_eq!((counters.leftover, counters.wanted), (3, 184));
    // The same receiver, then the same sender.
    for pair in [(4, 9), (3, 10)] {
        world.ask(pair, 1);
        let given = world.at_once(pair);
        assert_eq!(given.len(), 1);
        assert!((first + 3..=first + 4).contains(&given[0]), "{given:?}");
    }
    // The busy pair's ends are never free.
    for pair in [(BUSY.0, 9), (3, BUSY.1)] {
        world.ask(pair, 1);
        assert_eq!(world.at_once(pair), []);
    }
}

#[test]
fn a_request_gets_at_most_eight_leftovers_and_the_rest_of_the_next_batches() {
    let mut world = World::new(Settings {
        batch: 40,
        ..SETTINGS
    });
    world.ask(BUSY, 41);
    world.tick();
    let pair = (3, 9);
    world.ask(pair, 10);
    assert_eq!(world.at_once(pair).len(), 8);
    // It is owed two, and gets no others before these.
    world.ask(pair, 1);
    assert_eq!(world.at_once(pair), []);
    world.given.clear();
    world.now = world.service.next_event();
    world.tick();
    assert_eq!(world.given.iter().filter(|(id, _)| *id == 3).count(), 3);
    assert_eq!(world.service.counters().wanted, 0);
    // And then it may again.
    world.ask(pair, 2);
    assert_eq!(world.at_once(pair).len(), 2);
}

#[test]
fn arbiters_own_endpoint_neither_sends_nor_receives_in_leftovers() {
    for own in [3, 9] {
        let mut world = World::busy(Settings {
            own: Some(own),
            ..SETTINGS
        });
        world.ask((3, 9), 1);
        assert_eq!(world.at_once((3, 9)), []);
        world.ask((4, 10), 1);
        assert_eq!(world.at_once((4, 10)).len(), 1);
    }
}

#[test]
fn timeslots_too_near_for_a_batch_are_left_over_while_nobody_asks() {
    let mut world = World::new(SETTINGS);
    // Another arbiter may have given them.
    world.ask((3, 9), 1);
    assert_eq!(world.at_once((3, 9)), []);
    world.tick();
    assert_eq!(world.service.counters().wanted, 0);
    world.now += 50 * LEAD;
    world.ask((3, 9), 1);
    assert_eq!(world.at_once((3, 9)), [world.first()]);
    // A batch that is ordered at the same time begins after all of them.
    world.now += 50 * LEAD;
    world.ask((3, 9), 100);
    let given = world.at_once((3, 9));
    assert_eq!(given.len(), 8);
    world.given.clear();
    world.tick();
    let next = world.given.iter().map(|(_, it)| it.timeslot).min();
    assert_eq!(next, Some((world.now + LEAD).div_ceil(TIMESLOT)));
    assert!(given.iter().all(|it| Some(*it) < next));
    assert_eq!(world.service.counters().skipped_timeslots, 0);
}

#[test]
fn leftover_whose_packet_arrives_after_the_last_batch_is_not_given() {
    let lags = Lags { near: 2, far: 20 };
    let mut world = World::busy(Settings { lags, ..SETTINGS });
    // The last batch ends before a packet to another pod could arrive.
    assert!(world.first() + 20 >= world.end() && world.first() + 2 < world.end());
    world.ask((3, 9), 1);
    assert_eq!(world.at_once((3, 9)), []);
    world.ask((4, 6), 1);
    assert_eq!(world.at_once((4, 6)).len(), 1);
}

#[test]
fn leftovers_take_no_path_across_a_failed_component() {
    let mut world = World::busy(SETTINGS);
    let rack = |way| Component::RackLink {
        pod: 1,
        rack: 0,
        way,
    };
    let fault = |component| Fault {
        component,
        is_avoided: true,
        suspected_ns: 0,
        found_ns: 0,
    };
    for way in 0..2 {
        world.service.clear_faults();
        world.service.keep_faults(&[fault(rack(way))]);
        for _ in 0..3 {
            world.ask((4, 9), 1);
            assert_eq!(world.at_once((4, 9)).len(), 1);
            let (_, granted) = world.given[0];
            assert_eq!(u16::from(granted.path % 2), 1 - way);
        }
    }
    world.service.keep_faults(&[fault(rack(0)), fault(rack(1))]);
    world.ask((4, 9), 1);
    assert_eq!(world.at_once((4, 9)), []);
}

#[test]
fn leftovers_of_a_session_that_is_over_are_not_given() {
    let mut world = World::busy(SETTINGS);
    // The endpoint restarts, and has a nonce.
    let Ok(new) = Endpoint::new(3, 16, 1234, TIMEOUT);
    let old = std::mem::replace(&mut world.endpoints[3], new);
    world.endpoints[3].enquire();
    world.tell();
    let _ = world.at_once((3, 9));
    // It uses the nonce in the same turn in which a request of its old session comes.
    let new = std::mem::replace(&mut world.endpoints[3], old);
    world.ask((3, 9), 4);
    assert!(world.service.is_hurried());
    world.endpoints[3] = new;
    world.endpoints[3].enquire();
    world.ask((3, 10), 2);
    assert_eq!(world.at_once((3, 9)), []);
    assert_eq!(world.endpoints[3].outstanding(10), 0);
    let counters = world.service.counters();
    assert_eq!((counters.leftover, counters.unwanted), (2, 0));
}
