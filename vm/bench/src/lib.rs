// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench`: measurements of weft side by side with others in one run.
//!
//! One file per benchmark, with its arguments.

#![forbid(unsafe_code)]

mod arbiter;
mod clocks;
mod hops;
mod htsim;
mod ns3;
mod qdisc;
mod requests;
mod simulator;
mod usage;
mod weave;
mod weft_run;

use std::fs;

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weft_build::base::cache::Cache;
use weft_build::base::{output, progress, workspace};
use weft_build::guests;
use weft_build::guests::machine;
use weft_build::options::{ClockKind, Hardware, Target};
use weft_build::stages::chain::Built;
use weft_machine::{Clock, Guest, transfer};

/// Measurements
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: Kind,
}

#[derive(Debug, clap::Subcommand)]
enum Kind {
    Arbiter(arbiter::Args),
    Clocks(clocks::Args),
    Hops(hops::Args),
    Htsim(htsim::Args),
    Ns3(ns3::Args),
    Qdisc(qdisc::Args),
    Requests(requests::Args),
    Weave(weave::Args),
}

impl Args {
    /// The kernel of the measurement, if the benchmark has one.
    pub fn target(&self) -> Option<&Target> {
        Some(match &self.what {
            Kind::Arbiter(_) => return None,
            Kind::Clocks(args) => &args.target,
            Kind::Hops(args) => &args.figures.target,
            Kind::Htsim(args) => &args.figures.target,
            Kind::Ns3(args) => &args.figures.target,
            Kind::Qdisc(args) => &args.figures.target,
            Kind::Requests(args) => &args.figures.target,
            Kind::Weave(args) => &args.figures.target,
        })
    }
}

/// The kernel of the measurement, and the output of figures.
#[derive(Debug, clap::Args)]
struct Figures {
    #[command(flatten)]
    target: Target,
    /// Print data as JSON
    #[arg(long)]
    json: bool,
    /// Save the figures in selftests/bench/results, with the date in the name
    #[arg(long)]
    save: bool,
    #[command(flatten)]
    hardware: Hardware,
}

/// The file of `weft-bench`'s figures in `/out`.
const FIGURES: &str = "bench.json";

/// Runs a benchmark.
///
/// # Errors
/// If a part cannot be built, run or installed.
pub fn run(cache: &Cache, args: &Args) -> Result<u8> {
    match &args.what {
        Kind::Arbiter(args) => arbiter::run(cache, args),
        Kind::Clocks(args) => clocks::run(cache, args),
        Kind::Hops(args) => hops::run(cache, args),
        Kind::Htsim(args) => htsim::run(cache, args),
        Kind::Ns3(args) => ns3::run(cache, args),
        Kind::Qdisc(args) => qdisc::run(cache, args),
        Kind::Requests(args) => requests::run(cache, args),
        Kind::Weave(args) => weave::run(cache, args),
    }
}

/// Saves a report under `name` if `save`, and prints it: as JSON if `json`, else as `table`.
/// Returns the exit status.
fn tell<T: Serialize>(
    report: &T,
    name: &str,
    (save, json): (bool, bool),
    table: impl FnOnce(&T) -> String,
) -> Result<u8> {
    let text = serde_json::to_string_pretty(report)?;
    if save {
        let directory = workspace().join("selftests/bench/results");
        fs::create_dir_all(&directory)?;
        let path = directory.join(format!("{name}.json"));
        fs::write(&path, format!("{text}\n"))
            .with_context(|| format!("writing {}", path.display()))?;
        progress::note(&format!("saved {}", path.display()));
    }
    if json {
        output::print(&text)?;
    } else {
        output::bytes(table(report).as_bytes())?;
    }
    Ok(0)
}

/// A report's name, which depends on `--only`.
fn name(of_all: String, only: Option<&String>) -> String {
    match only {
        Some(only) => format!("{of_all}-{only}"),
        None => of_all,
    }
}

/// Runs `weft-bench` in a guest; returns its figures and its clock.
fn weft_bench<T: DeserializeOwned>(
    built: &Built,
    clock: ClockKind,
    hardware: &Hardware,
    options: &[String],
    only: Option<&String>,
    what: &str,
) -> Result<(T, Clock)> {
    let mut machine = machine::build(built, clock, hardware)?;
    if let Clock::Instructions { shift, .. } = &mut machine.clock {
        // One instruction per nanosecond.
        *shift = 0;
    }
    // The generator, the qdisc and the device run on one thread.
    machine.cpus = 1;
    let mut command = vec![
        "weft-bench".to_owned(),
        "--json".to_owned(),
        format!("/out/{FIGURES}"),
    ];
    command.extend_from_slice(options);
    if let Some(only) = only {
        command.extend(["--only".to_owned(), only.clone()]);
    }
    let run = Guest::new(machine, command, hardware.timeout());
    let outcome = progress::step(what, || guests::succeed(built, &run, "weft-bench"))?;
    let figures = transfer::file(&outcome.tar, FIGURES)?.context("weft-bench left no figures")?;
    let figures = serde_json::from_slice(&figures).context("reading weft-bench's figures")?;
    Ok((figures, run.machine.clock))
}

/// The date in UTC, as in 2026-01-31.
fn today() -> Result<String> {
    let output = std::process::Command::new("date")
        .args(["-u", "+%F"])
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// The name of this machine's processor, according to the kernel.
fn processor() -> Result<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo")?;
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name\t: "));
    Ok(name.unwrap_or("unknown").to_owned())
}
