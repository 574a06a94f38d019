// SPDX-License-Identifier: MIT OR Apache-2.0

//! Claims and tables over all runs: a figure is the mean over seeds, and a claim must hold in each
//! group of runs that it is about.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;

use super::description::{Claim, Experiment, Table, Value, Where};
use super::figure;
use super::found::Done;
use super::measure::{Measure, OverSeeds};
use crate::error::usage;
use crate::number::digits;
use crate::results::{Estimate, estimate};

type Values = BTreeMap<String, Value>;

/// What came of an experiment.
#[derive(Debug, Serialize)]
pub struct Judgement {
    /// The experiment's name.
    pub experiment: String,
    /// One line.
    pub title: String,
    /// The paper, its section and figure.
    pub source: String,
    /// Whether every claim does, and every run is there.
    pub holds: bool,
    /// Runs without results.
    pub missing: usize,
    /// In the order of the description.
    pub claims: Vec<Judged>,
    /// In the order of the description.
    pub tables: Vec<FilledTable>,
    /// Those that have results.
    pub runs: Vec<RunState>,
}

/// A claim beside what was measured.
#[derive(Debug, Serialize)]
pub struct Judged {
    /// What is claimed.
    pub says: String,
    /// The paper's value or words.
    pub paper: String,
    /// The limits.
    pub asked: String,
    /// In the group of runs that is farthest from what is asked.
    pub measured: Option<f64>,
    /// Empty for a number.
    pub unit: &'static str,
    /// What tells that group from the others that the claim is about.
    pub at: Values,
    /// What follows.
    pub verdict: Verdict,
}

/// What is to be said of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All that it is about is within its limits.
    Holds,
    /// Some of it is not.
    Fails,
    /// There is nothing that it could be measured from.
    NotMeasured,
    /// A run that it is about is not to be believed.
    Invalid,
}

/// A table, filled in.
#[derive(Debug, Serialize)]
pub struct FilledTable {
    /// One line.
    pub title: String,
    /// The names of the columns.
    pub head: Vec<String>,
    /// From the first to the last.
    pub rows: Vec<Row>,
}

/// A table's row.
#[derive(Debug, Serialize)]
pub struct Row {
    /// What tells it from the others.
    pub labels: Vec<String>,
    /// Its figures; `None`: there is nothing to measure.
    pub cells: Vec<Option<Estimate>>,
}

/// Whether a run is to be believed.
#[derive(Debug, Serialize)]
pub struct RunState {
    /// Its results' file.
    pub file: String,
    /// What runs it.
    pub command: String,
    /// Whether it passed all gates.
    pub valid: bool,
    /// The gates that it did not pass.
    pub reasons: Vec<String>,
}

/// Runs that differ in the seed only.
struct Group<'a> {
    values: &'a Values,
    runs: Vec<&'a Done<'a>>,
}

impl Group<'_> {
    fn figure(&self, measure: &Measure) -> Result<Option<Estimate>> {
        let mut figures = Vec::new();
        for run in &self.runs {
            match figure::of_run(measure, run)? {
                Some(figure) => figures.push(figure),
                None => return Ok(None),
            }
        }
        Ok(match measure.over_seeds {
            OverSeeds::Mean => estimate(&figures),
            OverSeeds::Deviation => deviation(&figures).map(|mean| Estimate {
                mean,
                half_width: None,
            }),
        })
    }

    fn valid(&self) -> bool {
        self.runs.iter().all(|run| run.reasons().is_empty())
    }
}

/// The standard deviation of a sample; of one number there is none.
fn deviation(values: &[f64]) -> Option<f64> {
    let mean = estimate(values)?.mean;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

fn selects(selection: &Where, values: &Values) -> bool {
    selection.iter().all(|(name, wanted)| {
        let value = values.get(name);
        value.is_some_and(|value| wanted.as_slice().contains(value))
    })
}

fn groups<'a>(done: &'a [Done<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for run in done {
        match groups.iter_mut().find(|group| *group.values == run.values) {
            Some(group) => group.runs.push(run),
            None => groups.push(Group {
                values: &run.values,
                runs: vec![run],
            }),
        }
    }
    groups
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
        let of_plan = |run: &&Done<'_>| run.values == run.planned.values;
        let runs: Vec<RunState> = done
            .iter()
            .filter(of_plan)
            .map(|run| {
                let reasons = run.reasons();
                RunState {
                    file: run.planned.file.display().to_string(),
                    command: run.planned.command(),
                    valid: reasons.is_empty(),
                    reasons,
                }
            })
            .collect();
        let missing = planned - runs.len();
        Ok(Self {
            experiment: experiment.name.clone(),
            title: description.title.clone(),
            source: description.source.clone(),
            holds: missing == 0 && claims.iter().all(|claim| claim.verdict == Verdict::Holds),
            missing,
            claims,
            tables: tables.collect::<Result<_>>()?,
            runs,
        })
    }
}

/// How far beyond its limits a value is; below 0 it is within them.
fn excess(claim: &Claim, value: f64) -> f64 {
    let above = claim.at_most.map(|limit| value - limit);
    let below = claim.at_least.map(|limit| limit - value);
    above
        .into_iter()
        .chain(below)
        .fold(f64::NEG_INFINITY, f64::max)
}

