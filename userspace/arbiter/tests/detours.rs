// SPDX-License-Identifier: MIT OR Apache-2.0

//! Packets avoid failed components, no link carries more than its capacity even then, and no pair
//! starves.

mod fat_tree;
mod random;

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use proptest::prelude::*;
use weft_arbiter::fabric::Ways;
use weft_arbiter::fabric::{Component, Direction, Fabric};
use weft_arbiter::faults::Fault;
use weft_arbiter::max_min::MaxMin;
use weft_arbiter::routes::Routes;
use weft_arbiter::service::{Secret, Service, Settings};
use weft_arbiter::{Allocation, Allocator as _, Free, Lags};
use weft_mechanisms::fastpass::address::Addresses;
use weft_mechanisms::fastpass::endpoint::Endpoint;
use weft_mechanisms::fastpass::frame::{ENTRIES, Entry, MAX_SIZE};
use weft_mechanisms::fastpass::ledger::Ledger;
use weft_mechanisms::heap::Heap;

use fat_tree::{FAT_TREE, LEAD, SETTINGS, TIMEOUT, TIMESLOT, WAYS};
use random::Random;

const SECRET: Secret = Secret([0x5eed, 0xc0de]);

const NONE: Lags = Lags { near: 0, far: 0 };

fn addresses(hosts: u32, racks: u32, pods: u32) -> Addresses {
    Addresses {
        first: 0x0a00_0002,
        hosts,
        racks,
        pods,
    }
}

/// The links between switches on a path, with their directions.
fn links(fabric: &Fabric, packet: Allocation, path: u8) -> Vec<(Component, Direction)> {
    let way = fabric.path(packet.source(), packet.destination(), path);
    let is_link =
        |it: &Component| matches!(it, Component::RackLink { .. } | Component::PodLink { .. });
    way.filter(|(it, _)| is_link(it)).collect()
}

fn is_open(fabric: &Fabric, packet: Allocation, path: u8, avoided: &[Component]) -> bool {
    let mut way = fabric.path(packet.source(), packet.destination(), path);
    !way.any(|(it, _)| avoided.contains(&it))
}

fn components(fabric: &Fabric) -> Vec<Component> {
    let mut all = Vec::new();
    for to in 1..fabric.endpoints() {
        for path in 0..fabric.paths() {
            let [there, back] = [(0, to), (to, 0)];
            for (from, to) in [there, back] {
                all.extend(fabric.path(from, to, path as u8).map(|(it, _)| it));
            }
        }
    }
    all.sort_unstable();
    all.dedup();
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_link_exceeds_its_capacity_and_packets_wait_only_if_all_paths_are_full(
        seed: u64, racks in 1..4_u32, pods in 1..4_u32, hosts in 1..4_u32, edge in 1..4_usize, core in 1..3_usize,
        failures in 0..4_usize,
    ) {
        let (addresses, ways) = (addresses(hosts, racks, pods), Ways { edge, core });
        prop_assume!(addresses.count() > 1);
        let fabric = Fabric::new(&addresses, ways);
        let mut random = Random(seed | 1);
        let mut routes = Routes::new(&addresses, ways, NONE).unwrap();
        let mut avoided = Vec::new();
        let all = components(&fabric);
        for _ in 0..failures {
            let one = all[random.below(all.len() as u64) as usize];
            if !matches!(one, Component::Host(_)) && fabric.can_avoid(&avoided, one) {
                avoided.push(one);
            }
        }
        routes.avoid(&avoided);
        let rack_room = (hosts as usize).div_ceil(edge);
        let pod_room = (racks as usize * rack_room).div_ceil(core);
        let room = |it: &Component| match it {
            Component::RackLink { .. } => rack_room,
            _ => pod_room,
        };
        let count = addresses.count();
        let mut allocator = MaxMin::new(count as usize, 8).unwrap();
        let mut free = Free::new(count as usize, 8).unwrap();
        for batch in 0..20 {
            for _ in 0..random.below(12 * u64::from(count)) {
                let [from, to] = [(); 2].map(|()| random.below(count.into()) as u16);
                if from != to {
                    allocator.request(from, to, 1 + random.below(3) as u16).unwrap();
                }
            }
            free.allocate(&mut allocator);
            for index in 0..8 {
                let packets = allocator.timeslot(index).to_vec();
                routes.select(batch * 8 + index as u64, &packets);
                let waiting = routes.waiting().to_vec();
                let mut loads: HashMap<_, usize> = HashMap::new();
                for (place, (packet, path)) in packets.iter().zip(routes.selected()).enumerate() {
                    if waiting.contains(&place) {
                        continue;
                    }
                    prop_assert!(is_open(&fabric, *packet, *path, &avoided));
                    for link in links(&fabric, *packet, *path) {
                        *loads.entry(link).or_default() += 1;
                    }
                }
                for ((link, _), load) in &loads {
                    prop_assert!(*load <= room(link), "{}: {}", link, load);
                }
                prop_assert!(!avoided.is_empty() || waiting.is_empty());
                for place in waiting {
                    let packet = packets[place];
                    for path in (0..fabric.paths()).map(|path| path as u8) {
                        let has_room = |link: &(Component, Direction)| {
                            loads.get(link).is_none_or(|load| *load < room(&link.0))
                        };
                        let is_free = links(&fabric, packet, path).iter().all(has_room);
                        prop_assert!(!is_free || !is_open(&fabric, packet, path, &avoided));
                    }
                }
            }
        }
    }
}

