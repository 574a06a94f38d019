// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft shell`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;

use crate::exec;
use weft_lab::testbed;

/// Open a shell on a node
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft shell h3
  weft shell core0 --testbed mine")]
pub(crate) struct Args {
    /// Name of the node
    node: String,
    /// Name of the testbed (default: the only one)
    #[arg(long, value_name = "NAME")]
    testbed: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let testbed = testbed::open(args.testbed.as_deref())?;
    let shell = std::env::var_os("SHELL").unwrap_or_else(|| OsString::from("/bin/sh"));
    exec::on_node(&testbed, &args.node, &shell, &[])
}
