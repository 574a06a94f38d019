// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! `pase`: an arbitrator of one link with n flows.
//!
//! - `remaining`: a flow reports its remaining data, as in each round-trip time: it moves up in the
//!   order.
//! - `demand`: a flow reports a higher or lower demand.
//! - `same`: a flow repeats its last request.
//! - `new`: a flow begins, and another one ends.

use crate::{Heap, Random, Table};
use std::fs;
use std::hint::black_box;
use weft_mechanisms::pase::arbiter::{Arbiter, Link};
use weft_mechanisms::pase::Flow;

pub(crate) const TABLE: Table = Table {
    algorithm: "pase",
    scenarios: SCENARIOS,
    run,
};

const SCENARIOS: &[&str] = &["remaining", "demand", "same", "new"];

/// 10 Gbit/s.
const RATE: u64 = 1_250_000_000;

/// An update, and a flow that has ended.
type Step = (Flow, Option<u64>);

struct Rig {
    link: Arbiter<Heap>,
    flows: Vec<Flow>,
    random: Random,
    next: u64,
}

impl Rig {
    fn new(n: u32) -> Self {
        let link = Link {
            rate: RATE,
            queues: 8,
            lifetime: u64::MAX,
        };
        let Ok(link) = Arbiter::new(n, link, 0x9E37_79B9);
        let mut new = Self {
            link,
            flows: Vec::new(),
            random: Random(0x9E37_79B9_7F4A_7C15),
            next: 0,
        };
        for _ in 0..n {
            let flow = new.flow();
            new.flows.push(flow);
            new.link.update(&flow, 0);
        }
        new
    }

    fn flow(&mut self) -> Flow {
        self.next += 1;
        Flow {
            id: self.next,
            urgency: self.random.size().into(),
            demand: RATE,
        }
    }

    fn step(&mut self, scenario: &str) -> Step {
        let at = self.random.next() as usize % self.flows.len();
        let mut ended = None;
        match scenario {
            "remaining" => {
                let flow = &mut self.flows[at];
                flow.urgency = match flow.urgency.saturating_sub(15_000) {
                    0 => self.random.size().into(),
                    left => left,
                };
            }
            "demand" => self.flows[at].demand = self.random.next().into(),
            "new" => {
                ended = Some(self.flows[at].id);
                self.flows[at] = self.flow();
            }
            _ => {}
        }
        (self.flows[at], ended)
    }
}

#[inline(never)]
fn update(link: &mut Arbiter<Heap>, steps: &[Step]) {
    for (now, (flow, ended)) in (1..).zip(steps) {
        if let Some(ended) = ended {
            link.remove(*ended);
        }
        black_box(link.update(flow, now));
    }
}

#[inline(never)]
fn measured_update(link: &mut Arbiter<Heap>, steps: &[Step]) {
    update(black_box(link), steps);
}

/// Runs `steps` steps of a scenario with `n` flows.
fn run(scenario: &str, n: u32, steps: u32) -> u32 {
    let mut rig = Rig::new(n);
    let list: Vec<Step> = (0..steps).map(|_| rig.step(scenario)).collect();
    measured_update(&mut rig.link, &list);
    steps
}

/// The time for which this thread has had a processor, in ns, because other processes may use it,
/// too.
fn processor_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = text.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Prints the time of an update with `n` flows, the shortest of several runs.
pub(crate) fn time(n: u32) {
    const STEPS: u32 = 200_000;
    println!("pase, {n} flows: µs of an update");
    for scenario in SCENARIOS {
        let mut rig = Rig::new(n);
        let mut least = f64::INFINITY;
        for _ in 0..5 {
            let steps: Vec<Step> = (0..STEPS).map(|_| rig.step(scenario)).collect();
            let start = processor_ns();
            update(black_box(&mut rig.link), &steps);
            let took = processor_ns().saturating_sub(start) as f64;
            least = least.min(took / f64::from(STEPS));
        }
        println!("{scenario:11} {:8.3}", least / 1e3);
    }
}
