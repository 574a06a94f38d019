// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocation: requests in, matchings out.

use weft_arbiter::max_min::MaxMin;
use weft_arbiter::min_fct::MinFct;
use weft_arbiter::{Allocator, Free, MAX_BATCH};

use crate::Options;
use crate::authors;
use crate::demands::{self, Request};
use crate::measure::{Row, TURNS, now};

/// What allocates.
enum Subject {
    Authors(authors::Allocation),
    Ours(Box<dyn Allocator>, Box<Free>),
}

impl Subject {
    fn batch(&self) -> usize {
        match self {
            Self::Authors(_) => authors::Allocation::BATCH,
            Self::Ours(ours, _) => ours.batch(),
        }
    }

    /// Packets of the batch in which these requests come.
    fn step(&mut self, requests: &[Vec<Request>]) -> usize {
        let requests = requests.iter().flatten();
        match self {
            Self::Authors(authors) => {
                requests.for_each(|request| authors.request(request));
                authors.allocate();
                authors.given.iter().map(Vec::len).sum()
            }
            Self::Ours(ours, free) => {
                for request in requests {
                    ours.request(request.source, request.destination, request.slots)
                        .expect("a request that can be");
                }
                free.allocate(&mut **ours);
                (0..ours.batch())
                    .map(|index| ours.timeslot(index).len())
                    .sum()
            }
        }
    }
}

fn subjects(nodes: usize, only: &str) -> Vec<(String, Subject)> {
    let mut subjects = Vec::new();
    let mut add = |name: String, make: &dyn Fn() -> Subject| {
        if name.contains(only) {
            subjects.push((name, make()));
        }
    };
    add("authors".into(), &|| {
        Subject::Authors(authors::Allocation::new(nodes))
    });
    for batch in [16, 32, 64] {
        add(format!("max-min {batch}"), &|| {
            let free = Free::new(nodes, batch).expect("valid");
            Subject::Ours(Box::new(MaxMin::new(nodes, batch).expect("valid")), free)
        });
    }
    for batch in [16, 64] {
        add(format!("min-fct {batch}"), &|| {
            let free = Free::new(nodes, batch).expect("valid");
            Subject::Ours(Box::new(MinFct::new(nodes, batch).expect("valid")), free)
        });
    }
    subjects
}

/// Each subject at each load, in turns.
pub(crate) fn measure(options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    for &nodes in &options.nodes {
        for &load in &options.load {
            rows.extend(at(options, nodes, load));
        }
    }
    rows
}

fn at(options: &Options, nodes: usize, load: f64) -> Vec<Row> {
    // Whole batches of all.
    let whole = |timeslots: usize| timeslots.next_multiple_of(MAX_BATCH);
    let warm_up = whole(options.warm_up);
    let turn = whole(options.timeslots * 256 / nodes.max(256) / (TURNS - 1));
    let requests = demands::draw(nodes, load, warm_up + TURNS * turn, options.seed);
    let (before, measured) = requests.split_at(warm_up);
    let mut subjects = subjects(nodes, &options.only);
    for (_, subject) in &mut subjects {
        for requests in before.chunks(subject.batch()) {
            subject.step(requests);
        }
    }
    let mut times = vec![Vec::new(); subjects.len()];
    let mut packets = vec![0; subjects.len()];
    for (index, requests) in measured.chunks(turn).enumerate() {
        for (number, (_, subject)) in subjects.iter_mut().enumerate() {
            let batch = subject.batch();
            let begin = now();
            let given: usize = requests.chunks(batch).map(|r| subject.step(r)).sum();
            let time = now() - begin;
            if index > 0 {
                times[number].push(time);
                packets[number] += given;
            }
        }
    }
    let setting = format!("{nodes} endpoints, load {load}");
    let rows = subjects.iter().zip(times).zip(packets);
    rows.map(|(((name, _), times), packets)| Row::new(&setting, name, turn, packets, &times))
        .collect()
}
