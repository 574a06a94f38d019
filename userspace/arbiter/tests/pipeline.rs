// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocation and path selection in a pipeline: whatever the order of steps, every request is
//! served exactly once.

mod fat_tree;
mod random;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use weft_arbiter::MAX_DEMAND;
use weft_arbiter::fabric::{Component, Fabric};
use weft_arbiter::pipeline::{AllocationStage, Capacities, Front, PathStage, Pipeline};
use weft_arbiter::service::{Policy, Settings};
use weft_arbiter::stages::{Order, Stages, Timeslot};

use fat_tree::{FAT_TREE, LEAD, SETTINGS, TIMESLOT, WAYS};
use random::Random;

const HOSTS: u64 = 16;
/// Long enough even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The driver of the steps.
enum Drive {
    /// Random steps, in this thread.
    Steps(Box<AllocationStage>, Box<PathStage>),
    Threads,
}

/// Endpoints that send requests, and sometimes restart, on a fabric that fails and is repaired.
struct World {
    random: Random,
    fabric: Fabric,
    batch: u64,
    classes: u16,
    front: Front,
    drive: Drive,
    /// Requests of each pair, in its source's session, that are not served yet.
    outstanding: HashMap<(u16, u16), u32>,
    /// Batches in progress, by their first timeslots, with the components to avoid.
    ordered: VecDeque<(u64, Vec<Component>)>,
    avoided: Vec<Component>,
    /// The next timeslot to order, and the next to hand out.
    next: u64,
    done: u64,
    given: u64,
    pathless: u64,
    unwanted: u64,
    refused: u64,
}

impl World {
    fn new(seed: u64, settings: Settings, capacities: Capacities, is_threaded: bool) -> Self {
        let pipeline = Pipeline::new(&settings, capacities).unwrap();
        let (front, drive) = match is_threaded {
            true => (pipeline.spawn(|| ()).unwrap(), Drive::Threads),
            false => {
                let Pipeline {
                    front,
                    allocation,
                    paths,
                } = pipeline;
                let steps = Drive::Steps(Box::new(allocation), Box::new(paths));
                (front, steps)
            }
        };
        Self {
            random: Random(seed | 1 << 63),
            fabric: Fabric::new(&FAT_TREE, WAYS),
            batch: settings.batch as u64,
            classes: settings.classes,
            front,
            drive,
            outstanding: HashMap::new(),
            ordered: VecDeque::new(),
            avoided: Vec::new(),
            next: 1,
            done: 0,
            given: 0,
            pathless: 0,
            unwanted: 0,
            refused: 0,
        }
    }

    fn ask(&mut self) {
        let [from, to] = [(); 2].map(|()| self.random.below(HOSTS) as u16);
        let slots = 1 + self.random.below(30) as u16;
        let class = self.random.below(self.classes.into()) as u16;
        match self.front.request(from, to * self.classes + class, slots) {
            true => {
                assert_ne!(from, to);
                *self.outstanding.entry((from, to)).or_default() += u32::from(slots);
            }
            false => self.refused += 1,
        }
    }

    fn forget(&mut self) {
        let source = self.random.below(HOSTS) as u16;
        self.front.forget(source);
        self.outstanding.retain(|(from, _), _| *from != source);
    }

    /// Lets a link or switch fail, or repairs all.
    fn fail(&mut self) {
        self.avoided.clear();
        let [from, to] = [(); 2].map(|()| self.random.below(HOSTS) as u16);
        if from != to && self.random.below(3) > 0 {
            let path = self.random.below(4) as u8;
            let components: Vec<_> = self.fabric.path(from, to, path).collect();
            let chosen = self.random.below(components.len().max(1) as u64) as usize;
            let chosen = components.get(chosen).map(|(component, _)| *component);
            let can_be = |it: &Component| self.fabric.can_avoid(&[], *it);
            self.avoided.extend(chosen.filter(can_be));
        }
        self.front.avoid(&self.avoided);
    }

    fn order(&mut self) {
        if !self.front.is_ready() {
            return;
        }
        let skipped = self.random.below(3);
        let first = self.next + skipped;
        self.next = first + self.batch;
        self.ordered.push_back((first, self.avoided.clone()));
        self.front.order(Order {
            first,
            skipped,
            ..Order::default()
        });
    }

    fn collect(&mut self) {
        let Self {
            front,
            fabric,
            outstanding,
            ordered,
            batch,
            done,
            given,
            pathless,
            unwanted,
            ..
        } = self;
        front.collect(0, &mut |timeslot| {
            let (first, avoided) = ordered.front().expect("a batch that was ordered");
            assert!((*first..first + *batch).contains(&timeslot.number));
            check(fabric, avoided, &timeslot);
            assert!(timeslot.number > *done, "in order");
            *done = timeslot.number;
            if timeslot.number + 1 == first + *batch {
                ordered.pop_front();
            }
            for (place, packet) in timeslot.packets.iter().enumerate() {
                let pair = (packet.source(), packet.destination());
                let is_over = timeslot.is_over.get(usize::from(pair.0)) == Some(&true);
                if timeslot.pathless.contains(&place) {
                    *pathless += 1;
                } else if is_over {
                    *unwanted += 1;
                } else {
                    *given += 1;
                    let left = outstanding.get_mut(&pair).expect("that was asked for");
                    *left = left.checked_sub(1).expect("no more than was asked for");
                }
            }
        });
    }

    /// Performs a random action.
    fn work(&mut self) {
        match &mut self.drive {
            Drive::Steps(allocation, paths) => {
                for _ in 0..self.random.below(6) {
                    match self.random.below(2) {
                        0 => allocation.step(),
                        _ => paths.step(),
                    };
                }
            }
            Drive::Threads => thread::yield_now(),
        }
    }

