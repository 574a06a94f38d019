// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft schemes`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Result;
use clap::Subcommand;
use serde::Serialize;
use weft_topo::{Delay, Kind, Rate, Wire};

use crate::output;
use weft_lab::error::usage;
use weft_lab::parameter::FabricFigures;
use weft_lab::scheme::{self, Description, FILES, Scheme};
use weft_lab::variables::Variables;
use weft_words::file::write_together;
use weft_words::near::meant;

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
        /// dev=NAME rate=RATE delay=TIME, then parameters and fabric variables, such as bdp=24.
        /// Fabric variables that are not given have the values of pFabric's fabric, with links of
        /// 10 Gbit/s
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
        }) => show(Scheme::find(scheme)?, variables, *host, args.json)?,
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

fn show(scheme: Scheme, variables: &[String], host: bool, json: bool) -> Result<()> {
    if !variables.is_empty() {
        let file = if host { "host.tc" } else { "switch.tc" };
        let lines = batch(scheme, variables, file)?;
        return match json {
            true => output::json(&lines),
            false => output::print(lines.join("\n")),
        };
    }
    if host {
        return usage("--host: expected variables, for example dev=eth0 rate=10mbit delay=200us");
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

/// The batch of one port without a fabric: what is not in `settings` is pFabric's.
fn batch(mut scheme: Scheme, settings: &[String], file: &str) -> Result<Vec<String>> {
    let mut said = BTreeMap::new();
    for setting in settings {
        let Some((name, value)) = setting.split_once('=') else {
            return usage(format!(
                "`{setting}`: expected NAME=VALUE, for example rate=10mbit"
            ));
        };
        if said.insert(name, value).is_some() {
            return usage(format!("{name} is given twice; give it once"));
        }
    }
    let fabric = fabric(&mut said)?;
    for name in scheme.description.parameters.clone().keys() {
        if let Some(value) = said.remove(name.as_str()) {
            scheme.set(&format!("{name}={value}"))?;
        }
    }
    let variables = Variables::of_fabric(&scheme.description.parameters, &fabric)?;
    let link = (take(&mut said, "rate")?, take(&mut said, "delay")?);
    let mut variables = match link {
        (Some(rate), Some(delay)) => {
            let dev = said.get("dev").filter(|dev| !dev.is_empty());
            let Some(dev) = dev else {
                return usage("expected dev=NAME of a port, for example dev=eth0");
            };
            variables.port(dev, &Wire { rate, delay }, [].into_iter())
        }
        // The error for a variable without a value names it.
        (None, None) => variables,
        _ => return usage("expected rate=RATE and delay=TIME of the link together"),
    };
    variables.set_elided([].into_iter());
    variables.set_facing(Kind::Switch);
    variables.set("dilation", fabric.dilation.to_string());
    let mut others = BTreeMap::from([
        ("address", "10.0.0.2"),
        ("first_host", "10.0.0.2"),
        ("last_host", "10.1.1.3"),
        ("rack_hosts", "2"),
        ("pod_racks", "2"),
        ("pods", "2"),
        ("edge_ways", "2"),
        ("core_ways", "2"),
    ]);
    for (name, value) in said {
        let is_port = ["dev", "hrtt", "elide", "detour_to", "topology"].contains(&name);
        if !is_port && !others.contains_key(name) {
            let parameters = scheme.description.parameters.keys().map(String::as_str);
            let known: Vec<&str> = VARIABLES.into_iter().chain(parameters).collect();
            return usage(format!(
                "there is no variable or parameter `{name}`{}: expected one of {}",
                meant(name, &known),
                known.join(", ")
            ));
        }
        others.insert(name, value);
    }
    for (name, value) in others {
        variables.set(name, value.to_owned());
    }
    let (_, lines) = scheme.batch(file, &variables)?;
    Ok(lines.into_iter().map(|line| line.text).collect())
}

/// Takes what describes the fabric; the rest is pFabric's.
fn fabric(said: &mut BTreeMap<&str, &str>) -> Result<FabricFigures> {
    let dilation = take::<NonZeroU32>(said, "dilation")?.unwrap_or(NonZeroU32::MIN);
    let mut fabric = FabricFigures::pfabric(dilation.get());
    let times = [
        ("rtt", &mut fabric.rtt_ns),
        ("one_way", &mut fabric.one_way_ns),
        ("frame", &mut fabric.frame_ns),
        ("switch_hop", &mut fabric.switch_hop_ns),
        ("slack", &mut fabric.slack_ns),
    ];
    for (name, ns) in times {
        if let Some(time) = take::<Delay>(said, name)? {
            *ns = time.ns();
        }
    }
    if let Some(packets) = take(said, "bdp")? {
        fabric.bdp_packets = packets;
    }
    if let Some(rate) = take::<Rate>(said, "host_rate")? {
        fabric.host_bits = rate.bits_per_second();
    }
    Ok(fabric)
}

/// The variables of a port and of a fabric.
const VARIABLES: [&str; 23] = [
    "dev",
    "rate",
    "delay",
    "address",
    "hrtt",
    "elide",
    "detour_to",
    "topology",
    "dilation",
    "bdp",
    "rtt",
    "one_way",
    "frame",
    "switch_hop",
    "slack",
    "host_rate",
    "first_host",
    "last_host",
    "rack_hosts",
    "pod_racks",
    "pods",
    "edge_ways",
    "core_ways",
];

/// Removes a variable and parses its value.
fn take<T>(said: &mut BTreeMap<&str, &str>, name: &str) -> Result<Option<T>>
where
    T: FromStr,
    T::Err: Display,
{
    let Some(value) = said.remove(name) else {
        return Ok(None);
    };
    let parsed = value.parse().map(Some);
    parsed.or_else(|error| usage(format!("{name}={value}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_follow_the_variables_that_are_set() {
        let last = |scheme: &str, words: &str| {
            let words = format!("dev=p rate=10mbit delay=200us {words}");
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            let batch = batch(Scheme::find(scheme).unwrap(), &words, "switch.tc");
            batch.unwrap().pop().unwrap()
        };
        assert!(last("pfabric", "").ends_with("pfabric limit 24"));
        assert!(last("pfabric", "bdp=4").ends_with("pfabric limit 8"));
        assert!(last("pfabric", "bdp=4 buffer=$bdp").ends_with("pfabric limit 4"));
        assert!(last("pfabric", "buffer=3").ends_with("pfabric limit 3"));
        // Times of the scheme are the fabric's, and slower with it.
        let codel = |words: &str| last("cubic-codel", words);
        assert_ne!(codel("dilation=1000"), codel("dilation=1"));
    }
}
