// SPDX-License-Identifier: MIT OR Apache-2.0

//! An experiment as a page of Markdown: `docs/experiments/NAME.md`.

use weft_lab::experiment::{Experiment, Judgement, Marks};

use super::judgement;

/// The whole page: the description, the findings, and the figures as `weft run NAME` prints them.
pub(crate) fn page(experiment: &Experiment, judged: &Judgement, marks: &Marks) -> String {
    let name = &judged.experiment;
    let mut page = format!(
        "<!-- Written by `weft run {name} --kept --page {name}.md`. -->\n\n# {name}\n\n{}\n",
        sentence(&judged.title),
    );
    if !judged.source.is_empty() {
        page += &format!("\nSource: {}.\n", judged.source.trim_end_matches('.'));
    }
    page += &format!("\n    weft run {name}\n");
    let about = experiment.description.about.trim();
    if !about.is_empty() {
        page += &format!("\n## What was run\n\n{about}\n");
    }
    let findings = &experiment.description.findings;
    if !findings.is_empty() {
        page += "\n## What was found\n\n";
        for finding in findings {
            page += &format!("- **{}** {}\n", finding.lead(), indented(&finding.says));
        }
    }
    let figures = match judged.claims.is_empty() {
        true => "Figures",
        false => "Figures and claims",
    };
    page + &format!(
        "\n## {figures}\n\n```console\n{}\n```\n",
        judgement::text(judged, marks)
    )
}

fn sentence(text: &str) -> String {
    match text.ends_with(['.', '?', '!']) {
        true => text.to_owned(),
        false => format!("{text}."),
    }
}

/// A paragraph, indented as a continuation of a list item.
fn indented(says: &str) -> String {
    says.trim().replace('\n', "\n  ")
}
