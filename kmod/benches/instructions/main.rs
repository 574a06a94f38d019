// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The cost of a packet in each algorithm, in instructions, as the backlog grows.
//!
//! ```text
//! cargo bench -p weft-mechanisms              # all tables
//! cargo bench -p weft-mechanisms -- bfc       # one
//! cargo bench -p weft-mechanisms -- time      # of an arbitrator of 100,000 flows, in µs on this machine
//! ```
//!
//! The profile matches the kernel's build flags. Instructions are counted by valgrind's callgrind,
//! not timed: the numbers are identical on any machine, any day, to the last digit (with the same
//! compiler). They include the harness's loop, about 10 instructions.

mod bfc;
mod pase;
mod pfabric;
mod wire;

use std::env;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::process::{Command, ExitCode};
use weft_mechanisms::heap::Heap;

/// A table.
struct Table {
    algorithm: &'static str,
    scenarios: &'static [&'static str],
    /// Runs this many steps of a scenario at a backlog; returns how many were actually made. Only
    /// functions named `measured_…` are counted.
    run: fn(&str, u32, u32) -> u32,
}

const TABLES: [Table; 4] = [pfabric::TABLE, bfc::TABLE, pase::TABLE, wire::TABLE];
const BACKLOGS: [u32; 4] = [1, 24, 1_000, 10_000];
const STEPS: u32 = 20_000;

/// Like a kernel packet: owned, and dropped by a call.
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

/// Instructions per step, counted by running this program under valgrind.
fn instructions(algorithm: &str, scenario: &str, n: u32) -> Result<f64, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*::measured_*")
        .arg(program)
        .args([algorithm, scenario, &n.to_string()])
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

fn print(table: &Table) -> Result<(), String> {
    println!(
        "{:11} {:>8} {:>8} {:>8} {:>8}   10,000 : 24",
        table.algorithm, 1, 24, "1,000", "10,000"
    );
    for scenario in table.scenarios {
        print!("{scenario:11}");
        let mut row = Vec::new();
        for n in BACKLOGS {
            let instructions = instructions(table.algorithm, scenario, n)?;
            print!(" {instructions:8.1}");
            row.push(instructions);
        }
        println!("   {:11.2}", row[3] / row[1]);
    }
    println!();
    Ok(())
}

fn table(algorithm: &str) -> Result<&'static Table, String> {
    let tables = || TABLES.iter();
    let found = tables().find(|table| table.algorithm == algorithm);
    found.ok_or_else(|| {
        let known: Vec<_> = tables().map(|table| table.algorithm).collect();
        format!("{algorithm}: there are {}", known.join(", "))
    })
}

fn count(args: &[&str]) -> Result<(), String> {
    match args {
        // The arguments of `cargo bench`.
        ["--bench"] => TABLES.iter().try_for_each(print),
        ["time", "--bench"] => {
            pase::time(100_000);
            Ok(())
        }
        [algorithm, "--bench"] => print(table(algorithm)?),
        // The arguments of `instructions`.
        [algorithm, scenario, n] => {
            let n = n.parse().map_err(|error| format!("{n}: {error}"))?;
            println!("{}", (table(algorithm)?.run)(scenario, n, STEPS));
            Ok(())
        }
        // The arguments of `cargo test --benches`: checks that it runs.
        _ => {
            for table in &TABLES {
                for scenario in table.scenarios {
                    assert!((table.run)(scenario, 24, 100) >= 100);
                }
            }
            Ok(())
        }
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match count(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
