// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench ns3`: the cost of a point of pFabric's fabric under the model clock and in a
//! packet simulator, with the same flows.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use weft_arguments::whole;
use weft_build::base::cache::Cache;
use weft_build::base::{host, output, process, progress, workspace};
use weft_build::options::{ClockKind, Hardware, Target};
use weft_build::stages::chain::{self, Kernel};
use weft_machine::interrupt::Temporary;

use super::hops;
use super::usage::Usage;
use crate::weft_run::{self, Run};

/// Cost of a point of pFabric's fabric: the model clock compared with the packet simulator ns-3
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Debian's libns3-dev is installed if it is missing. What differs is in selftests/bench/ns3/README.md.

Examples:
  cargo xtask bench ns3
  cargo xtask bench ns3 --flows 10000 --memory 4096 --save
  cargo xtask bench ns3 --tcp TcpLinuxReno
  cargo xtask bench ns3 --dry-run      the commands, nothing is done")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Leaf switches
    #[arg(long, default_value_t = 9, allow_negative_numbers = true, value_parser = whole(2..=256_u32))]
    pub(crate) leaves: u32,
    /// Spine switches
    #[arg(long, default_value_t = 4, allow_negative_numbers = true, value_parser = whole(1..=256_u32))]
    pub(crate) spines: u32,
    /// Hosts per leaf
    #[arg(long, default_value_t = 16, allow_negative_numbers = true, value_parser = whole(1..=253_u32))]
    pub(crate) hosts: u32,
    /// Load of the hosts' links, 0 to 1
    #[arg(long, default_value = "0.6")]
    pub(crate) load: String,
    /// Number of flows
    #[arg(long, default_value_t = 600, allow_negative_numbers = true, value_parser = whole(1..=u64::MAX))]
    pub(crate) flows: u64,
    /// Seed of the workload
    #[arg(long, value_name = "SEED", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    pub(crate) workload_seed: u64,
    /// ns-3's TCP: TcpCubic as in the scheme droptail, TcpNewReno, TcpLinuxReno …
    #[arg(long, default_value = "TcpCubic")]
    pub(crate) tcp: String,
    /// Print data as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep the figures in selftests/bench/results, under the date
    #[arg(long)]
    pub(crate) save: bool,
    /// Print the commands and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) hardware: Hardware,
}

const SOURCE: &str = "selftests/bench/ns3/leaf_spine.cc";
const SCHEME: &str = "droptail";

/// A flow in the results of `weft run`.
#[derive(Deserialize)]
struct Flow {
    id: u64,
    src: u32,
    dst: u32,
    warm_up: bool,
    start_ns: u64,
    size: u64,
    fct_ns: Option<u64>,
    slowdown: Option<f64>,
}

/// The simulation's own figures.
#[derive(Deserialize)]
struct Simulated {
    packet_hops: u64,
    events: u64,
    processor_seconds: f64,
    peak_kib: u64,
}

/// The cost and the results of one of the two.
#[derive(Serialize)]
struct Figures {
    processor_seconds: f64,
    /// Per data packet and link that it crosses, without retransmissions.
    us_per_data_packet_hop: f64,
    /// Over the flows that ended in both, without the warm-up; relative to the best possible time.
    mean_slowdown: f64,
    unfinished: u64,
}

#[derive(Serialize)]
struct Report {
    date: String,
    topology: String,
    load: String,
    flows: usize,
    data_packet_hops: u64,
    model_kernel: String,
    model_clock: Figures,
    ns3_version: String,
    ns3_tcp: String,
    ns3: Figures,
    ns3_events: u64,
    ns3_packet_hops: u64,
    ns3_peak_mib: u64,
}

