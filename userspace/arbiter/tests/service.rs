// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arbiter among endpoints that speak the protocol, and others that do not.

mod fat_tree;
mod random;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::{Ipv4Addr, SocketAddrV4};

use weft_arbiter::fabric::Ways;
use weft_arbiter::routes::Routes;
use weft_arbiter::service::{Policy, Secret, Service, Settings};
use weft_arbiter::{Invalid, Lags, MAX_AHEAD};
use weft_mechanisms::fastpass::address::Addresses;
use weft_mechanisms::fastpass::endpoint::{Endpoint, Received};
use weft_mechanisms::fastpass::frame::{Count, Head, Kind, MAX_SIZE, encode};
use weft_mechanisms::heap::Heap;

use fat_tree::{FAT_TREE, LEAD, SETTINGS, TIMEOUT, TIMESLOT, TRAVEL};
use random::Random;

const SECRET: Secret = Secret([0x5eed, 0xc0de]);

/// A packet of a timeslot: its source, its destination, its path.
type Packet = (u16, u16, u8);

struct World {
    random: Random,
    now: u64,
    service: Service,
    endpoints: Vec<Endpoint<Heap>>,
    /// Lost packets in percent.
    loss: u64,
    /// Allocations by timeslot.
    given: BTreeMap<u64, Vec<Packet>>,
    /// Packets to ports that belong to no endpoint.
    elsewhere: Vec<(SocketAddrV4, Vec<u8>)>,
}

/// The port of the endpoints' sessions, which is privileged.
const PORT: u16 = 700;

fn address(endpoint: u16) -> SocketAddrV4 {
    let address = FAT_TREE.address(endpoint).unwrap();
    SocketAddrV4::new(Ipv4Addr::from(address), PORT)
}

impl World {
    fn new(settings: Settings) -> Self {
        let mut random = Random(9);
        let count = settings.addresses.count() as u16;
        let endpoints = (0..count).map(|id| {
            let Ok(endpoint) = Endpoint::new(id, count, random.draw(), TIMEOUT);
            endpoint
        });
        let endpoints = endpoints.collect();
        Self {
            random,
            now: 5_000_000,
            service: Service::new(settings, SECRET).unwrap(),
            endpoints,
            loss: 0,
            given: BTreeMap::new(),
            elsewhere: Vec::new(),
        }
    }

    fn from(&mut self, from: SocketAddrV4, bytes: &[u8]) {
        self.service.receive(self.now, from, bytes);
    }

    /// All endpoints send their messages, and time passes until slightly after the arbiter's next
    /// event.
    fn step(&mut self) {
        let mut bytes = [0; MAX_SIZE];
        for id in 0..self.endpoints.len() {
            while let Some(len) = self.endpoints[id].poll(self.now, &mut bytes) {
                if self.random.below(100) >= self.loss {
                    self.from(address(id as u16), &bytes[..len]);
                }
            }
        }
        let mut said = Vec::new();
        let now = self.now;
        self.service
            .tick(now, |to, bytes| said.push((to, bytes.to_vec())));
        for (to, bytes) in said {
            let id = FAT_TREE.endpoint((*to.ip()).into()).unwrap();
            if to.port() != PORT {
                self.elsewhere.push((to, bytes));
                continue;
            }
            if self.random.below(100) < self.loss {
                continue;
            }
            let given = &mut self.given;
            self.endpoints[usize::from(id)].receive(&bytes, |granted| {
                // It arrives in time, for a timeslot that the host can still use.
                let begin = granted.timeslot * TIMESLOT;
                let ahead = LEAD + (20 + MAX_AHEAD) * TIMESLOT;
                assert!(begin >= now + TRAVEL && begin < now + ahead);
                let packets = given.entry(granted.timeslot).or_default();
                packets.push((id, granted.destination, granted.path));
            });
        }
        let endpoints = self.endpoints.iter();
        let due = endpoints.filter_map(|it| it.next_poll(now)).min();
        let next = self.service.next_event().min(due.unwrap_or(u64::MAX));
        self.now = next.max(now + 1) + self.random.below(300);
    }

