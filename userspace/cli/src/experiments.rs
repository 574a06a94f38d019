// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft run` with an experiment.

pub(crate) mod catalogue;
mod chosen;
mod claims;
mod comparison;
mod document;
pub(crate) mod judgement;
mod kept;
mod pictures;
pub(crate) mod renew;
pub(crate) mod stale;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde::Serialize;
use weft_lab::error::usage;
use weft_lab::experiment::{
    self, Beside, Done, Experiment, Fingerprints, Found, Judgement, Marks, Planned, State,
};
use weft_words::file::write_together;

use crate::arguments::guest::Clock;
use crate::arguments::run::{self, Args};
use crate::guests::{Guests, PlannedRun, clock_of_results};
use crate::output;
use crate::progress::{self, RunProgress};
use crate::report;
use crate::sources;

/// A run of the plan, for `--dry-run --json` and for a guest.
fn of_plan(planned: &Planned, done: bool, all: &mut Fingerprints<'_>) -> Result<PlannedRun> {
    Ok(PlannedRun {
        fingerprint: all.of(planned)?,
        memory: planned.memory,
        ..PlannedRun::new(&planned.run, planned.seed, &planned.file, done)?
    })
}

/// Runs everything that has no results yet, and judges.
///
/// # Errors
///
/// If the description is invalid, or a run fails.
pub(crate) fn perform(experiment: &Experiment, args: &Args) -> Result<ExitCode> {
    if args.experiment.kept {
        return match experiment::kept(experiment)? {
            Some(kept) => {
                let states = stale::states(experiment, &kept)?;
                tell(experiment, &kept, Some(&states), args)
            }
            None => usage(format!(
                "{} has no kept results; omit --kept to run it",
                experiment.name
            )),
        };
    }
    let own = of_own_schemes(experiment, args)?;
    let described = own.as_ref().unwrap_or(experiment);
    let plan = experiment::plan(described, &args.asked(), &run::of_words)?;
    let guests = match args.experiment.judge || args.dry_run {
        true => None,
        false => Guests::find(&args.guests, false)?,
    };
    let clock = clock_of_results(&args.guests, guests.as_ref());
    let find = |planned: &Planned| experiment::find(planned, clock.as_deref());
    let read = progress::each("results", args.quiet, plan.iter().collect());
    let mut found: Vec<Found> = read.map(find).collect::<Result<_>>()?;
    let kept = kept::wanted(experiment, &plan, args)?;
    let is_kept = |place: usize| kept.as_ref().is_some_and(|kept| kept.has(place));
    let again = |place: usize| {
        args.experiment.again || !(is_kept(place) || matches!(found[place], Found::Done(_)))
    };
    if args.dry_run {
        return dry_run(&plan, &found, args).map(|()| ExitCode::SUCCESS);
    }
    // After hours of runs, it is too late to find that their figures have no place.
    let options = &args.experiment;
    let folders = options.pictures.iter().chain(&options.keep);
    let page = options.page.iter();
    folders
        .map(|folder| output::require_folder(folder))
        .chain(page.map(|page| output::require_file(page)))
        .collect::<Result<()>>()?;
    let places: Vec<usize> = (0..plan.len()).filter(|&n| again(n)).collect();
    if !args.experiment.judge && !places.is_empty() {
        for found in &found {
            if let Found::Other(why) = found {
                eprintln!("weft: {why}: run again");
            }
        }
        let status = match &guests {
            Some(guests) => in_guests(guests, &plan, &places, args).map(|()| None)?,
            None => run_all(&plan, &places, args)?,
        };
        if let Some(status) = status {
            return Ok(status);
        }
        for place in places {
            found[place] = find(&plan[place])?;
        }
    }
    if let Some(guests) = &guests {
        other_machines(&found, &guests.hash());
    }
    let mut done = Vec::new();
    for (place, (planned, found)) in plan.iter().zip(found).enumerate() {
        match found {
            Found::Done(run) => done.push(Done::new(planned, *run)),
            Found::Missing if args.experiment.judge || is_kept(place) => {}
            Found::Missing => return usage(format!("there is no {}", planned.file.display())),
            Found::Other(why) => eprintln!("weft: {why}: left out"),
        }
    }
    experiment::add(&mut done)?;
    let judgement = match &kept {
        Some(kept) => kept.completed(experiment, &plan, &done)?,
        None => Judgement::new(described, &done, plan.len())?,
    };
    let before = experiment::kept_as_written(experiment)?;
    let compared = before.map(|before| judgement.beside(&before));
    let status = match &options.keep {
        Some(folder) => {
            kept::write(experiment, judgement, (&done, kept), (&args.out, folder))?;
            ExitCode::SUCCESS
        }
        None if own.is_some() => {
            let is_model = done
                .iter()
                .all(|run| run.clock() == Some(Clock::Model.name()));
            tell_beside_kept((experiment, described), judgement, is_model, args)?
        }
        None => tell(experiment, &judgement, None, args)?,
    };
    if !args.quiet
        && let Some(compared) = compared
        && (own.is_none() || compared.same + compared.others.len() > 0)
    {
        eprintln!("{}", beside(&compared, &experiment.name));
    }
    Ok(status)
}

