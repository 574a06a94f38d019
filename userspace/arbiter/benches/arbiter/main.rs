// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a timeslot costs the arbiter, beside the authors' way to do it.
//!
//! ```text
//! cargo xtask bench arbiter           # tables
//! cargo xtask bench arbiter --save    # and the raw figures, kept in selftests/bench/results
//! ```
//!
//! This is what says the raw figures.
//!
//! | module | part |
//! |---|---|
//! | [`demands`] | who asks for what |
//! | [`authors`] | the authors' algorithms |
//! | [`allocation`], [`paths`] | what is measured |
//! | [`pipeline`] | both of these, in one thread and in three |
//! | [`comm`] | both of these and sessions, in one thread; what is said |
//! | [`measure`] | processor time, and what stands for many measurements |

mod allocation;
mod authors;
mod comm;
mod demands;
mod measure;
mod paths;
mod pipeline;

use clap::Parser;
use serde::Serialize;

/// What a timeslot costs the arbiter.
#[derive(Parser)]
struct Options {
    /// Endpoints
    #[arg(long, value_delimiter = ',', default_value = "256,1024,4096")]
    nodes: Vec<usize>,
    /// Load of the endpoints' links, 0 to 1
    #[arg(long, value_delimiter = ',', default_value = "0.8,0.9,0.95,0.99")]
    load: Vec<f64>,
    /// Timeslots before those that are measured
    #[arg(long, default_value_t = 10_048)]
    warm_up: usize,
    /// Timeslots that are measured with 256 endpoints; fewer, in proportion, with more
    #[arg(long, default_value_t = 50_048)]
    timeslots: usize,
    /// Of the demands
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only what has this in its name
    #[arg(long, default_value = "")]
    only: String,
    /// Given by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Serialize)]
struct Report {
    seed: u64,
    allocation: Vec<measure::Row>,
    paths: Vec<measure::Row>,
    pipeline: Vec<measure::Row>,
    comm: Vec<measure::Row>,
    control: Vec<comm::Control>,
}

fn main() {
    let options = Options::parse();
    let (comm, control) = comm::measure(&options);
    let report = Report {
        seed: options.seed,
        allocation: allocation::measure(&options),
        paths: paths::measure(&options),
        pipeline: pipeline::measure(&options),
        comm,
        control,
    };
    let json = serde_json::to_string_pretty(&report);
    println!("{}", json.expect("rows are JSON"));
}
