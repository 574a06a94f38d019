// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft topology`.

use std::fs;
use std::num::NonZeroU32;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde::Serialize;
use weft_topo::spec::KINDS;
use weft_topo::{BestPaths, Kind, NodeId, Path, Spec, Topology};

use crate::error::usage;
use crate::output;

/// A full Ethernet frame of 1500 bytes of IP on the wire, and the shortest: for base round-trip
/// times.
pub(crate) const FRAME: u64 = 1538;
pub(crate) const SHORTEST_FRAME: u64 = 84;

/// What a topology is made of: nodes, links, addresses, routes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Kinds: fat-tree, leaf-spine, rack, dumbbell, bfc-testbed, or a TOML file's path.

Examples:
  weft topology fat-tree:k=4
  weft topology leaf-spine:leaves=9,spines=4,hosts=16 --paths h0,h143
  weft topology ./my.toml --json")]
pub(crate) struct Args {
    /// KIND[:OPTION=VALUE,…], or a TOML file
    topology: String,
    /// Instead: the shortest paths between two hosts
    #[arg(long, value_name = "FROM,TO")]
    paths: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads a topology as the command line names it.
///
/// # Errors
///
/// If there is none of that kind, an option is wrong, or the file is: one sentence.
pub(crate) fn parse(text: &str) -> Result<Topology> {
    let kind = text.split(':').next().unwrap_or(text);
    let is_file = !KINDS.contains(&kind) && (text.contains('/') || text.ends_with(".toml"));
    let spec = if is_file {
        let content = match fs::read_to_string(text) {
            Ok(content) => content,
            Err(error) => return usage(format!("topology {text}: {error}")),
        };
        Spec::from_toml(&content).map_err(|error| format!("{text}: {error}"))
    } else {
        text.parse::<Spec>().map_err(|error| error.to_string())
    };
    match spec {
        Ok(spec) => Ok(spec.topology()),
        Err(sentence) => usage(sentence),
    }
}

/// Slows a fabric.
///
/// # Errors
///
/// If a rate or a delay does not allow it.
pub(crate) fn dilate(topology: Topology, dilation: NonZeroU32) -> Result<Topology> {
    match topology.dilated(dilation) {
        Ok(topology) => Ok(topology),
        Err(error) => usage(format!("--dilation {dilation}: {error}")),
    }
}

/// A host's place among the hosts, by its name.
pub(crate) fn host(topology: &Topology, name: &str) -> Option<u32> {
    let mut hosts = topology.hosts();
    let place = hosts.position(|id| topology.node(id).name == name);
    place.map(|place| place as u32)
}

/// The places of a host, or of a group's hosts, by its name; none if there is neither.
pub(crate) fn hosts(topology: &Topology, name: &str) -> Vec<u32> {
    if let Some(place) = host(topology, name) {
        return vec![place];
    }
    let group = topology.groups().iter().find(|group| group.name == name);
    let hosts = group.map_or(&[][..], |group| &group.hosts);
    let places = topology.hosts().zip(0..);
    places
        .filter(|(id, _)| hosts.contains(id))
        .map(|(_, place)| place)
        .collect()
}

/// The longest base round-trip time between two hosts, in ns.
pub(crate) fn base_rtt_ns(topology: &Topology) -> u64 {
    farthest(topology, |_, rtt| rtt)
}

/// The largest bandwidth-delay product between two hosts, in full frames, rounded up.
pub(crate) fn bdp_packets(topology: &Topology) -> u64 {
    let bytes = farthest(topology, |path, rtt| path.carries_bytes(rtt));
    bytes.div_ceil(FRAME).max(1)
}

/// The most that `measure` makes of a pair's path and its base round-trip time in ns.
///
/// Two hosts of each switch stand for all of them: they have equal links, but in a file. Two, for
/// where the fabric is oversubscribed the largest product is that of neighbours.
fn farthest(topology: &Topology, measure: impl Fn(&Path, u64) -> u64) -> u64 {
    const MANY: usize = 64;
    let mut hosts: Vec<NodeId> = topology.hosts().collect();
    if hosts.len() > MANY {
        let mut seen = vec![0; topology.nodes().len()];
        hosts.retain(|&host| {
            let ports = &topology.node(host).ports;
            ports.first().is_none_or(|port| {
                let seen = &mut seen[port.peer.index()];
                *seen += 1;
                *seen <= 2
            })
        });
    }
    // A search for each host, not for each pair: that of k=16 would take seconds.
    let paths: Vec<BestPaths<'_>> = hosts.iter().map(|&to| topology.best_paths(to)).collect();
    let hosts = || hosts.iter().zip(&paths);
    let pairs = hosts().flat_map(|from| hosts().map(move |to| (from, to)));
    pairs
        .filter_map(|((&from, to_from), (&to, to_to))| {
            let (there, back) = (to_to.from(from)?, to_from.from(to)?);
            let rtt = there.one_way_ns(FRAME);
            let rtt = rtt.saturating_add(back.one_way_ns(SHORTEST_FRAME));
            Some(measure(&there, rtt))
        })
        .max()
        .unwrap_or(0)
}

#[derive(Serialize)]
struct Json {
    title: String,
    nodes: Vec<JsonNode>,
    links: Vec<JsonLink>,
    base_rtt_ns: u64,
    bdp_packets: u64,
    oversubscription: Option<f64>,
}

#[derive(Serialize)]
struct JsonNode {
    name: String,
    kind: &'static str,
    layer: String,
    ipv4: String,
    ipv6: String,
}

#[derive(Serialize)]
struct JsonLink {
    ends: [String; 2],
    ports: [String; 2],
    layer: String,
    rate: u64,
    delay_ns: u64,
}

#[derive(Serialize)]
struct JsonPaths {
    from: String,
    to: String,
    links: u32,
    paths: u64,
    base_rtt_ns: Option<u64>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let topology = parse(&args.topology)?;
    if let Some(pair) = &args.paths {
        return paths(&topology, pair, args.json);
    }
    if args.json {
        output::json(&json(&topology))?;
    } else {
        output::print(format!(
            "{}base round-trip time {}, {} packets of bandwidth-delay product",
            topology.describe(),
            crate::scheme::show_time(base_rtt_ns(&topology)),
            bdp_packets(&topology)
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn json(topology: &Topology) -> Json {
    let nodes = topology.nodes().iter().map(|node| JsonNode {
        name: node.name.clone(),
        kind: match node.kind {
            Kind::Host => "host",
            Kind::Switch => "switch",
        },
        layer: node.layer.clone(),
        ipv4: node.address.v4().to_string(),
        ipv6: node.address.v6().to_string(),
    });
    let links = topology.links().iter().map(|link| JsonLink {
        ends: link.ends.map(|(id, _)| topology.node(id).name.clone()),
        ports: link
            .ends
            .map(|(id, port)| topology.node(id).ports[port].name.clone()),
        layer: link.layer.clone(),
        rate: link.wire.rate.bits_per_second(),
        delay_ns: link.wire.delay.ns(),
    });
    Json {
        title: topology.title().to_owned(),
        nodes: nodes.collect(),
        links: links.collect(),
        base_rtt_ns: base_rtt_ns(topology),
        bdp_packets: bdp_packets(topology),
        oversubscription: topology.bisection().map(|cut| cut.oversubscription()),
    }
}

fn paths(topology: &Topology, pair: &str, as_json: bool) -> Result<ExitCode> {
    let Some((from, to)) = pair.split_once(',') else {
        return usage(format!(
            "--paths {pair}: expected two hosts, for example h0,h7"
        ));
    };
    let find = |name: &str| match topology.find(name) {
        Some(id) => Ok(id),
        None => usage(format!("there is no node `{name}` in {}", topology.title())),
    };
    let (from_id, to_id) = (find(from)?, find(to)?);
    let links = topology
        .hops(from_id, to_id)
        .with_context(|| format!("there is no way from {from} to {to}"))?;
    let found = JsonPaths {
        from: from.to_owned(),
        to: to.to_owned(),
        links,
        paths: topology.path_count(from_id, to_id),
        base_rtt_ns: topology.base_rtt_ns(from_id, to_id, FRAME, SHORTEST_FRAME),
    };
    if as_json {
        output::json(&found)?;
    } else {
        output::print(format!(
            "{from} to {to}: {} shortest paths of {links} links, base round-trip time {}",
            found.paths,
            crate::scheme::show_time(found.base_rtt_ns.unwrap_or(0))
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farthest_pair_decides() {
        // All hosts, and those that stand for others.
        for text in [
            "fat-tree:k=4",
            "dumbbell:left=2,right=2,host-rate=1gbit,bottleneck-rate=100mbit",
            "fat-tree:k=8,oversubscription=4",
        ] {
            let topology = parse(text).unwrap();
            let hosts: Vec<NodeId> = topology.hosts().collect();
            let most = |of: &dyn Fn(NodeId, NodeId) -> Option<u64>| {
                let pairs = hosts
                    .iter()
                    .flat_map(|&to| [(hosts[0], to), (to, hosts[0])]);
                pairs.filter_map(|(from, to)| of(from, to)).max().unwrap()
            };
            let rtt = most(&|from, to| topology.base_rtt_ns(from, to, FRAME, SHORTEST_FRAME));
            assert_eq!(base_rtt_ns(&topology), rtt, "{text}");
            let bytes = most(&|from, to| topology.bdp_bytes(from, to, FRAME, SHORTEST_FRAME));
            assert_eq!(bdp_packets(&topology), bytes.div_ceil(FRAME), "{text}");
        }
    }
}
