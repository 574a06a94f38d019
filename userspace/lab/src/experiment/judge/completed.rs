// SPDX-License-Identifier: MIT OR Apache-2.0

//! A judgement of new results of some runs. Of the others, only kept figures and verdicts exist.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::claims::judged;
use super::group::{Group, grouped, of_plan};
use super::tables::measured;
use super::{
    FilledTable, Judged, Judgement, Places, RunState, Values, all_hold, flows, offered, seeds,
};
use crate::error::usage;
use crate::experiment::description::Experiment;
use crate::experiment::found::Done;
use crate::experiment::plan::Planned;
use crate::results::Estimate;

/// A kept judgement that completes new results.
struct Kept<'a> {
    judgement: &'a Judgement,
    /// For each run of the plan, whether it has new results,
    is_new: Vec<bool>,
    /// whether it has new results that differ from the kept ones,
    differs: Vec<bool>,
    /// and its index in the judgement.
    places: &'a [Option<usize>],
}

/// What figures and verdicts rest on.
#[derive(PartialEq, Eq)]
enum Rests {
    /// On new results only,
    New,
    /// on kept ones, or on new ones that are the same to the byte,
    Kept,
    /// or on kept ones and on new ones that differ from what was kept.
    Both,
}

impl Judgement {
    /// Judges the new results of some runs, and takes the other runs from a kept judgement. For
    /// each run of the plan, `places` has its index there, and `is_made` whether it must have new
    /// results. A figure or verdict is computed if all of its runs have new results. Otherwise it
    /// is the kept one, and new results must be the same to the byte as the kept results.
    ///
    /// # Errors
    ///
    /// If a run has neither result, a figure or claim rests on kept results and on new ones that
    /// differ, or nothing is kept of a figure or claim.
    pub fn completed(
        experiment: &Experiment,
        plan: &[Planned],
        done: &[Done<'_>],
        kept: &Self,
        (places, is_made): (&[Option<usize>], &[bool]),
    ) -> Result<Self> {
        let description = &experiment.description;
        let measures = &description.measures;
        let keyed = done
            .iter()
            .map(|run| ((&run.planned.file, of_plan(&run)), run));
        let done_by: BTreeMap<_, _> = keyed.collect();
        let found =
            |planned: &Planned, is_of_plan| done_by.get(&(&planned.file, is_of_plan)).copied();
        let runs = plan.iter().zip(places.iter().zip(is_made));
        let runs = runs.map(|(planned, place)| match (found(planned, true), place) {
            (Some(run), _) => Ok(RunState::new(run)),
            (None, (Some(place), false)) => Ok(kept.runs[*place].clone()),
            (None, _) => usage(format!("{} has no results", planned.file.display())),
        });
        let states: Vec<RunState> = runs.collect::<Result<_>>()?;
        let is_new: Vec<bool> = plan.iter().map(|it| found(it, true).is_some()).collect();
        let differs = states.iter().zip(places).map(|(run, place)| {
            let before = place.and_then(|place| kept.runs.get(place));
            before.is_none_or(|before| before.sha256 != run.sha256)
        });
        let kept = Kept {
            judgement: kept,
            is_new,
            differs: differs.collect(),
            places,
        };
        let ideals = ideals(plan);
        let groups = groups_of_plan(plan, &ideals, found);
        let claims = description.claims.iter();
        let claims = claims.map(|claim| kept.claim(judged(claim, measures, &groups)?));
        let claims: Vec<Judged> = claims.collect::<Result<_>>()?;
        let tables = description.tables.iter();
        let tables = tables.map(|table| kept.table(measured(table, measures, &groups)?));
        Ok(Self {
            experiment: experiment.name.clone(),
            title: description.title.clone(),
            source: description.source.clone(),
            holds: all_hold(0, &claims),
            missing: 0,
            seeds: seeds(plan.iter().map(|planned| planned.seed)),
            flows: of_both(flows(done), kept.judgement.flows),
            offered: of_both(offered(done), kept.judgement.offered),
            claims,
            tables: tables.collect::<Result<_>>()?,
            runs: states,
        })
    }
}

/// The runs of a plan that a claim or a figure rests on, for each of them.
#[derive(Debug)]
pub struct Comparisons {
    claims: Vec<Judged>,
    tables: Vec<FilledTable>,
}

impl Comparisons {
    /// # Errors
    ///
    /// If a table has several runs for one cell.
    pub fn new(experiment: &Experiment, plan: &[Planned]) -> Result<Self> {
        let description = &experiment.description;
        let measures = &description.measures;
        let ideals = ideals(plan);
        let groups = groups_of_plan(plan, &ideals, |_, _| None);
        let claims = description.claims.iter();
        let claims = claims.map(|claim| judged(claim, measures, &groups));
        let tables = description.tables.iter();
        let tables = tables.map(|table| measured(table, measures, &groups));
        Ok(Self {
            claims: claims.collect::<Result<_>>()?,
            tables: tables.collect::<Result<_>>()?,
        })
    }

