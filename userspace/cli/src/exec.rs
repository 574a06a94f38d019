// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft exec`.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode, ExitStatus};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use weft_net::Testbed;

use weft_lab::error::usage;
use weft_lab::testbed::{self, ControlGroup};

/// Runs a command on a node
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Nodes know each other by name. What the command sends may say its flows' sizes, if the scheme has tags.

Exit status: the command's; 128 and its number if a signal ended it.

Examples:
  weft exec h3 -- ping -c 3 h7
  weft exec edge0 -- tc -s qdisc show
  weft exec h0 --testbed mine -- iperf3 -s")]
pub(crate) struct Args {
    /// The node
    node: String,
    /// The testbed (default: the only one there is)
    #[arg(long, value_name = "NAME")]
    testbed: Option<String>,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// A command on a node, in the testbed's control group.
///
/// # Errors
///
/// If there is no such node, or the group cannot be entered.
pub(crate) fn on_node(
    testbed: &Testbed,
    node: &str,
    program: &OsString,
    arguments: &[OsString],
) -> Result<ExitStatus> {
    let mut command: Command = testbed.command(node, program).map_err(testbed::explain)?;
    command.args(arguments);
    let group = ControlGroup::of(testbed.name());
    let membership = group.exists().then(|| group.enter()).transpose()?;
    let status = command.status();
    drop(membership);
    let running = format!("running {} on {node}", program.display());
    match status {
        // Of entering the namespace: a file that is not to be run is another error.
        Err(error) if error.raw_os_error() == Some(Errno::EPERM as i32) => usage(format!(
            "{running}: not permitted; run as root, or with CAP_SYS_ADMIN and CAP_NET_ADMIN"
        )),
        status => status.context(running),
    }
}

/// A command's exit status as ours.
pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let testbed = testbed::open(args.testbed.as_deref())?;
    let (program, arguments) = args
        .command
        .split_first()
        .context("a command is required")?;
    on_node(&testbed, &args.node, program, arguments).map(exit_code)
}
