// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft run`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use weft_lab::error::usage;
use weft_lab::experiment::{self, Found, named, names};
use weft_lab::results;
use weft_lab::run::{Checked, each_once, file};
use weft_load::record::Recorded;
use weft_topo::spec::KINDS;
use weft_words::near::{meant, near};

use crate::arguments::run::{Args, ONLY_OF_EXPERIMENTS, check_words};
use crate::compare;
use crate::experiments;
use crate::guests::{Guests, PlannedRun};
use crate::output;
use crate::progress::{self, RunProgress};

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(experiment) = named(&args.fabric.topology)? {
        check_words(&experiment, args)?;
        return experiments::perform(&experiment, args);
    }
    mistyped(&args.fabric.topology)?;
    if let Some(option) = args.said_of(&ONLY_OF_EXPERIMENTS) {
        return usage(format!(
            "--{option} is for experiments; weft experiments lists them"
        ));
    }
    each_once("--scheme", &args.scheme)?;
    each_once("--seed", &args.seed)?;
    let mut runs = Vec::new();
    for variant in args.variants()? {
        let one = args.of_variant(&variant)?;
        for scheme in &one.scheme {
            runs.push((one.run(scheme)?.checked(&args.seed)?, one.out.clone()));
        }
    }
    let mut places = Vec::new();
    for (run, out) in &runs {
        for &seed in &args.seed {
            let path = file(out, &run.fabric().scheme.name, seed);
            if places.contains(&path) {
                return usage(format!("two runs would be {}", path.display()));
            }
            places.push(path);
        }
    }
    if args.dry_run {
        return dry_run(&runs, args).map(|()| ExitCode::SUCCESS);
    }
    let seeds = runs
        .iter()
        .flat_map(|(run, _)| args.seed.iter().map(move |&seed| (run, seed)));
    for ((run, seed), path) in seeds.zip(&places) {
        run.check_place(path, seed)?;
    }
    if let Some(guests) = Guests::find(&args.guests, args.rootless)? {
        return in_guests(&guests, &runs, &places, args);
    }
    if args.experiment.again {
        return usage("--again: on this machine's own kernel each run is made again");
    }
    runs.iter().try_for_each(|(run, _)| run.require())?;
    let mut places = places.into_iter();
    let cancel = progress::prepare()?;
    let mut files = Vec::new();
    let mut valid = true;
    for (run, out) in &runs {
        let _folder = Folder::make(out)?;
        for &seed in &args.seed {
            let Some(path) = places.next() else { break };
            let scheme = &run.fabric().scheme.name;
            let mut shown = RunProgress::new(scheme, seed, args.jobs.progress, args.quiet);
            let outcome = run.perform(seed, &path, &mut |it| shown.update(it), &cancel)?;
            if outcome.cancelled {
                return progress::interrupted(&path);
            }
            valid &= outcome.summary.valid;
            files.push(path.to_string_lossy().into_owned());
        }
    }
    tell(&files, valid, args)
}

/// Runs everything in guests, except runs with results from this very machine.
fn in_guests(
    guests: &Guests,
    runs: &[(Checked, PathBuf)],
    places: &[PathBuf],
    args: &Args,
) -> Result<ExitCode> {
    let seeds = runs
        .iter()
        .flat_map(|(run, _)| args.seed.iter().map(move |&seed| (run, seed)));
    let mut planned = Vec::new();
    for ((run, seed), path) in seeds.zip(places) {
        let found = experiment::results(run, seed, path, Some(guests.clock()))?;
        let hash = guests.hash();
        let done = matches!(&found, Found::Done(results) if results.machine() == Some(&hash));
        planned.push(PlannedRun::new(
            run,
            seed,
            path,
            done && !args.experiment.again,
        )?);
    }
    let missing: Vec<PlannedRun> = planned.into_iter().filter(|run| !run.done).collect();
    guests.run_all(&missing, &args.jobs, args.quiet)?;
    let files: Vec<String> = places
        .iter()
        .map(|path| path.to_string_lossy().into_owned())
        .collect();
    let all = results::read(&files)?;
    let is_valid = |run: &Recorded| run.summary.as_ref().is_some_and(|summary| summary.valid);
    let valid = all.iter().all(is_valid);
    tell(&files, valid, args)
}

