// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft exec`.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use weft_net::Testbed;

use weft_lab::session;
use weft_lab::testbed::{self, ControlGroup};

/// Run a command on a node
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nodes resolve each other's names. If the scheme has tags, the command can state the size of its flows. weft
replaces itself by the command (execve).

Exit status: the command's; 127 if the command does not exist, 126 if it cannot be executed.

Examples:
  weft exec h3 ping -c 3 h7
  weft exec edge0 tc -s qdisc show
  weft exec --testbed mine h0 iperf3 -s
  weft exec h0 -- sh -c 'echo $0' -- -x        all that follows the first -- is the command's")]
pub(crate) struct Args {
    /// Name of the node
    node: String,
    /// Name of the testbed (default: the one that weft lab created for this command, else the only
    /// one)
    #[arg(long, value_name = "NAME")]
    testbed: Option<String>,
    /// Command and arguments; weft's own options come before it
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Replaces this process by a command on a node, in the testbed's control group. If the command
/// does not exist, returns a shell's exit status.
///
/// # Errors
///
/// If the node does not exist, or the group or the node cannot be entered.
pub(crate) fn on_node(
    testbed: &Testbed,
    node: &str,
    program: &OsStr,
    arguments: &[OsString],
) -> Result<ExitCode> {
    let mut command = testbed.command(node, program).map_err(testbed::explain)?;
    command.args(arguments);
    let group = ControlGroup::of(testbed.name());
    // The process stays in the group, unless the command does not exist.
    let _membership = group.exists().then(|| group.enter()).transpose()?;
    let error = command.exec();
    let running = || format!("running {} on {node}", program.display());
    let status = session::not_started(&error).with_context(running)?;
    eprintln!("weft: {}: {error}", running());
    Ok(ExitCode::from(status))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let testbed = testbed::open(args.testbed.as_deref())?;
    let (program, arguments) = args
        .command
        .split_first()
        .context("a command is required")?;
    on_node(&testbed, &args.node, program, arguments)
}