    fn outstanding(&self) -> u32 {
        let pairs = self.endpoints.iter().flat_map(|endpoint| {
            (0..FAT_TREE.count() as u16).map(|destination| endpoint.outstanding(destination))
        });
        pairs.sum()
    }

    fn finish(&mut self) {
        for _ in 0..20_000 {
            if self.outstanding() == 0 {
                return;
            }
            self.step();
        }
        panic!("{} are outstanding", self.outstanding());
    }
}

/// The links of a packet's path: each carries one packet per timeslot.
fn links((from, to, path): Packet) -> Vec<(&'static str, u16, u16)> {
    let (rack, pod) = (|it: u16| it / 2, |it: u16| it / 4);
    let [way, core] = [u16::from(path) % 2, u16::from(path) / 2];
    let mut links = vec![("host out", from, 0), ("host in", to, 0)];
    if rack(from) != rack(to) {
        links.extend([("rack out", rack(from), way), ("rack in", rack(to), way)]);
    }
    if pod(from) != pod(to) {
        let at = |pod: u16| pod * 2 + way;
        links.extend([
            ("pod out", at(pod(from)), core),
            ("pod in", at(pod(to)), core),
        ]);
    }
    links
}

fn check(given: &BTreeMap<u64, Vec<Packet>>) {
    for (timeslot, packets) in given {
        let mut seen = HashSet::new();
        for packet in packets {
            assert!(packet.2 < 4);
            for link in links(*packet) {
                assert!(seen.insert(link), "{timeslot}: {link:?} twice: {packets:?}");
            }
        }
    }
}

#[test]
fn no_link_of_the_fabric_carries_two_packets_of_a_timeslot() {
    for policy in [Policy::MaxMin, Policy::MinFct] {
        let mut world = World::new(Settings { policy, ..SETTINGS });
        let mut asked = HashMap::new();
        for round in 0..300 {
            for _ in 0..world.random.below(40) {
                let [from, to] = [(); 2].map(|()| world.random.below(16) as u16);
                // Bursts, sometimes larger than a batch.
                let slots = 1 + world.random.below(if round % 10 == 0 { 100 } else { 6 }) as u32;
                if from != to {
                    let added = world.endpoints[usize::from(from)].ask(to, slots);
                    *asked.entry((from, to)).or_insert(0) += added;
                }
            }
            for _ in 0..world.random.below(5) {
                world.step();
            }
        }
        world.finish();
        check(&world.given);
        let mut came = HashMap::new();
        for (from, to, _) in world.given.values().flatten() {
            *came.entry((*from, *to)).or_insert(0) += 1;
        }
        assert_eq!(came, asked);
        let counters = world.service.counters();
        assert_eq!(
            (counters.wanted, counters.unwanted, counters.refused),
            (0, 0, 0)
        );
        assert!(counters.leftover > 100, "{}", counters.leftover);
        let least = world.given.values().map(Vec::len).max().unwrap();
        assert_eq!(least, 16, "once all hosts sent at the same time");
    }
}

