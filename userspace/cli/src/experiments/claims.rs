// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft experiments claims`: how many claims hold, by paper.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use weft_lab::experiment::{self, Experiment, Judged, MARK, Marks, Verdict, Why};

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
    /// Why it does not hold, and whether that was tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    why: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tested: Option<bool>,
}

/// Counts the claims of kept results by paper, or lists all except those that hold.
///
/// # Errors
///
/// If an experiment does not exist.
pub(crate) fn list(chosen: &[String], open: bool, json: bool) -> Result<()> {
    let mut claims = Vec::new();
    let mut blocks = Vec::new();
    let mut missing = Vec::new();
    for name in progress::each("kept results", false, chosen::of_weft(chosen)?) {
        let experiment = Experiment::find(name)?;
        let Some(kept) = experiment::kept(&experiment)? else {
            missing.push(name);
            continue;
        };
        let marks = Marks::new(&stale::states(&experiment, &kept)?);
        let described = &experiment.description.claims;
        for (judged, claim) in kept.claims.into_iter().zip(described) {
            let why = judgement::why(claim, &judged);
            if open {
                if judged.verdict == Verdict::Holds {
                    continue;
                }
                blocks.push(block(name, &judged, &marks, why));
            }
            claims.push(Claim {
                experiment: name,
                paper: experiment.description.paper.clone(),
                current: marks.verdict(&judged, "").is_empty(),
                why: why.map(|why| why.says().to_owned()),
                tested: why.map(Why::is_tested),
                judged,
            });
        }
    }
    if json {
        return output::json(&claims);
    }
    output::print(match open {
        true if blocks.is_empty() => {
            let all = "all claims of kept results hold".to_owned();
            paragraphs([Some(all), without_results(&missing)])
        }
        true => blocks.join("\n\n"),
        false => counted(&claims, &missing),
    })
}

/// A claim that does not hold, in several lines.
fn block(experiment: &str, judged: &Judged, marks: &Marks, why: Option<Why<'_>>) -> String {
    let [says, paper, asked, measured, verdict] = judgement::row(judged, marks);
    let lines = [
        ("paper", paper),
        ("asked", asked),
        ("measured", format!("{measured}: {verdict}")),
    ];
    let why = why.map(|why| {
        let word = if why.is_tested() {
            "cause"
        } else {
            "not tested"
        };
        (word, why.says().replace('\n', " "))
    });
    let lines = lines.into_iter().chain(why);
    let lines = lines.map(|(word, text)| vec![format!("  {word}"), text]);
    format!("{experiment}: {says}\n{}", output::definitions(lines))
}

fn counted(claims: &[Claim], missing: &[&str]) -> String {
    // By paper; comparisons of weft's own come last.
    let mut papers: BTreeMap<(bool, &str), Vec<&Claim>> = BTreeMap::new();
    for claim in claims {
        let key = (claim.paper.is_empty(), claim.paper.as_str());
        papers.entry(key).or_default().push(claim);
    }
    let name = |(is_own, paper): &(bool, &str)| match is_own {
        true => "weft's own comparisons".to_owned(),
        false => (*paper).to_owned(),
    };
    let of_paper = papers.iter().map(|(paper, of)| row(name(paper), of));
    let mut rows: Vec<Vec<String>> = of_paper.collect();
    if papers.len() > 1 {
        let all: Vec<&Claim> = claims.iter().collect();
        rows.push(row("all".to_owned(), &all));
    }
    let head = [
        "claims of",
        "hold",
        "paper's limit",
        "weft's limit",
        "undecided",
        "do not hold",
        "cause tested",
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
/// undecided, how many do not hold, of how many of these the cause was tested, and how many have
/// INVALID runs or nothing to measure.
fn row(name: String, claims: &[&Claim]) -> Vec<String> {
    let judged: Vec<&Judged> = claims.iter().map(|claim| &claim.judged).collect();
    let (own, paper): (Vec<&Judged>, Vec<&Judged>) = judged.iter().partition(|it| it.own_limit);
    let held = |claims: &[&Judged]| match claims {
        [] => "–".to_owned(),
        _ => judgement::held(claims),
    };
    let count = |is: &dyn Fn(Verdict) -> bool| {
        let chosen = judged.iter().filter(|claim| is(claim.verdict));
        chosen.count().to_string()
    };
    let tested = claims
        .iter()
        .filter(|claim| claim.judged.verdict == Verdict::Fails && claim.tested == Some(true));
    vec![
        name,
        held(&judged),
        held(&paper),
        held(&own),
        count(&|it| it == Verdict::Undecided),
        count(&|it| it == Verdict::Fails),
        tested.count().to_string(),
        count(&|it| matches!(it, Verdict::NotMeasured | Verdict::Invalid)),
    ]
}
