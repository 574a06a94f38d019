// SPDX-License-Identifier: MIT OR Apache-2.0

//! `--keep`: the files that weft keeps of an experiment.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use weft_lab::error::usage;
use weft_lab::experiment::{
    self, Comparisons, Done, Experiment, Fingerprints, Judgement, Known, Planned, State,
};
use weft_words::file::{MIB, SizeLimit, write_together};

use crate::arguments::guest::Clock;
use crate::arguments::run::{Args, RESULTS};
use crate::sources;

/// The largest file of what is kept.
const FILE: SizeLimit = SizeLimit {
    kind: "what is kept of an experiment",
    bytes: 64 * MIB,
};

/// What is kept already, for `--only-new`.
pub(super) struct Kept {
    judgement: Judgement,
    known: Known,
    /// For each run of the plan, its index in the judgement, if it is there with the same command,
    places: Vec<Option<usize>>,
    /// and whether it has to run.
    is_made: Vec<bool>,
}

/// With `--only-new`: the judgement and the fingerprints in the folder of `--keep`.
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
    let missing = |path: &Path| {
        usage(format!(
            "--only-new: there is no {}: omit --only-new to make it",
            path.display()
        ))
    };
    let of = |kind| path(folder, kind, &experiment.name);
    let (judged, fingerprints) = (of("kept"), of("fingerprints"));
    let parse = |text: &[u8]| Ok(serde_json::from_slice::<Judgement>(text)?);
    let Some(judgement) = read(&FILE, &judged, parse)? else {
        return missing(&judged);
    };
    let Some(known) = read(&FILE, &fingerprints, experiment::read)? else {
        return missing(&fingerprints);
    };
    let (places, is_made) = places(experiment, plan, &judgement, &known, args)?;
    Ok(Some(Kept {
        judgement,
        known,
        places,
        is_made,
    }))
}

/// For each run of the plan, its index in a kept judgement, if it is there with the same command,
/// and whether it has to run. It has to if it is not there, is there from an earlier source, a
/// claim rests on it that is not there, or a claim or figure compares it with such a run.
fn places(
    described: &Experiment,
    plan: &[Planned],
    judgement: &Judgement,
    known: &Known,
    args: &Args,
) -> Result<(Vec<Option<usize>>, Vec<bool>)> {
    let commands: Vec<String> = plan
        .iter()
        .map(|planned| as_kept(&planned.command_under(Some(Clock::Model.name())), &args.out))
        .collect();
    let named: BTreeMap<String, &str> = plan
        .iter()
        .zip(&commands)
        .filter_map(|(planned, command)| Some((experiment::name_of(&planned.file)?, &**command)))
        .collect();
    let sources = sources::own();
    let mut fingerprints = Fingerprints::new(&sources);
    let states = experiment::states(judgement, known, plan, &mut fingerprints)?;
    let kept = judgement.runs.iter().zip(0..);
    let kept = kept.filter(|(run, _)| {
        let command = named.get(&experiment::name(run));
        command.is_none_or(|it| *it == run.command)
    });
    let kept: BTreeMap<&str, usize> = kept.map(|(run, place)| (&*run.command, place)).collect();
    let places: Vec<Option<usize>> = commands.iter().map(|it| kept.get(&**it).copied()).collect();
    let comparisons = Comparisons::new(described, plan)?;
    let of_new_claims = comparisons.of_new_claims(judgement, &places);
    let is_stale = |place: usize| matches!(states[place], State::Stale(_));
    let is_new = places
        .iter()
        .zip(of_new_claims)
        .map(|(place, of_new_claim)| of_new_claim || place.is_none_or(is_stale));
    // Figures that rest on a new run and on others need results of all of them.
    let is_made = comparisons.with_compared(&is_new.collect::<Vec<bool>>());
    Ok((places, is_made))
}

impl Kept {
    /// Whether a run of the plan is kept.
    pub(super) fn has(&self, place: usize) -> bool {
        !self.is_made[place]
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
        let runs = (&*self.places, &*self.is_made);
        Judgement::completed(experiment, plan, done, &self.judgement, runs)
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
    let mut known = Known::new();
    if let Some(kept) = kept {
        let new: BTreeSet<String> = done.iter().filter_map(Done::name).collect();
        let names = judgement.runs.iter().map(experiment::name);
        let others: BTreeSet<String> = names.filter(|name| !new.contains(name)).collect();
        eprintln!(
            "weft: {} of {} runs are kept as they were",
            others.len(),
            judgement.runs.len()
        );
        known = kept.known;
        known.retain(|name, _| others.contains(name));
    }
    known.extend(done.iter().filter_map(Done::made));
    let unknown = judgement.runs.len() - known.len();
    if unknown > 0 {
        eprintln!(
            "weft: of {unknown} results it is not known from which source they were made: \
             --again makes them"
        );
    }
    let json = serde_json::to_string_pretty(&judgement)? + "\n";
    let files = [("kept", json), ("fingerprints", experiment::text(&known)?)];
    let files = files.map(|(kind, text)| (path(folder, kind, &experiment.name), text.into_bytes()));
    Ok(write_together(&files)?)
}

/// A path or command, as if the results were in the default folder.
fn as_kept(text: &str, out: &Path) -> String {
    text.replace(&format!("{}/", out.display()), &format!("{RESULTS}/"))
}

/// A file of a folder of kept results.
pub(super) fn path(folder: &Path, kind: &str, experiment: &str) -> PathBuf {
    folder.join(kind).join(format!("{experiment}.json"))
}

/// The content of such a file; `None` if there is no file.
///
/// # Errors
///
/// If it cannot be read or parsed.
pub(super) fn read<T>(
    limit: &SizeLimit,
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<Option<T>> {
    let parsed = match limit.read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => Err(error.into()),
        Ok(content) => parse(&content),
    };
    parsed.map(Some).with_context(|| path.display().to_string())
}
