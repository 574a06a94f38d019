// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft vm`.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use weft_lab::error::usage;
use weft_machine::terminal;

use crate::arguments::guest;
use crate::guests::Guests;
use crate::session;

/// Run a command or a shell as root in a guest whose kernel has all of weft's modules
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without a command weft vm opens a shell. A shell runs in real time: in virtual time no time passes while
somebody types. `exit` ends the guest.

Under the model clock the same command and --guest-seed give byte-identical output. A command that polls
without ever sleeping never ends there.

Exit status: the command's; 124 if the guest hangs; 125 if its kernel reports an error; 1 or 2 if weft failed.

Examples:
  weft vm                                    a shell
  weft vm -- tc qdisc show
  weft vm -- sh -c 'tc qdisc add dev lo root pfabric && tc -s qdisc show dev lo'
  weft vm --file scenario.sh --out result -- sh /root/scenario.sh")]
pub(crate) struct Args {
    #[command(flatten)]
    guests: guest::Args,
    #[command(flatten)]
    session: session::Args,
    /// Command and arguments (default: a shell)
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Some(guests) = Guests::find(&args.guests, false)? else {
        return usage(
            "this weft has no guest image, which weft vm needs: weft doctor says where it looks for one",
        );
    };
    if args.command.is_empty() && !terminal::is_there() {
        return usage("a shell needs a terminal; give a command: weft vm -- COMMAND");
    }
    if args.command.is_empty() {
        eprintln!(
            "Linux {} in a guest, in real time; `exit` ends it",
            guests.release()
        );
    }
    let (status, _) = args.session.run(&guests, args.command.clone(), &[])?;
    Ok(status)
}
