// SPDX-License-Identifier: MIT OR Apache-2.0

//! Detection of a failed link or switch from endpoints' reports (§5.2). Hosts have their real
//! ledgers, on a fabric in which a component loses packets, and sporadic losses occur elsewhere.
//! Reports are lost, too, and some hosts lie.

mod random;

use std::collections::{BTreeSet, HashSet};

use proptest::prelude::*;
use weft_arbiter::fabric::Ways;
use weft_arbiter::fabric::{Component, Direction, Fabric};
use weft_arbiter::faults::{Fault, Faults, Times};
use weft_mechanisms::fastpass::address::Addresses;
use weft_mechanisms::fastpass::frame::{ENTRIES, Entry};
use weft_mechanisms::fastpass::ledger::Ledger;
use weft_mechanisms::heap::Heap;

use random::Random;

const STEP: u64 = 50_000;
const REPORT: u64 = 650_000;
const TIMES: Times = Times {
    settle: 200_000,
    trial: 1_600_000,
};
const MS: u64 = 1_000_000;

fn fabric(hosts: u32, racks: u32, pods: u32, edge: usize, core: usize) -> Fabric {
    let addresses = Addresses {
        first: 0x0a00_0002,
        hosts,
        racks,
        pods,
    };
    Fabric::new(&addresses, Ways { edge, core })
}

/// A fat-tree with k = 4.
fn fat_tree() -> Fabric {
    fabric(2, 2, 4, 2, 2)
}

/// All links and switches between hosts.
fn components(fabric: &Fabric) -> Vec<Component> {
    let mut all = BTreeSet::new();
    for (from, to, path) in ways(fabric) {
        all.extend(fabric.path(from, to, path).map(|(it, _)| it));
    }
    let between = |it: &Component| !matches!(it, Component::Host(_));
    all.into_iter().filter(between).collect()
}

fn ways(fabric: &Fabric) -> Vec<(u16, u16, u8)> {
    let hosts = fabric.endpoints();
    let mut all = Vec::new();
    for from in 0..hosts {
        for to in (0..hosts).filter(|to| *to != from) {
            all.extend((0..fabric.paths()).map(|path| (from, to, path as u8)));
        }
    }
    all
}

fn comes_by(fabric: &Fabric, (from, to, path): (u16, u16, u8), it: Component) -> bool {
    fabric.path(from, to, path).any(|(other, _)| other == it)
}

/// Whether no packet can distinguish the two components.
fn is_the_same(fabric: &Fabric, a: Component, b: Component) -> bool {
    let mut ways = ways(fabric).into_iter();
    ways.all(|way| comes_by(fabric, way, a) == comes_by(fabric, way, b))
}

/// A component that loses packets.
#[derive(Clone, Copy, Debug)]
struct Broken {
    component: Component,
    /// Only this direction, unless it is both.
    direction: Direction,
    percent: u64,
}

struct World {
    fabric: Fabric,
    random: Random,
    now: u64,
    hosts: Vec<Ledger<Heap>>,
    faults: Faults,
    broken: Vec<Broken>,
    /// One packet in this many is lost, anywhere.
    sporadic: u64,
    /// Hosts that send nothing.
    silent: HashSet<u16>,
    /// Packets of all hosts per step.
    packets: u64,
    under_way: Vec<(u16, u16, u8, u16)>,
    /// Packets lost by the broken component.
    lost: u64,
    liars: Vec<(u16, Lie)>,
    found: Vec<Fault>,
}

/// The reports of a liar.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// It claims more packets than it sent, to all hosts on all paths.
    Sent,
    /// The same, on one path.
    SentBy(u8),
    /// It claims that nothing arrived.
    Nothing,
    /// The same, on one path.
    NothingBy(u8),
    /// Random reports.
    Anything,
    /// Reports with a time in the future.
    Tomorrow,
}

impl World {
    fn new(fabric: Fabric, seed: u64) -> Self {
        let count = fabric.endpoints();
        let hosts = (0..count).map(|_| Ledger::new(count, fabric.paths()).unwrap());
        Self {
            fabric,
            random: Random(seed | 1),
            now: 77 * MS,
            hosts: hosts.collect(),
            faults: Faults::new(fabric, TIMES),
            broken: Vec::new(),
            sporadic: 5000,
            silent: HashSet::new(),
            packets: 16 * u64::from(count),
            under_way: Vec::new(),
            lost: 0,
            liars: Vec::new(),
            found: Vec::new(),
        }
    }