/// Runs both.
///
/// # Errors
/// If a part is missing, or one of the two fails.
pub(crate) fn run(cache: &Cache, options: &Args) -> Result<u8> {
    let (weft, simulation) = (weft(options), simulation(options));
    if options.dry_run {
        let (target, hardware) = (&options.target, &options.hardware);
        output::print(weft.shown(target, ClockKind::Model, hardware)?)?;
        output::print(process::shown(&compiler(Path::new("leaf_spine"))))?;
        output::print(process::shown(&simulation(Path::new("."))))?;
        return Ok(0);
    }
    host::provide(cache, &host::NS3)?;
    let directory = Temporary::new(cache.file(format!("run/{}.ns3", std::process::id())))?;
    let place = |name: &str| directory.path().join(name);
    progress::step("the simulation's program", || {
        process::capture(&mut compiler(&place("leaf_spine")))
    })?;
    let built = chain::all(cache, &options.target.request(), &[Kernel::Model])?;
    let before = Usage::so_far()?;
    let result = progress::step("model clock", || {
        weft.perform(&built, ClockKind::Model, &options.hardware, &Arc::default())
    })?;
    let seconds = Usage::so_far()?.seconds() - before.seconds();
    let flows = flows(&String::from_utf8_lossy(&result))?;
    fs::write(place("flows"), trace(&flows))?;
    let output = progress::step("ns-3", || {
        process::capture(&mut simulation(directory.path()))
    })?;
    let simulated: Simulated = serde_json::from_str(&output).context("reading what ns-3 took")?;
    let times = times(&fs::read_to_string(place("times"))?)?;
    let data_packet_hops = flows.iter().map(|flow| hops(flow, options.hosts)).sum();
    let [ours, theirs] = slowdowns(&flows, &times);
    let figures = |seconds: f64, mean_slowdown, unfinished| Figures {
        processor_seconds: seconds,
        us_per_data_packet_hop: 1e6 * seconds / data_packet_hops as f64,
        mean_slowdown,
        unfinished,
    };
    let unfinished = flows.iter().filter(|flow| flow.fct_ns.is_none()).count() as u64;
    let lost = (flows.len() - times.len()) as u64;
    let report = Report {
        date: super::today()?,
        topology: topology(options),
        load: options.load.clone(),
        flows: flows.len(),
        data_packet_hops,
        model_kernel: built.release(Kernel::Model)?.to_owned(),
        model_clock: figures(seconds, ours, unfinished),
        ns3_version: version()?,
        ns3_tcp: options.tcp.clone(),
        ns3: figures(simulated.processor_seconds, theirs, lost),
        ns3_events: simulated.events,
        ns3_packet_hops: simulated.packet_hops,
        ns3_peak_mib: simulated.peak_kib / 1024,
    };
    let how = (options.save, options.json);
    super::tell(&report, &format!("ns3-{}", report.date), how, table)
}

fn topology(options: &Args) -> String {
    let Args {
        leaves,
        spines,
        hosts,
        ..
    } = options;
    format!("leaf-spine:leaves={leaves},spines={spines},hosts={hosts}")
}

/// The run in the guest.
fn weft(options: &Args) -> Run {
    let said = [
        ("--dilation", "1000".to_owned()),
        ("--workload", "web-search".to_owned()),
        ("--load", options.load.clone()),
        ("--flows", options.flows.to_string()),
        ("--sample", "0ns".to_owned()),
        ("--warm-up", "0".to_owned()),
    ];
    let words = weft_run::words(&topology(options), said, &["--no-cool-down"]);
    Run::new(words, SCHEME, options.workload_seed)
}

fn compiler(program: &Path) -> Command {
    let mut command = Command::new("g++");
    command.args(["-O2", "-std=c++17", "-o"]).arg(program);
    command.arg(workspace().join(SOURCE));
    command.args(
        ["internet", "point-to-point", "network", "core"].map(|part| format!("-lns3-{part}")),
    );
    command
}

/// The simulation of the flows in a folder.
fn simulation(options: &Args) -> impl Fn(&Path) -> Command {
    let words = [
        format!("--leaves={}", options.leaves),
        format!("--spines={}", options.spines),
        format!("--hosts={}", options.hosts),
        format!("--tcp={}", options.tcp),
    ];
    move |folder| {
        let mut command = Command::new(folder.join("leaf_spine"));
        command.arg(format!("--flows={}", folder.join("flows").display()));
        command.arg(format!("--results={}", folder.join("times").display()));
        command.args(&words);
        command
    }
}

