// SPDX-License-Identifier: MIT OR Apache-2.0

//! Experiments: what a paper measured, as runs of `weft run`, and what it says of them.
//!
//! | module          | what it holds                                                        |
//! |-----------------|----------------------------------------------------------------------|
//! | [`description`] | the file that an experiment is                                       |
//! | [`plan`]        | its runs: every combination of values, each a command line           |
//! | [`results`]     | the results that are there, and whether they are those of the plan   |
//! | [`ideal`]       | what the same flows would have taken under the ideal schedule        |
//! | [`measure`]     | figures of a run                                                     |
//! | [`judge`]       | claims and tables over all runs                                      |
//! | [`catalogue`]   | `weft experiments`                                                   |
//!
//! `userspace/experiments/README.md` describes the files, and has what each gave.

pub(crate) mod catalogue;
mod description;
mod ideal;
mod judge;
mod measure;
mod plan;
mod results;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::error::usage;
use crate::output;
use crate::run;
use description::Experiment;
use judge::Judgement;
use plan::Planned;
use results::{Done, Found};

pub(crate) use description::named;

/// How an experiment is run.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
#[command(next_help_heading = "Experiments")]
pub(crate) struct Options {
    /// So many times the flows (not all experiments have a number of flows to scale)
    #[arg(long, value_name = "FACTOR")]
    pub(crate) scale: Option<f64>,
    /// Run again what has results
    #[arg(long)]
    pub(crate) again: bool,
    /// Run nothing: judge the results that there are
    #[arg(long, conflicts_with_all = ["again", "dry_run"])]
    pub(crate) judge: bool,
}

/// A run as `--dry-run --json` tells of it.
#[derive(Serialize)]
struct Command<'a> {
    /// The words after `weft run`, without scheme, seed and folder.
    words: &'a [String],
    scheme: &'a str,
    seed: u64,
    file: String,
    /// Whether its results are there.
    done: bool,
}

/// Runs what has no results yet, and judges.
///
/// # Errors
///
/// If the description is not as it must be, or a run fails.
pub(crate) fn perform(experiment: &Experiment, args: &run::Args) -> Result<ExitCode> {
    let plan = plan::plan(experiment, args)?;
    let mut found: Vec<Found> = plan.iter().map(results::find).collect::<Result<_>>()?;
    let again = |found: &Found| args.experiment.again || !matches!(found, Found::Done(_));
    if args.dry_run {
        return dry_run(&plan, &found, args).map(|()| ExitCode::SUCCESS);
    }
    let places: Vec<usize> = (0..plan.len()).filter(|&n| again(&found[n])).collect();
    if !args.experiment.judge && !places.is_empty() {
        for found in &found {
            if let Found::Other(why) = found {
                eprintln!("weft: {why}: run again");
            }
        }
        if let Some(status) = run_all(&plan, &places, args.quiet)? {
            return Ok(status);
        }
        for place in places {
            found[place] = results::find(&plan[place])?;
        }
    }
    let mut done = Vec::new();
    for (planned, found) in plan.iter().zip(found) {
        match found {
            Found::Done(run) => done.push(Done::new(planned, *run)),
            Found::Missing if args.experiment.judge => {}
            Found::Missing => return usage(format!("there is no {}", planned.file.display())),
            Found::Other(why) => eprintln!("weft: {why}: left out"),
        }
    }
    ideal::add(&mut done)?;
    let judgement = Judgement::new(experiment, &done, plan.len())?;
    if args.json {
        output::json(&judgement)?;
    } else {
        output::print(judgement.text())?;
    }
    Ok(if judgement.holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn dry_run(plan: &[Planned], found: &[Found], args: &run::Args) -> Result<()> {
    if !args.json {
        return plan
            .iter()
            .try_for_each(|planned| output::print(planned.command()));
    }
    let commands = plan.iter().zip(found).map(|(planned, found)| Command {
        words: &planned.args.words,
        scheme: &planned.args.scheme[0],
        seed: planned.seed(),
        file: planned.file.display().to_string(),
        done: matches!(found, Found::Done(_)) && !args.experiment.again,
    });
    output::json(&commands.collect::<Vec<_>>())
}

/// Runs some of the plan, one after the other. `Some`: it was interrupted.
fn run_all(plan: &[Planned], places: &[usize], quiet: bool) -> Result<Option<ExitCode>> {
    let cancel = run::prepare()?;
    let begun = Instant::now();
    for (number, &place) in places.iter().enumerate() {
        let planned = &plan[place];
        if !quiet {
            let left = left(begun.elapsed(), number, places.len());
            eprintln!(
                "run {} of {}{left}: {}",
                number + 1,
                places.len(),
                planned.command()
            );
        }
        let folder = &planned.args.out;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("making the folder {}", folder.display()))?;
        let outcome = run::one(
            &planned.args,
            &planned.fabric,
            planned.seed(),
            &planned.file,
            &cancel,
        )?;
        if outcome.cancelled {
            return run::interrupted(&planned.file).map(Some);
        }
    }
    Ok(None)
}

/// As if all runs took as long as those before.
fn left(elapsed: Duration, done: usize, of: usize) -> String {
    if done == 0 {
        return String::new();
    }
    let left = elapsed.mul_f64((of - done) as f64 / done as f64);
    match left.as_secs() {
        ..90 => format!(", about {} s left", left.as_secs()),
        seconds => format!(", about {} min left", seconds.div_ceil(60)),
    }
}
