// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What a packet costs in `pfabric`, in instructions, as the backlog grows.
//!
//! ```text
//! cargo bench -p weft-algo
//! ```
//!
//! The profile asks for what the kernel builds with. Instructions are counted by valgrind's
//! callgrind, not timed: the same numbers on any machine, any day, to the last digit (with the same
//! compiler). They include the harness's loop, about 10 instructions.
//!
//! One step is one dequeue and one enqueue (`overload`: two enqueues) at a backlog of n packets,
//! after 10 n steps that do not count:
//!
//! - `equal`: all packets have the same rank, each a flow of its own. What untagged traffic does.
//! - `random`: 32-bit ranks at random, each packet a flow of its own. As urgent ones leave, the
//!   backlog comes to consist of the least urgent ones.
//! - `sizes`: the same with ranks whose logarithm is uniform, as sizes of flows are.
//! - `remaining`: n flows whose ranks are what they have yet to send, as in the paper: many flows
//!   have several packets queued, and the earliest overtakes the most urgent one.
//! - `drain`: n random arrivals, then n departures, counted per packet.
//! - `overload`: as `remaining`, with two arrivals per departure at a full queue: evictions and
//!   rejections.
//!
//! Measured with rustc 1.95.0 on 2026-11-21:
//!
//! ```text
//! backlog           1       24    1,000   10,000   10,000 : 24
//! equal         177.0    217.8    220.1    212.6          0.98
//! random        177.0    269.6    255.5    257.9          0.96
//! sizes         177.0    237.3    242.7    284.4          1.20
//! remaining     177.0    240.9    241.3    251.0          1.04
//! drain         223.0    301.6    340.7    376.2          1.25
//! overload      484.8    631.6    657.1    794.5          1.26
//! ```
//!
//! In the first steps after the queue has been filled, when it still holds all sizes of flows, the
//! trie is deeper: without the 10 n steps, `sizes` takes 350 and `remaining` 381 at 10,000.

use std::convert::Infallible;
use std::env;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::process::{Command, ExitCode};
use weft_algo::pfabric::{Limits, PFabric};
use weft_algo::store::Store;

const SCENARIOS: [&str; 6] = ["equal", "random", "sizes", "remaining", "drain", "overload"];
const BACKLOGS: [u32; 4] = [1, 24, 1_000, 10_000];
const STEPS: u32 = 20_000;

enum Heap {}

impl Store for Heap {
    type Of<T> = Vec<T>;
    type Error = Infallible;

    fn allocate<T>(n: usize, make: impl FnMut() -> T) -> Result<Vec<T>, Infallible> {
        Ok(std::iter::repeat_with(make).take(n).collect())
    }
}

/// As a kernel packet's: owned, and dropped by a call.
struct Packet(NonZeroUsize);

impl Packet {
    /// A packet that knows its flow.
    fn new(flow: u32) -> Self {
        Self(NonZeroUsize::MIN.saturating_add(flow as usize))
    }

    fn flow(&self) -> u32 {
        self.0.get() as u32
    }
}

impl Drop for Packet {
    #[inline(never)]
    fn drop(&mut self) {
        black_box(self.0);
    }
}

type Queue = PFabric<Packet, Heap>;

/// What arrives: rank and flow.
type Arrival = (u32, u32);

/// xorshift64 (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as u32
    }

    /// A size of a flow, in bytes: 1 kB to 33 MB, its logarithm uniform.
    fn size(&mut self) -> u32 {
        1_000 + (self.next() >> (7 + self.next() % 16))
    }
}

/// Each packet that leaves is followed by one of its flow: the number of flows stays.
#[inline(never)]
fn swap(queue: &mut Queue, ranks: &[Arrival]) {
    for &(rank, _) in ranks {
        if let Some(packet) = queue.dequeue() {
            let flow = packet.flow();
            let _ = queue.enqueue(packet, rank, flow, 1500, |packet, _| drop(packet));
        }
    }
}

/// The packets that leave and those that arrive are of any flows.
#[inline(never)]
fn replace(queue: &mut Queue, arrivals: &[Arrival]) {
    for &(rank, flow) in arrivals {
        std::mem::forget(queue.dequeue());
        let _ = queue.enqueue(Packet::new(flow), rank, flow, 1500, |packet, _| {
            drop(packet)
        });
    }
}

#[inline(never)]
fn measured_swap(queue: &mut Queue, ranks: &[Arrival]) {
    swap(black_box(queue), ranks);
}

#[inline(never)]
fn measured_replace(queue: &mut Queue, arrivals: &[Arrival]) {
    replace(black_box(queue), arrivals);
}

/// Two arrivals for each departure.
#[inline(never)]
fn measured_overload(queue: &mut Queue, arrivals: &[Arrival]) {
    for pair in arrivals.chunks_exact(2) {
        for &(rank, flow) in pair {
            let _ = queue.enqueue(Packet::new(flow), rank, flow, 1500, |packet, _| {
                drop(packet)
            });
        }
        std::mem::forget(queue.dequeue());
    }
}