/// The flows of a result, sorted by number.
fn flows(results: &str) -> Result<Vec<Flow>> {
    let lines = results
        .lines()
        .filter(|line| line.contains(r#""record":"flow""#));
    let mut flows: Vec<Flow> = lines
        .map(serde_json::from_str)
        .collect::<Result<_, _>>()
        .context("reading the flows")?;
    flows.sort_by_key(|flow| flow.id);
    Ok(flows)
}

fn trace(flows: &[Flow]) -> String {
    let mut text = String::new();
    for Flow {
        start_ns,
        src,
        dst,
        size,
        ..
    } in flows
    {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{start_ns} {src} {dst} {size}");
    }
    text
}

/// Indices of flows in the trace, and their times in ns.
fn times(text: &str) -> Result<Vec<(usize, u64)>> {
    let parse = |line: &str| {
        let (flow, ns) = line.split_once(' ').context("expected `FLOW NS`")?;
        Ok((flow.parse()?, ns.parse()?))
    };
    text.lines().map(parse).collect()
}

/// The number of link crossings of a flow's data packets.
fn hops(flow: &Flow, hosts: u32) -> u64 {
    let ends = (flow.src.into(), flow.dst.into());
    hops::of_flow(ends, flow.size, (hosts.into(), u64::MAX))
}

/// Means over the flows that ended in both: weft's and ns-3's.
fn slowdowns(flows: &[Flow], times: &[(usize, u64)]) -> [f64; 2] {
    let both = times.iter().filter_map(|&(place, ns)| {
        let flow = flows.get(place).filter(|flow| !flow.warm_up)?;
        let slowdown = flow.slowdown?;
        Some([slowdown, ns as f64 * slowdown / flow.fct_ns? as f64])
    });
    let both: Vec<[f64; 2]> = both.collect();
    [0, 1].map(|side| both.iter().map(|it| it[side]).sum::<f64>() / both.len() as f64)
}

fn version() -> Result<String> {
    let mut asked = Command::new("dpkg-query");
    asked.args(["-W", "-f", "${Version}", "libns3-dev"]);
    process::capture(&mut asked)
}

fn millions(count: u64) -> f64 {
    count as f64 / 1e6
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{}, web-search, load {}, {} flows, {:.2} million data-packet hops\n\n",
        report.topology,
        report.load,
        report.flows,
        millions(report.data_packet_hops),
    );
    let head = [
        "",
        "processor s",
        "µs per hop",
        "mean slowdown",
        "unfinished",
    ];
    let ours = format!("model clock, {}, {SCHEME}", report.model_kernel);
    let theirs = format!("ns-3 {}, {}", report.ns3_version, report.ns3_tcp);
    let [name, seconds, hop, slowdown, unfinished] = head;
    let _ = writeln!(
        text,
        "{name:<36}{seconds:>12}{hop:>12}{slowdown:>15}{unfinished:>12}"
    );
    for (name, figures) in [(ours, &report.model_clock), (theirs, &report.ns3)] {
        let _ = writeln!(
            text,
            "{name:<36}{:>12.1}{:>12.2}{:>15.2}{:>12}",
            figures.processor_seconds,
            figures.us_per_data_packet_hop,
            figures.mean_slowdown,
            figures.unfinished
        );
    }
    let _ = writeln!(
        text,
        "\nns-3: {:.2} million packet hops (acknowledgements among them), {:.2} million events, {} MiB",
        millions(report.ns3_packet_hops),
        millions(report.ns3_events),
        report.ns3_peak_mib
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULTS: &str = r#"{"record":"header","format":1}
{"record":"flow","id":1,"src":0,"dst":17,"class":"background","warm_up":false,"start_ns":50,"size":1449,"fct_ns":3000,"slowdown":1.5}
{"record":"flow","id":0,"src":0,"dst":1,"class":"background","warm_up":true,"start_ns":7,"size":1448,"fct_ns":1000,"slowdown":1.0}
{"record":"summary"}"#;

    #[test]
    fn flows_are_passed_on_in_the_order_of_their_numbers() {
        let flows = flows(RESULTS).unwrap();
        assert_eq!(trace(&flows), "7 0 1 1448\n50 0 17 1449\n");
        // One packet over two links, two over four.
        assert_eq!([hops(&flows[0], 16), hops(&flows[1], 16)], [2, 8]);
    }

    #[test]
    fn slowdowns_are_over_the_same_best_possible_time() {
        let flows = flows(RESULTS).unwrap();
        let times = times("1 4000\n0 5000\n").unwrap();
        // The best possible time is 2000 ns; the warm-up is excluded.
        assert_eq!(slowdowns(&flows, &times), [1.5, 2.0]);
    }
}
