// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft demo`.

use std::process::ExitCode;

use anyhow::Result;

use crate::arguments::run;

/// The experiment that the demo runs.
const EXPERIMENT: &str = "demo";

/// Compare three schemes on a small fabric: a first result in a minute
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Equivalent to weft run demo. Runs whose results exist are skipped; --again repeats them. weft experiments show
demo prints the experiment; weft experiments export demo mine.toml makes a copy to edit.

Examples:
  weft demo
  weft demo --page demo.html
  weft demo --again -j 1")]
pub(crate) struct Args {
    /// Options of `weft run` for experiments
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
