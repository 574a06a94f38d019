// SPDX-License-Identifier: MIT OR Apache-2.0

//! A scheme's processes: their nodes in a fabric, and their command lines.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use weft_net::Processes;
use weft_topo::{Kind, Node, Topology};

use crate::error::usage;
use crate::scheme::{Process, Scheme};
use crate::variables::Variables;
use crate::words;

/// All of them, in the scheme's order; a process on several nodes is listed in the order of the
/// nodes.
///
/// # Errors
///
/// If there is no such node, or a command line is invalid: the scheme's file, and the mistake.
pub(crate) fn processes(
    scheme: &Scheme,
    topology: &Topology,
    variables: &Variables,
) -> Result<Vec<weft_net::Process>> {
    let mut all = Vec::new();
    for process in &scheme.description.process {
        let Process { on, run } = process;
        let place = || format!("{}/scheme.toml: [[process]] on = \"{on}\"", scheme.name);
        all.extend(on_nodes(topology, on, run, variables).with_context(place)?);
    }
    Ok(all)
}

/// A command line on each of the named nodes; `$node` is the node's name.
///
/// # Errors
///
/// If there is no such node, or the command line is invalid.
pub(crate) fn on_nodes(
    topology: &Topology,
    on: &str,
    run: &str,
    variables: &Variables,
) -> Result<Vec<weft_net::Process>> {
    let mut all = Vec::new();
    for node in nodes(topology, on)? {
        let mut variables = variables.clone();
        variables.set("node", node.name.clone());
        let words = words::split_and_fill(run, |piece| variables.fill(piece))?;
        if words.is_empty() {
            return usage("run: expected a program and its arguments");
        }
        let node = node.name.clone();
        all.push(weft_net::Process { node, words });
    }
    Ok(all)
}

/// The named nodes.
fn nodes<'a>(topology: &'a Topology, on: &str) -> Result<Vec<&'a Node>> {
    let all = || topology.nodes().iter();
    let of = |kind: Kind| all().filter(move |node| node.kind == kind);
    let found: Vec<&Node> = match on {
        "hosts" => of(Kind::Host).collect(),
        "switches" => of(Kind::Switch).collect(),
        "first-host" => of(Kind::Host).take(1).collect(),
        "last-host" => of(Kind::Host).next_back().into_iter().collect(),
        name => match all().find(|node| node.name == name) {
            Some(node) => vec![node],
            None => all().filter(|node| node.layer == name).collect(),
        },
    };
    if !found.is_empty() {
        return Ok(found);
    }
    let mut layers: Vec<&str> = all().map(|node| node.layer.as_str()).collect();
    layers.dedup();
    usage(format!(
        "there is no such node in {}: expected one's name, hosts, switches, first-host, last-host, or a layer: {}",
        topology.title(),
        layers.join(", ")
    ))
}

/// The failures of processes that have ended: one sentence each. Copies their output beside the
/// run's results, because it would be removed with their testbed.
///
/// # Errors
///
/// If the output cannot be copied.
pub(crate) fn failures(processes: &mut Processes, results: &Path) -> Result<Vec<String>> {
    let ended = processes.ended().into_iter();
    let failures = ended.map(|ended| {
        let stem = results.file_stem().unwrap_or_default().display();
        let log = ended.log.file_name().unwrap_or_default().display();
        let kept = results.with_file_name(format!("{stem}.{log}"));
        fs::copy(&ended.log, &kept).with_context(|| format!("writing {}", kept.display()))?;
        Ok(format!("{ended} ({})", kept.display()))
    });
    failures.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(name: &str) -> Result<Vec<String>> {
        let topology = crate::topology::parse("leaf-spine:leaves=2,spines=1,hosts=2").unwrap();
        let nodes = nodes(&topology, name)?;
        Ok(nodes.iter().map(|node| node.name.clone()).collect())
    }

    #[test]
    fn nodes_are_selected_by_name_kind_or_layer() {
        assert_eq!(on("h1").unwrap(), ["h1"]);
        assert_eq!(on("first-host").unwrap(), ["h0"]);
        assert_eq!(on("last-host").unwrap(), ["h3"]);
        assert_eq!(on("hosts").unwrap(), ["h0", "h1", "h2", "h3"]);
        assert_eq!(on("switches").unwrap(), ["leaf0", "leaf1", "spine0"]);
        assert_eq!(on("leaf").unwrap(), ["leaf0", "leaf1"]);
        assert_eq!(on("spine0").unwrap(), ["spine0"]);
        let error = on("h4").unwrap_err();
        assert!(crate::error::is_usage(&error));
        let said = error.to_string();
        assert!(
            said.starts_with("there is no such node in leaf-spine"),
            "{said}"
        );
        assert!(said.ends_with("a layer: host, leaf, spine"), "{said}");
    }
}
