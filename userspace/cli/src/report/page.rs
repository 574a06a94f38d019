// SPDX-License-Identifier: MIT OR Apache-2.0

//! The report's HTML.

mod reproduce;

use anyhow::Result;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use weft_load::record::{Gate, Limit};

use super::figures::{self, Figure};
use super::{chart, palette, script};
use crate::compare::Times;
use crate::compare::table::{self, Section};
use crate::cures;
use weft_lab::results::{self, Group, Sweep};

/// Nothing is loaded from anywhere and no script runs, even if names in a file contain HTML.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The whole page.
///
/// # Errors
///
/// If a plot cannot be drawn.
pub(super) fn page(title: &str, groups: &[Group]) -> Result<String> {
    let sweep = Sweep::of(groups);
    let mut drawn = match &sweep {
        Some(sweep) => figures::sweeps(groups, sweep)?,
        None => Vec::new(),
    };
    let all_fit = groups.len() <= palette::STYLES.len();
    if all_fit {
        drawn.extend([
            figures::slowdown_by_size(groups)?,
            figures::completion_times(groups)?,
            figures::queues(groups)?,
            figures::held_by_switches(groups)?,
        ]);
        drawn.extend(figures::path(groups));
    }
    let figures: Vec<Markup> = drawn.iter().map(figure).collect::<Result<_>>()?;
    let reasons: Vec<String> = groups.iter().flat_map(Group::reasons).collect();
    let body = html! {
        h1 { (title) }
        p { (table::what_ran(groups)) }
        (alarm(&reasons))
        @for doubt in groups.iter().flat_map(Group::doubts) { p { "Too short: " (doubt) "." } }
        @for figure in &figures { (figure) }
        @if !all_fit {
            p .quiet { "Flows by size and queues over time are in a report of fewer results: at most "
                (palette::STYLES.len()) " columns." }
        }
        (comparison(groups))
        (what_ran(groups, sweep.as_ref()))
        (validity(groups))
        (reproduce::section(groups))
    };
    Ok(whole(title, body, POLICY, None))
}

/// A self-contained page around its body, which is complete without the page's script.
pub(super) fn with_script(title: &str, body: Markup) -> String {
    let policy = format!("{POLICY}; script-src {}", script::source());
    whole(title, body, &policy, Some(script::text()))
}

fn whole(title: &str, body: Markup, policy: &str, script: Option<&str>) -> String {
    // The first line of the style sheet is a comment about the source.
    let style = include_str!("style.css")
        .split_once('\n')
        .map_or("", |it| it.1);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(style)) (PreEscaped(palette::css())) }
            }
            body { (body) @if let Some(script) = script { script { (PreEscaped(script)) } } }
        }
    };
    page.into_string()
}

/// A text in which backticks enclose code, as in Markdown.
pub(super) fn prose(text: &str) -> Markup {
    html! {
        @for (place, part) in text.split('`').enumerate() {
            @if place % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}

/// The warning at the top: invalid runs, and why.
pub(super) fn alarm(reasons: &[String]) -> Markup {
    html! {
        @if !reasons.is_empty() {
            div .alarm role="alert" {
                p { strong { "INVALID" } ": not all of these numbers are the fabric's." }
                ul { @for reason in reasons { li { (reason) } } }
                @for cure in cures::of(reasons) { p { "Cure: " (prose(cure)) "." } }
            }
        }
    }
}

fn what_ran(groups: &[Group], sweep: Option<&Sweep>) -> Markup {
    let facts = |group: &Group| {
        let header = &group.runs[0].header;
        let mut facts = results::conditions(header);
        let flows: Vec<String> = group
            .runs
            .iter()
            .map(|run| run.header.workload.flows.to_string())
            .collect();
        let mut flows = flows;
        flows.dedup();
        facts.push(("flows", flows.join(", ")));
        let seeds: Vec<String> = group.seeds().iter().map(u64::to_string).collect();
        facts.push(("seeds", seeds.join(", ")));
        facts
    };
    let all: Vec<_> = groups.iter().map(facts).collect();
    let first = all.first().into_iter().flatten().enumerate();
    // Varied options are listed above.
    let varied = |difference: &String| {
        let mut axes = sweep.into_iter().flat_map(|sweep| &sweep.axes);
        axes.any(|axis| difference.starts_with(&format!("{}:", axis.name)))
    };
    let mut differences = results::differences(groups);
    differences.retain(|it| !varied(it));
    html! {
        section #ran {
            h2 { "What was run" }
            table .facts {
                @for (place, (what, value)) in first {
                    @let values: Vec<&String> = all.iter().map(|facts| &facts[place].1).collect();
                    @if values.iter().all(|it| *it == value) {
                        @if value != "none" { tr { th scope="row" { (what) } td { (said(what, value)) } } }
                    } @else {
                        tr {
                            th scope="row" { (what) }
                            td {
                                @for (group, value) in groups.iter().zip(&values) {
                                    div { (group.name) ": " (said(what, value)) }
                                }
                            }
                        }
                    }
                }
                @for group in groups {
                    tr {
                        th scope="row" { (group.name) }
                        td { (parameters(group)) }
                    }
                }
            }
            @if !differences.is_empty() {
                p { "Not everything but the scheme is alike:" }
                ul { @for difference in &differences { li { (difference) } } }
            }
        }
    }
}

/// A fact as a sentence.
fn said(what: &str, value: &str) -> String {
    match what {
        "dilation" if value == "1" => "none: real time".to_owned(),
        "dilation" => format!(
            "{value}: the fabric ran {value} times slower; times and rates are the fabric's own"
        ),
        "warm-up" => format!("the first {value} of the flows are not measured"),
        "kernel" if value.starts_with(|c: char| c.is_ascii_digit()) => format!("Linux {value}"),
        _ => value.to_owned(),
    }
}

fn parameters(group: &Group) -> String {
    let parameters = &group.runs[0].header.parameters;
    let parameters: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    match parameters.is_empty() {
        true => "–".to_owned(),
        false => parameters.join(", "),
    }
}

fn name(name: &str, valid: bool) -> Markup {
    html! {
        (name)
        @if !valid { " " span .invalid { "INVALID" } }
    }
}

fn comparison(groups: &[Group]) -> Markup {
    let sections = table::sections(groups, Times::Fabric);
    html! {
        section #comparison {
            h2 { "Comparison" }
            div .tables { @for section in &sections { (figures_table(section, groups)) } }
            p .quiet {
                "Slowdown: completion time over the best possible for that size on the idle fabric. "
                "Rates and times are the fabric's own. "
                @if groups.iter().any(|group| group.runs.len() > 1) {
                    "A ± B: over seeds, the mean and half of its 95 % confidence interval (Student’s t). "
                    "A [L, H]: of all seeds’ flows together, and the 95 % interval of a bootstrap of their blocks. "
                }
                @if table::has_few(&sections) { (table::FEW) "." }
            }
        }
    }
}

