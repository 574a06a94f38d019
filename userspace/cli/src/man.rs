// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft man` and `weft completions`: generated from the description of the command line.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::CommandFactory as _;
use clap_complete::Shell;

use crate::output::STDOUT;
use crate::{Cli, names};

/// Write the man pages to a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: weft man /usr/local/share/man/man1 && man weft-run")]
pub(crate) struct Args {
    /// Folder, created if necessary
    folder: PathBuf,
}

/// Print completions for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In bash, names of schemes, workloads, topologies, experiments, testbeds and nodes are completed too, as they
exist at that moment.

Example: weft completions bash > /etc/bash_completion.d/weft")]
pub(crate) struct Completions {
    /// Shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    weft_arguments::man::write(Cli::command(), &args.folder)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn completions(args: &Completions) -> Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "weft", &mut script);
    if args.shell == Shell::Bash {
        script.extend(names::BASH.as_bytes());
    }
    let mut out = io::stdout().lock();
    // The last line may have no end.
    let written = out.write_all(&script).and_then(|()| out.flush());
    written.context(STDOUT)?;
    Ok(ExitCode::SUCCESS)
}
