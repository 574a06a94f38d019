// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft report`: one HTML file with everything in it.

mod plots;

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::compare;
use crate::results::{self, Group};

const STYLE: &str = "
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 960px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
pre { font: 13px/1.4 ui-monospace, monospace; overflow-x: auto; background: #f6f6f4; padding: 1em; }
figure { margin: 1em 0; } figure svg { max-width: 100%; height: auto; }
figcaption { color: #555; } .invalid { color: #a00; font-weight: bold; }
";

/// One self-contained HTML file: tables and plots
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  weft report droptail.jsonl dctcp.jsonl pfabric.jsonl --out report.html")]
pub(crate) struct Args {
    /// Result files of `weft run`
    #[arg(required = true)]
    files: Vec<String>,
    /// Where to write it
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Its title
    #[arg(long, default_value = "Flow completion times")]
    title: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let groups = results::group(results::read(&args.files)?);
    let page = page(&args.title, &groups)?.into_string();
    fs::write(&args.out, page).with_context(|| format!("writing {}", args.out.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn page(title: &str, groups: &[Group]) -> Result<Markup> {
    let reasons: Vec<String> = groups.iter().flat_map(Group::reasons).collect();
    let figures = [
        (
            "Slowdown by flow size",
            "Mean (solid) and 99th percentile (dashed) of a tenth of the flows each, by size. A slowdown of 1 is the best possible time on an idle fabric.",
            plots::slowdown_by_size(groups)?,
        ),
        (
            "Flow completion times",
            "Share of flows that were done within a time of the fabric.",
            plots::completion_times(groups)?,
        ),
        (
            "Queues over time",
            "The longest queue of all ports, in packets.",
            plots::queues(groups)?,
        ),
    ];
    Ok(html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                @for reason in &reasons {
                    p class="invalid" { "INVALID: " (reason) }
                }
                pre { (compare::text(groups)) }
                @for (name, caption, plot) in &figures {
                    h2 { (name) }
                    @match plot {
                        Some(svg) => figure { (PreEscaped(svg)) figcaption { (caption) } },
                        None => p { "Nothing was recorded for it." },
                    }
                }
                h2 { "What a run must pass to be believed" }
                @for group in groups {
                    @for run in &group.runs {
                        @if let Some(summary) = &run.summary {
                            h3 { (group.name) ", seed " (run.header.seed) }
                            ul {
                                @for gate in &summary.gates {
                                    li class=[(!gate.ok).then_some("invalid")] { (gate) }
                                }
                            }
                        }
                    }
                }
            }
        }
    })
}
