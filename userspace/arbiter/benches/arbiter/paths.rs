// SPDX-License-Identifier: MIT OR Apache-2.0

//! Path selection: matchings in, paths out.

use weft_arbiter::max_min::MaxMin;
use weft_arbiter::paths::Paths;
use weft_arbiter::{Allocation, Allocator, Free, MAX_BATCH};

use crate::Options;
use crate::authors::{self, HOSTS, PATHS, Pair, RACKS};
use crate::demands;
use crate::measure::{Row, TURNS, now};

/// What selects.
enum Subject {
    Authors(Box<authors::Paths>, Vec<u8>),
    Ours(Box<Paths>),
}

/// Matchings, as either takes them.
type Matching = (Vec<Allocation>, Vec<Pair>);

/// Each subject at each load, in turns, on the matchings of 256 endpoints.
pub(crate) fn measure(options: &Options) -> Vec<Row> {
    let nodes = RACKS * HOSTS;
    let loads = options.load.iter();
    loads.flat_map(|load| at(options, nodes, *load)).collect()
}

fn matchings(options: &Options, nodes: usize, load: f64, timeslots: usize) -> Vec<Matching> {
    let warm_up = options.warm_up.next_multiple_of(MAX_BATCH);
    let requests = demands::draw(nodes, load, warm_up + timeslots, options.seed);
    let mut allocator = MaxMin::new(nodes, MAX_BATCH).expect("valid");
    let mut free = Free::new(nodes, MAX_BATCH).expect("valid");
    let mut matchings = Vec::new();
    for (batch, requests) in requests.chunks(MAX_BATCH).enumerate() {
        for request in requests.iter().flatten() {
            allocator
                .request(request.source, request.destination, request.slots)
                .expect("a request that can be");
        }
        free.allocate(&mut allocator);
        if batch * MAX_BATCH >= warm_up {
            matchings.extend((0..MAX_BATCH).map(|index| {
                let ours = allocator.timeslot(index).to_vec();
                let pairs = ours.iter().map(|a| (a.source(), a.destination())).collect();
                (ours, pairs)
            }));
        }
    }
    matchings
}

fn at(options: &Options, nodes: usize, load: f64) -> Vec<Row> {
    let turn = (options.timeslots / (TURNS - 1)).next_multiple_of(MAX_BATCH);
    let matchings = matchings(options, nodes, load, turn);
    let ours =
        |hosts, paths| Subject::Ours(Box::new(Paths::new(nodes, hosts, paths).expect("valid")));
    let mut subjects = vec![
        (
            "authors, 8 racks, 4 paths",
            Subject::Authors(Box::default(), Vec::new()),
        ),
        ("ours, 8 racks, 4 paths", ours(HOSTS, PATHS)),
        ("ours, 16 racks, 16 paths", ours(16, 16)),
    ];
    subjects.retain(|(name, _)| name.contains(&options.only));
    let mut times = vec![Vec::new(); subjects.len()];
    for index in 0..TURNS {
        for (number, (_, subject)) in subjects.iter_mut().enumerate() {
            let begin = now();
            let mut sum = 0_usize;
            for (matching, pairs) in &matchings {
                let chosen = match subject {
                    Subject::Authors(paths, chosen) => {
                        paths.select(pairs, chosen);
                        &chosen[..]
                    }
                    Subject::Ours(paths) => paths.select(matching),
                };
                sum += usize::from(*chosen.last().unwrap_or(&0));
            }
            std::hint::black_box(sum);
            if index > 0 {
                times[number].push(now() - begin);
            }
        }
    }
    let packets: usize = matchings.iter().map(|(matching, _)| matching.len()).sum();
    let packets = packets * (TURNS - 1);
    let setting = format!("{nodes} endpoints, load {load}");
    let rows = subjects.iter().zip(times);
    rows.map(|((name, _), times)| Row::new(&setting, name, turn, packets, &times))
        .collect()
}
