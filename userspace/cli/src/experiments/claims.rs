// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft experiments claims`: how many claims hold, by paper.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use weft_lab::experiment::{self, Experiment, Judged, MARK, Marks, Verdict};

use super::{chosen, judgement, stale};
use crate::{output, progress};

/// A claim of an experiment with kept results.
#[derive(Serialize)]
struct Claim {
    experiment: &'static str,
    /// Its paper; empty for comparisons of weft's own.
    #[serde(rename = "of")]
    paper: String,
    #[serde(flatten)]
    judged: Judged,
    /// Whether all runs that it rests on are known to be current.
    current: bool,
}

/// Counts the claims of kept results by paper, or lists all except those that hold.
///
/// # Errors
///
/// If an experiment does not exist.
pub(crate) fn list(chosen: &[String], open: bool, json: bool) -> Result<()> {
    let mut claims = Vec::new();
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    for name in progress::each("kept results", false, chosen::of_weft(chosen)?) {
        let experiment = Experiment::find(name)?;
        let Some(kept) = experiment::kept(&experiment)? else {
            missing.push(name);
            continue;
        };
        let marks = Marks::new(&stale::states(&experiment, &kept)?);
        for judged in kept.claims {
            if open {
                if judged.verdict == Verdict::Holds {
                    continue;
                }
                let row = judgement::row(&judged, &marks).into_iter();
                rows.push([name.to_owned()].into_iter().chain(row).collect());
            }
            claims.push(Claim {
                experiment: name,
                paper: experiment.description.paper.clone(),
                current: marks.verdict(&judged, "").is_empty(),
                judged,
            });
        }
    }
    if json {
        return output::json(&claims);
    }
    output::print(match open {
        true => listed(rows, &missing),
        false => counted(&claims, &missing),
    })
}

fn listed(rows: Vec<Vec<String>>, missing: &[&str]) -> String {
    if rows.is_empty() {
        let all = "all claims of kept results hold".to_owned();
        return paragraphs([Some(all), without_results(missing)]);
    }
    let head = ["experiment", "claim", "paper", "asked", "measured", ""];
    output::list(head, rows)
}

fn counted(claims: &[Claim], missing: &[&str]) -> String {
    // By paper; comparisons of weft's own come last.
    let mut papers: BTreeMap<(bool, &str), Vec<&Judged>> = BTreeMap::new();
    for claim in claims {
        let key = (claim.paper.is_empty(), claim.paper.as_str());
        papers.entry(key).or_default().push(&claim.judged);
    }
    let name = |(is_own, paper): &(bool, &str)| match is_own {
        true => "weft's own comparisons".to_owned(),
        false => (*paper).to_owned(),
    };
    let of_paper = papers.iter().map(|(paper, of)| row(name(paper), of));
    let mut rows: Vec<Vec<String>> = of_paper.collect();
    if papers.len() > 1 {
        let all: Vec<&Judged> = claims.iter().map(|claim| &claim.judged).collect();
        rows.push(row("all".to_owned(), &all));
    }
    let head = [
        "claims of",
        "hold",
        "paper's limit",
        "weft's limit",
        "undecided",
        "do not hold",
        "not judged",
    ];
    let table = (!rows.is_empty()).then(|| output::table(head, rows));
    let stale = claims.iter().filter(|claim| !claim.current).count();
    let mark = (stale > 0).then(|| {
        format!(
            "{MARK} {stale} of these verdicts rest on runs that are not known to be current; `weft experiments stale` lists \
             them."
        )
    });
    paragraphs([table, mark, without_results(missing)])
}

fn without_results(missing: &[&str]) -> Option<String> {
    (!missing.is_empty()).then(|| format!("Without kept results: {}", missing.join(", ")))
}

fn paragraphs(all: impl IntoIterator<Item = Option<String>>) -> String {
    all.into_iter().flatten().collect::<Vec<_>>().join("\n\n")
}

/// A paper's row: how many claims hold, of all and by kind of limit (`14 of 19`), how many are
/// undecided, how many do not hold, and how many have INVALID runs or nothing to measure.
fn row(name: String, claims: &[&Judged]) -> Vec<String> {
    let (own, paper): (Vec<&Judged>, Vec<&Judged>) = claims.iter().partition(|it| it.own_limit);
    let held = |claims: &[&Judged]| match claims {
        [] => "–".to_owned(),
        _ => judgement::held(claims),
    };
    let count = |is: fn(Verdict) -> bool| {
        let chosen = claims.iter().filter(|claim| is(claim.verdict));
        chosen.count().to_string()
    };
    vec![
        name,
        held(claims),
        held(&paper),
        held(&own),
        count(|it| it == Verdict::Undecided),
        count(|it| it == Verdict::Fails),
        count(|it| matches!(it, Verdict::NotMeasured | Verdict::Invalid)),
    ]
}
