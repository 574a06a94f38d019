// SPDX-License-Identifier: MIT OR Apache-2.0

//! Both stages, one after the other and in threads of their own: requests in, paths out.
//!
//! How long three threads take on the wall depends on how many processors are free; the processor
//! time that they take, with the rings and waking each other, almost does not.

use std::thread;

use weft_arbiter::Lags;
use weft_arbiter::fabric::Ways;
use weft_arbiter::pipeline::{Capacities, Pipeline};
use weft_arbiter::service::{Policy, Settings};
use weft_arbiter::stages::{OneThread, Order, Stages};
use weft_mechanisms::fastpass::address::Addresses;

use crate::Options;
use crate::authors::{HOSTS, PATHS, RACKS};
use crate::demands::{self, Request};
use crate::measure::{Row, TURNS, of_all_threads, on_the_wall};

const BATCHES: [usize; 2] = [16, 64];

struct Subject {
    name: String,
    batch: usize,
    stages: Box<dyn Stages>,
    /// The next timeslot to be ordered.
    next: u64,
    /// Timeslots that are under way.
    under_way: usize,
    packets: usize,
}

impl Subject {
    fn new(batch: usize, is_threaded: bool) -> Self {
        let settings = settings(batch);
        let stages: Box<dyn Stages> = match is_threaded {
            false => Box::new(OneThread::new(&settings).expect("valid")),
            true => {
                let caller = thread::current();
                let pipeline = Pipeline::new(&settings, Capacities::default()).expect("valid");
                let wake = move || caller.unpark();
                Box::new(pipeline.spawn(wake).expect("threads"))
            }
        };
        let threads = if is_threaded { "three" } else { "one" };
        Self {
            name: format!("{threads}, {batch}"),
            batch,
            stages,
            next: 0,
            under_way: 0,
            packets: 0,
        }
    }

    fn collect(&mut self) {
        let (under_way, packets) = (&mut self.under_way, &mut self.packets);
        self.stages.collect(0, &mut |timeslot| {
            *under_way -= 1;
            *packets += timeslot.packets.len();
            std::hint::black_box(timeslot.paths.last());
        });
    }

    /// Runs the requests of all timeslots, a batch at a time, to the end.
    fn run(&mut self, requests: &[Vec<Request>]) {
        for requests in requests.chunks(self.batch) {
            for request in requests.iter().flatten() {
                let Request {
                    source,
                    destination,
                    slots,
                } = *request;
                while !self.stages.request(source, destination, slots) {
                    self.collect();
                    thread::yield_now();
                }
            }
            while !self.stages.is_ready() {
                thread::park();
                self.collect();
            }
            self.stages.order(Order {
                first: self.next,
                ..Order::default()
            });
            self.next += self.batch as u64;
            self.under_way += self.batch;
            self.collect();
        }
        while self.under_way > 0 {
            thread::park();
            self.collect();
        }
    }
}

/// Of 256 endpoints.
pub(crate) fn settings(batch: usize) -> Settings {
    Settings {
        addresses: Addresses {
            first: 0x0a00_0002,
            hosts: HOSTS as u32,
            racks: RACKS as u32,
            pods: 1,
        },
        ways: Ways {
            edge: PATHS,
            core: 1,
        },
        policy: Policy::MaxMin,
        classes: 1,
        batch,
        // There is no clock, and there are no receivers of messages.
        timeslot: 1,
        lead: 0,
        travel: 0,
        ahead: 0,
        timeout: 1,
        lags: Lags::default(),
        own: None,
        any_port: false,
    }
}

/// One thread and three at each load, in turns, with 256 endpoints.
pub(crate) fn measure(options: &Options) -> Vec<Row> {
    let nodes = RACKS * HOSTS;
    let loads = options.load.iter();
    loads.flat_map(|load| at(options, nodes, *load)).collect()
}

fn at(options: &Options, nodes: usize, load: f64) -> Vec<Row> {
    let whole = |timeslots: usize| timeslots.next_multiple_of(BATCHES[1]);
    let warm_up = whole(options.warm_up);
    let turn = whole(options.timeslots / (TURNS - 1));
    let requests = demands::draw(nodes, load, warm_up + TURNS * turn, options.seed);
    let (before, measured) = requests.split_at(warm_up);
    let all = BATCHES
        .into_iter()
        .flat_map(|batch| [false, true].map(|is_threaded| Subject::new(batch, is_threaded)));
    let mut subjects: Vec<_> = all.collect();
    subjects.retain(|subject| subject.name.contains(&options.only));
    for subject in &mut subjects {
        subject.run(before);
        subject.packets = 0;
    }
    let mut times = vec![[Vec::new(), Vec::new()]; subjects.len()];
    let clocks = [on_the_wall, of_all_threads];
    for (index, requests) in measured.chunks(turn).enumerate() {
        for (subject, times) in subjects.iter_mut().zip(&mut times) {
            let begin = clocks.map(|clock| clock());
            subject.run(requests);
            if index == 0 {
                subject.packets = 0;
                continue;
            }
            for ((times, clock), begin) in times.iter_mut().zip(clocks).zip(begin) {
                times.push(clock() - begin);
            }
        }
    }
    let setting = format!("{nodes} endpoints, load {load}");
    let mut rows = Vec::new();
    for (subject, times) in subjects.iter().zip(&times) {
        for (clock, times) in ["wall", "processors"].iter().zip(times) {
            let name = format!("{}, {clock}", subject.name);
            rows.push(Row::new(&setting, &name, turn, subject.packets, times));
        }
    }
    rows
}