    fn places(&self) -> impl Iterator<Item = &Places> {
        let claims = self.claims.iter().map(|claim| &claim.rests_on);
        let rows = self.tables.iter().flat_map(|table| &table.rows);
        claims.chain(rows.flat_map(|row| &row.rests_on))
    }

    /// For each run of the plan, whether a claim rests on it that is not in a kept judgement.
    /// `places`: as for [`Judgement::completed`].
    pub fn of_new_claims(&self, kept: &Judgement, places: &[Option<usize>]) -> Vec<bool> {
        let mut all = vec![false; places.len()];
        for claim in &self.claims {
            let runs = claim.rests_on.below(places.len());
            if same_claims(kept, places, claim, &runs).is_empty() {
                runs.iter().for_each(|&place| all[place] = true);
            }
        }
        all
    }

    /// These runs of the plan, and all that a claim or a figure compares with one of them or
    /// averages with it.
    pub fn with_compared(&self, runs: &[bool]) -> Vec<bool> {
        let mut all = runs.to_vec();
        for group in self.places().filter(|group| group.any(runs)) {
            let group = group.below(runs.len());
            group.iter().for_each(|&place| all[place] = true);
        }
        all
    }
}

/// The values of the plan's ideals, each with the index of its run.
fn ideals(plan: &[Planned]) -> Vec<(usize, Values)> {
    let ideals = plan.iter().map(Planned::values_of_ideal);
    (0..)
        .zip(ideals)
        .filter_map(|(place, values)| Some((place, values?)))
        .collect()
}

/// Groups the runs of a plan and their ideals. `found`: the results of a run, or of its ideal.
fn groups_of_plan<'a>(
    plan: &'a [Planned],
    ideals: &'a [(usize, Values)],
    found: impl Fn(&Planned, bool) -> Option<&'a Done<'a>>,
) -> Vec<Group<'a>> {
    let runs = (0..).zip(plan).map(|(place, planned)| {
        let values: &Values = &planned.values;
        (values, Some(place), found(planned, true))
    });
    let ideals = ideals
        .iter()
        .map(|(place, values)| (values, Some(*place), found(&plan[*place], false)));
    grouped(runs.chain(ideals))
}

/// Whether something kept rests on these runs of the plan. `places`: as for
/// [`Judgement::completed`].
fn is_of(places: &[Option<usize>], rests_on: &Places, runs: &[usize]) -> bool {
    let kept: Option<Vec<usize>> = runs.iter().map(|&run| places[run]).collect();
    kept.is_some_and(|kept| Places::new(kept) == *rests_on)
}

/// The claims of a kept judgement that have these words and runs of the plan.
fn same_claims<'a>(
    kept: &'a Judgement,
    places: &[Option<usize>],
    judged: &Judged,
    runs: &[usize],
) -> Vec<&'a Judged> {
    let is_same = |kept: &&Judged| {
        kept.says == judged.says
            && kept.paper == judged.paper
            && kept.unit == judged.unit
            && is_of(places, &kept.rests_on, runs)
    };
    kept.claims.iter().filter(is_same).collect()
}

