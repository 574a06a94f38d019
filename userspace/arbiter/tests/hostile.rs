// SPDX-License-Identifier: MIT OR Apache-2.0

//! Hostile datagrams: the cost of each, the number of answers, and that endpoints get their
//! timeslots meanwhile.

mod fat_tree;
mod random;

use std::net::{Ipv4Addr, SocketAddrV4};

use weft_arbiter::service::{Secret, Service};
use weft_mechanisms::fastpass::endpoint::Endpoint;
use weft_mechanisms::fastpass::frame::{
    ENTRIES, Entry, Head, Kind, MAX_SIZE, encode, encode_report,
};
use weft_mechanisms::fastpass::session::{FORGED_COST, RESET_COST};
use weft_mechanisms::heap::Heap;

use fat_tree::{FAT_TREE, SETTINGS, TIMEOUT};
use random::Random;

const SECRET: Secret = Secret([0x5eed, 0xc0de]);

/// The endpoint's port, another privileged port, and an unprivileged one.
const OWN: u16 = 700;
const STRANGE: u16 = 600;
const UNPRIVILEGED: u16 = 6000;

const VICTIM: u16 = 3;

struct World {
    random: Random,
    now: u64,
    service: Service,
    endpoint: Endpoint<Heap>,
    /// Timeslots allocated to the endpoint.
    given: u32,
    /// Packets to other ports.
    elsewhere: u64,
}

fn at(port: u16) -> SocketAddrV4 {
    let address = FAT_TREE.address(VICTIM).unwrap();
    SocketAddrV4::new(Ipv4Addr::from(address), port)
}

impl World {
    fn new() -> Self {
        let Ok(endpoint) = Endpoint::new(VICTIM, 16, 77, TIMEOUT);
        Self {
            random: Random(5),
            now: 5_000_000,
            service: Service::new(SETTINGS, SECRET).unwrap(),
            endpoint,
            given: 0,
            elsewhere: 0,
        }
    }

    /// A world in which the endpoint has a session, and has requested a timeslot.
    fn with_session() -> Self {
        let mut world = Self::new();
        world.endpoint.ask(4, 1);
        for _ in 0..10 {
            world.endpoint_speaks();
            world.now += TIMEOUT / 2;
            world.tick();
        }
        world
    }

    /// Sends a REPORT of 600 bytes in the endpoint's name, without knowledge of the nonce.
    fn forge(&mut self, port: u16) {
        let mut bytes = [0; MAX_SIZE];
        let head = Head {
            kind: Kind::Report,
            endpoint: VICTIM,
            word: self.random.draw(),
        };
        let entries = [Entry {
            peer: 4,
            ..Entry::default()
        }; ENTRIES];
        let len = encode_report(&mut bytes, head, self.random.draw(), self.now, &entries);
        assert_eq!(len, 600);
        self.service.receive(self.now, at(port), &bytes[..len]);
    }

    fn endpoint_speaks(&mut self) {
        let mut bytes = [0; MAX_SIZE];
        while let Some(len) = self.endpoint.poll(self.now, &mut bytes) {
            self.service.receive(self.now, at(OWN), &bytes[..len]);
        }
    }

    fn tick(&mut self) {
        let mut said = Vec::new();
        self.service
            .tick(self.now, |to, bytes| said.push((to, bytes.to_vec())));
        for (to, bytes) in said {
            match to.port() {
                OWN => {
                    self.endpoint.receive(&bytes, |_| self.given += 1);
                }
                _ => self.elsewhere += 1,
            }
        }
    }
}

#[test]
fn a_forged_datagram_costs_a_few_short_hashes_and_its_answer_a_few_more() {
    let mut world = World::with_session();
    assert_eq!(world.given, 1);
    // From another port, and from the session's own port, which requires a privileged forger.
    for port in [STRANGE, OWN] {
        for _ in 0..1000 {
            let before = world.service.counters();
            world.forge(port);
            world.tick();
            let after = world.service.counters();
            let hashed = after.hashed_bytes - before.hashed_bytes;
            let resets = after.resets - before.resets;
            let unread = after.unread - before.unread;
            let expected = (1 - unread) * FORGED_COST as u64 + resets * RESET_COST as u64;
            assert_eq!(hashed, expected);
        }
    }
    let counters = world.service.counters();
    assert!((480..500).contains(&counters.unread), "{counters:?}");
    assert_eq!(counters.reported, 0);
}

