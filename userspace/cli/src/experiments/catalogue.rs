// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft experiments`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;
use weft_lab::error::usage;
use weft_lab::experiment::{Experiment, names};

use super::{claims, comparison, renew, stale};
use crate::output;

/// List experiments: the papers' figures that weft can run by name
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft experiments
  weft experiments show pfabric-fig4a
  weft run pfabric-fig4a --dry-run         the commands that it runs
  weft experiments export pfabric-fig4a mine.toml && weft run ./mine.toml
  weft experiments claims                  how many claims hold, by paper
  weft experiments claims --open           those that do not hold, are undecided or not judged
  weft experiments page comparison.html    who wins where, and at what price, for five minutes
  weft experiments page bfc.html bfc-fig9 bfc-fig11
  weft experiments stale                   kept results that may be out of date")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print an experiment's file
    Show {
        /// Name or file
        experiment: String,
    },
    /// Write an experiment's file as the start of your own
    Export {
        /// Name or file
        experiment: String,
        /// File, which must not exist
        file: PathBuf,
    },
    /// Write weft's comparison of all systems as one HTML page, or a page of chosen experiments,
    /// from their kept results
    Page {
        /// HTML file
        file: PathBuf,
        /// Names (default: the comparison)
        experiment: Vec<String>,
    },
    /// Write fingerprints from standard input to kept results; for `cargo xtask kept --renew`
    #[command(hide = true)]
    Renew {
        /// The folder of experiments in the source
        folder: PathBuf,
    },
    /// Count the claims that hold, by paper (a claim is not judged if a run that it needs is
    /// INVALID)
    Claims {
        /// Names (default: all experiments with kept results)
        experiment: Vec<String>,
        /// List the claims that do not hold, are undecided or not judged
        #[arg(long)]
        open: bool,
    },
    /// List kept results that may be out of date, and what changed since
    Stale {
        /// Names (default: all experiments with kept results)
        experiment: Vec<String>,
    },
}

#[derive(Serialize)]
struct Entry {
    name: String,
    title: String,
    source: String,
    about: String,
    claims: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.action {
        None => list(args.json)?,
        Some(Action::Show { experiment }) => {
            let experiment = Experiment::find(experiment)?;
            if args.json {
                output::json(&entry(experiment))?;
            } else {
                output::print(experiment.text.trim_end())?;
            }
        }
        Some(Action::Export { experiment, file }) => {
            let experiment = Experiment::find(experiment)?;
            if file.exists() {
                return usage(format!(
                    "{} exists already: choose the name of a new file",
                    file.display()
                ));
            }
            output::write_new(file, experiment.text.as_bytes())?;
        }
        Some(Action::Claims { experiment, open }) => claims::list(experiment, *open, args.json)?,
        Some(Action::Page { file, experiment }) => comparison::write(file, experiment)?,
        Some(Action::Renew { folder }) => renew::run(folder)?,
        Some(Action::Stale { experiment }) => stale::list(experiment, args.json)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn entry(experiment: Experiment) -> Entry {
    let description = experiment.description;
    Entry {
        name: experiment.name,
        title: description.title,
        source: description.source,
        about: description.about.trim().to_owned(),
        claims: description
            .claims
            .into_iter()
            .map(|claim| claim.says)
            .collect(),
    }
}

fn list(json: bool) -> Result<()> {
    let mut entries = Vec::new();
    for name in names() {
        entries.push(entry(Experiment::find(name)?));
    }
    if json {
        return output::json(&entries);
    }
    let rows = entries
        .into_iter()
        .map(|entry| vec![entry.name, entry.claims.len().to_string(), entry.title]);
    output::print(output::list(["experiment", "claims", "description"], rows))
}
