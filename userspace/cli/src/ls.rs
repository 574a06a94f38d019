// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft ls`.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;

use crate::output;
use weft_lab::testbed;

/// List testbeds
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft ls
  weft ls --json")]
pub(crate) struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Entry {
    testbed: String,
    /// Whether it is complete; if not, `weft down` removes it.
    complete: bool,
    topology: Option<String>,
    scheme: Option<String>,
    dilation: Option<String>,
    /// Seconds since 1970.
    created: Option<u64>,
    nodes: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let testbeds = weft_net::list().map_err(testbed::explain)?;
    let entries: Vec<Entry> = testbeds
        .iter()
        .map(|it| Entry {
            testbed: it.name().to_owned(),
            complete: it.record().is_some(),
            topology: it.record().and_then(|it| it.notes.get("topology").cloned()),
            scheme: it.record().and_then(|it| it.scheme.clone()),
            dilation: it.record().and_then(|it| it.notes.get("dilation").cloned()),
            created: it.record().map(|it| it.created),
            nodes: it.nodes().to_vec(),
        })
        .collect();
    if args.json {
        output::json(&entries)?;
    } else if entries.is_empty() {
        output::print("no testbed is up")?;
    } else {
        let rows = entries.into_iter().map(|entry| {
            let nodes = entry.nodes.len().to_string();
            let text = |value: Option<String>| value.unwrap_or_else(|| "?".to_owned());
            let state = if entry.complete { "up" } else { "in part" };
            vec![
                entry.testbed,
                state.to_owned(),
                nodes,
                text(entry.scheme),
                text(entry.dilation),
                text(entry.topology),
            ]
        });
        output::print(output::list(
            [
                "testbed", "state", "nodes", "scheme", "dilation", "topology",
            ],
            rows,
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
