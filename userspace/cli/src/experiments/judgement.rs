// SPDX-License-Identifier: MIT OR Apache-2.0

//! The judgement of an experiment as text.

use weft_lab::experiment::{Claim, Experiment, Judged, Judgement, MARK, Marks, Verdict, Why};

use crate::compare::table::{show, show_beside};
use crate::cures;
use crate::output;

/// The text.
pub(crate) fn text(judgement: &Judgement, marks: &Marks) -> String {
    let mut head = format!("{}: {}", judgement.experiment, judgement.title);
    if !judgement.source.is_empty() {
        head += &format!("\n{}", judgement.source);
    }
    let mut parts = vec![head];
    for table in &judgement.tables {
        let rows = table.rows.iter().map(|row| {
            let cells = row.cells.iter().enumerate();
            let cells = cells.map(|(place, cell)| marks.cell(row, place, &show(*cell)));
            marks.labels(table, row).into_iter().chain(cells).collect()
        });
        parts.push(format!(
            "{}\n{}",
            marks.title(table),
            output::table(&table.head, rows)
        ));
    }
    let rows = judgement
        .claims
        .iter()
        .map(|claim| row(claim, marks).into());
    if !judgement.claims.is_empty() {
        parts.push(output::list(
            ["claim", "paper", "asked", "measured", ""],
            rows,
        ));
    }
    parts.extend(of_what(judgement));
    let mut last = count(judgement);
    if judgement.missing > 0 {
        let all = judgement.missing + judgement.runs.len();
        last += &format!("; {} of {all} runs have no results", judgement.missing);
    }
    for run in &judgement.runs {
        for reason in &run.reasons {
            last += &format!("\nINVALID {}: {reason}", run.file);
        }
    }
    for cure in cures::of(judgement.runs.iter().flat_map(|run| &run.reasons)) {
        last += &format!("\ncure: {cure}");
    }
    parts.push(last);
    parts.extend(note(judgement, marks));
    parts.extend(sample_note(judgement, marks));
    parts.join("\n\n")
}

/// The number of claims that hold, and of undecided ones. Claims with a limit that weft chose are
/// also counted apart.
pub(crate) fn count(judgement: &Judgement) -> String {
    let claims = &judgement.claims;
    if claims.is_empty() {
        return "no claims to judge".to_owned();
    }
    let of = |verdict| claims.iter().filter(|it| it.verdict == verdict).count();
    let mut text = format!("{} of {} claims hold", of(Verdict::Holds), claims.len());
    match of(Verdict::Undecided) {
        0 => {}
        1 => text += ", 1 is undecided",
        more => text += &format!(", {more} are undecided"),
    }
    let (own, paper): (Vec<_>, Vec<_>) = claims.iter().partition(|it| it.own_limit);
    if !own.is_empty() && paper.is_empty() {
        text += " (weft chose the limits)";
    } else if !own.is_empty() {
        let [paper, own] = [paper, own].map(|claims| held(&claims));
        text += &format!(" ({paper} with the paper's limit, {own} with a limit of weft's)");
    }
    text
}

/// How many of these hold: `3 of 4`.
pub(super) fn held(claims: &[&Judged]) -> String {
    let holds = claims.iter().filter(|it| it.verdict == Verdict::Holds);
    format!("{} of {}", holds.count(), claims.len())
}

/// Why a claim does not hold, or is undecided or not judged, as far as the experiment says.
pub(super) fn why<'a>(claim: &'a Claim, judged: &Judged) -> Option<Why<'a>> {
    claim.why().filter(|_| judged.verdict != Verdict::Holds)
}

/// All causes that the experiment states for such claims: the claim, a remark if its cause was not
/// tested, and the cause.
pub(crate) fn causes<'a>(
    experiment: &'a Experiment,
    judgement: &Judgement,
) -> Vec<(&'a str, &'static str, &'a str)> {
    let claims = experiment.description.claims.iter();
    let claims = claims.zip(&judgement.claims).filter_map(|(claim, judged)| {
        let why = why(claim, judged)?;
        let doubt = match why {
            Why::Tested(_) => "",
            Why::Suspected(_) => " (not tested)",
        };
        Some((claim.says.as_str(), doubt, why.says()))
    });
    claims.collect()
}

