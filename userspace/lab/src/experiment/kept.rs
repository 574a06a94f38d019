// SPDX-License-Identifier: MIT OR Apache-2.0

//! Judgements that weft brings. Runs take hours, and their results are large, so weft keeps only
//! the findings, and the hash of each run's results: a person who runs them again sees whether they
//! are the same to the byte.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};

use super::description::{BUILT_IN, Experiment};
use super::judge::{Judgement, RunState, all_hold, judge_again};
use super::made::place_of;

/// A comparison of results with those that a kept judgement rests on.
#[derive(Debug, PartialEq, Eq)]
pub struct Beside {
    /// The number that are the same to the byte.
    pub same: usize,
    /// The files of those that differ.
    pub others: Vec<String>,
    /// The number of results that the kept judgement does not contain.
    pub new: usize,
}

/// The kept judgement of an experiment, if weft brings one, and brings the experiment unchanged.
/// Its words and limits are those of the experiment today, in the same order.
///
/// # Errors
///
/// If the file is not in this version's format, or has another number of claims.
pub fn kept(experiment: &Experiment) -> Result<Option<Judgement>> {
    let Some(mut judgement) = kept_as_written(experiment)? else {
        return Ok(None);
    };
    let claims = &experiment.description.claims;
    ensure!(
        judgement.claims.len() == claims.len(),
        "{}: it has {} claims, and {}.toml {}: run it again with --keep",
        path(experiment),
        judgement.claims.len(),
        experiment.name,
        claims.len()
    );
    for (judged, claim) in judgement.claims.iter_mut().zip(claims) {
        judge_again(claim, judged);
    }
    judgement.holds = all_hold(judgement.missing, &judgement.claims);
    Ok(Some(judgement))
}

/// The same with the claims that the experiment had when the judgement was kept.
///
/// # Errors
///
/// If the file is not in this version's format.
pub fn kept_as_written(experiment: &Experiment) -> Result<Option<Judgement>> {
    let path = path(experiment);
    let Some(file) = BUILT_IN.get_file(&path) else {
        return Ok(None);
    };
    // A person's own experiment of the same name, or a changed one, is a different experiment.
    let own = BUILT_IN.get_file(format!("{}.toml", experiment.name));
    if own.is_none_or(|file| file.contents() != experiment.text.as_bytes()) {
        return Ok(None);
    }
    let judgement = serde_json::from_slice(file.contents()).with_context(|| path.clone())?;
    Ok(Some(judgement))
}

/// The kept judgement's file, in the folder of experiments.
fn path(experiment: &Experiment) -> String {
    format!("kept/{}.json", experiment.name)
}

/// The run's place, independent of the folder of all results: the folder of runs and the file.
pub(super) fn place(run: &RunState) -> Option<(&str, &str)> {
    place_of(&run.file)
}

