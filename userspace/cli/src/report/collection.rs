// SPDX-License-Identifier: MIT OR Apache-2.0

//! Several experiments on one page, for people with five minutes: of each a few sentences and its
//! pictures, and the rest to unfold.

use anyhow::{Context as _, Result, bail};
use maud::{Markup, html};
use weft_lab::experiment::{Experiment, Judgement, MARK, Marks, Row};
use weft_lab::results::Estimate;

use super::judged;
use super::page::{self, prose};
use crate::compare::table::show;

/// An experiment of the page.
pub(crate) struct Part {
    pub(crate) title: String,
    pub(crate) experiment: Experiment,
    pub(crate) judged: Judgement,
    pub(crate) marks: Marks,
    /// The names of the pictures that are shown at once.
    pub(crate) pictures: Vec<String>,
    /// Sentences with references to figures: see [`told`].
    pub(crate) says: Vec<String>,
}

/// The whole page. `lead` comes before the parts, and `remains` after them: what the page does not
/// answer.
///
/// # Errors
///
/// If a picture cannot be drawn, or a sentence refers to a figure that does not exist.
pub(crate) fn page(
    (title, lead): (&str, &str),
    parts: &[Part],
    remains: &[String],
) -> Result<String> {
    let articles: Vec<Markup> = parts.iter().map(article).collect::<Result<_>>()?;
    let body = html! {
        h1 { (title) }
        @if !lead.is_empty() {
            @for paragraph in lead.trim().split("\n\n") { p { (prose(paragraph)) } }
        }
        nav { ol { @for part in parts { li { a href={ "#" (part.experiment.name) } { (part.title) } } } } }
        @for article in &articles { (article) }
        @if !remains.is_empty() {
            section #remains {
                h2 { "What this page does not answer" }
                ul { @for it in remains { li { (prose(it)) } } }
            }
        }
    };
    Ok(page::with_script(title, body))
}

fn article(part: &Part) -> Result<Markup> {
    let Part {
        experiment,
        judged,
        marks,
        ..
    } = part;
    let name = &experiment.name;
    let of = format!("{name}-");
    let told = |sentence: &String| {
        told(sentence, judged, marks).with_context(|| format!("{name}: `{sentence}`"))
    };
    let said: Vec<Markup> = part.says.iter().map(told).collect::<Result<_>>()?;
    let drawn = judged::drawn(experiment, judged, marks, &of)?;
    let is_missing = |wanted: &&String| !drawn.iter().any(|(name, _)| name == *wanted);
    if let Some(missing) = part.pictures.iter().find(is_missing) {
        bail!("{name} has no picture `{missing}`");
    }
    // Without sentences, all are shown.
    let is_first = |name: &String| said.is_empty() || part.pictures.contains(name);
    let (first, others): (Vec<_>, Vec<_>) = drawn.into_iter().partition(|(name, _)| is_first(name));
    let found = judged::findings(experiment).unwrap_or_default();
    let rest = judged::rest(experiment, judged, marks, &of)?;
    Ok(html! {
        article id=(name) {
            h2 { (part.title) }
            (page::alarm(&judged::invalid(judged)))
            @if said.is_empty() { (found) } @else { ul { @for sentence in &said { li { (sentence) } } } }
            @for (_, picture) in &first { (picture) }
            details {
                summary { "All figures, claims and commands of " code { "weft run " (name) } }
                (judged::source(judged))
                (judged::standing(judged, marks, &of))
                @for (_, picture) in &others { (picture) }
                @if !said.is_empty() { (found) }
                (rest)
            }
        }
    })
}

/// A sentence with the figures that it refers to.
///
/// `{COLUMN @ LABEL; LABEL…}` stands for the figure in this column and in the row with these
/// labels, of the first table that has both. A column's unit may be left out. `{A / B}` is a ratio
/// of two figures; `B` may be labels only, with the column of `A`.
fn told(sentence: &str, judged: &Judgement, marks: &Marks) -> Result<Markup> {
    let mut pieces = Vec::new();
    let mut rest = sentence;
    while let Some((before, after)) = rest.split_once('{') {
        let (reference, after) = after.split_once('}').context("a `{` without a `}`")?;
        pieces.push((before, figure(reference, judged, marks)?));
        rest = after;
    }
    Ok(html! {
        @for (text, figure) in &pieces {
            (prose(text)) (figure)
        }
        (prose(rest))
    })
}

/// A figure or a ratio of two. Pointing at it shows its labels and intervals.
fn figure(reference: &str, judged: &Judgement, marks: &Marks) -> Result<Markup> {
    let (of, over) = match reference.split_once(" / ") {
        Some((of, over)) => (of, Some(over)),
        None => (reference, None),
    };
    let (column, labels) = of
        .split_once(" @ ")
        .with_context(|| format!("`{of}`: not COLUMN @ LABELS"))?;
    let found = find(column, labels, judged)?;
    let over = over.map(|over| {
        let (column, labels) = over.split_once(" @ ").unwrap_or((column, over));
        find(column, labels, judged)
    });
    let over = over.transpose()?;
    let value = found.figure.value / over.as_ref().map_or(1.0, |over| over.figure.value);
    let cells = || std::iter::once(&found).chain(&over);
    let is_stale = cells().any(|it| marks.of_cell(it.row, it.place));
    let intervals: Vec<String> = cells().map(|it| it.said.clone()).collect();
    Ok(html! {
        span .figure title=(intervals.join("; ")) { (rounded(value)) @if is_stale { " " (MARK) } }
    })
}