    fn breaks(&mut self, component: Component, direction: Direction, percent: u64) {
        self.broken.push(Broken {
            component,
            direction,
            percent,
        });
    }

    /// Whether a packet is lost on its path.
    fn loses(&mut self, from: u16, to: u16, path: u8) -> bool {
        if self.random.below(self.sporadic) == 0 {
            return true;
        }
        for place in 0..self.broken.len() {
            let broken = self.broken[place];
            let hits = |(it, by): &(Component, Direction)| {
                *it == broken.component
                    && (broken.direction == Direction::Both || *by == broken.direction)
            };
            let mut way = self.fabric.path(from, to, path);
            if way.any(|it| hits(&it)) && self.random.below(100) < broken.percent {
                self.lost += 1;
                return true;
            }
        }
        false
    }

    /// A path without an avoided component.
    fn path(&mut self, from: u16, to: u16) -> u8 {
        let paths = u64::from(self.fabric.paths());
        let first = self.random.below(paths);
        if self.faults.avoided().is_empty() {
            return first as u8;
        }
        let avoided = self.faults.avoided();
        let mut all = (0..paths).map(|it| ((first + it) % paths) as u8);
        let open = |path: &u8| {
            let way = (from, to, *path);
            !avoided.iter().any(|it| comes_by(&self.fabric, way, *it))
        };
        all.find(open).expect("each pair keeps a path")
    }

    fn send(&mut self, from: u16, to: u16) {
        let path = self.path(from, to);
        let ledger = &mut self.hosts[usize::from(from)];
        let number = ledger.send(self.now, to, path.into()).unwrap();
        if !self.loses(from, to, path) {
            self.under_way.push((from, to, path, number));
        }
    }

    fn step(&mut self) {
        let count = u64::from(self.fabric.endpoints());
        self.now += STEP;
        for (from, to, path, number) in std::mem::take(&mut self.under_way) {
            self.hosts[usize::from(to)].arrive(self.now, from, path.into(), number);
        }
        for _ in 0..self.packets {
            let [from, to] = [(); 2].map(|()| self.random.below(count) as u16);
            let is_quiet = |it: &u16| self.silent.contains(it);
            if from != to && ![from, to].iter().any(is_quiet) {
                self.send(from, to);
            }
        }
        for host in 0..count as u16 {
            self.report(host);
        }
        while let Some(fault) = self.faults.judge(self.now) {
            self.found.push(fault);
        }
    }

    fn report(&mut self, host: u16) {
        let ledger = &mut self.hosts[usize::from(host)];
        let mut entries = [Entry::default(); ENTRIES];
        // Each at its own time, and complete, like the sum of many reports.
        let phase = u64::from(host) * 37_000;
        if (self.now + phase) % REPORT >= STEP || ledger.due().is_none() {
            return;
        }
        let all = usize::from(self.fabric.endpoints() * self.fabric.paths());
        for _ in 0..all.div_ceil(ENTRIES) {
            let filled = ledger.report(self.now, &mut entries);
            let is_lost = self.random.below(100) < 30;
            for entry in &entries[..filled] {
                let mut lies = self.liars.iter().filter(|(liar, _)| *liar == host);
                let lie = lies.next().map(|(_, lie)| *lie);
                let (time, entry) = told(lie, self.now, *entry, &mut self.random);
                if !is_lost {
                    self.faults.report(self.now, host, time, entry);
                }
            }
        }
    }

    /// Runs until a fault is found; returns how long that took.
    fn until_found(&mut self, ms: u64) -> Option<u64> {
        let (start, before) = (self.now, self.found.len());
        while self.found.len() == before {
            if self.now > start + ms * MS {
                return None;
            }
            self.step();
        }
        Some(self.now - start)
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms * MS / STEP {
            self.step();
        }
    }
}