impl Judgement {
    /// Compares these results with those of a kept judgement.
    pub fn beside(&self, kept: &Self) -> Beside {
        let hashes: BTreeMap<_, _> = kept
            .runs
            .iter()
            .map(|run| (place(run), &run.sha256))
            .collect();
        let mut beside = Beside {
            same: 0,
            others: Vec::new(),
            new: 0,
        };
        for run in &self.runs {
            match hashes.get(&place(run)) {
                Some(hash) if **hash == run.sha256 => beside.same += 1,
                Some(_) => beside.others.push(run.file.clone()),
                None => beside.new += 1,
            }
        }
        beside
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::{Judged, Places, Verdict};
    use super::super::names;
    use super::*;
    use crate::results::Estimate;

    fn judgement(runs: &[(&str, &str)]) -> Judgement {
        Judgement {
            experiment: "x".to_owned(),
            title: String::new(),
            source: String::new(),
            holds: true,
            missing: 0,
            seeds: vec![1],
            flows: None,
            offered: None,
            claims: Vec::new(),
            tables: Vec::new(),
            runs: runs
                .iter()
                .map(|(file, sha256)| RunState {
                    file: (*file).to_owned(),
                    command: String::new(),
                    sha256: (*sha256).to_owned(),
                    valid: true,
                    reasons: Vec::new(),
                })
                .collect(),
        }
    }

    #[test]
    fn a_kept_measurement_is_judged_by_the_present_limits() {
        let judge = |limit: &str, at: &str, verdict: Verdict| {
            let claim = format!("says = 'new'\npaper = 'less'\nmeasure = 'mean'\n{limit}");
            let mut judged = Judged {
                says: "old".to_owned(),
                paper: String::new(),
                asked: "≤ 2".to_owned(),
                limits: Vec::new(),
                own_limit: false,
                measured: Some(Estimate {
                    value: 1.2,
                    half_width: Some(0.1),
                    low: Some(1.1),
                    high: Some(1.3),
                }),
                unit: String::new(),
                at: toml::from_str(at).unwrap(),
                verdict,
                rests_on: Places::default(),
            };
            judge_again(&toml::from_str(&claim).unwrap(), &mut judged);
            assert_eq!(
                (judged.says.as_str(), judged.paper.as_str()),
                ("new", "less")
            );
            (judged.asked, judged.verdict)
        };
        let one = |limit| judge(limit, "", Verdict::Holds);
        assert_eq!(one("at_most = 1"), ("≤ 1".to_owned(), Verdict::Fails));
        assert_eq!(
            one("at_most = 1.2"),
            ("≤ 1.20".to_owned(), Verdict::Undecided)
        );
        assert_eq!(one("at_least = 1"), ("≥ 1".to_owned(), Verdict::Holds));
        // Of several groups the worst one can refute the claim, and not show that it holds.
        let worst = |limit| judge(limit, "load = 0.6", Verdict::Holds).1;
        assert_eq!(worst("at_most = 1"), Verdict::Fails);
        assert_eq!(worst("at_most = 1.5"), Verdict::Undecided);
        assert_eq!(
            worst("at_most = 2"),
            Verdict::Holds,
            "the limit is the same"
        );
        let invalid = judge("at_most = 1", "", Verdict::Invalid);
        assert_eq!(invalid.1, Verdict::Invalid);
    }

    #[test]
    fn results_are_found_in_any_folder() {
        let kept = judgement(&[
            ("results/x/load-0.2/bfc-seed1.jsonl", "a"),
            ("results/x/load-0.2/bfc-seed2.jsonl", "b"),
            ("results/x/load-0.4/bfc-seed1.jsonl", "c"),
        ]);
        let runs = judgement(&[
            ("/tmp/x/load-0.2/bfc-seed1.jsonl", "a"),
            ("/tmp/x/load-0.4/bfc-seed1.jsonl", "b"),
            ("/tmp/x/load-0.4/bfc-seed3.jsonl", "a"),
        ]);
        let expected = Beside {
            same: 1,
            others: vec!["/tmp/x/load-0.4/bfc-seed1.jsonl".to_owned()],
            new: 1,
        };
        assert_eq!(runs.beside(&kept), expected);
    }

    #[test]
    fn kept_results_are_readable_and_complete() {
        for name in names() {
            let experiment = Experiment::find(name).unwrap();
            let Some(kept) = kept(&experiment).unwrap() else {
                continue;
            };
            assert_eq!((kept.experiment.as_str(), kept.missing), (name, 0));
            assert!(kept.runs.iter().all(|run| run.sha256.len() == 64), "{name}");
            let place = |run| place(run).is_some();
            assert!(kept.runs.iter().all(place), "{name}");
        }
    }

    /// A claim that holds again must lose its cause, and one that fails must not go unexplained.
    #[test]
    fn claims_that_do_not_hold_say_why_and_others_do_not() {
        let mut compared = 0;
        for name in names() {
            let experiment = Experiment::find(name).unwrap();
            let Some(kept) = kept(&experiment).unwrap() else {
                continue;
            };
            for (claim, judged) in experiment.description.claims.iter().zip(&kept.claims) {
                let why = claim.why();
                match judged.verdict {
                    Verdict::Fails => assert!(why.is_some(), "{name}: {}: no cause", claim.says),
                    Verdict::Holds => assert_eq!(why, None, "{name}: {}", claim.says),
                    _ => {}
                }
                compared += 1;
            }
        }
        assert!(compared > 300, "{compared}");
    }

    #[test]
    fn a_changed_experiment_is_another_experiment() {
        for name in names() {
            let mut experiment = Experiment::find(name).unwrap();
            experiment.text += "# changed\n";
            assert!(kept(&experiment).unwrap().is_none(), "{name}");
        }
    }

    #[test]
    fn results_are_comparable_with_those_of_an_experiment_that_had_fewer_claims() {
        let mut experiments = names()
            .into_iter()
            .map(|name| Experiment::find(name).unwrap());
        let has_kept = |it: &Experiment| kept(it).unwrap().is_some();
        let mut experiment = experiments.find(has_kept).unwrap();
        let claims = &mut experiment.description.claims;
        claims.extend(claims.first().cloned());
        let error = kept(&experiment).unwrap_err().to_string();
        assert!(error.contains("run it again with --keep"), "{error}");
        let before = kept_as_written(&experiment).unwrap().unwrap();
        assert_eq!(before.beside(&before).others, Vec::<String>::new());
    }

    #[test]
    fn only_experiments_have_kept_results() {
        for file in BUILT_IN.get_dir("kept").iter().flat_map(|dir| dir.files()) {
            let name = file.path().file_stem().and_then(|it| it.to_str());
            assert!(name.is_some_and(|name| names().contains(&name)), "{file:?}");
        }
    }
}
