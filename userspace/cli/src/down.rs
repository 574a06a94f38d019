// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft down`.

use std::process::ExitCode;

use anyhow::Result;

use crate::output;
use weft_lab::error::usage;
use weft_lab::testbed::{self, TESTBED};

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
    /// Name of the testbed (default: the one of the lab in which it runs, or the only one)
    testbed: Option<String>,
    /// Remove all testbeds
    #[arg(long, conflicts_with = "testbed")]
    all: bool,
    /// End all processes on the nodes first, including those that weft did not start
    #[arg(long)]
    kill: bool,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    // A testbed may be incomplete, so it is not opened.
    let all = || -> Result<Vec<String>> {
        let all = weft_net::list().map_err(testbed::explain)?;
        Ok(all.iter().map(|it| it.name().to_owned()).collect())
    };
    let names = match &args.testbed {
        Some(name) => vec![name.clone()],
        None if args.all => all()?,
        None => match std::env::var(TESTBED) {
            Ok(name) => vec![name],
            Err(_) => only(all()?)?,
        },
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

/// The only testbed.
fn only(all: Vec<String>) -> Result<Vec<String>> {
    match all.len() {
        // The error says how to create one.
        0 => testbed::open(None).map(|it| vec![it.name().to_owned()]),
        1 => Ok(all),
        _ => usage(format!(
            "there are several testbeds: weft down {}, or weft down --all",
            all.join(", weft down ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_several_testbeds_has_commands_that_exist() {
        let names = |all: &[&str]| only(all.iter().map(|&it| it.to_owned()).collect());
        assert_eq!(names(&["a"]).unwrap(), ["a"]);
        let expected = "there are several testbeds: weft down a, weft down b, or weft down --all";
        assert_eq!(names(&["a", "b"]).unwrap_err().to_string(), expected);
    }
}
