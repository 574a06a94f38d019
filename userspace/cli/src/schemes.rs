// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft schemes`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;
use weft_topo::{Kind, Wire};

use crate::output;
use weft_lab::error::usage;
use weft_lab::parameter::FabricFigures;
use weft_lab::scheme::{self, Description, FILES, Scheme};
use weft_lab::variables::Variables;
use weft_words::file::write_together;

/// List schemes: the configuration of ports, hosts and routing
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  weft schemes
  weft schemes show pfabric
  weft schemes show pfabric dev=eth0 rate=10mbit delay=200us | tc -b -
  weft schemes export pfabric my-scheme && weft run --scheme ./my-scheme …")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print a scheme's files, or with variables the `tc -b` batch of one switch port
    Show {
        /// Name or folder
        scheme: String,
        /// dev=NAME rate=RATE delay=TIME, and fabric variables: bdp=PACKETS
        #[arg(value_name = "NAME=VALUE")]
        variables: Vec<String>,
        /// Print the batch of a host port instead
        #[arg(long)]
        host: bool,
    },
    /// Write a scheme's files to a new folder as the start of your own; the copy is complete
    Export {
        /// Name or folder
        scheme: String,
        /// Folder, which must not exist
        folder: PathBuf,
    },
}

#[derive(Serialize)]
struct Entry {
    name: String,
    #[serde(flatten)]
    description: Description,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    match &args.action {
        None => list(args.json)?,
        Some(Action::Show {
            scheme,
            variables,
            host,
        }) => show(&Scheme::find(scheme)?, variables, *host, args.json)?,
        Some(Action::Export { scheme, folder }) => {
            let scheme = Scheme::find(scheme)?;
            if folder.exists() {
                return usage(format!(
                    "{} exists already: choose the name of a new folder",
                    folder.display()
                ));
            }
            let files = scheme.files().map(|(file, source)| {
                let text = source.text().as_bytes();
                (folder.join(file), text.to_owned())
            });
            write_together(&files.collect::<Vec<_>>())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> Result<()> {
    let mut schemes = Vec::new();
    for name in scheme::names() {
        schemes.push(Scheme::find(name)?);
    }
    if json {
        let entry = |scheme: Scheme| Entry {
            name: scheme.name,
            description: scheme.description,
        };
        return output::json(&schemes.into_iter().map(entry).collect::<Vec<_>>());
    }
    let rows = schemes.into_iter();
    let rows = rows.map(|scheme| vec![scheme.name, scheme.description.about]);
    output::print(output::list(["scheme", "description"], rows))
}

fn show(scheme: &Scheme, variables: &[String], host: bool, json: bool) -> Result<()> {
    if !variables.is_empty() {
        let file = if host { "host.tc" } else { "switch.tc" };
        return output::print(batch(scheme, variables, file)?.join("\n"));
    }
    if json {
        let texts = scheme.files().map(|(file, source)| (file, source.text()));
        return output::json(&texts.collect::<BTreeMap<_, _>>());
    }
    let mut files: Vec<_> = scheme.files().collect();
    files.sort_by_key(|(file, _)| FILES.iter().position(|it| it == file));
    for (file, source) in files {
        output::print(format!("==> {file} <==\n{}", source.text()))?;
    }
    Ok(())
}

/// The batch of one port without a fabric: parameters that come from the fabric are pFabric's.
fn batch(scheme: &Scheme, settings: &[String], file: &str) -> Result<Vec<String>> {
    let fabric = FabricFigures::pfabric(1);
    let mut variables = Variables::of_fabric(&scheme.description.parameters, &fabric)?;
    let mut said = BTreeMap::new();
    for setting in settings {
        let Some((name, value)) = setting.split_once('=') else {
            return usage(format!(
                "`{setting}`: expected NAME=VALUE, for example rate=10mbit"
            ));
        };
        said.insert(name, value);
    }
    let rate = said.get("rate").and_then(|text| text.parse().ok());
    let delay = said.get("delay").and_then(|text| text.parse().ok());
    if let (Some(rate), Some(delay)) = (rate, delay) {
        variables.set_link(&Wire { rate, delay });
    }
    variables.set_elided([].into_iter());
    variables.set_facing(Kind::Switch);
    for (name, value) in [
        ("address", "10.0.0.2"),
        ("first_host", "10.0.0.2"),
        ("last_host", "10.1.1.3"),
    ] {
        variables.set(name, value.to_owned());
    }
    for name in ["rack_hosts", "pod_racks", "pods", "edge_ways", "core_ways"] {
        variables.set(name, "2".to_owned());
    }
    for (name, value) in said {
        variables.set(name, value.to_owned());
    }
    let (_, lines) = scheme.batch(file, &variables)?;
    Ok(lines.into_iter().map(|line| line.text).collect())
}
