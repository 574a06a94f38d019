// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft demo`.

use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::run;

/// The experiment that it is.
const EXPERIMENT: &str = "demo";

/// A first result: one workload on a fat-tree under three schemes, compared, in a minute
#[derive(Debug, clap::Args)]
#[command(after_help = "\
It is weft run demo: runs whose results are there are not made again, and --again makes them. weft experiments show \
demo says what is run; weft experiments export demo mine.toml makes one to change.

Examples:
  weft demo
  weft demo --page demo.html
  weft demo --again -j 1")]
pub(crate) struct Args {
    /// Options of `weft run` that go with an experiment
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS"
    )]
    words: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let begin = [EXPERIMENT.to_owned()];
    let words: Vec<String> = begin.into_iter().chain(args.words.clone()).collect();
    crate::run::run(&run::Args::parse(&words)?)
}