#[test]
fn resets_are_few_and_go_to_the_port_that_asked() {
    let mut world = World::new();
    for _ in 0..100 * 1000 {
        world.now += TIMEOUT / 1000;
        world.forge(STRANGE);
        world.tick();
    }
    let counters = world.service.counters();
    assert_eq!(counters.resets, world.elsewhere);
    // At most 16 per timeout.
    assert!((1300..1700).contains(&counters.resets), "{counters:?}");
    // Most of the flood was dropped before any hash.
    assert!(counters.unread > 70_000, "{counters:?}");
}

#[test]
fn an_unprivileged_process_is_not_an_endpoint_and_gets_no_answer() {
    let mut world = World::new();
    world.endpoint.ask(4, 1);
    for _ in 0..1000 {
        world.forge(UNPRIVILEGED);
    }
    // An endpoint's genuine packet from that port is dropped, too.
    let mut bytes = [0; MAX_SIZE];
    let len = world.endpoint.poll(world.now, &mut bytes).unwrap();
    world
        .service
        .receive(world.now, at(UNPRIVILEGED), &bytes[..len]);
    world.tick();
    let counters = world.service.counters();
    assert_eq!((counters.foreign, counters.said), (1001, 0));
    assert_eq!(counters.hashed_bytes, 0);
}

#[test]
fn a_flood_delays_a_session_by_its_share_of_the_resets() {
    let mut world = World::new();
    let mut timeouts = 0;
    // A session once waited 249 timeouts because of as many datagrams.
    for turn in 0..300 * 128 {
        world.now += TIMEOUT / 128;
        world.forge(STRANGE);
        // The flood arrives first.
        if turn == 256 + 50 {
            world.endpoint.ask(4, 5);
        }
        world.endpoint_speaks();
        world.tick();
        if world.given == 5 {
            timeouts = turn / 128;
            break;
        }
    }
    assert_eq!(world.given, 5, "no session after 300 timeouts");
    assert!(timeouts < 60, "{timeouts} timeouts");
}

#[test]
fn allocation_goes_on_during_a_flood() {
    let mut world = World::new();
    for _ in 0..200 {
        world.endpoint.ask(4, 10);
        for _ in 0..100 {
            world.forge(STRANGE);
            world.forge(UNPRIVILEGED);
        }
        world.endpoint_speaks();
        world.tick();
        let next = world.service.next_event();
        world.now = next.clamp(world.now + 100, world.now + 20_000) + world.random.below(300);
    }
    while world.endpoint.outstanding(4) > 0 {
        world.endpoint_speaks();
        world.tick();
        world.now += 5000;
    }
    assert_eq!(world.given, 2000);
    assert_eq!(world.service.counters().sessions, 1);
}

/// A genuine endpoint reports without end: requests of others must not wait for its reports.
#[test]
fn the_reports_read_from_an_endpoint_are_limited() {
    let mut world = World::with_session();
    let entries = [Entry {
        peer: 4,
        ..Entry::default()
    }; ENTRIES];
    for _ in 0..1000 {
        let mut bytes = [0; MAX_SIZE];
        let len = world.endpoint.report(world.now, &entries, &mut bytes);
        let bytes = &bytes[..len.unwrap()];
        world.service.receive(world.now, at(OWN), bytes);
    }
    let counters = world.service.counters();
    assert_eq!(counters.reported, 1000 * ENTRIES as u64);
    let read = (counters.reported - counters.unheeded) / ENTRIES as u64;
    assert!((120..=129).contains(&read), "{read}");
}

/// A sender in the endpoint's name that completes the exchange takes over its session. That
/// requires the endpoint's address and a privilege, as the endpoint's own packets do.
#[test]
fn a_request_without_a_session_is_answered_at_once() {
    let mut world = World::new();
    let mut bytes = [0; MAX_SIZE];
    let head = Head {
        kind: Kind::Request,
        endpoint: VICTIM,
        word: 5,
    };
    let len = encode(&mut bytes, head, 1, [].into_iter(), &[]);
    world.service.receive(world.now, at(STRANGE), &bytes[..len]);
    world.tick();
    assert_eq!(world.elsewhere, 1);
}