/// A little more than two eighths of a trial.
const REPORT: u64 = 300_000;

/// The arbiter, endpoints with their ledgers, and a fabric in which a component loses packets.
struct World {
    random: Random,
    now: u64,
    fabric: Fabric,
    service: Service,
    endpoints: Vec<Endpoint<Heap>>,
    ledgers: Vec<Ledger<Heap>>,
    report_at: u64,
    broken: Option<Component>,
    /// Time of sending, source, destination and path.
    given: Vec<(u64, u16, u16, u8)>,
    /// Control packets lost, in percent.
    loss: u64,
}

impl World {
    fn new(lags: Lags) -> Self {
        let settings = Settings { lags, ..SETTINGS };
        let mut random = Random(11);
        let endpoints = (0..16).map(|id| {
            let Ok(endpoint) = Endpoint::new(id, 16, random.draw(), TIMEOUT);
            endpoint
        });
        Self {
            endpoints: endpoints.collect(),
            random,
            now: 5_000_000,
            fabric: Fabric::new(&FAT_TREE, WAYS),
            service: Service::new(settings, SECRET).unwrap(),
            ledgers: (0..16).map(|_| Ledger::new(16, 4).unwrap()).collect(),
            report_at: 0,
            broken: None,
            given: Vec::new(),
            loss: 0,
        }
    }

    fn say(&mut self, id: u16, bytes: &[u8]) {
        if self.random.below(100) >= self.loss {
            let address = Ipv4Addr::from(FAT_TREE.address(id).unwrap());
            let from = SocketAddrV4::new(address, 700);
            self.service.receive(self.now, from, bytes);
        }
    }

    fn comes_by(&self, from: u16, to: u16, path: u8, it: Component) -> bool {
        self.fabric
            .path(from, to, path)
            .any(|(other, _)| other == it)
    }

    fn step(&mut self) {
        let mut bytes = [0; MAX_SIZE];
        for id in 0..16 {
            while let Some(len) = self.endpoints[usize::from(id)].poll(self.now, &mut bytes) {
                self.say(id, &bytes[..len]);
            }
        }
        if self.report_at <= self.now {
            self.report_at = self.now + REPORT;
            for id in 0..16 {
                let mut entries = [Entry::default(); ENTRIES];
                for _ in 0..2 {
                    let filled = self.ledgers[usize::from(id)].report(0, &mut entries);
                    let endpoint = &self.endpoints[usize::from(id)];
                    if let Some(len) = endpoint.report(self.now, &entries[..filled], &mut bytes) {
                        self.say(id, &bytes[..len]);
                    }
                }
            }
        }
        let mut said = Vec::new();
        let now = self.now;
        self.service
            .tick(now, |to, bytes| said.push((to, bytes.to_vec())));
        let mut granted = Vec::new();
        for (to, bytes) in said {
            let id = FAT_TREE.endpoint((*to.ip()).into()).unwrap();
            if self.random.below(100) >= self.loss {
                self.endpoints[usize::from(id)].receive(&bytes, |it| {
                    granted.push((it.timeslot, id, it.destination, it.path));
                });
            }
        }
        for (timeslot, from, to, path) in granted {
            self.given.push((timeslot, from, to, path));
            let number = self.ledgers[usize::from(from)].send(now, to, path.into());
            let is_lost = self
                .broken
                .is_some_and(|it| self.comes_by(from, to, path, it));
            if let Some(number) = number.filter(|_| !is_lost) {
                self.ledgers[usize::from(to)].arrive(now, from, path.into(), number);
            }
        }
        let next = self.service.next_event().min(self.report_at);
        self.now = next.clamp(now + 1, now + 5000);
    }

    /// All hosts send to all others for this time.
    fn run(&mut self, ns: u64) {
        let end = self.now + ns;
        while self.now < end {
            for _ in 0..20 {
                let [from, to] = [(); 2].map(|()| self.random.below(16) as u16);
                if from != to && self.endpoints[usize::from(from)].outstanding(to) < 10 {
                    self.endpoints[usize::from(from)].ask(to, 2);
                }
            }
            self.step();
        }
    }