fn judged(
    claim: &Claim,
    measures: &BTreeMap<String, Measure>,
    all: &[Group<'_>],
) -> Result<Judged> {
    let measure = &measures[&claim.measure];
    let about: Vec<&Group<'_>> = all
        .iter()
        .filter(|group| selects(&claim.selection, group.values))
        .collect();
    let mut worst: Option<(f64, &Group<'_>)> = None;
    let mut verdict = if about.is_empty() {
        Verdict::NotMeasured
    } else {
        Verdict::Holds
    };
    for &group in &about {
        let mut figure = group.figure(measure)?.map(|figure| figure.mean);
        let mut valid = group.valid();
        if let Some(over) = &claim.over {
            let other = over
                .measure
                .as_ref()
                .map_or(measure, |name| &measures[name]);
            let mut values = group.values.clone();
            values.extend(over.selection.clone());
            let reference = all.iter().find(|group| *group.values == values);
            let divisor = match reference {
                Some(reference) => {
                    valid &= reference.valid();
                    reference.figure(other)?.map(|figure| figure.mean)
                }
                None => None,
            };
            figure = figure
                .zip(divisor)
                .map(|(figure, divisor)| figure / divisor);
        }
        match figure.filter(|figure| figure.is_finite()) {
            None => verdict = Verdict::NotMeasured,
            Some(figure) => {
                if worst.is_none_or(|(value, _)| excess(claim, figure) > excess(claim, value)) {
                    worst = Some((figure, group));
                }
            }
        }
        if !valid && verdict == Verdict::Holds {
            verdict = Verdict::Invalid;
        }
    }
    if let (Verdict::Holds, Some((value, _))) = (verdict, worst)
        && excess(claim, value) > 0.0
    {
        verdict = Verdict::Fails;
    }
    let differs = |name: &String| {
        about
            .iter()
            .any(|it| it.values.get(name) != about[0].values.get(name))
    };
    let at = worst.map_or_else(Values::new, |(_, group)| {
        let values = group.values.iter().filter(|(name, _)| differs(name));
        values
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    });
    Ok(Judged {
        says: claim.says.clone(),
        paper: claim.paper.clone(),
        asked: match (claim.at_least, claim.at_most) {
            (Some(least), Some(most)) => format!("{} to {}", digits(least), digits(most)),
            (Some(least), None) => format!("≥ {}", digits(least)),
            (None, most) => format!("≤ {}", digits(most.unwrap_or(f64::INFINITY))),
        },
        measured: worst.map(|(value, _)| value),
        unit: if claim.over.is_some() {
            ""
        } else {
            measure.of.unit()
        },
        at,
        verdict,
    })
}

/// The different ones, in their order.
fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}

/// What a row has of the values that tell rows apart.
type Key = Vec<Option<Value>>;

/// The groups of runs that a table is about.
struct Cells<'a> {
    table: &'a Table,
    measures: &'a BTreeMap<String, Measure>,
    groups: Vec<&'a Group<'a>>,
}

impl Cells<'_> {
    fn key(&self, group: &Group<'_>) -> Key {
        let names = self.table.rows.as_slice().iter();
        names.map(|name| group.values.get(name).cloned()).collect()
    }

    /// A figure of the one group that belongs in a row and, where there are such, a column.
    fn cell(
        &self,
        row: &Key,
        column: Option<(&str, &Value)>,
        name: &str,
    ) -> Result<Option<Estimate>> {
        let mut found = self.groups.iter().filter(|group| {
            let fits = |(name, value): (&str, &Value)| group.values.get(name) == Some(value);
            self.key(group) == *row && column.is_none_or(fits)
        });
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => usage(format!(
                "table {}: there are several runs for one cell: name in rows what they differ in",
                self.table.title
            )),
            (Some(group), None) => group.figure(&self.measures[name]),
            (None, _) => Ok(None),
        }
    }

    /// A measure and its unit.
    fn label(&self, name: &str) -> String {
        match self.measures[name].of.unit() {
            "" => name.to_owned(),
            unit => format!("{name} ({unit})"),
        }
    }
}

fn measured(
    table: &Table,
    measures: &BTreeMap<String, Measure>,
    all: &[Group<'_>],
) -> Result<FilledTable> {
    let groups = all
        .iter()
        .filter(|group| selects(&table.selection, group.values));
    let cells = Cells {
        table,
        measures,
        groups: groups.collect(),
    };
    let keys = distinct(cells.groups.iter().map(|group| cells.key(group)));
    let names = table.measures.as_slice();
    let mut head: Vec<String> = table.rows.as_slice().to_vec();
    let mut rows = Vec::new();
    let labels = |key: &Key| -> Vec<String> {
        let shown =
            |value: &Option<Value>| value.as_ref().map_or_else(String::new, |it| it.0.clone());
        key.iter().map(shown).collect()
    };
    if let Some(column) = &table.columns {
        let values = cells
            .groups
            .iter()
            .filter_map(|group| group.values.get(column));
        let values = distinct(values);
        head.push(column.clone());
        head.extend(values.iter().map(|value| value.0.clone()));
        for key in &keys {
            for name in names {
                let figures = values
                    .iter()
                    .map(|value| cells.cell(key, Some((column, value)), name));
                let mut labels = labels(key);
                labels.push(cells.label(name));
                rows.push(Row {
                    labels,
                    cells: figures.collect::<Result<_>>()?,
                });
            }
        }
    } else {
        head.extend(names.iter().map(|name| cells.label(name)));
        for key in &keys {
            let figures = names.iter().map(|name| cells.cell(key, None, name));
            rows.push(Row {
                labels: labels(key),
                cells: figures.collect::<Result<_>>()?,
            });
        }
    }
    Ok(FilledTable {
        title: table.title.clone(),
        head,
        rows,
    })
}
