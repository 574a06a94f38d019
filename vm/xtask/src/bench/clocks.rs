// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench clocks`: the same flows under the counted-instruction clock and under the model
//! clock, and whether what comes of them is the same.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::Result;

use crate::build::{self, Built};
use crate::cache::Cache;
use crate::cli::{BenchClocks, ClockKind, Hardware};
use crate::parallel;
use crate::process;
use crate::progress;
use crate::weft_run::{self, Wanted};

/// The reference first: `weft` compares the others with the clock of the first file.
const CLOCKS: [ClockKind; 2] = [ClockKind::Virtual, ClockKind::Model];

/// A run under one clock.
struct Planned<'a> {
    clock: ClockKind,
    load: &'a str,
    scheme: &'a str,
    seed: u64,
}

impl Planned<'_> {
    /// What the guest runs.
    fn words(&self, options: &BenchClocks) -> Vec<String> {
        let said = [
            ("--dilation", options.dilation.to_string()),
            ("--scheme", self.scheme.to_owned()),
            ("--workload", options.workload.clone()),
            ("--load", self.load.to_owned()),
            ("--flows", options.flows.to_string()),
            ("--seed", self.seed.to_string()),
            ("--slack", options.slack.clone()),
            ("--sample", "0ns".to_owned()),
            ("--out", "/out".to_owned()),
        ];
        weft_run::words(&options.topology, said)
    }

    fn file(&self) -> String {
        weft_run::file(self.scheme, self.seed)
    }

    fn path(&self, options: &BenchClocks) -> PathBuf {
        let folder = options.out.join(self.clock.name());
        folder.join(format!("load-{}", self.load)).join(self.file())
    }

    /// The command that runs it.
    fn shown(&self, options: &BenchClocks) -> Result<String> {
        let (hardware, words) = (self.hardware(options), self.words(options));
        weft_run::shown(&options.target, self.clock, &hardware, &words)
    }

    /// The same under both clocks.
    fn hardware(&self, options: &BenchClocks) -> Hardware {
        options.hardware.for_workload(self.seed)
    }
}

/// Runs what has no results yet, and compares.
///
/// # Errors
/// If the guests cannot be built or run.
pub(crate) fn run(cache: &Cache, options: &BenchClocks) -> Result<u8> {
    let plan = plan(options);
    if options.dry_run {
        for run in &plan {
            println!("{}", run.shown(options)?);
        }
        return Ok(0);
    }
    for run in &plan {
        // What cannot be handed over is said before anything is built.
        weft_run::files(&run.words(options))?;
    }
    let missing: Vec<&Planned<'_>> = plan
        .iter()
        .filter(|run| options.again || !run.path(options).exists())
        .collect();
    let kernels = CLOCKS.map(ClockKind::kernel);
    let built = build::all(cache, &options.target.request(), &kernels)?;
    let workers = options.guests.unwrap_or_else(parallel::processors);
    let places: Vec<usize> = (0..missing.len()).collect();
    parallel::map(&places, workers, |&place, failed| {
        let run = missing[place];
        run_one(&built, options, run, failed)?;
        progress::note(&format!("run {} of {}", place + 1, missing.len()));
        Ok(())
    })?;
    let mut compare = Command::new(&built.programs.weft);
    compare.args(["compare", "--by-flow"]);
    if options.json {
        compare.arg("--json");
    }
    compare.args(plan.iter().map(|run| run.path(options)));
    process::passed_on(&mut compare)
}

fn plan(options: &BenchClocks) -> Vec<Planned<'_>> {
    let mut plan = Vec::new();
    for load in &options.load {
        for scheme in &options.scheme {
            for clock in CLOCKS {
                plan.extend(options.workload_seed.iter().map(|&seed| Planned {
                    clock,
                    load,
                    scheme,
                    seed,
                }));
            }
        }
    }
    plan
}

fn run_one(
    built: &Built,
    options: &BenchClocks,
    run: &Planned<'_>,
    failed: &std::sync::Arc<std::sync::atomic::AtomicBool>,
) -> Result<()> {
    let (path, file) = (run.path(options), run.file());
    let begun = Instant::now();
    let name = path.display().to_string();
    let wanted = Wanted {
        name: &name,
        file: &file,
        missing: "left no result",
    };
    let left = weft_run::run(
        built,
        run.clock,
        &run.hardware(options),
        run.words(options),
        &wanted,
        failed,
        &mut |_| {},
    )?;
    // As soon as it is there: what is interrupted goes on from here.
    left.write(&path)?;
    let time = progress::seconds(begun.elapsed());
    progress::note(&format!("{time} {name}"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{BenchKind, Cli, Command};

    #[test]
    fn each_run_has_its_twin_under_the_other_clock() {
        let cli = Cli::parse_from([
            "x", "bench", "clocks", "--load", "0.1,0.6", "--scheme", "bfc",
        ]);
        let Command::Bench(bench) = cli.command else {
            panic!("not bench")
        };
        let BenchKind::Clocks(options) = bench.what else {
            panic!("not clocks")
        };
        let plan = plan(&options);
        assert_eq!(plan[0].clock, ClockKind::Virtual);
        let of = |clock| {
            let runs = plan.iter().filter(move |run| run.clock == clock);
            let options = &options;
            runs.map(|run| (run.words(options), run.hardware(options).seed))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(ClockKind::Virtual), of(ClockKind::Model));
        let mut paths: Vec<_> = plan.iter().map(|run| run.path(&options)).collect();
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), plan.len());
    }
}
