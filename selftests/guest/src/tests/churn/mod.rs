// SPDX-License-Identifier: MIT OR Apache-2.0

//! Everything at once, by several threads: qdiscs are added, changed, replaced, moved and deleted
//! below all kinds of parents, congestion controls chosen and changed in each state of a
//! connection, switches with their ports, whole namespaces and modules come and go, under packets,
//! TCP and pause frames.
//!
//! What is refused meanwhile is no failure: a module may be gone. That nothing warns, hangs, stays
//! in use or is lost is what is looked for, after each test and at the end of all. `--repeat` makes
//! it last.

mod modules;
mod qdiscs;
mod sockets;
mod switches;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use weft_ktap::{Context, tests};
use weft_mechanisms::common::mechanism;

use crate::port::Port;
use crate::random::Random;

tests![
    #[once]
    qdiscs_are_added_changed_and_deleted_concurrently,
];

/// The turns of all threads together. Those of modules are short and do not count.
const TURNS: u64 = 60;

/// A kind of qdisc, with options that make one.
struct Example {
    kind: &'static str,
    /// As tc has them.
    words: &'static str,
    /// As the kernel has them.
    options: Vec<u8>,
}

/// What came of requests.
#[derive(Default)]
struct Tally {
    done: u64,
    refused: u64,
}

impl Tally {
    /// What was done, if it was not refused.
    fn count<T>(&mut self, result: Result<T>) -> Option<T> {
        match &result {
            Ok(_) => self.done += 1,
            Err(_) => self.refused += 1,
        }
        result.ok()
    }
}

/// What a thread does again and again.
type Turn = fn(&[Example], &mut Random, &mut Tally) -> Result<()>;

/// How many threads do what.
const WORKERS: [(&str, usize, Turn); 4] = [
    ("qdiscs", 2, qdiscs::turn),
    ("sockets", 2, sockets::turn),
    ("switches", 1, switches::turn),
    (MODULES, 1, modules::turn),
];
const MODULES: &str = "modules";

fn pause(random: &mut Random) {
    std::thread::sleep(Duration::from_micros(random.below(4000).into()));
}

fn examples() -> Result<Vec<Example>> {
    let mut port = Port::new()?;
    let example = |qdisc: &mechanism::Qdisc| {
        let options = port.options_of(qdisc).context(qdisc.kind)?;
        Ok(Example {
            kind: qdisc.kind,
            words: qdisc.example,
            options,
        })
    };
    weft_mechanisms::QDISCS.iter().map(example).collect()
}

fn qdiscs_are_added_changed_and_deleted_concurrently(cx: &Context) -> Result<()> {
    /// Each time is another one.
    static TIMES: AtomicU64 = AtomicU64::new(1);
    // htb, drr and qfq of qdiscs that hold packets back for their time.
    cx.expect_kernel_message("non-work-conserving");
    // What it says where a slow machine kept it from its classes for long.
    cx.expect_kernel_message("htb: too many events!");
    let mut seeds = Random::new(TIMES.fetch_add(1, Ordering::Relaxed));
    let examples = examples()?;
    let taken = AtomicU64::new(0);
    let work = &|name, turn: Turn, seed| -> Result<Tally> {
        let (mut random, mut tally) = (Random::new(seed), Tally::default());
        let counts = u64::from(name != MODULES);
        while taken.fetch_add(counts, Ordering::Relaxed) < TURNS {
            turn(&examples, &mut random, &mut tally)?;
        }
        Ok(tally)
    };
    let tallies = std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for (name, threads, turn) in WORKERS {
            for _ in 0..threads {
                let seed = seeds.next();
                workers.push((name, scope.spawn(move || work(name, turn, seed))));
            }
        }
        let ended = workers.into_iter().map(|(name, worker)| {
            let tally = worker.join().expect("a worker does not panic");
            (name, tally)
        });
        ended.collect::<Vec<_>>()
    });
    for (name, tally) in tallies {
        let Tally { done, refused } = tally.context(name)?;
        cx.note(format!("{name}: {done} done, {refused} refused"));
        ensure!(done > refused / 10, "{name}: most is refused");
    }
    Ok(())
}