fn told(lie: Option<Lie>, now: u64, entry: Entry, random: &mut Random) -> (u64, Entry) {
    let mut said = entry;
    // It increases in each millisecond.
    let more = (now / MS * 50) as u16;
    match lie {
        Some(Lie::Sent) => said.sent = said.sent.wrapping_add(more),
        Some(Lie::SentBy(path)) if path == entry.path => said.sent = said.sent.wrapping_add(more),
        Some(Lie::Nothing) => said.lost = said.lost.wrapping_add(more),
        Some(Lie::NothingBy(path)) if path == entry.path => said.seen = 0,
        Some(Lie::Anything) => {
            let draw = random.draw();
            said = Entry {
                peer: draw as u16 % 20,
                path: (draw >> 16) as u8 % 5,
                sent: (draw >> 24) as u16,
                seen: (draw >> 40) as u16,
                lost: (draw >> 48) as u16,
            };
        }
        Some(Lie::Tomorrow) => return (now + 1000 * MS, entry),
        _ => {}
    }
    (now, said)
}

/// "Persistent, correlated packet loss is almost surely due to component failure."
#[test]
fn every_link_and_every_switch_is_found() {
    for fabric in [fat_tree(), fabric(3, 3, 1, 2, 1)] {
        for (seed, component) in components(&fabric).into_iter().enumerate() {
            let mut world = World::new(fabric, seed as u64 * 77 + 5);
            world.run(2);
            world.breaks(component, Direction::Both, 100);
            let took = world.until_found(10);
            let found = world.found.first().map(|it| it.component);
            assert_eq!(found, Some(component), "{took:?}");
            assert!(took.is_some_and(|ns| ns <= 7 * MS), "{component}: {took:?}");
            // A switch with hosts cannot be avoided.
            let is_avoided = !matches!(component, Component::Rack { .. });
            assert_eq!(world.found[0].is_avoided, is_avoided);
            if is_avoided {
                world.lost = 0;
                world.run(4);
                assert_eq!(world.lost, 0, "{component}");
                assert_eq!(world.found.len(), 1, "{:?}", world.found);
            }
        }
    }
}

fn shape() -> impl Strategy<Value = Fabric> {
    let leaf_spine = (2..4_u32, 2..5_u32, 2..5_usize)
        .prop_map(|(hosts, racks, edge)| fabric(hosts, racks, 1, edge, 1));
    let tree = (2..4_u32, 2..3_u32, 2..4_u32, 2..3_usize, 1..3_usize)
        .prop_map(|(hosts, racks, pods, edge, core)| fabric(hosts, racks, pods, edge, core));
    prop_oneof![Just(fat_tree()), leaf_spine, tree]
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![
        Just(Direction::Both),
        Just(Direction::Up),
        Just(Direction::Down)
    ]
}