fn figures_table(section: &Section, groups: &[Group]) -> Markup {
    let mut title = section.title.to_owned();
    title[..1].make_ascii_uppercase();
    let units = section
        .blocks
        .iter()
        .flat_map(|block| &block.rows)
        .any(|row| !row.unit.is_empty());
    let buckets = section.blocks.iter().any(|block| !block.bucket.is_empty());
    html! {
        div .scroll {
            table data-section=(section.title) {
                caption { (title) }
                thead {
                    tr {
                        @if buckets { th scope="col" { "flow size" } }
                        th { }
                        @if units { th { } }
                        @for group in groups { th .number scope="col" { (name(&group.name, group.valid())) } }
                    }
                }
                @for block in &section.blocks {
                    tbody {
                        @for (place, row) in block.rows.iter().enumerate() {
                            tr {
                                @if buckets && place == 0 {
                                    th .bucket scope="rowgroup" rowspan=(block.rows.len()) {
                                        (block.bucket) small { (block.flows) }
                                    }
                                }
                                th scope="row" { (row.figure) }
                                @if units { td .unit { (row.unit) } }
                                @for cell in &row.cells { td .number { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn figure(figure: &Figure) -> Result<Markup> {
    let legend = &figure.legend;
    let keys: Vec<String> = (0..legend.len()).map(chart::key).collect::<Result<_>>()?;
    Ok(html! {
        figure #(figure.id) {
            h2 { (figure.title) }
            @if figure.panels.is_empty() {
                p { "Nothing was recorded for it." }
            } @else {
                @if !legend.is_empty() {
                    ul .legend {
                        @for (key, line) in keys.iter().zip(legend) {
                            li { (PreEscaped(key)) (name(&line.name, line.valid)) }
                        }
                    }
                }
                div .panels .one-each[legend.is_empty()] {
                    @for panel in &figure.panels {
                        div .panel {
                            p { (panel.title) }
                            div role="img" aria-label=(format!("{}: {}", figure.title, panel.title)) {
                                (PreEscaped(&panel.svg))
                            }
                        }
                    }
                }
                figcaption { (figure.caption) }
            }
        }
    })
}

/// Gates, one per row, with the value of each run.
fn validity(groups: &[Group]) -> Markup {
    let runs = || {
        groups
            .iter()
            .flat_map(|group| group.runs.iter().map(move |run| (group, run)))
    };
    let mut names: Vec<(String, String)> = Vec::new();
    for gate in runs()
        .filter_map(|(_, run)| run.summary.as_ref())
        .flat_map(|it| &it.gates)
    {
        let entry = (gate.name.clone(), limit(gate));
        if !names.contains(&entry) {
            names.push(entry);
        }
    }
    let measured = |run: &weft_load::record::Recorded, name: &str| {
        let gates = run.summary.iter().flat_map(|summary| &summary.gates);
        gates.into_iter().find(|gate| gate.name == name).cloned()
    };
    html! {
        section #validity {
            h2 { "Validity" }
            p { "Validity gates and their measured values. A packet time is the time of a full packet on a host’s link." }
            div .scroll {
                table {
                    thead {
                        tr {
                            th scope="col" { "measured" }
                            th scope="col" { "passes" }
                            @for (group, run) in runs() {
                                th .number scope="col" { (group.name) br; "seed " (run.header.seed) }
                            }
                        }
                    }
                    tbody {
                        @for (name, limit) in &names {
                            tr {
                                th scope="row" { (name) }
                                td .limit { (limit) }
                                @for (_, run) in runs() {
                                    @match measured(run, name) {
                                        Some(gate) => td .number .invalid[!gate.ok] { (value(&gate)) @if !gate.ok { " INVALID" } },
                                        None => td .number { "–" },
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn limit(gate: &Gate) -> String {
    let (word, limit) = match gate.limit {
        Limit::AtMost(limit) => ("at most", limit),
        Limit::AtLeast(limit) => ("at least", limit),
    };
    format!("{word} {limit} {}", gate.unit)
        .trim_end()
        .to_owned()
}

fn value(gate: &Gate) -> String {
    gate.measured
        .map_or("not measured".to_owned(), table::digits)
}
