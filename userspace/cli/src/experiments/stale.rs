// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft experiments stale`: kept results that may be out of date.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use weft_lab::error::usage;
use weft_lab::experiment::{
    self, Asked, Experiment, Fingerprint, Fingerprints, Judgement, Known, Planned, State,
};

use super::chosen;
use crate::arguments::run;
use crate::{output, progress, sources};

/// The folder of results and the testbed's name do not affect results.
fn asked() -> Asked {
    Asked {
        scale: None,
        seeds: None,
        out: "results".into(),
        testbed: "run".to_owned(),
    }
}

/// The state of each run of a kept judgement.
///
/// # Errors
///
/// If the experiment is invalid.
pub(crate) fn states(experiment: &Experiment, kept: &Judgement) -> Result<Vec<State>> {
    let known = experiment::known(&experiment.name)?;
    if known.is_empty() {
        // No plan is needed in this case.
        return Ok(vec![State::Unknown; kept.runs.len()]);
    }
    let plan = experiment::plan(experiment, &asked(), &run::of_words)?;
    let sources = sources::own();
    experiment::states(kept, &known, &plan, &mut Fingerprints::new(&sources))
}

/// A kept run, for a program that repeats it.
#[derive(Serialize)]
struct Run<'a> {
    experiment: &'a str,
    /// The name of its results within the experiment.
    name: String,
    sha256: &'a str,
    state: &'a State,
    /// Its duration, if known.
    seconds: Option<u64>,
    /// The words after `weft run`, without scheme, seed and folder; none: the experiment no longer
    /// has this run.
    words: Option<&'a [String]>,
    scheme: Option<&'a str>,
    seed: Option<u64>,
    memory: Option<u32>,
    /// Its present fingerprint.
    fingerprint: Option<Fingerprint>,
}

/// Lists the experiments that have kept results, those with certain names or all.
///
/// # Errors
///
/// If an experiment does not exist, or has no kept results.
pub(crate) fn list(chosen: &[String], json: bool) -> Result<()> {
    let sources = sources::own();
    let mut rows = Vec::new();
    let mut runs = Vec::new();
    for name in progress::each("kept results", false, chosen::of_weft(chosen)?) {
        let experiment = Experiment::find(name)?;
        // Its claims do not decide whether its runs are current.
        let Some(kept) = experiment::kept_as_written(&experiment)? else {
            if !chosen.is_empty() {
                return usage(format!("{name} has no kept results"));
            }
            continue;
        };
        if json {
            let plan = experiment::plan(&experiment, &asked(), &run::of_words)?;
            let known = experiment::known(name)?;
            let mut fingerprints = Fingerprints::new(&sources);
            let states = experiment::states(&kept, &known, &plan, &mut fingerprints)?;
            runs.extend(described(&kept, &known, &states, &plan, &mut fingerprints)?);
        } else {
            rows.push(row(name, &states(&experiment, &kept)?));
        }
    }
    if json {
        return output::json(&runs);
    }
    let head = [
        "experiment",
        "current",
        "by sample",
        "stale",
        "unknown",
        "what has changed (runs)",
    ];
    output::print(output::list(head, rows))
}

fn row(name: &str, states: &[State]) -> Vec<String> {
    let count = |is: fn(&State) -> bool| states.iter().filter(|state| is(state)).count();
    let mut changed: BTreeMap<&str, usize> = BTreeMap::new();
    for state in states {
        if let State::Stale(parts) = state {
            for part in parts {
                *changed.entry(part).or_default() += 1;
            }
        }
    }
    let changed = changed
        .iter()
        .map(|(part, runs)| format!("{part} ({runs})"));
    vec![
        name.to_owned(),
        count(|state| *state == State::Current).to_string(),
        count(|state| *state == State::Sampled).to_string(),
        count(|state| matches!(state, State::Stale(_))).to_string(),
        count(|state| *state == State::Unknown).to_string(),
        changed.collect::<Vec<_>>().join(", "),
    ]
}