/// In each of these worlds a component was blamed in place of the faulty one: while reports were
/// missing, a link and its switch explained the same losses; or packets had arrived after a
/// sporadic loss and before the fault, and counted against the faulty component.
#[test]
fn in_doubt_more_reports_are_awaited() {
    let rack_link = |rack, way| Component::RackLink { pod: 0, rack, way };
    let pod = |pod, way| Component::Pod { pod, way };
    let up = Direction::Up;
    let both = Direction::Both;
    for (seed, fabric, component, direction, percent, sporadic) in [
        (
            11867670931134461498,
            fabric(2, 3, 1, 4, 1),
            rack_link(1, 2),
            up,
            40,
            1000,
        ),
        (
            17061025851489140293,
            fabric(3, 2, 3, 2, 2),
            Component::Core { way: 0, core: 1 },
            both,
            40,
            20_000,
        ),
        (
            4090818148162816350,
            fabric(3, 3, 1, 2, 1),
            pod(0, 1),
            both,
            100,
            1000,
        ),
        (
            4972472399637222923,
            fabric(2, 3, 1, 3, 1),
            rack_link(0, 0),
            up,
            100,
            1000,
        ),
        (
            10353557005321482622,
            fabric(2, 3, 1, 2, 1),
            pod(0, 0),
            both,
            100,
            20_000,
        ),
        (
            13030542503049601911,
            fabric(3, 2, 3, 2, 2),
            pod(2, 1),
            both,
            40,
            1000,
        ),
        (
            16056077926855335080,
            fabric(2, 2, 4, 2, 2),
            pod(3, 1),
            both,
            100,
            1000,
        ),
        (
            15019637030363225013,
            fabric(3, 3, 1, 4, 1),
            rack_link(2, 1),
            up,
            40,
            1000,
        ),
    ] {
        let mut world = World::new(fabric, seed);
        world.sporadic = sporadic;
        world.run(8);
        world.breaks(component, direction, percent);
        assert!(world.until_found(15).is_some(), "{component} is not found");
        world.run(8);
        let found: Vec<_> = world.found.iter().map(|it| it.component).collect();
        assert_eq!(found, [component]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Also if it loses only some packets, or only in one direction, with a liar and sporadic
    /// losses.
    #[test]
    fn lossy_components_are_found_and_no_others(
        seed: u64, fabric in shape(), which: prop::sample::Index, direction in direction(),
        percent in prop_oneof![Just(100_u64), Just(40)],
        sporadic in prop_oneof![Just(1000_u64), Just(20_000)],
    ) {
        let all = components(&fabric);
        let component = *which.get(&all);
        let has_direction = matches!(component, Component::RackLink { .. } | Component::PodLink { .. });
        let direction = if has_direction { direction } else { Direction::Both };
        let mut world = World::new(fabric, seed);
        world.sporadic = sporadic;
        world.run(8);
        prop_assert!(world.found.is_empty(), "{:?}", world.found);
        world.breaks(component, direction, percent);
        let took = world.until_found(40);
        prop_assert!(took.is_some(), "{} {:?} is not found", component, direction);
        let found = world.found[0].component;
        let same = is_the_same(&fabric, found, component);
        prop_assert!(same, "{} in place of {} ({:?})", found, component, direction);
        world.lost = 0;
        world.run(8);
        prop_assert_eq!(world.found.len(), 1, "{:?}", world.found);
        prop_assert!(world.lost == 0 || !world.found[0].is_avoided);
    }

    /// "Sporadic packet losses due to bit flips in the physical layer still occur."
    #[test]
    fn sporadic_packet_losses_are_no_fault(seed: u64, fabric in shape(), one_of in 500..4000_u64) {
        let mut world = World::new(fabric, seed);
        world.sporadic = one_of;
        world.run(20);
        prop_assert!(world.found.is_empty(), "{:?}", world.found);
        prop_assert!(world.faults.lost() > 0);
    }

    /// Whatever it reports, and whichever hosts are silent: nothing is avoided because of it.
    #[test]
    fn the_report_of_one_endpoint_does_not_suffice(
        seed: u64, fabric in shape(), liar: prop::sample::Index, path: prop::sample::Index,
        lie in 0..6_u8, silent in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut world = World::new(fabric, seed);
        let hosts: Vec<u16> = (0..fabric.endpoints()).collect();
        let path = path.index(fabric.paths().into()) as u8;
        let lie = [Lie::Sent, Lie::SentBy(path), Lie::Nothing, Lie::NothingBy(path), Lie::Anything, Lie::Tomorrow]
            [usize::from(lie)];
        let liar = *liar.get(&hosts);
        world.liars.push((liar, lie));
        world.silent.extend(silent.iter().map(|it| *it.get(&hosts)));
        world.silent.remove(&liar);
        world.run(20);
        prop_assert!(world.found.is_empty(), "{:?}: {:?}", lie, world.found);
    }
}

/// A real fault is still found.
#[test]
fn a_liar_hides_no_fault() {
    let path = 1;
    for (seed, lie) in [
        Lie::Sent,
        Lie::SentBy(path),
        Lie::Nothing,
        Lie::NothingBy(path),
        Lie::Anything,
    ]
    .into_iter()
    .enumerate()
    {
        let mut world = World::new(fat_tree(), seed as u64 + 3);
        world.liars.push((5, lie));
        world.run(10);
        let component = Component::PodLink {
            pod: 3,
            way: 0,
            core: 1,
        };
        world.breaks(component, Direction::Both, 100);
        let took = world.until_found(10);
        let found: Vec<_> = world.found.iter().map(|it| it.component).collect();
        assert_eq!(found, [component], "{lie:?} {took:?}");
    }
}

#[test]
fn faults_are_found_one_after_the_other_and_each_pair_keeps_a_path() {
    let mut world = World::new(fat_tree(), 9);
    let link = |pod, rack, way| Component::RackLink { pod, rack, way };
    let broken = [
        link(0, 1, 0),
        Component::Core { way: 1, core: 0 },
        link(2, 0, 0),
    ];
    for component in broken {
        world.breaks(component, Direction::Both, 100);
        assert!(world.until_found(20).is_some(), "{component}");
    }
    assert_eq!(world.faults.avoided(), broken);
    // The rack's other uplink: now none is left.
    world.breaks(link(0, 1, 1), Direction::Both, 100);
    assert!(world.until_found(20).is_some());
    let last = world.found.last().unwrap();
    assert!(!last.is_avoided, "{last:?}");
    assert_eq!(world.faults.avoided(), broken);
}

/// "[It] avoids scheduling traffic through the component until the fault is cleared."
#[test]
fn a_cleared_component_is_used_again_and_found_again_if_it_is_not_repaired() {
    let component = Component::Pod { pod: 1, way: 0 };
    let mut world = World::new(fat_tree(), 21);
    world.breaks(component, Direction::Both, 100);
    assert!(world.until_found(10).is_some());
    world.run(20);
    assert_eq!(world.faults.avoided(), [component]);
    world.faults.clear();
    assert!(world.until_found(10).is_some());
    assert_eq!(world.found[1].component, component);
    world.broken.clear();
    world.faults.clear();
    world.run(20);
    assert_eq!(world.found.len(), 2);
}

/// Its totals start again, as after a restart of the host or of its arbiter.
#[test]
fn a_restarted_endpoint_has_lost_nothing() {
    let mut world = World::new(fat_tree(), 33);
    for host in [3, 4, 3] {
        world.run(5);
        let count = world.fabric.endpoints();
        world.hosts[usize::from(host)] = Ledger::new(count, world.fabric.paths()).unwrap();
        world.faults.forget(host);
    }
    world.run(10);
    assert!(world.found.is_empty(), "{:?}", world.found);
}

/// Its earlier losses are no longer attributed to any component.
#[test]
fn earlier_losses_of_restarted_endpoints_are_forgotten() {
    for restarts in [false, true] {
        let mut faults = Faults::new(fat_tree(), TIMES);
        let mut found = None;
        for round in 1..12_u16 {
            let now = 77 * MS + u64::from(round) * REPORT;
            let is_new = restarts && round >= 6;
            if restarts && round == 6 {
                [0, 1, 4, 5]
                    .into_iter()
                    .for_each(|host| faults.forget(host));
            }
            for (a, b) in [(0, 4), (0, 5), (1, 4), (1, 5)] {
                for (host, peer) in [(a, b), (b, a)] {
                    let entry = Entry {
                        peer,
                        path: 0,
                        sent: round * 50,
                        seen: if is_new { round * 50 } else { 0 },
                        lost: 0,
                    };
                    assert!(faults.report(now, host, now, entry));
                }
            }
            found = found.or(faults.judge(now));
        }
        assert_eq!(found.is_some(), !restarts, "{found:?}");
    }
}

/// One host of a rack uses a dead path, and no other host confirms it.
#[test]
fn a_fault_that_hits_only_one_endpoint_is_not_found() {
    let mut world = World::new(fat_tree(), 4);
    world.silent.insert(1);
    let link = Component::RackLink {
        pod: 0,
        rack: 0,
        way: 1,
    };
    world.breaks(link, Direction::Both, 100);
    assert_eq!(world.until_found(20), None);
    world.silent.clear();
    assert!(world.until_found(10).is_some());
    assert_eq!(world.found[0].component, link);
}

/// Some hosts of two racks lose all packets on one path, and none on another. Returns whether the
/// link between them is found.
fn finds_a_loss(
    faults: &mut Faults,
    now: u64,
    [here, there]: [u16; 2],
    [lossy, clean]: [u8; 2],
) -> Option<Component> {
    let pairs =
        (here..here + 3).flat_map(|a| (there..there + 3).flat_map(move |b| [(a, b), (b, a)]));
    let pairs: Vec<_> = pairs.collect();
    for round in 1..20_u16 {
        let now = now + u64::from(round) * REPORT;
        for &(host, peer) in &pairs {
            for (path, seen) in [(lossy, 0), (clean, round * 50)] {
                let entry = Entry {
                    peer,
                    path,
                    sent: round * 50,
                    seen,
                    lost: 0,
                };
                assert!(faults.report(now, host, now, entry), "{host} of {peer}");
            }
        }
        if let Some(fault) = faults.judge(now) {
            return Some(fault.component);
        }
    }
    None
}

/// Nor can an endpoint that reports on everything fill the memory.
#[test]
fn an_endpoint_that_reports_everything_leaves_room_for_others() {
    let fabric = fabric(64, 64, 1, 256, 1);
    let mut faults = Faults::new(fabric, TIMES);
    let liar = 4000;
    let mut heeded = 0;
    for peer in (0..4096).filter(|peer| *peer != liar) {
        for path in 0..=255 {
            let entry = Entry {
                peer,
                path,
                ..Entry::default()
            };
            heeded += u32::from(faults.report(77 * MS, liar, 77 * MS, entry));
        }
    }
    assert!(heeded >= 1 << 15, "{heeded}");
    let found = finds_a_loss(&mut faults, 77 * MS, [64, 640], [200, 3]);
    let Some(Component::RackLink { way: 200, .. }) = found else {
        panic!("{found:?}");
    };
}

/// In the end, all hosts have sent to all others on all paths.
#[test]
fn silent_pairs_are_forgotten() {
    let mut faults = Faults::new(fabric(16, 32, 1, 8, 1), TIMES);
    let mut now = 77 * MS;
    for apart in 1..400 {
        now += TIMES.trial;
        for host in 0..512 {
            let peer = (host + apart) % 512;
            for path in 0..8 {
                let entry = Entry {
                    peer,
                    path,
                    sent: 9,
                    ..Entry::default()
                };
                assert!(faults.report(now, host, now, entry), "{host} of {peer}");
            }
        }
    }
    let found = finds_a_loss(&mut faults, now, [32, 256], [7, 0]);
    let Some(Component::RackLink { way: 7, .. }) = found else {
        panic!("{found:?}");
    };
}

/// The arbiter has timeslots to allocate meanwhile.
#[test]
fn a_long_judgement_is_split_into_parts() {
    let fabric = fabric(16, 16, 1, 16, 1);
    let link = Component::RackLink {
        pod: 0,
        rack: 3,
        way: 5,
    };
    let mut faults = Faults::new(fabric, TIMES);
    let liar = 200;
    let say = |faults: &mut Faults, now, host, peer, path, [sent, seen]: [u16; 2]| {
        let entry = Entry {
            peer,
            path,
            sent,
            seen,
            lost: 0,
        };
        assert!(faults.report(now, host, now, entry));
    };
    let mut parts = 0;
    for round in 1..16_u16 {
        let now = 77 * MS + u64::from(round) * REPORT;
        let (sent, lied) = (round * 50, round * 1000);
        for peer in (0..256).filter(|peer| *peer != liar) {
            for path in 0..16 {
                say(&mut faults, now, liar, peer, path, [lied, 0]);
                say(&mut faults, now, peer, liar, path, [sent, sent]);
            }
        }
        for host in 48..51 {
            for peer in 160..163 {
                say(&mut faults, now, host, peer, 5, [sent, 0]);
                say(&mut faults, now, peer, host, 5, [sent, 0]);
            }
        }
        // Paths without loss decide which of two links it is.
        for (host, peer) in [(70, 160), (161, 71)] {
            say(&mut faults, now, host, peer, 5, [sent, sent]);
            say(&mut faults, now, peer, host, 5, [sent, sent]);
        }
        while faults.next_event().is_some_and(|at| at <= now) {
            parts += 1;
            if let Some(fault) = faults.judge(now) {
                assert_eq!(fault.component, link);
                assert!(parts > 10, "{parts}");
                return;
            }
        }
    }
    panic!("it is not found, in {parts} parts");
}
