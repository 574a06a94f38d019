// SPDX-License-Identifier: MIT OR Apache-2.0

//! Claims and tables over all runs. A figure is the mean over seeds, or a percentile of all their
//! flows together, with its 95 % confidence interval. A claim must hold in each of its groups of
//! runs, and it holds only if all of the interval is within its limits.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use weft_load::record::OfferedLoad;

use super::description::{Claim, Experiment, Table, Value, Where};
use super::figure::Subject;
use super::found::Done;
use super::measure::{Measure, OverSeeds};
use crate::error::usage;
use crate::number::digits;
use crate::results::{Estimate, deviation, difference, estimate, quotient};

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
    /// The limits.
    pub asked: String,
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
    fn new(mut places: Vec<usize>) -> Self {
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
        let of = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let ends = first.parse::<usize>().ok().zip(last.parse::<usize>().ok());
            ends.and_then(|(first, last)| is.get(first..=last))
        };
        self.0
            .split(',')
            .any(|range| of(range).unwrap_or(is).contains(&true))
    }
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

/// The combination of a figure and another.
#[derive(Clone, Copy)]
enum Relation {
    /// Their quotient.
    Over,
    /// Their difference.
    Less,
}

/// Runs that differ only in the seed.
struct Group<'a> {
    values: &'a Values,
    runs: Vec<&'a Done<'a>>,
    /// The indices of their results in [`Judgement::runs`].
    places: Vec<usize>,
}

impl Group<'_> {
    fn subjects(&self) -> Vec<Subject<'_>> {
        self.runs.iter().map(|run| run.subject()).collect()
    }

    /// The figure of each run. `None` if one of them has nothing to measure.
    fn figures(&self, measure: &Measure) -> Result<Option<Vec<f64>>> {
        let figures = self.runs.iter().map(|run| measure.of_run(&run.subject()));
        figures.collect()
    }

    fn figure(&self, measure: &Measure) -> Result<Option<Estimate>> {
        let Some(figures) = self.figures(measure)? else {
            return Ok(None);
        };
        if let [figure] = figures[..]
            && !self.is_random()
        {
            return Ok((measure.over_seeds == OverSeeds::Mean).then(|| Estimate::exact(figure)));
        }
        Ok(match measure.over_seeds {
            OverSeeds::Deviation => deviation(&figures),
            OverSeeds::Mean => match measure.pooled(&self.subjects()) {
                Some((pooled, p)) => pooled.percentile(p),
                None => estimate(&figures),
            },
        })
    }

    /// Combines a figure with that of other runs, seed by seed if they have the same seeds.
    fn beside(
        &self,
        measure: &Measure,
        relation: Relation,
        other: &Self,
        others: &Measure,
    ) -> Result<Option<Estimate>> {
        let means = [measure, others].map(|it| it.over_seeds == OverSeeds::Mean);
        let seeds =
            |group: &Self| -> Vec<u64> { group.runs.iter().map(|it| it.planned.seed).collect() };
        if means == [true, true] && seeds(self) == seeds(other) {
            let pooled = measure.pooled(&self.subjects());
            if let Some(((a, p), (b, q))) = pooled.zip(others.pooled(&other.subjects()))
                && p == q
                && self.runs.len() > 1
            {
                return Ok(match relation {
                    Relation::Over => a.over(&b, p),
                    Relation::Less => a.less(&b, p),
                });
            }
            let figures = self.figures(measure)?.zip(other.figures(others)?);
            let found = figures.and_then(|(a, b)| match relation {
                Relation::Over => quotient(&a, &b),
                Relation::Less => difference(&a, &b),
            });
            return Ok(match found {
                Some(found) if !self.is_random() && !other.is_random() => {
                    Some(Estimate::exact(found.value))
                }
                found => found,
            });
        }
        let figures = self.figure(measure)?.zip(other.figure(others)?);
        Ok(figures.and_then(|(a, b)| match relation {
            Relation::Over => a.over_unpaired(&b),
            Relation::Less => a.less_unpaired(&b),
        }))
    }

    /// Whether the runs depend on the seed.
    fn is_random(&self) -> bool {
        self.runs.iter().any(|run| run.planned.random)
    }

    fn valid(&self) -> bool {
        self.runs.iter().all(|run| run.reasons().is_empty())
    }
}