impl Kept<'_> {
    fn rests(&self, places: &[usize]) -> Rests {
        if places.iter().all(|&place| self.is_new[place]) {
            return Rests::New;
        }
        match places.iter().any(|&place| self.differs[place]) {
            true => Rests::Both,
            false => Rests::Kept,
        }
    }

    /// A claim, judged by new results, or the same one as it was kept.
    fn claim(&self, judged: Judged) -> Result<Judged> {
        let runs = judged.rests_on.below(self.is_new.len());
        match self.rests(&runs) {
            Rests::New => return Ok(judged),
            Rests::Kept => {}
            Rests::Both => bail!(
                "claim {}: it compares new results with kept ones: omit --only-new",
                judged.says
            ),
        }
        let same = same_claims(self.judgement, self.places, &judged, &runs);
        let Some((kept, others)) = same.split_first() else {
            bail!("claim {}: it is not kept: omit --only-new", judged.says);
        };
        if others.iter().any(|other| other.measured != kept.measured) {
            bail!("claim {}: several kept ones have its words", judged.says);
        }
        Ok(Judged {
            measured: kept.measured,
            at: kept.at.clone(),
            verdict: kept.verdict,
            // With these limits, a reader judges it again if the claim has others now.
            asked: kept.asked.clone(),
            ..judged
        })
    }

    /// A table of new results, with kept figures where it has none.
    fn table(&self, mut table: FilledTable) -> Result<FilledTable> {
        let mut kept = self.judgement.tables.iter();
        let kept = kept.find(|kept| kept.title == table.title);
        for row in &mut table.rows {
            for place in 0..row.cells.len() {
                let column = &table.head[row.labels.len() + place];
                let runs = row.rests_on[place].below(self.is_new.len());
                let what = || format!("table {}, {}, {column}", table.title, row.labels.join(", "));
                // A cell that no runs belong to rests on nothing.
                if runs.is_empty() {
                    continue;
                }
                match self.rests(&runs) {
                    Rests::New => continue,
                    Rests::Kept => {}
                    Rests::Both => bail!(
                        "{}: some of its seeds are new, and others kept: omit --only-new",
                        what()
                    ),
                }
                let found = kept.and_then(|kept| self.cell(kept, &row.labels, column, &runs));
                match found {
                    Some(cell) => row.cells[place] = cell,
                    None => bail!("{}: nothing is kept of these runs: omit --only-new", what()),
                }
            }
        }
        Ok(table)
    }

    /// The kept figure in this row and column, if it is of these runs.
    fn cell(
        &self,
        table: &FilledTable,
        labels: &[String],
        column: &str,
        runs: &[usize],
    ) -> Option<Option<Estimate>> {
        let row = table.rows.iter().find(|row| row.labels == labels)?;
        let names = table.head.get(labels.len()..)?;
        let place = names.iter().position(|name| name == column)?;
        let rests_on = row.rests_on.get(place)?;
        let cell = *row.cells.get(place)?;
        is_of(self.places, rests_on, runs).then_some(cell)
    }
}

/// The range that contains both.
fn of_both<T: PartialOrd + Copy>(a: Option<(T, T)>, b: Option<(T, T)>) -> Option<(T, T)> {
    let (Some(a), Some(b)) = (a, b) else {
        return a.or(b);
    };
    let least = if b.0 < a.0 { b.0 } else { a.0 };
    let most = if b.1 > a.1 { b.1 } else { a.1 };
    Some((least, most))
}

#[cfg(test)]
mod tests {
    use super::super::Row;
    use super::*;

    #[test]
    fn what_is_compared_with_runs_belongs_to_them() {
        let places = [vec![0, 1], vec![4, 5], vec![1, 2], vec![3]];
        let rows = places.map(|places| Row {
            labels: Vec::new(),
            cells: vec![None],
            rests_on: vec![Places::new(places)],
        });
        let table = FilledTable {
            title: String::new(),
            head: Vec::new(),
            rows: rows.into(),
        };
        let comparisons = Comparisons {
            claims: Vec::new(),
            tables: vec![table],
        };
        let of = |place: usize| {
            let runs: Vec<bool> = (0..6).map(|other| other == place).collect();
            let all = comparisons.with_compared(&runs);
            (0..6).filter(|&place| all[place]).collect::<Vec<_>>()
        };
        assert_eq!(of(0), [0, 1]);
        assert_eq!(of(1), [0, 1, 2]);
        assert_eq!(of(2), [1, 2]);
        assert_eq!(of(3), [3]);
        assert_eq!(of(5), [4, 5]);
        assert_eq!(comparisons.with_compared(&[false; 6]), [false; 6]);
    }
}
