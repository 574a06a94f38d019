// SPDX-License-Identifier: MIT OR Apache-2.0

//! The verdict on a claim.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use anyhow::Result;

use super::group::{Group, Relation};
use super::{Judged, Places, Values, Verdict};
use crate::experiment::description::Claim;
use crate::experiment::measure::Measure;
use crate::experiment::selected::selects;
use crate::number::digits;
use crate::results::Estimate;

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
    let ends = figure.low.zip(figure.high);
    // No comparison with NaN is true, so such an end would be within every limit.
    let Some((low, high)) = ends.filter(|(low, high)| low <= high) else {
        return Verdict::Undecided;
    };
    if let Some(target) = claim.equals {
        let precise = high - low <= 2.0 * claim.to() * target.abs();
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

/// The claim's limits in words.
fn asked(claim: &Claim) -> String {
    match (claim.at_least, claim.at_most) {
        _ if claim.equals.is_some() => {
            let target = claim.equals.unwrap_or_default();
            format!(
                "{} (to {} %)",
                all_digits(target),
                digits(100.0 * claim.to())
            )
        }
        (Some(least), Some(most)) => format!("{} to {}", all_digits(least), all_digits(most)),
        (Some(least), None) => format!("≥ {}", all_digits(least)),
        (None, most) => format!("≤ {}", all_digits(most.unwrap_or(f64::INFINITY))),
    }
}

/// The claim's limits, or the value that it asks for.
fn limits(claim: &Claim) -> Vec<f64> {
    let all = [claim.at_least, claim.at_most, claim.equals];
    all.into_iter().flatten().collect()
}

/// A limit, with more digits than a measured figure if it has more.
fn all_digits(limit: f64) -> String {
    let shown = digits(limit);
    match shown.parse() == Ok(limit) {
        true => shown,
        false => limit.to_string(),
    }
}

/// Judges a kept measurement again, if the claim's limits or words have changed since.
pub(in crate::experiment) fn judge_again(claim: &Claim, judged: &mut Judged) {
    judged.says.clone_from(&claim.says);
    judged.paper.clone_from(&claim.paper);
    judged.own_limit = claim.own_limit;
    judged.limits = limits(claim);
    let asked = asked(claim);
    if judged.asked == asked {
        return;
    }
    judged.asked = asked;
    let has_verdict = !matches!(judged.verdict, Verdict::NotMeasured | Verdict::Invalid);
    if let Some(figure) = judged.measured.as_ref().filter(|_| has_verdict) {
        // Of several groups only the one is kept that was the worst: it can refute the claim, and
        // not show that it holds.
        let is_only_group = judged.at.is_empty();
        judged.verdict = match verdict(claim, figure) {
            Verdict::Holds if !is_only_group => Verdict::Undecided,
            verdict => verdict,
        };
    }
}

pub(super) fn judged(
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
        own_limit: claim.own_limit,
        asked: asked(claim),
        limits: limits(claim),
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