/// First all arrivals, then all departures.
#[inline(never)]
fn measured_drain(queue: &mut Queue, arrivals: &[Arrival]) {
    for &(rank, flow) in arrivals {
        let _ = queue.enqueue(Packet::new(flow), rank, flow, 1500, |packet, _| {
            drop(packet)
        });
    }
    while let Some(packet) = queue.dequeue() {
        std::mem::forget(packet);
    }
}

/// Fills the queue to a backlog of `n`, off the record.
#[inline(never)]
fn fill(queue: &mut Queue, n: u32, arrivals: Vec<Arrival>) {
    for &(rank, flow) in &arrivals[..n as usize] {
        let _ = queue.enqueue(black_box(Packet::new(flow)), rank, flow, 1500, |_, _| ());
    }
}

/// Runs `steps` steps of a scenario at a backlog of `n`; returns how many were in fact made.
fn run(scenario: &str, n: u32, steps: u32) -> u32 {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let room = if scenario == "overload" { 0 } else { 1 };
    let limits = Limits {
        packets: n + room,
        bytes: 0,
        starvation_prevention: true,
    };
    let Ok(mut queue) = PFabric::new(limits);
    let flows: Vec<u32> = (0..n).map(|_| random.next() >> 1).collect();
    let mut left: Vec<u32> = flows.iter().map(|_| random.size()).collect();
    let mut arrivals = |count: u32| -> Vec<Arrival> {
        let arrival = |i: u32| match scenario {
            "equal" => (0, flows[(i % n) as usize]),
            "random" | "drain" => (random.next(), flows[(i % n) as usize]),
            "sizes" => (random.size(), flows[(i % n) as usize]),
            "remaining" | "overload" => {
                let flow = (random.next() % n) as usize;
                let rank = left[flow];
                left[flow] = rank.checked_sub(1460).unwrap_or_else(|| random.size());
                (rank, flows[flow])
            }
            _ => unreachable!("{scenario} is none of {SCENARIOS:?}"),
        };
        (0..count).map(arrival).collect()
    };
    let mut made = steps;
    match scenario {
        "equal" | "random" | "sizes" => {
            fill(&mut queue, n, arrivals(n));
            swap(&mut queue, &arrivals(10 * n));
            measured_swap(&mut queue, &arrivals(steps));
        }
        "remaining" => {
            fill(&mut queue, n, arrivals(n));
            replace(&mut queue, &arrivals(10 * n));
            measured_replace(&mut queue, &arrivals(steps));
        }
        "overload" => {
            fill(&mut queue, n, arrivals(n));
            measured_overload(&mut queue, &arrivals(2 * steps));
        }
        _ => {
            made = 0;
            while made < steps {
                measured_drain(&mut queue, &arrivals(n));
                made += n;
            }
        }
    }
    queue.clear(std::mem::forget);
    made
}

/// Instructions per step, counted by running this program under valgrind.
fn instructions(scenario: &str, n: u32) -> Result<f64, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*::measured_*")
        .arg(program)
        .args([scenario, &n.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}; `apt install valgrind` installs it"))?;
    let (out, log) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let number = |text: &str| text.trim().parse::<f64>().ok();
    let counted = log
        .lines()
        .find_map(|line| number(line.split_once("Collected :")?.1));
    match (counted, number(&out)) {
        (Some(counted), Some(steps)) => Ok(counted / steps),
        _ => Err(format!("valgrind says nothing of `Collected`:\n{log}")),
    }
}

fn table() -> Result<(), String> {
    println!(
        "{:10} {:>8} {:>8} {:>8} {:>8}   10,000 : 24",
        "backlog", 1, 24, "1,000", "10,000"
    );
    for scenario in SCENARIOS {
        print!("{scenario:10}");
        let mut row = Vec::new();
        for n in BACKLOGS {
            let instructions = instructions(scenario, n)?;
            print!(" {instructions:8.1}");
            row.push(instructions);
        }
        println!("   {:11.2}", row[3] / row[1]);
    }
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        // As `cargo bench` calls it.
        ["--bench"] => {
            if let Err(error) = table() {
                eprintln!("error: {error}");
                return ExitCode::FAILURE;
            }
        }
        [scenario, n] => match n.parse() {
            Ok(n) => println!("{}", run(scenario, n, STEPS)),
            Err(error) => {
                eprintln!("error: {n}: {error}; give a scenario and a backlog");
                return ExitCode::FAILURE;
            }
        },
        // As `cargo test --benches` calls it: does it run?
        _ => SCENARIOS
            .into_iter()
            .for_each(|scenario| assert!(run(scenario, 24, 100) >= 100)),
    }
    ExitCode::SUCCESS
}
