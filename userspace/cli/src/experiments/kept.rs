// SPDX-License-Identifier: MIT OR Apache-2.0

//! `--keep`: the files that weft keeps of an experiment.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use weft_lab::error::usage;
use weft_lab::experiment::{self, Done, Experiment, Judgement, Known, Planned};
use weft_words::file::{SizeLimit, write_together};

use crate::arguments::guest::Clock;
use crate::arguments::run::{Args, RESULTS};

/// The largest file of what is kept.
const FILE: SizeLimit = SizeLimit {
    kind: "what is kept of an experiment",
    bytes: 64 << 20,
};

/// What is kept already, for `--only-new`.
pub(super) struct Kept {
    judgement: Judgement,
    known: Known,
    /// For each run of the plan, its index in the judgement, if it is there with the same command.
    places: Vec<Option<usize>>,
}

/// What is in the folder of `--keep`, if only what is not there is to be run.
///
/// # Errors
///
/// If there is nothing, or it is not in this version's format.
pub(super) fn wanted(
    experiment: &Experiment,
    plan: &[Planned],
    args: &Args,
) -> Result<Option<Kept>> {
    let options = &args.experiment;
    let Some(folder) = options.keep.as_ref().filter(|_| options.only_new) else {
        return Ok(None);
    };
    let read = |kind| {
        let path = path(folder, kind, experiment);
        match FILE.read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => usage(format!(
                "--only-new: there is no {}: omit --only-new to make it",
                path.display()
            )),
            content => content.with_context(|| path.display().to_string()),
        }
    };
    let of = |kind| path(folder, kind, experiment).display().to_string();
    let judgement: Judgement =
        serde_json::from_slice(&read("kept")?).with_context(|| of("kept"))?;
    let known = experiment::read(&read("fingerprints")?).with_context(|| of("fingerprints"))?;
    let runs: BTreeMap<&str, usize> = judgement
        .runs
        .iter()
        .map(|run| run.command.as_str())
        .zip(0..)
        .collect();
    let of_plan = |planned: &Planned| {
        let command = planned.command_under(Some(Clock::Model.name()));
        runs.get(as_kept(&command, &args.out).as_str()).copied()
    };
    let places = plan.iter().map(of_plan).collect();
    Ok(Some(Kept {
        judgement,
        known,
        places,
    }))
}

impl Kept {
    /// Whether a run of the plan is kept.
    pub(super) fn has(&self, place: usize) -> bool {
        self.places[place].is_some()
    }

    /// The judgement of new results, completed by what is kept.
    ///
    /// # Errors
    ///
    /// If they do not fit together.
    pub(super) fn completed(
        &self,
        experiment: &Experiment,
        plan: &[Planned],
        done: &[Done<'_>],
    ) -> Result<Judgement> {
        Judgement::completed(experiment, plan, done, &self.judgement, &self.places)
    }
}

/// Writes the judgement, as if the results were in the default folder, and the fingerprints of the
/// runs: of those that are done, and of the others as they were kept.
///
/// # Errors
///
/// If results are missing, or writing fails.
pub(super) fn write(
    experiment: &Experiment,
    mut judgement: Judgement,
    (done, kept): (&[Done<'_>], Option<Kept>),
    (out, folder): (&Path, &Path),
) -> Result<()> {
    if judgement.missing > 0 {
        let missing = judgement.missing;
        return usage(format!("--keep: {missing} runs have no results"));
    }
    for run in &mut judgement.runs {
        for text in [&mut run.file, &mut run.command] {
            *text = as_kept(text, out);
        }
    }
    let mut known: Known = done.iter().filter_map(Done::made).collect();
    if let Some(kept) = kept {
        let new = done.iter().filter_map(Done::name).collect::<Vec<_>>();
        let names = judgement.runs.iter().map(experiment::name);
        let others = names.filter(|name| !new.contains(name));
        let others: Vec<String> = others.collect();
        eprintln!(
            "weft: {} of {} runs are kept as they were",
            others.len(),
            judgement.runs.len()
        );
        let of_kept = |name: String| Some((name.clone(), kept.known.get(&name)?.clone()));
        known.extend(others.into_iter().filter_map(of_kept));
    }
    let unknown = judgement.runs.len() - known.len();
    if unknown > 0 {
        eprintln!(
            "weft: of {unknown} results it is not known from which source they were made: \
             --again makes them"
        );
    }
    let json = serde_json::to_string_pretty(&judgement)? + "\n";
    let files = [("kept", json), ("fingerprints", experiment::text(&known)?)];
    let files = files.map(|(kind, text)| (path(folder, kind, experiment), text.into_bytes()));
    Ok(write_together(&files)?)
}

/// A path or command, as if the results were in the default folder.
fn as_kept(text: &str, out: &Path) -> String {
    text.replace(&format!("{}/", out.display()), &format!("{RESULTS}/"))
}

/// A file of a folder of kept results.
fn path(folder: &Path, kind: &str, experiment: &Experiment) -> PathBuf {
    folder.join(kind).join(format!("{}.json", experiment.name))
}
