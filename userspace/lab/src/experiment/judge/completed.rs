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
    /// and its index in the judgement.
    places: &'a [Option<usize>],
}

/// What figures and verdicts rest on.
#[derive(PartialEq, Eq)]
enum Rests {
    /// On new results only,
    New,
    /// on kept ones only,
    Kept,
    /// or on some of both.
    Both,
}

impl Judgement {
    /// Judges the new results of some runs. The other runs are in a kept judgement: `places` has
    /// the index there of each run of the plan. A figure or verdict is computed if all of its runs
    /// have new results. If none of them has, it is the kept one.
    ///
    /// # Errors
    ///
    /// If a run has neither, a figure or claim rests on new and on kept results, or nothing is kept
    /// of one.
    pub fn completed(
        experiment: &Experiment,
        plan: &[Planned],
        done: &[Done<'_>],
        kept: &Self,
        places: &[Option<usize>],
    ) -> Result<Self> {
        let description = &experiment.description;
        let measures = &description.measures;
        let keyed = done
            .iter()
            .map(|run| ((&run.planned.file, of_plan(&run)), run));
        let done_by: BTreeMap<_, _> = keyed.collect();
        let found =
            |planned: &Planned, is_of_plan| done_by.get(&(&planned.file, is_of_plan)).copied();
        let runs = plan.iter().zip(places);
        let runs = runs.map(|(planned, place)| match (found(planned, true), place) {
            (Some(run), _) => Ok(RunState::new(run)),
            (None, Some(place)) => Ok(kept.runs[*place].clone()),
            (None, None) => usage(format!("{} has no results", planned.file.display())),
        });
        let states: Vec<RunState> = runs.collect::<Result<_>>()?;
        let is_new: Vec<bool> = plan.iter().map(|it| found(it, true).is_some()).collect();
        let kept = Kept {
            judgement: kept,
            is_new,
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
pub struct Comparisons(Vec<Places>);

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
        let claims = claims.map(|claim| Ok(judged(claim, measures, &groups)?.rests_on));
        let mut all: Vec<Places> = claims.collect::<Result<_>>()?;
        for table in &description.tables {
            let rows = measured(table, measures, &groups)?.rows;
            all.extend(rows.into_iter().flat_map(|row| row.rests_on));
        }
        Ok(Self(all))
    }

    /// These runs of the plan, and all that a claim or a figure compares with one of them or
    /// averages with it, and so on.
    pub fn with_compared(&self, mut runs: Vec<bool>) -> Vec<bool> {
        loop {
            let before = runs.clone();
            for group in &self.0 {
                if group.any(&runs) {
                    let group = group.below(runs.len());
                    group.iter().for_each(|&place| runs[place] = true);
                }
            }
            if runs == before {
                return runs;
            }
        }
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

impl Kept<'_> {
    fn rests(&self, places: &[usize]) -> Rests {
        match places.iter().filter(|place| self.is_new[**place]).count() {
            0 => Rests::Kept,
            all if all == places.len() => Rests::New,
            _ => Rests::Both,
        }
    }

    /// Whether something kept rests on these runs of the plan.
    fn is_of(&self, rests_on: &Places, runs: &[usize]) -> bool {
        let kept = runs.iter().map(|place| self.places[*place]);
        let kept: Option<Vec<usize>> = kept.collect();
        kept.is_some_and(|kept| Places::new(kept) == *rests_on)
    }

    /// A claim, judged by new results, or the same one as it was kept.
    fn claim(&self, judged: Judged) -> Result<Judged> {
        let runs = judged.rests_on.below(self.is_new.len());
        match self.rests(&runs) {
            Rests::New => return Ok(judged),
            Rests::Kept => {}
            Rests::Both => bail!(
                "claim {}: it compares new results with kept ones: run these schemes, too",
                judged.says
            ),
        }
        let is_same = |kept: &&Judged| {
            kept.says == judged.says
                && kept.paper == judged.paper
                && kept.unit == judged.unit
                && self.is_of(&kept.rests_on, &runs)
        };
        let mut same = self.judgement.claims.iter().filter(is_same);
        let Some(kept) = same.next() else {
            bail!("claim {}: it is not kept: run its schemes", judged.says);
        };
        if same.any(|other| other.measured != kept.measured) {
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
                    Rests::Both => bail!("{}: some of its seeds are new, and others kept", what()),
                }
                let found = kept.and_then(|kept| self.cell(kept, &row.labels, column, &runs));
                match found {
                    Some(cell) => row.cells[place] = cell,
                    None => bail!("{}: nothing is kept of these runs: run them", what()),
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
        self.is_of(rests_on, runs).then_some(cell)
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
    use super::*;

    #[test]
    fn what_is_compared_with_compared_runs_belongs_to_them() {
        let places = [vec![0, 1], vec![4, 5], vec![1, 2], vec![3]];
        let comparisons = Comparisons(places.map(Places::new).into());
        let of = |place: usize| {
            let runs = (0..6).map(|other| other == place).collect();
            let all = comparisons.with_compared(runs);
            (0..6).filter(|&place| all[place]).collect::<Vec<_>>()
        };
        for place in 0..3 {
            assert_eq!(of(place), [0, 1, 2]);
        }
        assert_eq!(of(3), [3]);
        assert_eq!(of(5), [4, 5]);
        assert_eq!(comparisons.with_compared(vec![false; 6]), [false; 6]);
    }
}
