// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! Compares laws with their naive models, for any length of time.
//!
//! ```text
//! cargo run --release -p weft-mechanisms --example naive -- --operations 1000000000
//! ```
//!
//! Scenarios are made from random bytes, as in the fuzzers. Some are longer than the scenarios of
//! property tests. A failing scenario is written to a file, for a corpus.

#[path = "../bfc/tests/naive.rs"]
mod bfc;
#[path = "../dibs/tests/naive.rs"]
mod dibs;
#[path = "../expresspass/tests/naive.rs"]
mod expresspass;
#[path = "../fastpass/tests/naive.rs"]
mod fastpass;
#[path = "../pase/tests/naive.rs"]
mod pase;
#[path = "../pfabric/tests/naive.rs"]
mod pfabric;
#[path = "../port/tests/naive.rs"]
mod port;
#[path = "../bfc/tests/rig.rs"]
mod rig;

use std::panic::catch_unwind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;

/// Bytes of the longest scenario.
const LONGEST: u64 = 1 << 14;
/// The time between two progress messages.
const EVERY: Duration = Duration::from_secs(10);

/// Looks for a scenario in which a law does what its naive model does not.
#[derive(Parser)]
struct Arguments {
    /// The law: pfabric, bfc, dibs, pase, fastpass, port, expresspass. Without it, all of them, one
    /// after the other
    law: Vec<String>,
    /// Operations of each law, in all scenarios
    #[arg(long, default_value_t = 1_000_000_000)]
    operations: u64,
    /// Which scenarios
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where a scenario that fails is written to
    #[arg(long, default_value = "failed-scenario")]
    failed: PathBuf,
}

/// A law and its model: runs a scenario, and returns the number of its operations.
type Law = (&'static str, fn(&[u8]) -> usize);

macro_rules! law {
    ($law:ident) => {
        (stringify!($law), |bytes| {
            let scenario = $law::Scenario::decode(bytes);
            scenario.run();
            scenario.operations.len()
        })
    };
}

/// pFabric's queue, BFC's and DIBS's switches, PASE's arbitrator, the calendar of a host under
/// Fastpass, a switch with priority flow control, and the hosts of ExpressPass.
const LAWS: [Law; 7] = [
    law!(pfabric),
    law!(bfc),
    law!(dibs),
    law!(pase),
    law!(fastpass),
    law!(port),
    law!(expresspass),
];

/// xorshift64* (Marsaglia 2003, Vigna 2016).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Short and long inputs, each length about as often as twice that length.
    fn bytes(&mut self) -> Vec<u8> {
        let longest = 1 + LONGEST.ilog2() as u64;
        let most = 1 << ((self.next() >> 32) % longest);
        let len = (self.next() >> 32) % most + 1;
        let words = (0..len.div_ceil(8)).map(|_| self.next().to_le_bytes());
        let mut bytes: Vec<u8> = words.flatten().collect();
        bytes.truncate(len as usize);
        bytes
    }
}

fn run(&(name, law): &Law, arguments: &Arguments) -> std::io::Result<bool> {
    let mut random = Random(arguments.seed | 1 << 63);
    let (mut operations, mut scenarios, mut shown) = (0, 0_u64, Instant::now());
    while operations < arguments.operations {
        let bytes = random.bytes();
        match catch_unwind(|| law(&bytes)) {
            Ok(done) => operations += done as u64,
            Err(_) => {
                std::fs::write(&arguments.failed, &bytes)?;
                let file = arguments.failed.display();
                println!("{name}: differs from its model, after {operations} operations: {file}");
                return Ok(false);
            }
        }
        scenarios += 1;
        if shown.elapsed() >= EVERY || operations >= arguments.operations {
            shown = Instant::now();
            println!("{name}: {operations} operations in {scenarios} scenarios: as the model");
        }
    }
    Ok(true)
}

fn main() -> std::io::Result<ExitCode> {
    let arguments = Arguments::parse();
    for name in &arguments.law {
        if !LAWS.iter().any(|(law, _)| law == name) {
            let names = LAWS.map(|(name, _)| name).join(", ");
            eprintln!("no law {name}: there are {names}");
            return Ok(ExitCode::FAILURE);
        }
    }
    for law in &LAWS {
        let is_meant = arguments.law.is_empty() || arguments.law.iter().any(|name| name == law.0);
        if is_meant && !run(law, &arguments)? {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}