/// The meaning of the mark, if there is one.
pub(crate) fn note(judgement: &Judgement, marks: &Marks) -> Option<String> {
    let stale = marks.count();
    (stale > 0).then(|| {
        format!(
            "{MARK} {} not known to be current: what decides them has changed since, or is not known. `weft experiments \
             stale {}` lists it.",
            of_all(stale, judgement),
            judgement.experiment
        )
    })
}

/// What a sample says about runs, if they rest on one.
pub(crate) fn sample_note(judgement: &Judgement, marks: &Marks) -> Option<String> {
    let sampled = marks.sampled();
    (sampled > 0).then(|| {
        format!(
            "{} current by a sample: what decides them has changed since; of all runs with the same change, some were \
             drawn at random and repeated, and all of these gave the same bytes.",
            of_all(sampled, judgement)
        )
    })
}

/// `3 of 15 runs are`.
fn of_all(count: usize, judgement: &Judgement) -> String {
    let are = if count == 1 { "is" } else { "are" };
    format!("{count} of {} runs {are}", judgement.runs.len())
}

/// The seeds in words: long sequences without a gap by their ends.
pub(super) fn seeds(seeds: &[u64]) -> String {
    let follows = |two: &[u64]| two[0].checked_add(1) == Some(two[1]);
    match seeds {
        [only] => format!("seed {only}"),
        [first, .., last] if seeds.len() > 5 && seeds.windows(2).all(follows) => {
            format!("seeds {first} to {last}")
        }
        _ => {
            let all: Vec<String> = seeds.iter().map(u64::to_string).collect();
            format!("seeds {}", all.join(", "))
        }
    }
}

/// The runs that the figures rest on, if there are any.
pub(crate) fn of_what(judgement: &Judgement) -> Option<String> {
    if judgement.seeds.is_empty() {
        return None;
    }
    let mut text = seeds(&judgement.seeds);
    let range = |least: String, most: String| match least == most {
        true => most,
        false => format!("{least} to {most}"),
    };
    if let Some((least, most)) = judgement.flows {
        let flows = range(least.to_string(), most.to_string());
        text += &format!("; {flows} flows measured in a run");
    }
    if let Some((least, most)) = judgement.offered {
        let load = range(format!("{least:.2}"), format!("{most:.2}"));
        text += &format!("; offered load {load} times the requested load");
    }
    Some(text)
}

/// The claim, the paper's value, the criterion, the measured value, and the verdict.
pub(crate) fn row(claim: &Judged, marks: &Marks) -> [String; 5] {
    let unit = match claim.unit.as_str() {
        "" => String::new(),
        unit => format!(" {unit}"),
    };
    let at = claim
        .at
        .iter()
        .map(|(name, value)| format!("{name} {value}"));
    let at = at.collect::<Vec<_>>().join(", ");
    let mut measured = show_beside(claim.measured, &claim.limits);
    if claim.measured.is_some() {
        measured += &unit;
        if !at.is_empty() {
            measured += &format!(" at {at}");
        }
    }
    let verdict = match claim.verdict {
        Verdict::Holds => "holds",
        Verdict::Fails => "DOES NOT HOLD",
        Verdict::Undecided => "UNDECIDED",
        Verdict::NotMeasured => "NOT MEASURED",
        Verdict::Invalid => "INVALID",
    };
    let whose = if claim.own_limit { " (weft's)" } else { "" };
    let asked = format!("{}{unit}{whose}", claim.asked);
    [
        claim.says.clone(),
        claim.paper.clone(),
        asked,
        measured,
        marks.verdict(claim, verdict),
    ]
}