fn selects(selection: &Where, values: &Values) -> bool {
    selection.iter().all(|(name, wanted)| {
        let value = values.get(name);
        value.is_some_and(|value| wanted.as_slice().contains(value))
    })
}

fn groups<'a>(done: &'a [Done<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    // An ideal is derived from a run of the plan.
    let files = done.iter().filter(of_plan).map(|run| &run.planned.file);
    let places: BTreeMap<_, _> = files.zip(0..).collect();
    for run in done {
        let place = places.get(&run.planned.file).copied();
        match groups.iter_mut().find(|group| *group.values == run.values) {
            Some(group) => {
                group.runs.push(run);
                group.places.extend(place);
            }
            None => groups.push(Group {
                values: &run.values,
                runs: vec![run],
                places: place.into_iter().collect(),
            }),
        }
    }
    groups
}

fn of_plan(run: &&Done<'_>) -> bool {
    run.values == run.planned.values
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
        let runs: Vec<RunState> = done
            .iter()
            .filter(of_plan)
            .map(|run| {
                let reasons = run.reasons();
                RunState {
                    file: run.planned.file.display().to_string(),
                    command: run.command(),
                    sha256: run.sha256.clone(),
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
            seeds: seeds(done),
            flows: flows(done),
            offered: offered(done),
            claims,
            tables: tables.collect::<Result<_>>()?,
            runs,
        })
    }
}

