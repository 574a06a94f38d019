// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft vm`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use weft_lab::error::usage;

use crate::arguments::guest;
use crate::guests::Guests;
use crate::session;

/// Run a command as root in a guest whose kernel has all of weft's modules
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Under the model clock the same command and --guest-seed give byte-identical output. A command that polls
without ever sleeping never ends there.

Exit status: the command's; 124 if the guest hangs; 125 if its kernel reports an error; 1 or 2 if weft failed.

Examples:
  weft vm -- tc qdisc show
  weft vm -- sh -c 'tc qdisc add dev lo root pfabric && tc -s qdisc show dev lo'
  weft vm --file scenario.sh --out result -- sh /root/scenario.sh")]
pub(crate) struct Args {
    #[command(flatten)]
    guests: guest::Args,
    #[command(flatten)]
    session: session::Args,
    /// Command and arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Some(guests) = Guests::find(&args.guests, false)? else {
        return usage(
            "weft vm takes weft's own machine, and there is none: weft doctor says where it is looked for",
        );
    };
    let (status, _) = args.session.run(&guests, args.command.clone(), &[])?;
    Ok(status)
}