/// Prints the results.
fn tell(files: &[String], valid: bool, args: &Args) -> Result<ExitCode> {
    let groups = results::group(results::read(files)?);
    output::whole_or_cut(if args.json {
        let summaries: Vec<_> = groups.iter().flat_map(|group| &group.runs).collect();
        let summaries: Vec<_> = summaries
            .iter()
            .map(|run| (&run.header, &run.summary))
            .collect();
        output::json(&summaries)
    } else {
        output::print(compare::table::text(&groups, compare::Times::Fabric))
    })?;
    // The run is complete, but not valid.
    Ok(if valid {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The runs that would be done: all, whether or not they have results.
fn dry_run(runs: &[(Checked, PathBuf)], args: &Args) -> Result<()> {
    let place = |run: &Checked, out: &Path, seed| file(out, &run.fabric().scheme.name, seed);
    if args.json {
        let planned = runs.iter().flat_map(|(run, out)| {
            let of = |&seed: &u64| PlannedRun::new(run, seed, &place(run, out, seed), false);
            args.seed.iter().map(of).collect::<Vec<_>>()
        });
        return output::json(&planned.collect::<Result<Vec<_>>>()?);
    }
    for (run, out) in runs {
        let fabric = run.fabric();
        for &seed in &args.seed {
            output::print(format!(
                "{} on {}, seed {seed} -> {}",
                fabric.scheme.name,
                fabric.title,
                place(run, out, seed).display()
            ))?;
        }
        for process in run.processes() {
            output::print(format!("  with {}: {process}", process.node))?;
        }
    }
    Ok(())
}

/// Refuses a name that is neither a topology nor a file, but similar to an experiment's.
fn mistyped(name: &str) -> Result<()> {
    let names = names();
    let is_near = !near(name, &names).is_empty();
    let is_file = Path::new(name).exists();
    let is_topology = weft_lab::topology::parse(name).is_ok() || !near(name, KINDS).is_empty();
    match is_near && !is_file && !is_topology {
        true => usage(format!(
            "there is no topology and no experiment `{name}`{}; weft experiments lists all",
            meant(name, &names)
        )),
        false => Ok(()),
    }
}

/// A folder for results. If it was created and is still empty, it is removed on drop.
struct Folder<'a>(Option<&'a Path>);

impl<'a> Folder<'a> {
    fn make(path: &'a Path) -> Result<Self> {
        let made = !path.exists();
        fs::create_dir_all(path)
            .with_context(|| format!("making the folder {}", path.display()))?;
        Ok(Self(made.then_some(path)))
    }
}

impl Drop for Folder<'_> {
    fn drop(&mut self) {
        // It fails if the folder is not empty.
        let _ = self.0.map(fs::remove_dir);
    }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory as _, FromArgMatches as _};
    use weft_lab::error;

    use super::*;

    fn args(line: &str) -> Args {
        let words = ["weft", "run"].into_iter().chain(line.split(' '));
        let matches = crate::Cli::command().try_get_matches_from(words).unwrap();
        let matches = matches.subcommand().unwrap().1;
        let mut args = Args::from_arg_matches(matches).unwrap();
        args.remember(matches);
        args
    }

    #[test]
    fn an_experiment_refuses_options_of_its_runs() {
        let refused = |line: &str| {
            let error = run(&args(line)).unwrap_err();
            assert!(error::is_usage(&error), "{error:#}");
            error.to_string()
        };
        assert!(refused("pfabric-fig4a --dilation 10").starts_with("--dilation: the experiment"));
        assert!(refused("pfabric-fig4a --scheme dctcp").starts_with("--scheme: pfabric-fig4a has"));
        assert!(refused("pfabric-fig4a --set buffer=1").starts_with("--set: the experiment"));
        assert!(refused("pfabric-fig4a --only-incast --incast 2x1kB@1").contains("-incast: "));
        assert!(refused("rack:hosts=2 --judge").starts_with("--judge is for experiments"));
    }
}
