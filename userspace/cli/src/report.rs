// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft report`: one HTML file with everything in it.

mod axis;
mod chart;
mod collection;
mod curves;
mod dots;
mod figures;
mod frame;
mod judged;
mod labels;
mod map;
mod page;
mod palette;
mod script;
mod ticks;
mod tradeoff;
mod words;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;

use self::frame::Picture as _;
use crate::inputs::Inputs;
use crate::output;
use weft_lab::error::usage;
use weft_lab::experiment::{FilledCurves, FilledPicture};
use weft_lab::results::Sweep;

pub(crate) use collection::{Part, page as of_collection};
pub(crate) use dots::picture;
pub(crate) use judged::page as of_experiment;

/// A standalone picture.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    /// The end of its file's name.
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    /// Its content.
    pub(crate) svg: String,
}

/// The standalone pictures of points and of lines. `count` is the number of the judgement's runs.
pub(crate) fn pictures(
    points: &[FilledPicture],
    curves: &[FilledCurves],
    count: usize,
) -> Vec<Drawn> {
    let points = points.iter().flat_map(|it| it.alone(count));
    points
        .chain(curves.iter().flat_map(|it| it.alone(count)))
        .collect()
}

/// Write a self-contained HTML report with tables and plots
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file needs no network and no other file. The same results give a byte-identical file. For a sweep, plots
have the varied value on the horizontal axis and one line per scheme.

Examples:
  weft report droptail.jsonl dctcp.jsonl pfabric.jsonl --out report.html
  weft report results/load-*/*.jsonl --out loads.html")]
pub(crate) struct Args {
    #[command(flatten)]
    inputs: Inputs,
    /// Output file; - is standard output
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Title of the report
    #[arg(long, default_value = "Flow completion times")]
    title: String,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let groups = args.inputs.groups()?;
    let most = palette::STYLES.len();
    let lines = Sweep::of(&groups).map_or(groups.len(), |sweep| sweep.lines.len());
    if lines > most {
        return usage(format!(
            "{lines} columns are too many for one figure: a report has at most {most}; weft compare takes any number"
        ));
    }
    let page = page::page(&args.title, &groups)?;
    if args.out.as_os_str() == "-" {
        output::print(page)?;
    } else {
        output::write(&args.out, page.as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
