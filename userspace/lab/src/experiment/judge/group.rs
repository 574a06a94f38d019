// SPDX-License-Identifier: MIT OR Apache-2.0

//! Groups of runs that differ only in the seed, and their figures.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

use super::Values;
use crate::experiment::figure::Subject;
use crate::experiment::found::Done;
use crate::experiment::measure::{Measure, OverSeeds};
use crate::results::{Estimate, deviation, difference, estimate, quotient};

/// The combination of a figure and another.
#[derive(Clone, Copy)]
pub(super) enum Relation {
    /// Their quotient.
    Over,
    /// Their difference.
    Less,
}

/// Runs that differ only in the seed.
pub(super) struct Group<'a> {
    pub(super) values: &'a Values,
    pub(super) runs: Vec<&'a Done<'a>>,
    /// The indices of their results in [`Judgement::runs`].
    pub(super) places: Vec<usize>,
}

impl Group<'_> {
    fn subjects(&self) -> Vec<Subject<'_>> {
        self.runs.iter().map(|run| run.subject()).collect()
    }

    /// The figure of each run. `None` if one of them has nothing to measure.
    fn figures(&self, measure: &Measure) -> Result<Option<Vec<f64>>> {
        let figure = |run: &&Done<'_>| {
            let figure = measure.of_run(&run.subject());
            figure.with_context(|| run.planned.file.display().to_string())
        };
        self.runs.iter().map(figure).collect()
    }

    pub(super) fn figure(&self, measure: &Measure) -> Result<Option<Estimate>> {
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
    pub(super) fn beside(
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

    pub(super) fn valid(&self) -> bool {
        self.runs.iter().all(|run| run.reasons().is_empty())
    }
}

pub(super) fn groups<'a>(done: &'a [Done<'a>]) -> Vec<Group<'a>> {
    // An ideal is derived from a run of the plan.
    let files = done.iter().filter(of_plan).map(|run| &run.planned.file);
    let places: BTreeMap<_, _> = files.zip(0..).collect();
    let place = |run: &Done<'_>| places.get(&run.planned.file).copied();
    grouped(done.iter().map(|run| (&run.values, place(run), Some(run))))
}

/// Groups runs by their values. For each run: its values, its place, and its results if it is done.
pub(super) fn grouped<'a>(
    all: impl Iterator<Item = (&'a Values, Option<usize>, Option<&'a Done<'a>>)>,
) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for (values, place, run) in all {
        let of_values = |group: &&mut Group<'_>| group.values == values;
        if let Some(group) = groups.iter_mut().find(of_values) {
            group.runs.extend(run);
            group.places.extend(place);
        } else {
            groups.push(Group {
                values,
                runs: run.into_iter().collect(),
                places: place.into_iter().collect(),
            });
        }
    }
    groups
}

pub(super) fn of_plan(run: &&Done<'_>) -> bool {
    run.values == run.planned.values
}
