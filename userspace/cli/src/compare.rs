// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft compare`.

pub(crate) mod table;
mod twins;

use std::process::ExitCode;

use anyhow::Result;
use clap::ValueEnum;
use serde::Serialize;

use crate::inputs::Inputs;
use crate::output;
use weft_lab::results::{self, Agreement, Estimate, Figure, Group, What};

/// Print results side by side; runs that differ only in the seed share a column, with a 95 %
/// confidence interval
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A ± B: mean over seeds and half of its 95 % confidence interval (Student's t).
A [L, H]: percentile of the flows of all seeds, and its 95 % interval (block bootstrap).

Examples:
  weft compare droptail.jsonl dctcp.jsonl pfabric.jsonl
  weft compare results/*.jsonl --times guest
  weft compare results/*.jsonl --json
  weft compare --by-flow instructions/*.jsonl model/*.jsonl     do two clocks agree?")]
pub(crate) struct Args {
    #[command(flatten)]
    inputs: Inputs,
    /// Unit of times: fabric time, or time of the guest that ran the fabric slower (JSON has both)
    #[arg(long, value_enum, default_value_t = Times::Fabric)]
    times: Times,
    /// Compare runs that differ only in the clock flow by flow. Exit status 1 if the clocks
    /// disagree
    #[arg(long, conflicts_with = "times")]
    by_flow: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The unit of times; the two differ if the fabric was dilated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Times {
    Fabric,
    Guest,
    Both,
}

/// All columns.
#[derive(Serialize)]
struct Comparison {
    columns: Vec<Column>,
    /// Differences between the runs that should not exist.
    differences: Vec<String>,
}

#[derive(Serialize)]
struct Column {
    name: String,
    scheme: String,
    topology: String,
    dilation: f64,
    weft: String,
    kernel: Option<String>,
    clock: Option<String>,
    seeds: Vec<u64>,
    valid: bool,
    reasons: Vec<String>,
    buckets: Vec<Bucket>,
    /// The requested load, 0 to 1,
    asked_load: Option<f64>,
    /// and the achieved load.
    offered_load: Option<Estimate>,
    /// Signs that a run was too short for steady state: sentences.
    doubts: Vec<String>,
    /// bit/s in fabric time.
    goodput: Option<Estimate>,
    /// 0 to 1.
    loss: Option<Estimate>,
    retransmissions: Option<Estimate>,
    /// Of these, segments that receivers reported as duplicates.
    spurious: Option<Estimate>,
    timeouts: Option<Estimate>,
    unfinished: Option<Estimate>,
}

#[derive(Serialize)]
struct Bucket {
    bucket: String,
    /// Number of flows in each run.
    flows: Vec<u64>,
    slowdown: Figures,
    /// Slowdown divided by the first column's, if its runs had the same flows.
    slowdown_over_first: Option<Figures>,
    fct_fabric_ns: Figures,
    fct_guest_ns: Figures,
}

#[derive(Serialize)]
struct Figures {
    mean: Option<Estimate>,
    p50: Option<Estimate>,
    p95: Option<Estimate>,
    p99: Option<Estimate>,
    p999: Option<Estimate>,
    max: Option<Estimate>,
}

impl Figures {
    fn new(of: impl Fn(Figure) -> Option<Estimate>) -> Self {
        Self {
            mean: of(Figure::Mean),
            p50: of(Figure::Percentile(0.5)),
            p95: of(Figure::Percentile(0.95)),
            p99: of(Figure::Percentile(0.99)),
            p999: of(Figure::Percentile(0.999)),
            max: of(Figure::Max),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.by_flow {
        return by_flow(args);
    }
    let groups = args.inputs.groups()?;
    if args.json {
        output::json(&Comparison {
            columns: groups.iter().map(|group| column(group, &groups)).collect(),
            differences: results::differences(&groups),
        })?;
    } else {
        output::print(table::text(&groups, args.times))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn by_flow(args: &Args) -> Result<ExitCode> {
    let twins = results::twins(args.inputs.runs()?)?;
    output::whole_or_cut(if args.json {
        output::json(&twins)
    } else {
        output::print(twins::text(&twins))
    })?;
    let agree = twins.iter().all(|it| it.agreement != Agreement::None);
    Ok(ExitCode::from(u8::from(!agree)))
}

fn column(group: &Group, groups: &[Group]) -> Column {
    let header = &group.runs[0].header;
    let bucket = |bucket: String| Bucket {
        flows: group.flows(&bucket),
        slowdown: Figures::new(|figure| group.of(What::Slowdown, &bucket, figure)),
        slowdown_over_first: match groups.first() {
            Some(first) if first.name != group.name => {
                let over = |figure| group.over(first, What::Slowdown, &bucket, figure);
                Some(Figures::new(|figure| match figure {
                    Figure::Max => None,
                    figure => over(figure),
                }))
            }
            _ => None,
        },
        fct_fabric_ns: Figures::new(|figure| group.of(What::Time, &bucket, figure)),
        fct_guest_ns: Figures::new(|figure| {
            let fabric = group.of(What::Time, &bucket, figure)?;
            Some(fabric.scaled(group.dilation()))
        }),
        bucket,
    };
    Column {
        name: group.name.clone(),
        scheme: header.scheme.clone(),
        topology: header.topology.clone(),
        dilation: header.dilation,
        weft: header.weft.clone(),
        kernel: header.kernel.clone(),
        clock: header.clock.clone(),
        seeds: group.seeds(),
        valid: group.valid(),
        reasons: group.reasons(),
        buckets: results::buckets(groups).into_iter().map(bucket).collect(),
        asked_load: group.figure(|it| Some(it.load?.asked)).map(|it| it.value),
        offered_load: group.figure(|it| Some(it.load?.offered)),
        doubts: group.doubts(),
        goodput: group.figure(|it| it.goodput),
        loss: group.figure(|it| it.loss),
        retransmissions: group.count(|flow| Some(flow.retransmissions)),
        spurious: group.count(|flow| flow.spurious),
        timeouts: group.count(|flow| flow.timeouts),
        unfinished: group.figure(|it| Some(it.unfinished as f64)),
    }
}
