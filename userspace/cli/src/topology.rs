// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft topology`.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde::Serialize;
use weft_lab::error::usage;
use weft_lab::parameter::show_time;
use weft_lab::topology::{FRAME, PathMaxima, SHORTEST_FRAME, parse};
use weft_topo::spec::KINDS;
use weft_topo::{Kind, Topology};

use crate::output;

/// Describe a topology: nodes, links, addresses, routes
#[derive(Debug, clap::Args)]
#[command(after_help = format!("\
Kinds: {}, or a TOML file's path.

Examples:
  weft topology fat-tree:k=4
  weft topology leaf-spine:leaves=9,spines=4,hosts=16 --paths h0,h143
  weft topology fat-tree:k=4 --svg > fat-tree.svg
  weft topology dumbbell --dot | dot -Tpdf > dumbbell.pdf
  weft topology ./my.toml --json", KINDS.join(", ")))]
pub(crate) struct Args {
    /// KIND[:OPTION=VALUE,…], or a TOML file
    topology: String,
    /// Print the shortest paths between two hosts instead
    #[arg(long, value_name = "FROM,TO")]
    paths: Option<String>,
    /// Print a picture as SVG instead
    #[arg(long, conflicts_with_all = ["paths", "dot"])]
    svg: bool,
    /// Print a graph for Graphviz's dot instead
    #[arg(long, conflicts_with = "paths")]
    dot: bool,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["svg", "dot"])]
    json: bool,
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
    if args.svg {
        output::print(topology.svg().trim_end())?;
    } else if args.dot {
        output::print(topology.dot().trim_end())?;
    } else if args.json {
        output::json(&json(&topology))?;
    } else {
        let maxima = PathMaxima::of(&topology);
        output::print(format!(
            "{}base round-trip time {}, {} packets of bandwidth-delay product",
            topology.describe(),
            show_time(maxima.base_rtt_ns),
            maxima.bdp_packets
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
    let maxima = PathMaxima::of(topology);
    Json {
        title: topology.title().to_owned(),
        nodes: nodes.collect(),
        links: links.collect(),
        base_rtt_ns: maxima.base_rtt_ns,
        bdp_packets: maxima.bdp_packets,
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
        .with_context(|| format!("there is no path from {from} to {to}"))?;
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
            show_time(found.base_rtt_ns.unwrap_or(0))
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
