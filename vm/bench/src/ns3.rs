// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench ns3`: the cost of a point of pFabric's fabric under the model clock and in a
//! packet simulator, with the same flows.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use weft_arguments::whole;
use weft_build::base::cache::Cache;
use weft_build::base::{host, output, process, progress, workspace};
use weft_machine::interrupt::Temporary;

use super::Figures;
use super::simulator::{self, Cost, Fabric, Flow, millions};

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
    pub(crate) figures: Figures,
    #[command(flatten)]
    pub(crate) fabric: Fabric,
    /// Spine switches
    #[arg(long, default_value_t = 4, allow_negative_numbers = true, value_parser = whole(1..=256_u32))]
    pub(crate) spines: u32,
    /// ns-3's TCP: TcpCubic as in the scheme droptail, TcpNewReno, TcpLinuxReno …
    #[arg(long, default_value = "TcpCubic")]
    pub(crate) tcp: String,
    /// Print the commands and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

const SOURCE: &str = "selftests/bench/ns3/leaf_spine.cc";

/// The simulation's own figures.
#[derive(Deserialize)]
struct Simulated {
    packet_hops: u64,
    events: u64,
    processor_seconds: f64,
    peak_kib: u64,
}

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    both: simulator::Report,
    ns3_version: String,
    ns3_tcp: String,
    ns3: Cost,
    ns3_events: u64,
    ns3_packet_hops: u64,
    ns3_peak_mib: u64,
}

/// Runs both.
///
/// # Errors
/// If a part is missing, or one of the two fails.
pub(crate) fn run(cache: &Cache, options: &Args) -> Result<u8> {
    let (fabric, simulation) = (&options.fabric, simulation(options));
    if options.dry_run {
        output::print(fabric.shown(options.spines, &options.figures)?)?;
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
    let model = fabric.perform(options.spines, cache, &options.figures)?;
    fs::write(place("flows"), trace(&model.flows))?;
    let output = progress::step("ns-3", || {
        process::capture(&mut simulation(directory.path()))
    })?;
    let simulated: Simulated = serde_json::from_str(&output).context("reading what ns-3 took")?;
    let times = times(&fs::read_to_string(place("times"))?)?;
    let (both, ns3) = model.beside(simulated.processor_seconds, &times)?;
    let name = format!("ns3-{}", both.date);
    let report = Report {
        both,
        ns3_version: version()?,
        ns3_tcp: options.tcp.clone(),
        ns3,
        ns3_events: simulated.events,
        ns3_packet_hops: simulated.packet_hops,
        ns3_peak_mib: simulated.peak_kib / 1024,
    };
    let how = (options.figures.save, options.figures.json);
    super::tell(&report, &name, how, table)
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
        format!("--leaves={}", options.fabric.leaves),
        format!("--spines={}", options.spines),
        format!("--hosts={}", options.fabric.hosts),
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

fn version() -> Result<String> {
    let mut asked = Command::new("dpkg-query");
    asked.args(["-W", "-f", "${Version}", "libns3-dev"]);
    process::capture(&mut asked)
}

fn table(report: &Report) -> String {
    let name = format!("ns-3 {}, {}", report.ns3_version, report.ns3_tcp);
    let text = report.both.table(&name, &report.ns3);
    format!(
        "{text}\nns-3: {:.2} million packet hops (acknowledgements among them), {:.2} million events, {} MiB\n",
        millions(report.ns3_packet_hops),
        millions(report.ns3_events),
        report.ns3_peak_mib
    )
}

#[cfg(test)]
mod tests {
    use super::super::simulator::tests::two_flows;
    use super::*;

    #[test]
    fn flows_are_passed_on_in_the_order_of_their_numbers() {
        assert_eq!(trace(&two_flows()), "7 0 1 1448\n50 0 17 1449\n");
        assert_eq!(times("1 4000\n0 5000\n").unwrap(), [(1, 4000), (0, 5000)]);
    }
}