/// As JSON, independent of the plan.
fn described(
    kept: &Judgement,
    known: &Known,
    states: &[State],
    plan: &[Planned],
    fingerprints: &mut Fingerprints<'_>,
) -> Result<Vec<serde_json::Value>> {
    let planned: BTreeMap<String, &Planned> = plan
        .iter()
        .filter_map(|planned| Some((experiment::name_of(&planned.file)?, planned)))
        .collect();
    let mut all = Vec::new();
    for (run, state) in kept.runs.iter().zip(states) {
        let name_of_run = experiment::name(run);
        let planned = planned.get(&name_of_run);
        let asked = planned.map(|planned| planned.run.run());
        let run = Run {
            experiment: &kept.experiment,
            sha256: &run.sha256,
            state,
            seconds: known.get(&name_of_run).map(|made| made.seconds),
            words: asked.map(|run| run.words.as_slice()),
            scheme: asked.map(|run| run.fabric.scheme.as_str()),
            seed: planned.map(|planned| planned.seed),
            memory: planned.and_then(|planned| planned.memory),
            fingerprint: planned
                .map(|planned| fingerprints.of(planned))
                .transpose()?
                .flatten(),
            name: name_of_run,
        };
        all.push(serde_json::to_value(run)?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use weft_lab::experiment::{Made, Sample, Sources, names};
    use weft_words::shell::quoted;

    use super::*;

    /// A program repeats a run from the words in the output of `weft experiments stale`.
    #[test]
    fn a_kept_command_has_the_words_that_repeat_its_run() {
        let today = sources::own();
        let mut compared = 0;
        for name in names() {
            let experiment = Experiment::find(name).unwrap();
            let Some(kept) = experiment::kept(&experiment).unwrap() else {
                continue;
            };
            // Commands of earlier versions have another form.
            let is_todays = |command: &str| command.starts_with("weft run ");
            if !kept.runs.iter().all(|run| is_todays(&run.command)) {
                continue;
            }
            let plan = experiment::plan(&experiment, &asked(), &run::of_words).unwrap();
            let states = vec![State::Unknown; kept.runs.len()];
            let known = experiment::known(name).unwrap();
            let mut fingerprints = Fingerprints::new(&today);
            let rows = described(&kept, &known, &states, &plan, &mut fingerprints).unwrap();
            for (run, row) in kept.runs.iter().zip(rows) {
                let words = row["words"].as_array().unwrap().iter();
                let mut words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
                let seed = row["seed"].to_string();
                let scheme = row["scheme"].as_str().unwrap();
                words.extend(["--scheme", scheme, "--seed", &seed]);
                let words: String = words.iter().map(|word| quoted(word) + " ").collect();
                let folder = Path::new(&run.file).parent().unwrap().display();
                let memory = row["memory"].as_u64();
                let memory = memory.map_or_else(String::new, |it| format!(" --memory {it}"));
                let command = format!("weft run {words}--out {folder} --clock model{memory}");
                assert_eq!(run.command, command);
                compared += 1;
            }
        }
        assert!(compared > 0);
    }

    #[test]
    fn a_run_is_current_until_a_part_that_decides_it_changes() {
        let experiment = Experiment::find("replication").unwrap();
        let kept = experiment::kept(&experiment).unwrap().unwrap();
        let plan = experiment::plan(&experiment, &asked(), &run::of_words).unwrap();
        let today = sources::own();
        let mut fingerprints = Fingerprints::new(&today);
        let made = |planned: &Planned| {
            let name = experiment::name_of(&planned.file).unwrap();
            let mut runs = kept.runs.iter();
            let run = runs.find(|run| experiment::name(run) == name).unwrap();
            let made = Made {
                sha256: run.sha256.clone(),
                fingerprint: fingerprints.of(planned).unwrap().unwrap(),
                seconds: 1,
                machine: None,
                sample: None,
            };
            (name, made)
        };
        let mut known: Known = plan.iter().map(made).collect();
        let states = |known: &Known, sources: &Sources| {
            experiment::states(&kept, known, &plan, &mut Fingerprints::new(sources)).unwrap()
        };
        assert!(states(&known, &today).iter().all(State::is_current));
        let stale = |part: &str| State::Stale(vec![part.to_owned()]);
        for (part, scheme) in [
            ("sch_bfc", "bfc"),
            ("sch_dibs", "dibs"),
            ("weft-arbiter", "fastpass"),
            ("tcp_pfabric", "pfabric"),
        ] {
            let mut changed = today.clone();
            changed.insert(part.to_owned(), String::new());
            for (run, state) in kept.runs.iter().zip(states(&known, &changed)) {
                let has_it = run.command.contains(&format!(" --scheme {scheme} "));
                let expected = if has_it { stale(part) } else { State::Current };
                assert_eq!(state, expected, "{part}: {}", run.command);
            }
        }
        for part in ["kernel", "engine", "weaving", "sch_wire"] {
            let mut changed = today.clone();
            changed.insert(part.to_owned(), String::new());
            assert!(
                states(&known, &changed)
                    .iter()
                    .all(|state| *state == stale(part))
            );
        }
        let name = experiment::name(&kept.runs[0]);
        let first = known.get_mut(&name).unwrap();
        first.sample = Some(Sample {
            runs: 1,
            of: 9,
            day: 20_000,
        });
        let state = states(&known, &today).swap_remove(0);
        assert_eq!((&state, state.is_current()), (&State::Sampled, true));
        // Other results are kept now, or nothing is known about one of them.
        known.get_mut(&name).unwrap().sha256 = String::new();
        assert_eq!(states(&known, &today)[0], State::Unknown);
        known.remove(&name);
        assert_eq!(states(&known, &today)[0], State::Unknown);
    }
}