struct Cell<'a> {
    row: &'a Row,
    place: usize,
    figure: Estimate,
    /// Its column, its labels and its interval.
    said: String,
}

fn find<'a>(column: &str, labels: &str, judged: &'a Judgement) -> Result<Cell<'a>> {
    let wanted: Vec<&str> = labels.split("; ").map(str::trim).collect();
    let is_column = |head: &String| {
        head == column
            || head
                .strip_prefix(column)
                .is_some_and(|unit| unit.starts_with(" ("))
    };
    for table in &judged.tables {
        let Some(at) = table.head.iter().position(is_column) else {
            continue;
        };
        let is_row = |row: &&Row| {
            let has = |label: &&str| row.labels.iter().any(|it| it == label);
            wanted.iter().all(has)
        };
        for row in table.rows.iter().filter(is_row) {
            // The labels' columns come first.
            let Some(place) = (at + row.cells.len()).checked_sub(table.head.len()) else {
                continue;
            };
            if let Some(figure) = row.cells[place] {
                let said = format!("{column}, {labels}: {}", show(Some(figure)));
                return Ok(Cell {
                    row,
                    place,
                    figure,
                    said,
                });
            }
        }
    }
    bail!("no table has a figure `{column}` of `{labels}`")
}

/// To three digits, or to the last one before the point.
fn rounded(value: f64) -> String {
    show(Some(Estimate::alone(value)))
}

#[cfg(test)]
mod tests {
    use weft_lab::experiment;

    use super::*;

    fn kept(name: &str) -> Judgement {
        let experiment = Experiment::find(name).unwrap();
        experiment::kept(&experiment).unwrap().unwrap()
    }

    fn said(sentence: &str) -> Result<String> {
        let judged = kept("fair-queueing");
        let marks = Marks::none(&judged);
        told(sentence, &judged, &marks).map(Markup::into_string)
    }

    #[test]
    fn a_sentence_has_figures_and_ratios_with_their_intervals() {
        let judged = kept("fair-queueing");
        let of = |labels| find("all, mean", labels, &judged).unwrap().figure;
        let (ours, linux) = (of("ideal-fq"), of("ideal-fq-linux"));
        let said = said(
            "`fq`: {all, mean @ ideal-fq}, {all, mean @ ideal-fq / ideal-fq-linux} times, \
             {all, mean @ ideal-fq / all, mean @ ideal-fq}, {buffer, P99 @ ideal-fq} kB",
        )
        .unwrap();
        assert!(said.starts_with("<code>fq</code>: <span"), "{said}");
        for figure in [ours.value, ours.value / linux.value, 1.0] {
            assert!(
                said.contains(&format!(">{}</span>", rounded(figure))),
                "{said}"
            );
        }
        let interval = format!("all, mean, ideal-fq: {}", show(Some(ours)));
        assert!(said.contains(&interval), "{said}");
        assert!(said.ends_with(" kB"), "{said}");
    }

    #[test]
    fn a_figure_that_does_not_exist_is_an_error_that_names_it() {
        for (sentence, says) in [
            (
                "{all, mean @ bfc}",
                "no table has a figure `all, mean` of `bfc`",
            ),
            ("{size @ ideal-fq}", "no table has a figure `size`"),
            ("{all, mean @ ideal-fq / bfc}", "of `bfc`"),
            ("{all, mean}", "`all, mean`: not COLUMN @ LABELS"),
            ("{all, mean @ ideal-fq", "a `{` without a `}`"),
        ] {
            let error = said(sentence).unwrap_err().to_string();
            assert!(error.contains(says), "{sentence}: {error}");
        }
    }

    #[test]
    fn a_figure_of_runs_that_may_be_out_of_date_is_marked() {
        let judged = kept("fair-queueing");
        let states = vec![experiment::State::Unknown; judged.runs.len()];
        let marks = Marks::new(&states);
        let whole = told("{all, mean @ ideal-fq}", &judged, &marks).unwrap();
        assert!(whole.into_string().contains(experiment::MARK));
        let mut states = vec![experiment::State::Current; judged.runs.len()];
        states[0] = experiment::State::Unknown;
        let marks = Marks::new(&states);
        let first = told("{all, mean @ ideal-fq}", &judged, &marks).unwrap();
        assert!(first.into_string().contains(experiment::MARK));
        let other = told("{all, mean @ ideal-fq-linux}", &judged, &marks).unwrap();
        assert!(!other.into_string().contains(experiment::MARK));
        let ratio = "{all, mean @ ideal-fq-linux / ideal-fq}";
        let ratio = told(ratio, &judged, &marks).unwrap();
        assert!(ratio.into_string().contains(experiment::MARK));
    }
}
