// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft workloads`.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use weft_load::sizes::{Sizes, TABLES};

use crate::output;

/// List published flow-size distributions
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft workloads
  weft workloads web-search            its table, to plot or to change
  weft run --workload ./my.cdf …       a table of your own")]
pub(crate) struct Args {
    /// Print the table of this workload
    workload: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    mean_bytes: f64,
    median_bytes: f64,
    largest_bytes: f64,
    about: String,
    points: Vec<(f64, f64)>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if let (Some(name), false) = (&args.workload, args.json)
        && let Some(table) = TABLES.iter().find(|table| table.name == name)
    {
        output::print(table.text.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut entries = Vec::new();
    for table in TABLES {
        let sizes: Sizes = table.name.parse()?;
        entries.push(Entry {
            name: table.name,
            mean_bytes: sizes.mean(),
            median_bytes: sizes.quantile(0.5),
            largest_bytes: sizes.max(),
            about: table.about().collect::<Vec<_>>().join(" "),
            points: sizes.points().collect(),
        });
    }
    if let Some(name) = &args.workload {
        entries.retain(|entry| entry.name == name);
        if entries.is_empty() {
            // The error lists the names.
            weft_lab::traffic::sizes(name)?;
        }
    }
    if args.json {
        output::json(&entries)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows = entries.iter().map(|entry| {
        vec![
            entry.name.to_owned(),
            bytes(entry.mean_bytes),
            bytes(entry.median_bytes),
            bytes(entry.largest_bytes),
        ]
    });
    output::print(output::table(
        ["workload", "mean", "median", "largest"],
        rows,
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// With a unit in powers of 1000 and three digits.
fn bytes(bytes: f64) -> String {
    let (unit, factor) = match bytes {
        0.0..1e3 => ("B", 1.0),
        1e3..1e6 => ("kB", 1e3),
        1e6..1e9 => ("MB", 1e6),
        _ => ("GB", 1e9),
    };
    let number = bytes / factor;
    let digits = if number < 10.0 {
        2
    } else {
        usize::from(number < 100.0)
    };
    format!("{number:.digits$} {unit}")
}