    fn run(&mut self, rounds: usize) {
        for _ in 0..rounds {
            match self.random.below(40) {
                0 => self.fail(),
                1..3 => self.forget(),
                3..9 => self.order(),
                9..15 => self.collect(),
                _ => self.ask(),
            }
            self.work();
        }
        let begin = Instant::now();
        while self.outstanding.values().any(|left| *left > 0) || !self.ordered.is_empty() {
            self.order();
            self.work();
            self.collect();
            assert!(begin.elapsed() < PATIENCE, "{:?}", self.outstanding);
        }
    }
}

/// Checks that no endpoint sends or receives two packets in a timeslot, no link carries two, and no
/// packet uses an avoided component.
fn check(fabric: &Fabric, avoided: &[Component], timeslot: &Timeslot<'_>) {
    assert_eq!(timeslot.packets.len(), timeslot.paths.len());
    let mut seen = HashSet::new();
    let mut senders = HashSet::new();
    let mut receivers = HashSet::new();
    for (place, (packet, path)) in timeslot.packets.iter().zip(timeslot.paths).enumerate() {
        let (from, to) = (packet.source(), packet.destination());
        assert!(senders.insert(from) && receivers.insert(to));
        if timeslot.pathless.contains(&place) {
            continue;
        }
        for (component, direction) in fabric.path(from, to, *path) {
            assert!(!avoided.contains(&component), "{component}");
            // A switch carries several packets.
            let is_link = matches!(
                component,
                Component::Host(_) | Component::RackLink { .. } | Component::PodLink { .. }
            );
            assert!(!is_link || seen.insert((component, direction)));
        }
    }
}

fn capacities() -> impl Strategy<Value = Capacities> {
    (1_usize..4, 1_usize..4, 1_usize..4).prop_map(|(requests, batches, pathless)| Capacities {
        requests,
        batches,
        pathless,
    })
}

fn settings() -> impl Strategy<Value = Settings> {
    (prop::bool::ANY, 1_u16..=3, 1_usize..12).prop_map(|(is_fair, classes, batch)| Settings {
        classes,
        policy: match is_fair {
            true => Policy::MaxMin,
            false => Policy::MinFct,
        },
        batch,
        ..SETTINGS
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn each_requested_timeslot_is_allocated_once_in_any_order_of_the_stages(
        seed: u64,
        settings in settings(),
        capacities in capacities(),
    ) {
        World::new(seed, settings, capacities, false).run(1500);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn threads_allocate_each_requested_timeslot_once(
        seed: u64,
        settings in settings(),
        capacities in capacities(),
    ) {
        World::new(seed, settings, capacities, true).run(1500);
    }
}

/// The properties' preconditions do occur.
#[test]
fn each_bound_is_respected() {
    let smallest = Capacities {
        requests: 1,
        batches: 2,
        pathless: 1,
    };
    let (mut refused, mut pathless, mut unwanted, mut given) = (0, 0, 0, 0);
    for seed in 0..20 {
        let mut world = World::new(seed, SETTINGS, smallest, false);
        world.run(3000);
        refused += world.refused;
        pathless += world.pathless;
        unwanted += world.unwanted;
        given += world.given;
        assert!(world.front.crowded() > 0);
    }
    assert!(
        refused > 1000 && pathless > 100 && unwanted > 100 && given > 10_000,
        "{refused} {pathless} {unwanted} {given}"
    );
}

#[test]
fn a_thread_that_panics_ends_the_others_and_is_noticed() {
    let pipeline = Pipeline::new(&SETTINGS, Capacities::default()).unwrap();
    let wakes = Arc::new(AtomicU64::new(0));
    let woken = wakes.clone();
    let mut front = pipeline
        .spawn(move || {
            woken.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    assert!(!front.has_failed());
    // A session would refuse the second one.
    for _ in 0..2 {
        assert!(front.request(0, 1, MAX_DEMAND as u16));
    }
    front.order(Order::default());
    front.collect(0, &mut |_| ());
    let begin = Instant::now();
    while !front.has_failed() {
        assert!(begin.elapsed() < PATIENCE);
        thread::yield_now();
    }
    drop(front);
    assert_eq!(wakes.load(Ordering::Relaxed), 1);
}

#[test]
fn threads_end_in_any_state() {
    for orders in 0..=4 {
        let pipeline = Pipeline::new(&SETTINGS, Capacities::default()).unwrap();
        let mut front = pipeline.spawn(|| ()).unwrap();
        for number in 0..orders {
            assert!(front.request(number, number + 1, 100));
            front.order(Order {
                first: u64::from(number) * 8,
                ..Order::default()
            });
        }
        assert_eq!(front.is_ready(), orders < 4);
        if orders % 2 == 0 {
            front.collect(0, &mut |_| ());
        }
    }
}

#[test]
fn a_batch_that_returns_too_late_is_counted_once() {
    let Pipeline {
        mut front,
        mut allocation,
        mut paths,
    } = Pipeline::new(&SETTINGS, Capacities::default()).unwrap();
    let first = 1000;
    let begin = first * TIMESLOT;
    for (is_late, now, late) in [
        (false, begin - LEAD / 2, 0),
        (false, begin - LEAD / 2 + 1, 1),
        // It was counted when it was ordered.
        (true, begin, 1),
    ] {
        front.order(Order {
            first,
            is_late,
            ..Order::default()
        });
        front.collect(0, &mut |_| panic!("it is not done"));
        assert!(allocation.step() && paths.step());
        front.collect(now, &mut |_| ());
        assert_eq!(front.late(), late);
    }
}