/// A link, and the timeslot in which it carries a packet that was sent in `timeslot`.
fn when(timeslot: u64, packet: Packet, lags: Lags) -> Vec<((&'static str, u16, u16), u64)> {
    let (from, to, _) = packet;
    let lag = match (from / 2 == to / 2, from / 4 == to / 4) {
        (true, _) => 0,
        (_, true) => lags.near,
        _ => lags.far,
    };
    let links = links(packet).into_iter();
    let at = links.map(|link| match link.0 {
        "host in" | "rack in" => (link, timeslot + u64::from(lag)),
        _ => (link, timeslot),
    });
    at.collect()
}

#[test]
fn packets_of_long_and_of_short_paths_never_collide_at_a_receivers_link_and_rarely_elsewhere() {
    let lags = Lags { near: 2, far: 5 };
    for policy in [Policy::MaxMin, Policy::MinFct] {
        let mut world = World::new(Settings {
            policy,
            lags,
            ..SETTINGS
        });
        for _ in 0..300 {
            for _ in 0..world.random.below(100) {
                let [from, to] = [(); 2].map(|()| world.random.below(16) as u16);
                if from != to {
                    world.endpoints[usize::from(from)].ask(to, 3);
                }
            }
            for _ in 0..world.random.below(5) {
                world.step();
            }
        }
        world.finish();
        let mut seen = HashSet::new();
        let (mut all, mut met) = (0, 0);
        for (timeslot, packets) in &world.given {
            for packet in packets {
                all += 1;
                for (link, at) in when(*timeslot, *packet, lags) {
                    if !seen.insert((link, at)) {
                        assert_eq!(link.0, "rack in", "{timeslot}: {packet:?}");
                        met += 1;
                    }
                }
            }
        }
        assert!(all > 10_000 && met * 20 < all, "{met} of {all}");
    }
}

/// One flow within the pod, another one from its sender's neighbour, and one from elsewhere to its
/// receiver's neighbour. The flow that yields gets other times. Otherwise the same two would
/// collide in every timeslot, and the backlog would grow.
#[test]
fn long_flows_do_not_collide_repeatedly() {
    let lags = Lags { near: 2, far: 5 };
    for seed in 0..20 {
        let mut world = World::new(Settings { lags, ..SETTINGS });
        world.random = Random(seed + 1);
        for (from, to) in [(0, 2), (1, 8), (9, 3), (12, 10), (11, 4)] {
            world.endpoints[from].ask(to, 1000);
        }
        world.finish();
        let mut seen = HashSet::new();
        let mut met = 0;
        for (timeslot, packets) in &world.given {
            for packet in packets {
                let links = when(*timeslot, *packet, lags).into_iter();
                met += links.filter(|link| !seen.insert(*link)).count();
            }
        }
        assert!(met <= 20, "{met} of 5000, seed {seed}");
    }
}

/// All links of hosts are always busy: each host sends to one other host, which acknowledges. Where
/// two downlinks of a switch have room for both of its hosts, the load must not stay unequal, or
/// one link would lose packets.
#[test]
fn no_downlink_stays_overloaded_while_all_hosts_send() {
    // A timeslot is 3 % longer than a packet (`timeslot` of `weft schemes fastpass`).
    const CARRIED: f64 = 1.03;
    let lags = Lags { near: 2, far: 5 };
    for seed in 0..8 {
        let mut world = World::new(Settings { lags, ..SETTINGS });
        world.random = Random(seed + 1);
        let mut receivers: Vec<u16> = (0..16).collect();
        for last in (1..16).rev() {
            // No host sends to itself (S. Sattolo, 1986).
            receivers.swap(last, world.random.below(last as u64) as usize);
        }
        let end = world.now + 3000 * TIMESLOT;
        while world.now < end {
            for (from, to) in receivers.iter().enumerate() {
                if world.endpoints[from].outstanding(*to) < 100 {
                    world.endpoints[from].ask(*to, 64);
                }
                // Acknowledgements, several per timeslot.
                if world.random.below(4) == 0 {
                    world.endpoints[usize::from(*to)].ask(from as u16, 1);
                }
            }
            world.step();
        }
        let mut come = BTreeMap::new();
        for (timeslot, packets) in &world.given {
            for packet in packets {
                for (link, at) in when(*timeslot, *packet, lags) {
                    *come.entry((link, at)).or_insert(0.0) += 1.0;
                }
            }
        }
        let mut waiting = HashMap::new();
        let mut most = (0.0, None);
        for ((link, at), packets) in come {
            let (last, before) = waiting.get(&link).copied().unwrap_or((at, 0.0));
            let left = f64::max(before - (at - last) as f64 * CARRIED, 0.0);
            let now = left + packets;
            if now > most.0 {
                most = (now, Some(link));
            }
            waiting.insert(link, (at, now));
        }
        assert!(most.0 < 30.0, "{most:?} packets wait, seed {seed}");
    }
}

/// Demand beyond the capacity of endpoints 3 and 12. Returns the number of timeslots, the packets
/// that each endpoint sent and received, and the timeslots reserved in both directions.
fn saturated(settings: Settings) -> (usize, [usize; 2], [usize; 2], [u64; 2]) {
    let mut world = World::new(settings);
    for other in (0..16).filter(|it| ![3, 12].contains(it)) {
        for end in [3, 12] {
            world.endpoints[other].ask(end, 200);
            world.endpoints[usize::from(end)].ask(other as u16, 200);
        }
    }
    for _ in 0..500 {
        world.step();
    }
    if settings.lags != Lags::default() {
        let mut seen = HashSet::new();
        for (timeslot, packets) in &world.given {
            for packet in packets {
                let links = when(*timeslot, *packet, settings.lags).into_iter();
                for link in links.filter(|((kind, ..), _)| *kind == "host in") {
                    assert!(seen.insert(link), "{timeslot}: {link:?} twice");
                }
            }
        }
    } else {
        check(&world.given);
    }
    let last = *world.given.keys().last().unwrap() as usize;
    let first = *world.given.keys().next().unwrap() as usize;
    let all: Vec<Packet> = world.given.values().flatten().copied().collect();
    let of = |end: u16| {
        [
            all.iter().filter(|it| it.0 == end).count(),
            all.iter().filter(|it| it.1 == end).count(),
        ]
    };
    let reserved = world.service.counters().reserved;
    (last - first + 1, of(3), of(12), reserved)
}

#[test]
fn the_arbiters_own_packets_take_timeslots_of_its_hosts_link() {
    for lags in [Lags::default(), Lags { near: 2, far: 5 }] {
        let with = Settings {
            lags,
            ahead: 0,
            ..SETTINGS
        };
        let (_, three, twelve, none) = saturated(with);
        assert_eq!(none, [0, 0]);
        assert!(three.iter().zip(twelve).all(|(a, b)| a.abs_diff(b) <= 20));
        let (slots, left, others, reserved) = saturated(Settings {
            own: Some(3),
            ..with
        });
        // Packets of the last timeslots arrive after them.
        let slots = slots + lags.far as usize;
        // An endpoint acknowledges many allocations at once, so the arbiter receives less than it
        // sends.
        for (side, share) in [50, 1000].into_iter().enumerate() {
            let reserved = reserved[side] as usize;
            assert!(
                reserved * share > slots && reserved * 2 < slots,
                "{reserved} of {slots}, side {side}, {lags:?}"
            );
            let given = left[side] + reserved;
            assert!(
                given <= slots && left[side] < others[side],
                "{left:?} and {reserved}, beside {others:?}, of {slots}, {lags:?}"
            );
        }
    }
}

#[test]
fn timeslots_follow_one_another_while_there_is_demand() {
    let mut world = World::new(SETTINGS);
    world.endpoints[0].ask(15, 2000);
    world.finish();
    let slots: Vec<u64> = world.given.keys().copied().collect();
    assert_eq!(slots.len(), 2000);
    assert!(slots.windows(2).all(|pair| pair[1] == pair[0] + 1));
    let counters = world.service.counters();
    assert_eq!(counters.skipped_timeslots, 0);
    assert_eq!(counters.late_batches, 0, "each timer was a little late");
}

/// The timeslots from a request's time to its first one, beside long flows that have been alone for
/// so long.
fn newcomer(quiet: u64, receiver: u16) -> u64 {
    let mut world = World::new(SETTINGS);
    let keep_busy = |world: &mut World| {
        for (from, to) in [(0, 15), (2, 13)] {
            if world.endpoints[from].outstanding(to) < 2000 {
                world.endpoints[from].ask(to, 1000);
            }
        }
    };
    keep_busy(&mut world);
    let begin = world.now;
    while world.now < begin + quiet * TIMESLOT {
        world.step();
        keep_busy(&mut world);
    }
    let asked = world.now;
    world.endpoints[6].ask(receiver, 12);
    loop {
        world.step();
        keep_busy(&mut world);
        let mut given = world.given.iter();
        let found = given.find(|(_, packets)| packets.iter().any(|it| it.0 == 6));
        if let Some((timeslot, _)) = found {
            check(&world.given);
            return timeslot - asked / TIMESLOT;
        }
    }
}

#[test]
fn a_new_flow_waits_for_a_32nd_of_the_time_that_the_network_was_quiet() {
    // The lead, a batch, and a step of the test.
    let least = (LEAD / TIMESLOT) + 2 * SETTINGS.batch as u64;
    let mut longest = 0;
    for quiet in (10..9_000).step_by(197) {
        let waited = newcomer(quiet, 15);
        let most = least + (quiet / 32).min(MAX_AHEAD);
        assert!(waited <= most, "{waited} after {quiet}");
        longest = longest.max(waited);
        // Its first timeslots are left over if its receiver is free.
        let waited = newcomer(quiet, 9);
        assert!(waited <= least, "{waited} after {quiet}");
    }
    assert!(longest > MAX_AHEAD / 2, "something was ahead: {longest}");
}

#[test]
fn a_flow_that_follows_another_after_a_pause_waits_for_an_ordinary_batch() {
    for pause in [0, 10, 1000, 1_000_000] {
        let mut world = World::new(SETTINGS);
        for round in 0..3 {
            world.now += pause * TIMESLOT;
            let begin = world.now;
            world.given.clear();
            world.endpoints[0].ask(15, 100);
            world.step();
            world.endpoints[2].ask(15, 100);
            world.finish();
            check(&world.given);
            let second = world.given.iter().find(|(_, packets)| packets[0].0 == 2);
            let waited = second.unwrap().0 - begin / TIMESLOT;
            let most = (LEAD / TIMESLOT) + 2 * SETTINGS.batch as u64;
            assert!(waited <= most, "{waited} after {pause}, {round}");
        }
    }
}

/// The datagrams that the arbiter sends, and the timeslots that it gives, while only long flows
/// send.
fn long_flows(ahead: u64, loss: u64) -> (u64, u64) {
    let mut world = World::new(Settings { ahead, ..SETTINGS });
    for (from, to) in [(0, 15), (2, 15), (4, 9), (9, 4)] {
        world.endpoints[from].ask(to, 40_000);
    }
    while world.now < 5_000_000 + 8_000 * TIMESLOT {
        world.step();
    }
    world.loss = loss;
    let (said, given) = (world.service.counters().said, world.given.len());
    while world.now < 5_000_000 + 15_000 * TIMESLOT {
        world.step();
    }
    check(&world.given);
    let counters = world.service.counters();
    assert_eq!((counters.skipped_timeslots, counters.unwanted), (0, 0));
    (counters.said - said, (world.given.len() - given) as u64)
}

#[test]
fn a_datagram_of_a_quiet_network_carries_many_timeslots() {
    let [(many, each), (few, all)] = [0, MAX_AHEAD].map(|ahead| long_flows(ahead, 0));
    assert!(each.abs_diff(7000) <= MAX_AHEAD && all.abs_diff(7000) <= MAX_AHEAD);
    assert!(few * 10 < many, "{few} datagrams, {many} without");
    // Losses cost repetitions, and no timeslot is given twice.
    let (few, all) = long_flows(MAX_AHEAD, 10);
    assert!(all > 4000 && few * 2 < many, "{few} datagrams for {all}");
}

#[test]
fn a_batch_is_late_if_an_eighth_of_its_lead_is_gone() {
    for (delay, late) in [(0, 0), (LEAD / 16, 0), (LEAD / 4, 1), (LEAD * 3 / 8, 1)] {
        let mut world = World::new(Settings {
            ahead: 0,
            ..SETTINGS
        });
        world.endpoints[0].ask(15, 2000);
        while world.service.counters().batches < 10 {
            world.step();
        }
        let before = world.service.counters().late_batches;
        world.now = world.service.next_event() + delay;
        while world.service.counters().batches < 11 {
            world.step();
        }
        let counters = world.service.counters();
        assert_eq!(counters.late_batches - before, late, "{delay} ns");
        assert_eq!(counters.skipped_timeslots, 0);
    }
}

#[test]
fn lost_allocations_are_repeated() {
    let mut world = World::new(SETTINGS);
    world.loss = 30;
    for from in 0..16 {
        for to in (0..16).filter(|to| *to != from) {
            world.endpoints[usize::from(from)].ask(to, 20);
        }
    }
    world.finish();
    check(&world.given);
    let came: usize = world.given.values().map(Vec::len).sum();
    assert_eq!(came, 16 * 15 * 20);
}

#[test]
fn an_arbiter_that_knows_nothing_takes_over() {
    let mut world = World::new(SETTINGS);
    for from in 0..16_u16 {
        world.endpoints[usize::from(from)].ask((from + 1) % 16, 300);
    }
    for _ in 0..30 {
        world.step();
    }
    assert!((100..4000).contains(&world.outstanding()));
    let last = *world.given.keys().last().unwrap();
    world.service = Service::new(SETTINGS, Secret([1, 1])).unwrap();
    // All allocations of the first arbiter are over.
    world.now = world.now.max((last + 1) * TIMESLOT);
    // Endpoints with pending requests and without allocations ask again, like their host.
    world.endpoints.iter_mut().for_each(Endpoint::enquire);
    world.finish();
    check(&world.given);
    let came: usize = world.given.values().map(Vec::len).sum();
    assert_eq!(came, 16 * 300);
    assert_eq!(world.service.counters().sessions, 16);
}

/// A request in an endpoint's name, with this cookie.
fn request(id: u16, cookie: u64, nonce: u64, counts: &[(u16, u32)]) -> Vec<u8> {
    let mut bytes = [0; MAX_SIZE];
    let head = Head {
        kind: Kind::Request,
        endpoint: id,
        word: cookie,
    };
    let counts = counts
        .iter()
        .map(|&(destination, total)| Count { destination, total });
    let len = encode(&mut bytes, head, nonce, counts, &[]);
    bytes[..len].to_vec()
}

/// Requests many timeslots to all endpoints in turn, during an attack; returns the number of
/// timeslots that endpoint 1 gets to 9.
fn among(mut harm: impl FnMut(&mut World)) -> (World, usize) {
    let mut world = World::new(SETTINGS);
    world.endpoints[1].ask(9, 500);
    for _ in 0..400 {
        harm(&mut world);
        world.step();
    }
    check(&world.given);
    let all = world.given.values().flatten();
    let came = all.filter(|(from, to, _)| (*from, *to) == (1, 9)).count();
    (world, came)
}

#[test]
fn forged_endpoint_numbers_and_addresses_change_nothing() {
    let (world, came) = among(|world| {
        // From the sender's own address in another's name; from another's address without its
        // nonce; from an unknown address.
        world.from(address(2), &request(1, 77, 1, &[(9, 5)]));
        world.from(address(1), &request(1, 77, 1, &[(9, 5)]));
        let mut stranger = address(1);
        stranger.set_ip(Ipv4Addr::new(192, 0, 2, 1));
        world.from(stranger, &request(1, 77, 1, &[(9, 5)]));
        // And from another port: an answer to it must not replace the endpoint's own session.
        let mut port = address(1);
        port.set_port(600);
        world.from(port, &request(1, 77, 1, &[(9, 5)]));
        world.from(port, b"FCP");
    });
    assert_eq!(came, 500);
    let counters = world.service.counters();
    assert!(
        counters.foreign >= 800 && counters.unsynchronised >= 400,
        "{counters:?}"
    );
    assert!(counters.malformed >= 400, "{counters:?}");
    assert_eq!(counters.sessions, 1);
    // Only RESETs, and few.
    assert!(!world.elsewhere.is_empty());
    let all_resets = world.elsewhere.iter().all(|(_, bytes)| bytes[4] == 5);
    assert!(all_resets);
}

#[test]
fn requests_for_oneself_for_strangers_and_for_too_much_are_refused_and_counted() {
    let mut nonce = None;
    let (mut total, mut asked) = (0_u32, false);
    let (world, came) = among(|world| {
        let Some(nonce) = nonce else {
            // A genuine session, whose endpoint then misbehaves.
            let mut endpoint =
                Endpoint::<Heap>::new(4, 16, 44, TIMEOUT).unwrap_or_else(|no| match no {});
            let mut bytes = [0; MAX_SIZE];
            endpoint.ask(5, 1);
            let len = endpoint.poll(world.now, &mut bytes).unwrap();
            world.from(address(4), &bytes[..len]);
            let mut reset = Vec::new();
            world
                .service
                .poll(world.now, |_, bytes| reset = bytes.to_vec());
            assert_eq!(endpoint.receive(&reset, |_| ()), Received::Reset);
            nonce = Some(u64::from_be_bytes(reset[32..40].try_into().unwrap()));
            return;
        };
        total = total.wrapping_add(30_000);
        asked = true;
        let first = u32::MAX - 19;
        let counts = [
            (4, first.wrapping_add(total)),
            (16, first.wrapping_add(total)),
            (u16::MAX, first.wrapping_add(total)),
            (9, first.wrapping_add(total)),
            (10, first.wrapping_add(1 << 30)),
        ];
        world.from(address(4), &request(4, 45, nonce, &counts));
    });
    assert!(asked);
    let counters = world.service.counters();
    assert!(counters.refused >= 4 * 390, "{counters:?}");
    // Both request timeslots to 9: each gets half, within one batch.
    let timeslots = world.given.len();
    assert!(came >= timeslots / 2 - 8, "{came} of {timeslots}");
    assert!(counters.wanted <= 2 * 65_535);
}

#[test]
fn impossible_settings_are_refused() {
    let refused = |addresses: Addresses, ways: Ways| {
        let settings = Settings {
            addresses,
            ways,
            ..SETTINGS
        };
        Service::new(settings, SECRET).err()
    };
    assert_eq!(
        refused(FAT_TREE, Ways { edge: 0, core: 1 }),
        Some(Invalid::Paths)
    );
    assert_eq!(
        refused(FAT_TREE, Ways { edge: 32, core: 9 }),
        Some(Invalid::Paths)
    );
    let batch = Settings {
        batch: 65,
        ..SETTINGS
    };
    assert_eq!(Service::new(batch, SECRET).err(), Some(Invalid::Batch));
    for (lags, batch, expected) in [
        (Lags { near: 2, far: 1 }, 8, Invalid::Lags),
        (Lags { near: 2, far: 5 }, 60, Invalid::Batch),
    ] {
        let settings = Settings {
            lags,
            batch,
            ..SETTINGS
        };
        assert_eq!(Service::new(settings, SECRET).err(), Some(expected));
    }
    let own = Settings {
        own: Some(16),
        ..SETTINGS
    };
    assert_eq!(Service::new(own, SECRET).err(), Some(Invalid::Endpoints));
    // With one path there is no choice, whatever the number of hosts.
    let rack = Addresses {
        first: 1,
        hosts: 200,
        racks: 1,
        pods: 1,
    };
    assert_eq!(refused(rack, Ways { edge: 1, core: 1 }), None);
}

#[test]
fn with_more_hosts_than_uplinks_links_carry_equally_many_packets() {
    // Four hosts at each of four switches, two switches per pod, two links up and one from there:
    // two packets for each link.
    let addresses = Addresses {
        first: 1,
        hosts: 4,
        racks: 2,
        pods: 2,
    };
    let ways = Ways { edge: 2, core: 2 };
    let settings = Settings {
        addresses,
        ways,
        ..SETTINGS
    };
    let mut routes = Routes::new(&addresses, ways, Lags::default()).unwrap();
    let _ = Service::new(settings, SECRET).unwrap();
    let mut allocator = weft_arbiter::max_min::MaxMin::new(16, 1).unwrap();
    let mut free = weft_arbiter::Free::new(16, 1).unwrap();
    let mut random = Random(3);
    for number in 0..500 {
        use weft_arbiter::Allocator as _;
        for from in 0..16_u16 {
            let to = random.below(16) as u16;
            if from != to {
                allocator.request(from, to, 1).unwrap();
            }
        }
        free.allocate(&mut allocator);
        let packets = allocator.timeslot(0).to_vec();
        let paths = routes.select(number, &packets);
        let mut loads = HashMap::new();
        for (packet, path) in packets.iter().zip(paths) {
            let [way, core] = [u16::from(path % 2), u16::from(path / 2)];
            let (from, to) = (packet.source(), packet.destination());
            for (side, end) in [("out", from), ("in", to)] {
                if from / 4 != to / 4 {
                    *loads.entry(("rack", side, end / 4, way)).or_insert(0) += 1;
                }
                if from / 8 != to / 8 {
                    *loads
                        .entry(("pod", side, end / 8 * 2 + way, core))
                        .or_insert(0) += 1;
                }
            }
        }
        assert!(loads.values().all(|load| *load <= 2), "{loads:?}");
    }
}
