// SPDX-License-Identifier: MIT OR Apache-2.0

//! An experiment as a page of Markdown: `docs/experiments/NAME.md`.

use std::path::Path;

use anyhow::Result;
use weft_lab::experiment::{Experiment, Judgement, Marks};
use weft_words::file::write_together;

use super::{judgement, pictures};
use crate::output;
use crate::report::Drawn;

/// The folder of a page's pictures, beside the page.
const PICTURES: &str = "pictures";

/// Writes the page, and the pictures that the experiment describes into a folder beside it.
///
/// # Errors
///
/// If a picture has several figures for one point, or a file cannot be written.
pub(crate) fn write(
    path: &Path,
    experiment: &Experiment,
    judged: &Judgement,
    marks: &Marks,
) -> Result<()> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.unwrap_or(&judged.experiment);
    let drawn = pictures::described(experiment, judged, marks)?;
    let folder = path.with_file_name(PICTURES);
    let page = page(experiment, judged, marks, (stem, &drawn));
    write_together(&pictures::files(drawn, &folder, stem))?;
    output::write(path, page.as_bytes())
}

/// The whole page: the description, the findings, the pictures, and the figures as `weft run NAME`
/// prints them. `stem`: how the names of the pictures' files begin.
fn page(
    experiment: &Experiment,
    judged: &Judgement,
    marks: &Marks,
    (stem, drawn): (&str, &[Drawn]),
) -> String {
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
    page += &format!("\n## {figures}\n");
    for picture in drawn {
        let (title, file) = (&picture.title, pictures::file(stem, picture));
        page += &format!("\n![{title}]({PICTURES}/{file})\n");
    }
    page += &format!("\n```console\n{}\n```\n", judgement::text(judged, marks));
    let causes = judgement::causes(experiment, judged);
    if !causes.is_empty() {
        page += "\n## Why claims do not hold\n\n";
        for (claim, doubt, says) in causes {
            page += &format!("- **{claim}**{doubt}: {}\n", indented(says));
        }
    }
    page
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