fn seeds(done: &[Done<'_>]) -> Vec<u64> {
    let mut seeds: Vec<u64> = done.iter().map(|run| run.planned.seed).collect();
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

/// A value's distance beyond the claim's limits; below 0 it is within them.
fn excess(claim: &Claim, value: f64) -> f64 {
    let above = claim.at_most.map(|limit| value - limit);
    let below = claim.at_least.map(|limit| limit - value);
    let off = claim.equals.map(|target| (value - target).abs());
    above
        .into_iter()
        .chain(below)
        .chain(off)
        .fold(f64::NEG_INFINITY, f64::max)
}

/// The verdict that follows from a figure and its interval.
fn verdict(claim: &Claim, figure: &Estimate) -> Verdict {
    // A single occurrence refutes a claim that something never happens, since a count cannot be
    // negative. Student's interval does not take that into account: it extends below 0.
    let counts = claim.less.is_none() && claim.over.is_none();
    if counts && claim.at_most == Some(0.0) && figure.value > 0.0 {
        return Verdict::Fails;
    }
    let Some((low, high)) = figure.low.zip(figure.high) else {
        return Verdict::Undecided;
    };
    if let Some(target) = claim.equals {
        let precise = high - low <= 2.0 * claim.to * target.abs();
        return match (low <= target && target <= high, precise) {
            (false, _) => Verdict::Fails,
            (true, true) => Verdict::Holds,
            (true, false) => Verdict::Undecided,
        };
    }
    let above = claim.at_most.is_some_and(|limit| low > limit);
    let below = claim.at_least.is_some_and(|limit| high < limit);
    if above || below {
        Verdict::Fails
    } else if excess(claim, low) <= 0.0 && excess(claim, high) <= 0.0 {
        Verdict::Holds
    } else {
        Verdict::Undecided
    }
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
    let mut rests_on = Vec::new();
    // The figure, its verdict, and its group.
    let mut worst: Option<(Estimate, Verdict, &Group<'_>)> = None;
    let (mut measured, mut valid) = (!about.is_empty(), true);
    for &group in &about {
        valid &= group.valid();
        rests_on.extend(&group.places);
        let over = claim.over.as_ref().map(|other| (Relation::Over, other));
        let less = claim.less.as_ref().map(|other| (Relation::Less, other));
        let figure = match over.or(less) {
            None => group.figure(measure)?,
            Some((relation, beside)) => {
                let other = beside
                    .measure
                    .as_ref()
                    .map_or(measure, |name| &measures[name]);
                let mut values = group.values.clone();
                values.extend(beside.selection.clone());
                match all.iter().find(|group| *group.values == values) {
                    Some(reference) => {
                        valid &= reference.valid();
                        rests_on.extend(&reference.places);
                        group.beside(measure, relation, reference, other)?
                    }
                    None => None,
                }
            }
        };
        let Some(figure) = figure.filter(|figure| figure.value.is_finite()) else {
            measured = false;
            continue;
        };
        let found = verdict(claim, &figure);
        // A failure ranks before an undecided verdict, and then the distance decides.
        let rank = |verdict: Verdict, figure: &Estimate| {
            let order = match verdict {
                Verdict::Fails => 2,
                Verdict::Undecided => 1,
                _ => 0,
            };
            (order, excess(claim, figure.value))
        };
        let is_worse = worst.as_ref().is_none_or(|(value, verdict, _)| {
            rank(found, &figure).partial_cmp(&rank(*verdict, value)) == Some(Ordering::Greater)
        });
        if is_worse {
            worst = Some((figure, found, group));
        }
    }
    let verdict = match &worst {
        Some(_) if !measured => Verdict::NotMeasured,
        Some(_) if !valid => Verdict::Invalid,
        Some((_, verdict, _)) => *verdict,
        None => Verdict::NotMeasured,
    };
    let differs = |name: &String| {
        about
            .iter()
            .any(|it| it.values.get(name) != about[0].values.get(name))
    };
    let at = worst.as_ref().map_or_else(Values::new, |(_, _, group)| {
        let values = group.values.iter().filter(|(name, _)| differs(name));
        values
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    });
    Ok(Judged {
        says: claim.says.clone(),
        paper: claim.paper.clone(),
        asked: match (claim.at_least, claim.at_most) {
            _ if claim.equals.is_some() => {
                let target = claim.equals.unwrap_or_default();
                format!("{} (to {} %)", digits(target), digits(100.0 * claim.to))
            }
            (Some(least), Some(most)) => format!("{} to {}", digits(least), digits(most)),
            (Some(least), None) => format!("≥ {}", digits(least)),
            (None, most) => format!("≤ {}", digits(most.unwrap_or(f64::INFINITY))),
        },
        measured: worst.map(|(figure, ..)| figure),
        unit: if claim.over.is_some() {
            String::new()
        } else {
            measure.unit().to_owned()
        },
        at,
        verdict,
        rests_on: Places::new(rests_on),
    })
}

/// The distinct ones, in their order.
fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}

/// A row's values, which distinguish it from other rows.
type Key = Vec<Option<Value>>;

/// The groups of runs in a table.
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

    /// The figure of the one group that belongs to a row and, if there are columns, to a column.
    fn cell(
        &self,
        row: &Key,
        column: Option<(&str, &Value)>,
        name: &str,
    ) -> Result<(Option<Estimate>, Places)> {
        let mut found = self.groups.iter().filter(|group| {
            let fits = |(name, value): (&str, &Value)| group.values.get(name) == Some(value);
            self.key(group) == *row && column.is_none_or(fits)
        });
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => usage(format!(
                "table {}: there are several runs for one cell: name in rows what they differ in",
                self.table.title
            )),
            (Some(group), None) => {
                let figure = group.figure(&self.measures[name])?;
                Ok((figure, Places::new(group.places.clone())))
            }
            (None, _) => Ok((None, Places::default())),
        }
    }

    /// A measure and its unit.
    fn label(&self, name: &str) -> String {
        match self.measures[name].unit() {
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
                rows.push(Row::new(labels, figures)?);
            }
        }
    } else {
        head.extend(names.iter().map(|name| cells.label(name)));
        for key in &keys {
            let figures = names.iter().map(|name| cells.cell(key, None, name));
            rows.push(Row::new(labels(key), figures)?);
        }
    }
    Ok(FilledTable {
        title: table.title.clone(),
        head,
        rows,
    })
}
