// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft experiments claims`: how many claims hold, by paper.

use anyhow::Result;
use serde::Serialize;
use weft_lab::error::usage;
use weft_lab::experiment::{self, Experiment, Judged, MARK, Marks, Verdict, names};

use super::{judgement, stale};
use crate::output;

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
    /// The row of a table of claims.
    #[serde(skip)]
    row: [String; 5],
}

/// Counts the claims of kept results by paper, or lists those that do not hold.
///
/// # Errors
///
/// If an experiment does not exist.
pub(crate) fn list(chosen: &[String], open: bool, json: bool) -> Result<()> {
    let all = names();
    if let Some(name) = chosen.iter().find(|name| !all.contains(&name.as_str())) {
        return usage(format!(
            "there is no experiment `{name}`; `weft experiments` lists them"
        ));
    }
    let mut claims = Vec::new();
    let mut missing = Vec::new();
    for name in all {
        if !chosen.is_empty() && !chosen.iter().any(|it| it == name) {
            continue;
        }
        let experiment = Experiment::find(name)?;
        match experiment::kept(&experiment)? {
            Some(kept) => {
                let marks = Marks::new(&stale::states(&experiment, &kept)?);
                let paper = experiment.description.paper;
                claims.extend(kept.claims.into_iter().map(|judged| Claim {
                    experiment: name,
                    paper: paper.clone(),
                    current: marks.verdict(&judged, "").is_empty(),
                    row: judgement::row(&judged, &marks),
                    judged,
                }));
            }
            None => missing.push(name),
        }
    }
    if open {
        claims.retain(|claim| claim.judged.verdict != Verdict::Holds);
    }
    if json {
        return output::json(&claims);
    }
    output::print(match open {
        true => listed(claims, &missing),
        false => counted(&claims, &missing),
    })
}

fn listed(claims: Vec<Claim>, missing: &[&str]) -> String {
    if claims.is_empty() {
        let all = "all claims of kept results hold".to_owned();
        return paragraphs([Some(all), without_results(missing)]);
    }
    let head = ["experiment", "claim", "paper", "asked", "measured", ""];
    let rows = claims.into_iter().map(|claim| {
        let name = std::iter::once(claim.experiment.to_owned());
        name.chain(claim.row).collect()
    });
    output::list(head, rows)
}

fn counted(claims: &[Claim], missing: &[&str]) -> String {
    let mut papers: Vec<&str> = Vec::new();
    for claim in claims {
        if !papers.contains(&claim.paper.as_str()) {
            papers.push(&claim.paper);
        }
    }
    // Comparisons of weft's own come last.
    papers.sort_by_key(|paper| (paper.is_empty(), *paper));
    let of = |paper: &str| -> Vec<&Claim> {
        let same = claims.iter().filter(|claim| claim.paper == paper);
        same.collect()
    };
    let mut rows: Vec<Vec<String>> = papers
        .iter()
        .map(|paper| match paper.is_empty() {
            true => row("weft's own comparisons", &of(paper)),
            false => row(paper, &of(paper)),
        })
        .collect();
    if papers.len() > 1 {
        rows.push(row("all", &claims.iter().collect::<Vec<_>>()));
    }
    let head = [
        "claims of",
        "hold",
        "paper's limit",
        "weft's limit",
        "undecided",
        "do not hold",
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

/// `14 of 19` hold in all, and with either kind of limit; the number of undecided ones, and of
/// those that do not hold.
fn row(name: &str, claims: &[&Claim]) -> Vec<String> {
    let count = |which: &dyn Fn(&Claim) -> bool| {
        let chosen: Vec<_> = claims.iter().filter(|claim| which(claim)).collect();
        let holds = chosen
            .iter()
            .filter(|claim| claim.judged.verdict == Verdict::Holds);
        match chosen.len() {
            0 => "–".to_owned(),
            all => format!("{} of {all}", holds.count()),
        }
    };
    let undecided = |claim: &&&Claim| claim.judged.verdict == Verdict::Undecided;
    let holds = |claim: &&&Claim| claim.judged.verdict == Verdict::Holds;
    let open = claims.iter().filter(undecided).count();
    let held = claims.iter().filter(holds).count();
    vec![
        name.to_owned(),
        count(&|_| true),
        count(&|claim| !claim.judged.own_limit),
        count(&|claim| claim.judged.own_limit),
        open.to_string(),
        (claims.len() - held - open).to_string(),
    ]
}
