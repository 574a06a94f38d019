// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arbiter with its stages in a pipeline, among endpoints that speak the protocol, compared
//! with the arbiter in one thread.

mod fat_tree;
mod random;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use weft_arbiter::pipeline::{AllocationStage, Capacities, PathStage, Pipeline};
use weft_arbiter::service::{Policy, Secret, Service, Settings};
use weft_mechanisms::fastpass::endpoint::Endpoint;
use weft_mechanisms::fastpass::frame::MAX_SIZE;
use weft_mechanisms::heap::Heap;

use fat_tree::{FAT_TREE, SETTINGS, TIMEOUT, TIMESLOT};
use random::Random;

const SECRET: Secret = Secret([0x5eed, 0xc0de]);

/// Packets that were allocated to each pair of source and destination.
type Came = BTreeMap<(u16, u16), u32>;

/// Small capacities, so that each is full at times.
const SMALL: Capacities = Capacities {
    requests: 3,
    batches: 2,
    pathless: 1,
};

struct World {
    random: Random,
    now: u64,
    service: Service,
    /// The stages, if they are not the service's own.
    stages: Option<(AllocationStage, PathStage)>,
    endpoints: Vec<Endpoint<Heap>>,
    came: Came,
    /// The senders and receivers of each timeslot.
    senders: BTreeMap<u64, u64>,
    receivers: BTreeMap<u64, u64>,
}

fn endpoint(id: u16, random: &mut Random) -> Endpoint<Heap> {
    let Ok(endpoint) = Endpoint::new(id, FAT_TREE.count() as u16, random.draw(), TIMEOUT);
    endpoint
}

impl World {
    fn new(seed: u64, settings: Settings, capacities: Option<Capacities>) -> Self {
        let mut random = Random(seed);
        let ids = 0..FAT_TREE.count() as u16;
        let endpoints = ids.map(|id| endpoint(id, &mut random)).collect();
        let (service, stages) = match capacities {
            None => (Service::new(settings, SECRET).unwrap(), None),
            Some(capacities) => {
                let Pipeline {
                    front,
                    allocation,
                    paths,
                } = Pipeline::new(&settings, capacities).unwrap();
                let service = Service::with_stages(settings, SECRET, Box::new(front));
                (service, Some((allocation, paths)))
            }
        };
        Self {
            random,
            now: 5_000_000,
            service,
            stages,
            endpoints,
            came: Came::new(),
            senders: BTreeMap::new(),
            receivers: BTreeMap::new(),
        }
    }

    fn step(&mut self) {
        let mut bytes = [0; MAX_SIZE];
        for id in 0..self.endpoints.len() {
            while let Some(len) = self.endpoints[id].poll(self.now, &mut bytes) {
                let address = Ipv4Addr::from(FAT_TREE.address(id as u16).unwrap());
                let from = SocketAddrV4::new(address, 700);
                self.service.receive(self.now, from, &bytes[..len]);
            }
        }
        let mut said = Vec::new();
        self.service
            .tick(self.now, |to, bytes| said.push((to, bytes.to_vec())));
        for (to, bytes) in said {
            let id = FAT_TREE.endpoint((*to.ip()).into()).unwrap();
            self.endpoints[usize::from(id)].receive(&bytes, |granted| {
                *self.came.entry((id, granted.destination)).or_default() += 1;
                let ends = [
                    (&mut self.senders, id),
                    (&mut self.receivers, granted.destination),
                ];
                for (all, end) in ends {
                    let taken = all.entry(granted.timeslot).or_default();
                    assert_eq!(*taken >> end & 1, 0, "{end} twice in a timeslot");
                    *taken |= 1 << end;
                }
            });
        }
        if let Some((allocation, paths)) = &mut self.stages {
            for _ in 0..self.random.below(30) {
                match self.random.below(2) {
                    0 => allocation.step(),
                    _ => paths.step(),
                };
            }
        }
        let due = self
            .endpoints
            .iter()
            .filter_map(|it| it.next_poll(self.now));
        let next = due.chain([self.service.next_event()]).min().unwrap();
        // Other threads may deliver results at any time.
        let soon = match self.stages {
            Some(_) => self.now + 2 * TIMESLOT,
            None => u64::MAX,
        };
        self.now = next.min(soon).max(self.now + 1) + self.random.below(300);
    }

    fn ask(&mut self, from: u16, to: u16, slots: u32) -> u32 {
        self.endpoints[usize::from(from)].ask(to, slots)
    }

    fn outstanding(&self) -> u32 {
        let all = self
            .endpoints
            .iter()
            .flat_map(|endpoint| (0..FAT_TREE.count() as u16).map(|to| endpoint.outstanding(to)));
        all.sum()
    }

    fn finish(&mut self) {
        for _ in 0..200_000 {
            if self.outstanding() == 0 && self.service.counters().wanted == 0 {
                return;
            }
            self.step();
        }
        panic!("{} are outstanding", self.outstanding());
    }
}

#[test]
fn both_services_give_each_pair_its_request() {
    for policy in [Policy::MaxMin, Policy::MinFct] {
        let settings = Settings {
            policy,
            own: Some(3),
            ..SETTINGS
        };
        let mut asked = Came::new();
        let given = [None, Some(SMALL), Some(Capacities::default())].map(|capacities| {
            let mut world = World::new(7, settings, capacities);
            // A separate generator, so that requests do not depend on allocations.
            let mut random = Random(11);
            asked.clear();
            for _ in 0..200 {
                for _ in 0..random.below(20) {
                    let [from, to] = [(); 2].map(|()| random.below(16) as u16);
                    let slots = 1 + random.below(40) as u32;
                    if from != to {
                        assert_eq!(world.ask(from, to, slots), slots);
                        *asked.entry((from, to)).or_default() += slots;
                    }
                }
                world.step();
            }
            world.finish();
            let counters = world.service.counters();
            let sum: u32 = world.came.values().sum();
            assert_eq!((counters.allocated, counters.unwanted), (sum.into(), 0));
            assert_eq!(counters.crowded, counters.refused);
            let is_small = capacities.is_some_and(|it| it.requests == SMALL.requests);
            assert_eq!(counters.crowded > 0, is_small);
            assert!(counters.leftover > 50, "{}", counters.leftover);
            assert!(counters.reserved.iter().all(|count| *count > 0));
            world.came
        });
        assert!(given.iter().all(|came| *came == asked));
    }
}

#[test]
fn a_restarted_endpoint_gets_nothing_of_the_old_session() {
    let (mut unwanted, mut sessions) = (0, 0);
    for seed in 1..40 {
        let mut world = World::new(seed, SETTINGS, Some(SMALL));
        let mut most = Came::new();
        for round in 0..300 {
            let [from, to] = [(); 2].map(|()| world.random.below(16) as u16);
            if from != to {
                *most.entry((from, to)).or_default() += world.ask(from, to, 1 + round % 20);
            }
            if world.random.below(10) == 0 {
                world.endpoints[usize::from(from)] = endpoint(from, &mut world.random);
            }
            world.step();
        }
        world.finish();
        for (pair, came) in &world.came {
            assert!(came <= &most[pair], "{pair:?}");
        }
        let counters = world.service.counters();
        unwanted += counters.unwanted;
        sessions += counters.sessions;
        // Timeslots without a receiver were not waited for, and all requests were served.
        let came: u32 = world.came.values().sum();
        assert!(counters.allocated - counters.unwanted >= u64::from(came));
    }
    assert!(
        unwanted > 100 && sessions > 39 * 16,
        "{unwanted} {sessions}"
    );
}