/// The experiment with the command line's schemes, if it has any, in place of its own.
///
/// # Errors
///
/// If the experiment cannot take them.
pub(crate) fn of_own_schemes(experiment: &Experiment, args: &Args) -> Result<Option<Experiment>> {
    if args.said_of(&["scheme"]).is_none() {
        return Ok(None);
    }
    let (own, left_out) = experiment.of_schemes(&args.scheme, &args.asked(), &run::of_words)?;
    for (runs, why) in left_out {
        eprintln!("weft: {why}: runs {runs} are left out");
    }
    Ok(Some(own))
}

/// Prints and draws the figures of other schemes than the experiment's own, beside the kept ones if
/// these are comparable. `described`: the experiment with the other schemes.
fn tell_beside_kept(
    (experiment, described): (&Experiment, &Experiment),
    own: Judgement,
    is_model: bool,
    args: &Args,
) -> Result<ExitCode> {
    let kept = experiment::kept(experiment)?;
    let Some(kept) = kept.filter(|_| own.missing == 0) else {
        return tell(described, &own, None, args);
    };
    let other = if args.experiment.scale.is_some() {
        Some("other numbers of flows")
    } else if !is_model {
        Some("another clock")
    } else {
        None
    };
    if let Some(other) = other {
        eprintln!("weft: kept results are of {other}: left out");
        return tell(described, &own, None, args);
    }
    if own.seeds != kept.seeds {
        let seeds = judgement::seeds(&kept.seeds);
        eprintln!("weft: kept results are of {seeds}");
    }
    let mut states = stale::states(experiment, &kept)?;
    states.resize(kept.runs.len() + own.runs.len(), State::Current);
    let mut both = own.beside_kept(&kept);
    both.title += &format!(" – {} beside kept results", args.scheme.join(", "));
    tell(described, &both, Some(&states), args)
}

/// A kept judgement, and the state of each of its runs.
#[derive(Serialize)]
struct WithStates<'a> {
    #[serde(flatten)]
    judgement: &'a Judgement,
    states: &'a [State],
}