    /// The number of packets with timeslots from then on whose path has this component.
    fn given_by(&self, since: u64, it: Component) -> usize {
        let given = self.given.iter();
        given
            .filter(|(timeslot, ..)| timeslot * TIMESLOT >= since)
            .filter(|(_, from, to, path)| self.comes_by(*from, *to, *path, it))
            .count()
    }
}

#[test]
fn the_arbiter_avoids_scheduling_traffic_through_the_component_until_the_fault_is_cleared() {
    for lags in [NONE, Lags { near: 2, far: 5 }] {
        let mut world = World::new(lags);
        let link = Component::RackLink {
            pod: 1,
            rack: 0,
            way: 1,
        };
        // A third of all control messages are lost, too.
        world.loss = 30;
        world.run(1_000_000);
        assert!(world.given_by(0, link) > 50);
        world.broken = Some(link);
        let failed = world.now;
        while world.service.faults().is_empty() {
            world.run(50_000);
            assert!(world.now < failed + 6_000_000, "it is not found");
        }
        let found: Vec<_> = world.service.faults().to_vec();
        assert_eq!((found[0].component, found[0].is_avoided), (link, true));
        // Earlier allocations still use the link.
        let until = world.now + LEAD + 16 * TIMESLOT;
        world.run(4_000_000);
        assert_eq!(world.given_by(until, link), 0);
        assert_eq!(world.service.faults().len(), 1);
        // Waiting pairs are served in the end.
        world.loss = 0;
        for _ in 0..20_000 {
            world.step();
        }
        let counters = world.service.counters();
        assert!(counters.pathless > 0 && counters.lost > 0, "{counters:?}");
        assert_eq!((counters.wanted, counters.unheeded), (0, 0), "{counters:?}");
        let pairs = world.endpoints.iter();
        let outstanding: u32 = pairs
            .flat_map(|it| (0..16).map(|to| it.outstanding(to)))
            .sum();
        assert_eq!(outstanding, 0);
        // The link is repaired.
        world.broken = None;
        world.service.clear_faults();
        let cleared = world.now;
        world.run(3_000_000);
        assert!(world.given_by(cleared, link) > 50);
        assert!(world.service.faults().is_empty());
    }
}

/// As after some time on standby.
#[test]
fn a_restarted_arbiter_avoids_reported_faults_until_they_are_cleared() {
    let mut world = World::new(NONE);
    let [first, second] = [0, 1].map(|rack| Component::RackLink {
        pod: 1,
        rack,
        way: 1,
    });
    let found = [(first, true), (second, false)].map(|(component, is_avoided)| Fault {
        component,
        is_avoided,
        suspected_ns: 1,
        found_ns: 2,
    });
    world.service.keep_faults(&found);
    world.run(1_000_000);
    assert_eq!(world.service.faults(), found);
    assert_eq!(world.given_by(0, first), 0);
    assert!(world.given_by(0, second) > 50);
    world.service.clear_faults();
    let cleared = world.now;
    world.run(1_000_000);
    assert!(world.given_by(cleared, first) > 50);
}

/// Two hosts at a switch with one remaining path: one sends within its pod, and one to another pod.
#[test]
fn pairs_take_turns_in_waiting() {
    for lags in [NONE, Lags { near: 2, far: 5 }] {
        for [one, other] in [[2, 8], [8, 12], [2, 3]] {
            let mut routes = Routes::new(&FAT_TREE, WAYS, lags).unwrap();
            let link = Component::RackLink {
                pod: 0,
                rack: 0,
                way: 0,
            };
            routes.avoid(&[link]);
            let mut allocator = MaxMin::new(16, 8).unwrap();
            let mut free = Free::new(16, 8).unwrap();
            free.set_lags(&FAT_TREE, lags).unwrap();
            let mut came = [0; 2];
            for batch in 0..200 {
                for (from, to) in [(0, one), (1, other)] {
                    allocator.request(from, to, 8).unwrap();
                }
                free.allocate(&mut allocator);
                for index in 0..8 {
                    let packets = allocator.timeslot(index).to_vec();
                    routes.select(batch * 8 + index as u64, &packets);
                    let waiting = routes.waiting();
                    for (place, packet) in packets.iter().enumerate() {
                        if !waiting.contains(&place) {
                            came[usize::from(packet.source())] += 1;
                        }
                    }
                }
            }
            let [a, b] = came;
            assert!(a + b >= 1500, "{came:?} of 1600");
            assert!(
                a > 600 && b > 600,
                "{came:?} to {one} and {other}, {lags:?}"
            );
        }
    }
}
