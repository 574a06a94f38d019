// SPDX-License-Identifier: MIT OR Apache-2.0

//! Claims and tables over all runs. A figure is the mean over seeds, or a percentile of all their
//! flows together, with its 95 % confidence interval. A claim must hold in each of its groups of
//! runs, and it holds only if all of the interval is within its limits.

mod claims;
mod completed;
mod group;
mod tables;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use weft_load::record::OfferedLoad;

use super::description::{Experiment, Value};
use super::found::Done;
use crate::results::Estimate;
pub(super) use claims::judge_again;
use claims::judged;
pub use completed::Comparisons;
use group::{Group, groups, of_plan};
pub(super) use tables::distinct;
use tables::measured;

type Values = BTreeMap<String, Value>;

/// The results of an experiment.
#[derive(Debug, Serialize, Deserialize)]
pub struct Judgement {
    /// The experiment's name.
    pub experiment: String,
    /// One line.
    pub title: String,
    /// The paper, its section and figure.
    pub source: String,
    /// Whether every claim holds, and every run exists.
    pub holds: bool,
    /// Runs without results.
    pub missing: usize,
    /// Seeds of the existing runs.
    pub seeds: Vec<u64>,
    /// The smallest and the largest number of flows that a run measured.
    pub flows: Option<(u64, u64)>,
    /// The smallest and the largest load that was offered, as a share of the requested one.
    pub offered: Option<(f64, f64)>,
    /// In the order of the description.
    pub claims: Vec<Judged>,
    /// In the order of the description.
    pub tables: Vec<FilledTable>,
    /// The runs that have results.
    pub runs: Vec<RunState>,
}

/// A claim beside its measurement.
#[derive(Debug, Serialize, Deserialize)]
pub struct Judged {
    /// The claim.
    pub says: String,
    /// The paper's value or words.
    pub paper: String,
    /// The limits in words,
    pub asked: String,
    /// and as numbers. Kept files lack them: they are the claim's.
    #[serde(skip)]
    pub limits: Vec<f64>,
    /// Whether weft chose them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own_limit: bool,
    /// The figure of the worst group of runs.
    pub measured: Option<Estimate>,
    /// Empty for a number.
    pub unit: String,
    /// The values that distinguish that group from the claim's others.
    pub at: Values,
    /// The verdict.
    pub verdict: Verdict,
    /// The runs that it rests on.
    #[serde(default, skip_serializing_if = "Places::is_all")]
    pub rests_on: Places,
}

/// The verdict on a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// In all of its groups, all of the interval is within the limits.
    Holds,
    /// In some group, all of the interval is outside the limits.
    Fails,
    /// Some interval contains a limit, or does not exist: more flows or seeds could decide.
    Undecided,
    /// There is nothing to measure.
    NotMeasured,
    /// A run that it needs is not credible.
    Invalid,
}

/// A table, filled in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FilledTable {
    /// One line.
    pub title: String,
    /// The names of the columns.
    pub head: Vec<String>,
    /// From top to bottom.
    pub rows: Vec<Row>,
}

/// A table's row.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The values that distinguish it from the others.
    pub labels: Vec<String>,
    /// Its figures; `None` if there is nothing to measure.
    pub cells: Vec<Option<Estimate>>,
    /// For each figure, the runs that it rests on; empty in judgements of earlier versions, which
    /// do not contain them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rests_on: Vec<Places>,
}

/// Indices in [`Judgement::runs`], in order and from 0, such as `0-4,7`; empty for all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Places(String);

impl Places {
    pub(super) fn new(mut places: Vec<usize>) -> Self {
        places.sort_unstable();
        places.dedup();
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for place in places {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == place => *last = place,
                _ => ranges.push((place, place)),
            }
        }
        let ranges = ranges.into_iter().map(|(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        });
        Self(ranges.collect::<Vec<_>>().join(","))
    }

    /// Whether the list is empty.
    fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `is` holds for one of them. A list that cannot be parsed stands for all.
    pub fn any(&self, is: &[bool]) -> bool {
        let of = |range: &str| is.get(parsed(range)?);
        self.0
            .split(',')
            .any(|range| of(range).unwrap_or(is).contains(&true))
    }

    /// The same runs where `before` others precede them.
    pub(super) fn after(&self, before: usize) -> Self {
        let ranges = self.0.split(',').filter_map(parsed);
        Self::new(ranges.flatten().map(|place| place + before).collect())
    }

    /// The indices below `count`; empty if they are not listed.
    pub fn below(&self, count: usize) -> Vec<usize> {
        let ranges = self.0.split(',').filter_map(parsed);
        let ends = ranges.map(|range| *range.start()..count.min(range.end().saturating_add(1)));
        ends.flatten().collect()
    }
}

