// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft compare`.

use std::process::ExitCode;

use anyhow::Result;
use serde::Serialize;
use weft_load::statistics::Summary;

use crate::output;
use crate::results::{self, Estimate, Group};

/// Results side by side; runs that differ only in the seed become one column, with the 95 %
/// confidence interval of the mean
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft compare droptail.jsonl dctcp.jsonl pfabric.jsonl
  weft compare results/*.jsonl --json")]
pub(crate) struct Args {
    /// Result files of `weft run`
    #[arg(required = true)]
    files: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A figure of slowdowns: how it is called, and how it is taken.
type Figure = (&'static str, fn(&Summary) -> f64);

const FIGURES: [Figure; 5] = [
    ("mean", |it| it.mean),
    ("P50", |it| it.p50),
    ("P95", |it| it.p95),
    ("P99", |it| it.p99),
    ("P99.9", |it| it.p999),
];

#[derive(Serialize)]
struct Column {
    name: String,
    seeds: Vec<u64>,
    valid: bool,
    reasons: Vec<String>,
    slowdown: Vec<Row>,
    goodput: Option<Estimate>,
    loss: Option<Estimate>,
    unfinished: Option<Estimate>,
}

#[derive(Serialize)]
struct Row {
    bucket: String,
    flows: Option<Estimate>,
    mean: Option<Estimate>,
    p50: Option<Estimate>,
    p95: Option<Estimate>,
    p99: Option<Estimate>,
    p999: Option<Estimate>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let groups = results::group(results::read(&args.files)?);
    if args.json {
        let columns: Vec<Column> = groups.iter().map(|group| column(group, &groups)).collect();
        output::json(&columns)?;
    } else {
        output::print(text(&groups))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn column(group: &Group, groups: &[Group]) -> Column {
    let reasons = group.reasons();
    let row = |bucket: String| Row {
        flows: group.slowdown(&bucket, |it| it.count as f64),
        mean: group.slowdown(&bucket, |it| it.mean),
        p50: group.slowdown(&bucket, |it| it.p50),
        p95: group.slowdown(&bucket, |it| it.p95),
        p99: group.slowdown(&bucket, |it| it.p99),
        p999: group.slowdown(&bucket, |it| it.p999),
        bucket,
    };
    Column {
        name: group.name.clone(),
        seeds: group.runs.iter().map(|run| run.header.seed).collect(),
        valid: reasons.is_empty(),
        reasons,
        slowdown: results::buckets(groups).into_iter().map(row).collect(),
        goodput: group.figure(|it| it.goodput),
        loss: group.figure(|it| it.loss),
        unfinished: group.figure(|it| Some(it.unfinished as f64)),
    }
}

/// Two digits where they mean something: 1.04, 12.3, 842.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        0.0..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn show(estimate: Option<Estimate>) -> String {
    match estimate {
        None => "–".to_owned(),
        Some(Estimate {
            mean,
            half_width: None,
        }) => digits(mean),
        Some(Estimate {
            mean,
            half_width: Some(half),
        }) => format!("{} ± {}", digits(mean), digits(half)),
    }
}

/// What ran, the table, and what is to be known before it is believed.
pub(crate) fn text(groups: &[Group]) -> String {
    let mut text = String::new();
    if let Some(group) = groups.first() {
        text.push_str(&what_ran(group));
        text.push_str("\n\n");
    }
    let mut head = vec!["slowdown".to_owned(), String::new(), "flows".to_owned()];
    head.extend(groups.iter().map(|group| group.name.clone()));
    let mut rows = Vec::new();
    for bucket in results::buckets(groups) {
        let flows = groups
            .iter()
            .find_map(|group| group.slowdown(&bucket, |it| it.count as f64));
        for (number, (name, figure)) in FIGURES.iter().enumerate() {
            let (label, flows) = if number == 0 {
                (
                    bucket.clone(),
                    flows.map_or(String::new(), |flows| format!("{:.0}", flows.mean)),
                )
            } else {
                (String::new(), String::new())
            };
            let mut row = vec![label, (*name).to_owned(), flows];
            row.extend(
                groups
                    .iter()
                    .map(|group| show(group.slowdown(&bucket, figure))),
            );
            rows.push(row);
        }
    }
    let mut last = |name: &str, unit: &str, figure: &dyn Fn(&Group) -> Option<Estimate>| {
        let mut row = vec![name.to_owned(), unit.to_owned(), String::new()];
        row.extend(groups.iter().map(|group| show(figure(group))));
        rows.push(row);
    };
    let scaled =
        |scale: f64| move |it: &weft_load::record::Summary| it.goodput.map(|it| it / scale);
    last("goodput", "Gbit/s", &|group| group.figure(scaled(1e9)));
    last("loss", "%", &|group| {
        group.figure(|it| it.loss.map(|loss| 100.0 * loss))
    });
    last("unfinished", "flows", &|group| {
        group.figure(|it| Some(it.unfinished as f64))
    });
    text.push_str(&output::table(head, rows));
    for difference in results::differences(groups) {
        text.push_str(&format!("\nnot alike: {difference}"));
    }
    for reason in groups.iter().flat_map(Group::reasons) {
        text.push_str(&format!("\nINVALID: {reason}"));
    }
    text
}

/// A line that says what a column's runs were.
pub(crate) fn what_ran(group: &Group) -> String {
    let header = &group.runs[0].header;
    let workload = &header.workload;
    let mut parts = vec![header.topology.clone()];
    if !workload.sizes.is_empty() {
        parts.push(workload.sizes.clone());
    }
    if let Some(load) = &workload.load {
        parts.push(format!("load {load}"));
    }
    parts.push(format!("arrivals {}", workload.arrivals));
    if !workload.pairs.is_empty() {
        parts.push(format!("pairs {}", workload.pairs));
    }
    if let Some(incast) = &workload.incast {
        parts.push(format!("incasts {incast}"));
    }
    parts.push(format!("{} flows", workload.flows));
    let seeds: Vec<String> = group
        .runs
        .iter()
        .map(|run| run.header.seed.to_string())
        .collect();
    parts.push(format!("seed {}", seeds.join(", ")));
    if header.dilation != 1.0 {
        parts.push(format!(
            "slowed {} times (times are the fabric's)",
            header.dilation
        ));
    }
    parts.join(", ")
}