/// Prints and draws the judgement. `states` are those of its runs, if it is kept.
fn tell(
    experiment: &Experiment,
    judgement: &Judgement,
    states: Option<&[State]>,
    args: &Args,
) -> Result<ExitCode> {
    let marks = states.map_or_else(|| Marks::none(judgement), Marks::new);
    if let Some(path) = &args.experiment.page {
        match path.extension() {
            Some(end) if end == "md" => document::write(path, experiment, judgement, &marks)?,
            _ => {
                let page = report::of_experiment(experiment, judgement, &marks)?;
                output::write(path, page.as_bytes())?;
            }
        }
    }
    if let Some(folder) = &args.experiment.pictures {
        let name = &judgement.experiment;
        let tables = pictures::of_tables(judgement, &marks)?;
        let described = pictures::described(experiment, judgement, &marks)?;
        let all = [tables, described].concat();
        write_together(&pictures::files(all, folder, name))?;
    }
    output::whole_or_cut(match (args.json, states) {
        (true, Some(states)) => output::json(&WithStates { judgement, states }),
        (true, None) => output::json(judgement),
        (false, _) => output::print(judgement::text(judgement, &marks)),
    })?;
    Ok(if judgement.holds {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Whether the judgement equals the kept one, in a line.
fn beside(beside: &Beside, experiment: &str) -> String {
    let Beside { same, others, new } = beside;
    let all = same + others.len();
    let mut line = format!(
        "{same} of {all} results are byte-identical to those of `weft run {experiment} --kept`"
    );
    if let Some(first) = others.first() {
        line += &format!("; {first} is the first that is not");
    }
    if *new > 0 {
        line += &format!("; of {new} none is kept");
    }
    line
}

fn dry_run(plan: &[Planned], found: &[Found], args: &Args) -> Result<()> {
    if !args.json {
        return plan.iter().try_for_each(|planned| {
            let guests = &args.guests;
            output::print(guests.append_to(planned.command(), &args.said, planned.memory))
        });
    }
    let sources = sources::own();
    let mut all = Fingerprints::new(&sources);
    let runs = plan.iter().zip(found).map(|(planned, found)| {
        let done = matches!(found, Found::Done(_)) && !args.experiment.again;
        of_plan(planned, done, &mut all)
    });
    output::json(&runs.collect::<Result<Vec<_>>>()?)
}

/// Reports how many results come from other machines than this one.
fn other_machines(found: &[Found], machine: &str) {
    let is_other = |found: &&Found| match found {
        Found::Done(results) => results.machine().is_some_and(|it| it != machine),
        _ => false,
    };
    let others = found.iter().filter(is_other).count();
    if others > 0 {
        eprintln!(
            "weft: {others} of {} results come from another build of weft's machine; --again repeats them",
            found.len()
        );
    }
}

/// Runs a part of the plan in guests.
fn in_guests(guests: &Guests, plan: &[Planned], places: &[usize], args: &Args) -> Result<()> {
    let sources = sources::of_kernel(guests.release());
    let mut all = Fingerprints::new(&sources);
    let runs = places
        .iter()
        .map(|&place| of_plan(&plan[place], false, &mut all));
    let runs = runs.collect::<Result<Vec<_>>>()?;
    // The judge decides whether they are valid.
    guests.run_all(&runs, &args.jobs, args.quiet).map(drop)
}

/// Runs a part of the plan, one run after the other. `Some`: it was interrupted.
fn run_all(plan: &[Planned], places: &[usize], args: &Args) -> Result<Option<ExitCode>> {
    let mut schemes: Vec<_> = places.iter().map(|&place| &plan[place].run).collect();
    schemes.sort_by_key(|run| &run.fabric().scheme.name);
    schemes.dedup_by_key(|run| &run.fabric().scheme.name);
    schemes.into_iter().try_for_each(|run| run.require())?;
    let cancel = progress::prepare()?;
    let begun = Instant::now();
    for (number, &place) in places.iter().enumerate() {
        let planned = &plan[place];
        if !args.quiet {
            let left = left(begun.elapsed(), number, places.len());
            eprintln!(
                "run {} of {}{left}: {}",
                number + 1,
                places.len(),
                planned.command()
            );
        }
        let folder = &planned.folder;
        std::fs::create_dir_all(folder)
            .with_context(|| format!("making the folder {}", folder.display()))?;
        let scheme = &planned.run.fabric().scheme.name;
        let mut shown = RunProgress::new(scheme, planned.seed, args.jobs.progress, args.quiet);
        let outcome = planned.run.perform(
            planned.seed,
            &planned.file,
            &mut |it| shown.update(it),
            &cancel,
        )?;
        if outcome.cancelled {
            return progress::interrupted(&planned.file).map(Some);
        }
    }
    Ok(None)
}

/// The remaining time if all runs take as long as the ones so far.
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
