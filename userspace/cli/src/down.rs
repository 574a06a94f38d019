// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft down`.

use std::process::ExitCode;

use anyhow::Result;
use weft_net::Testbed;

use crate::output;
use weft_lab::testbed;

/// Remove a testbed, even one that is incomplete
#[derive(Debug, clap::Args)]
#[command(after_help = "\
weft removes only what it created. A namespace with a running process disappears when the process ends. --kill
sends SIGTERM to these processes, and SIGKILL after 2 s.

Examples:
  weft down
  weft down mine
  weft down --kill
  weft down --all")]
pub(crate) struct Args {
    /// Name of the testbed (default: the only one)
    testbed: Option<String>,
    /// Remove all testbeds
    #[arg(long, conflicts_with = "testbed")]
    all: bool,
    /// End all processes on the nodes first, including those that weft did not start
    #[arg(long)]
    kill: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let names = if args.all {
        let all = weft_net::list().map_err(testbed::explain)?;
        all.iter().map(|it| it.name().to_owned()).collect()
    } else {
        match &args.testbed {
            // It may be incomplete, so it is not opened.
            Some(name) => vec![name.clone()],
            None => vec![testbed::open(None).map(|it: Testbed| it.name().to_owned())?],
        }
    };
    for name in names {
        let ended = (args.kill).then(|| weft_net::kill(&name).map_err(testbed::explain));
        let ended = ended.transpose()?.unwrap_or(0);
        let removed = testbed::remove(&name)?;
        let ended = match ended {
            0 => String::new(),
            count => format!(", {count} processes ended"),
        };
        output::print(format!(
            "{name}: {} namespaces removed{ended}",
            removed.namespaces
        ))?;
        for (node, process) in removed.held {
            output::print(format!(
                "  {node} goes when process {process} ends, which is in it (weft down --kill ends such)"
            ))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
