// SPDX-License-Identifier: MIT OR Apache-2.0

//! Looks for overlapping allocations, for as long as you like.
//!
//! ```text
//! cargo run --release -p weft-arbiter --example overlap -- --timeslots 1000000000
//! ```

#[path = "../tests/fuzz/mod.rs"]
mod fuzz;

use clap::Parser;

/// Looks for overlapping allocations.
#[derive(Parser)]
struct Options {
    /// Timeslots in all
    #[arg(long, default_value_t = 1_000_000_000)]
    timeslots: u64,
    /// What is asked for
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() {
    let options = Options::parse();
    // Some at a time, so that one sees that it goes on.
    let mut all = fuzz::Tried::default();
    for part in 0_u64.. {
        if all.timeslots >= options.timeslots {
            break;
        }
        let next = (options.timeslots - all.timeslots).min(100_000_000);
        let tried = fuzz::run(next, options.seed.wrapping_mul(1 << 32).wrapping_add(part));
        all.timeslots += tried.timeslots;
        all.packets += tried.packets;
        all.arbiters += tried.arbiters;
        println!(
            "{} timeslots of {} arbiters, {} packets: no overlap",
            all.timeslots, all.arbiters, all.packets
        );
    }
}
