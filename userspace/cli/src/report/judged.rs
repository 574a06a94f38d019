// SPDX-License-Identifier: MIT OR Apache-2.0

//! An experiment as a page: the findings with their reasons, its claims, its tables with a picture
//! of each, and the command of every run.

use anyhow::Result;
use maud::{Markup, PreEscaped, html};
use weft_lab::experiment::{Experiment, FilledTable, Judgement, Marks, Verdict};

use super::dots::panels;
use super::frame::Picture as _;
use super::page::{self, prose};
use super::words::capitalized;
use crate::compare::table::show;
use crate::experiments::judgement;

/// The whole page of one experiment.
///
/// # Errors
///
/// If a picture cannot be drawn.
pub(crate) fn page(experiment: &Experiment, judged: &Judgement, marks: &Marks) -> Result<String> {
    let drawn = drawn(experiment, judged, marks, "")?;
    let findings = findings(experiment);
    let rest = rest(experiment, judged, marks, "")?;
    let body = html! {
        h1 { (judged.title) }
        (source(judged))
        (page::alarm(&invalid(judged)))
        (standing(judged, marks, ""))
        @for (_, picture) in &drawn { (picture) }
        @if let Some(findings) = &findings { section #findings { h2 { "What was found" } (findings) } }
        (rest)
    };
    Ok(page::with_script(&judged.title, body))
}

/// Where the figures to compare with come from.
pub(super) fn source(judged: &Judgement) -> Markup {
    html! { @if !judged.source.is_empty() { p .quiet { (prose(&judged.source)) } } }
}

/// The experiment's pictures, each with its name. `of` begins the names where a page has several
/// experiments.
///
/// # Errors
///
/// If a picture has several figures for one point.
pub(super) fn drawn(
    experiment: &Experiment,
    judged: &Judgement,
    marks: &Marks,
    of: &str,
) -> Result<Vec<(String, Markup)>> {
    let count = judged.runs.len();
    let (pictures, curves) = (experiment.pictures(judged)?, experiment.curves(judged)?);
    let pictures = pictures.into_iter().map(|it| {
        let on_page = marks.picture(&it).on_page(count, of);
        (it.name, on_page)
    });
    let curves = curves.into_iter().map(|it| {
        let on_page = marks.curves(&it).on_page(count, of);
        (it.name, on_page)
    });
    Ok(pictures.chain(curves).collect())
}

/// A paragraph for each finding; `None` if there is none.
pub(super) fn findings(experiment: &Experiment) -> Option<Markup> {
    let findings = &experiment.description.findings;
    (!findings.is_empty()).then(|| {
        html! {
            @for finding in findings {
                p { strong { (prose(&finding.lead())) } " " (prose(&finding.says)) }
            }
        }
    })
}

/// The tables, claims, description and commands. `of` is as for [`drawn`].
///
/// # Errors
///
/// If a picture cannot be drawn.
pub(super) fn rest(
    experiment: &Experiment,
    judged: &Judgement,
    marks: &Marks,
    of: &str,
) -> Result<Markup> {
    let count = judged.runs.len();
    let tables = judged.tables.iter().map(|it| table(it, marks, count));
    let tables: Vec<Markup> = tables.collect::<Result<_>>()?;
    let about = &experiment.description.about;
    Ok(html! {
        @for table in &tables { (table) }
        @if !judged.claims.is_empty() { (claims(experiment, judged, marks, of)) }
        @if !about.is_empty() {
            section id={ (of) "about" } {
                h2 { "What was run" }
                @for paragraph in about.split("\n\n") { p { (prose(paragraph)) } }
            }
        }
        (commands(judged, of))
    })
}

/// The runs whose figures are not the fabric's, and why.
pub(super) fn invalid(judged: &Judgement) -> Vec<String> {
    let of_run = judged.runs.iter().flat_map(|run| {
        let reasons = run.reasons.iter();
        reasons.map(move |reason| format!("{}: {reason}", run.file))
    });
    of_run.collect()
}

/// How many claims hold, how many runs were judged, and how many runs are stale or current by a
/// sample. `of` is as for [`drawn`].
pub(super) fn standing(judged: &Judgement, marks: &Marks, of: &str) -> Markup {
    html! {
        p {
            strong { (judgement::count(judged)) } "."
            @if let Some(runs) = judgement::of_what(judged) { " " (capitalized(&runs)) "." }
        }
        @if let Some(note) = judgement::note(judged, marks) {
            p .invalid id={ (of) "stale" } { (prose(&note)) }
        }
        @if let Some(note) = judgement::sample_note(judged, marks) { p .quiet { (prose(&note)) } }
    }
}

/// A picture of each column, and the same data as a table. `count` is the number of runs.
fn table(table: &FilledTable, marks: &Marks, count: usize) -> Result<Markup> {
    let panels = panels(&marks.table(table), count)?;
    let figures = table.rows.first().map_or(0, |row| row.cells.len());
    let labels = table.head.len() - figures;
    Ok(html! {
        figure {
            h2 { (marks.title(table)) }
            @if !panels.is_empty() {
                div .panels .small role="img" aria-label=(table.title) {
                    @for svg in panels { div .panel { (PreEscaped(svg)) } }
                }
            }
            details {
                summary { "In numbers" }
                div .scroll {
                    table {
                        thead { tr {
                            @for (place, name) in table.head.iter().enumerate() {
                                th .number[place >= labels] scope="col" { (name) }
                            }
                        } }
                        tbody {
                            @for row in &table.rows {
                                tr {
                                    @for label in marks.labels(table, row) { th scope="row" { (label) } }
                                    @for (place, cell) in row.cells.iter().enumerate() {
                                        td .number { (marks.cell(row, place, &show(*cell))) }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    })
}

/// The papers' claims beside the measured values.
fn claims(experiment: &Experiment, judged: &Judgement, marks: &Marks, of: &str) -> Markup {
    let causes = judgement::causes(experiment, judged);
    html! {
        section .claims id={ (of) "claims" } {
            h2 { "Claims" }
            p .quiet { "A claim holds if all of the 95 % interval does, in every group of runs that it is about: "
                "the one that is farthest from it is shown." }
            div .scroll {
                table {
                    thead { tr { @for name in ["claim", "paper", "asked", "measured", ""] { th scope="col" { (name) } } } }
                    tbody {
                        @for claim in &judged.claims {
                            @let [says, paper, asked, measured, verdict] = judgement::row(claim, marks);
                            tr {
                                th scope="row" { (prose(&says)) }
                                td { (prose(&paper)) }
                                td .limit { (asked) }
                                td { (measured) }
                                td .invalid[claim.verdict != Verdict::Holds] { (verdict) }
                            }
                        }
                    }
                }
            }
            @if !causes.is_empty() {
                details {
                    summary { "Why claims do not hold" }
                    @for (claim, doubt, says) in causes {
                        p { strong { (prose(claim)) } (doubt) ": " (prose(says)) }
                    }
                }
            }
        }
    }
}

/// For each run, its command and the expected hash of its results.
fn commands(judged: &Judgement, of: &str) -> Markup {
    html! {
        section id={ (of) "reproduce" } {
            h2 { "How to reproduce it" }
            pre { "weft run " (judged.experiment) }
            p .quiet { "It runs what has no results yet, in virtual time, and judges again. A single run gives the same "
                "results to the byte with the same weft and kernel:" }
            details {
                summary { (judged.runs.len()) " runs, each with the SHA-256 of its results" }
                pre .runs { @for run in &judged.runs { (run.command) "\n# " (run.sha256) "\n" } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weft_lab::experiment::{self, MARK, Row, State};
    use weft_lab::results::Estimate;

    use super::*;

    #[test]
    fn a_page_has_all_verdicts_and_the_command_that_repeats_them() {
        let name = experiment::names()
            .into_iter()
            .find(|name| {
                let experiment = experiment::named(name).unwrap().unwrap();
                experiment::kept(&experiment).unwrap().is_some()
            })
            .unwrap();
        let experiment = experiment::named(name).unwrap().unwrap();
        let mut judged = experiment::kept(&experiment).unwrap().unwrap();
        let marks = Marks::none(&judged);
        let page = super::page(&experiment, &judged, &marks).unwrap();
        assert!(!page.contains("INVALID") && !page.contains(MARK), "{page}");
        for said in [
            &judged.title,
            &judged.runs[0].sha256,
            &judged.claims[0].says,
        ] {
            assert!(page.contains(&html! { (said) }.into_string()), "{said}");
        }
        assert_eq!(page.matches("<figure>").count(), judged.tables.len());
        judged.runs[0].reasons = vec!["a gate: 2, expected at most 1".to_owned()];
        let marks = Marks::new(&vec![State::Sampled; judged.runs.len()]);
        let page = super::page(&experiment, &judged, &marks).unwrap();
        assert!(page.contains("current by a sample") && !page.contains(MARK));
        let marks = Marks::new(&vec![State::Unknown; judged.runs.len()]);
        let page = super::page(&experiment, &judged, &marks).unwrap();
        let title = format!("<h2>{} {MARK}</h2>", judged.tables[0].title);
        assert!(page.contains(&title) && page.contains("not known to be current"));
        assert!(page.contains("INVALID") && page.contains("a gate: 2, expected"));
    }

    #[test]
    fn a_table_without_figures_has_no_picture() {
        let row = |cell: Option<Estimate>| FilledTable {
            title: "Losses".to_owned(),
            head: vec!["scheme".to_owned(), "loss".to_owned()],
            rows: vec![Row {
                labels: vec!["pfabric".to_owned()],
                cells: vec![cell],
                rests_on: Vec::new(),
            }],
        };
        let marks = Marks::new(&[]);
        let measured = Estimate {
            value: 2.5,
            half_width: None,
            low: None,
            high: None,
        };
        let text = table(&row(None), &marks, 0).unwrap().into_string();
        assert!(!text.contains("<svg") && text.contains("pfabric"), "{text}");
        let text = table(&row(Some(measured)), &marks, 0)
            .unwrap()
            .into_string();
        assert!(text.contains("<svg") && text.contains("2.5"), "{text}");
    }
}