/// The indices from one number to another, `4` or `0-4`.
fn parsed(range: &str) -> Option<RangeInclusive<usize>> {
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let ends = first.parse().ok().zip(last.parse().ok());
    ends.map(|(first, last)| first..=last)
}

/// The credibility of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunState {
    /// Its results' file.
    pub file: String,
    /// The command that runs it.
    pub command: String,
    /// SHA-256 of that file, in hexadecimal digits.
    pub sha256: String,
    /// Whether it passed all gates.
    pub valid: bool,
    /// The gates that it did not pass.
    pub reasons: Vec<String>,
}

impl RunState {
    /// The state of a run of the plan.
    fn new(run: &Done<'_>) -> Self {
        let reasons = run.reasons();
        Self {
            file: run.planned.file.display().to_string(),
            command: run.command(),
            sha256: run.sha256.clone(),
            valid: reasons.is_empty(),
            reasons,
        }
    }
}

impl Row {
    fn new(
        labels: Vec<String>,
        figures: impl Iterator<Item = Result<(Option<Estimate>, Places)>>,
    ) -> Result<Self> {
        let figures: Vec<(Option<Estimate>, Places)> = figures.collect::<Result<_>>()?;
        let (cells, rests_on) = figures.into_iter().unzip();
        Ok(Self {
            labels,
            cells,
            rests_on,
        })
    }
}

impl Judgement {
    /// # Errors
    ///
    /// If a table has several runs for one cell, or results do not fit the topology.
    pub fn new(experiment: &Experiment, done: &[Done<'_>], planned: usize) -> Result<Self> {
        let description = &experiment.description;
        let measures = &description.measures;
        let groups = groups(done);
        let claims: Vec<Judged> = description
            .claims
            .iter()
            .map(|claim| judged(claim, measures, &groups))
            .collect::<Result<_>>()?;
        let tables = description.tables.iter();
        let tables = tables.map(|table| measured(table, measures, &groups));
        let runs: Vec<RunState> = done.iter().filter(of_plan).map(RunState::new).collect();
        let missing = planned - runs.len();
        Ok(Self {
            experiment: experiment.name.clone(),
            title: description.title.clone(),
            source: description.source.clone(),
            holds: all_hold(missing, &claims),
            missing,
            seeds: seeds(done.iter().map(|run| run.planned.seed)),
            flows: flows(done),
            offered: offered(done),
            claims,
            tables: tables.collect::<Result<_>>()?,
            runs,
        })
    }
}

fn seeds(all: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut seeds: Vec<u64> = all.collect();
    seeds.sort_unstable();
    seeds.dedup();
    seeds
}

fn flows(done: &[Done<'_>]) -> Option<(u64, u64)> {
    let flows = || {
        done.iter()
            .filter_map(|run| Some(run.run.summary.as_ref()?.flows))
    };
    flows().min().zip(flows().max())
}

/// Whether every claim holds, and every run exists.
pub(super) fn all_hold(missing: usize, claims: &[Judged]) -> bool {
    missing == 0 && claims.iter().all(|it| it.verdict == Verdict::Holds)
}

/// The smallest and the largest offered load of a group, each over its seeds, as figures are.
fn offered(done: &[Done<'_>]) -> Option<(f64, f64)> {
    let of = |group: Group<'_>| {
        let loads = group.runs.iter().map(|run| run.run.summary.as_ref()?.load);
        let loads: Vec<_> = loads.collect::<Option<_>>()?;
        let sum = |of: fn(&OfferedLoad) -> f64| loads.iter().map(of).sum::<f64>();
        Some(sum(|it| it.offered) / sum(|it| it.asked))
    };
    let mut shares: Vec<f64> = groups(done).into_iter().filter_map(of).collect();
    shares.sort_by(f64::total_cmp);
    shares.first().copied().zip(shares.last().copied())
}
