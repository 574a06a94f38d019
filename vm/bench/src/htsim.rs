// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench htsim`: the cost of a point of pFabric's fabric under the model clock and in
//! htsim, a packet simulator that was written for speed, with the same flows.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Serialize;
use weft_build::base::cache::Cache;
use weft_build::base::{output, process, progress};
use weft_machine::interrupt::Temporary;

use super::simulator::{self, Cost, Fabric, Flow};
use super::{Figures, usage};

/// Cost of a point of pFabric's fabric: the model clock compared with the packet simulator htsim
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Get htsim's source first, for example with `git clone https://github.com/Broadcom/csg-htsim`. weft builds its \
program htsim_ndp there, and changes nothing else. What differs is in selftests/bench/htsim/README.md.

Examples:
  cargo xtask bench htsim --source ../csg-htsim
  cargo xtask bench htsim --source ../csg-htsim --flows 10000 --memory 4096 --save
  cargo xtask bench htsim --source ../csg-htsim --dry-run      the commands, nothing is done")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) figures: Figures,
    /// Folder with htsim's source
    #[arg(long, value_name = "FOLDER")]
    pub(crate) source: PathBuf,
    #[command(flatten)]
    pub(crate) fabric: Fabric,
    /// Print the commands and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Bytes of a frame of full size on Ethernet (preamble, FCS and gap among them), and of payload in
/// it.
const FRAME: u64 = 1538;
const PAYLOAD: u64 = 1448;
/// The delays of hosts' links and of the others, in ns, as weft has them on this fabric.
const DELAYS: [u32; 2] = [2700, 200];
/// The rate of all links, in Gbit/s. htsim's fabrics have none that are faster, so a leaf has as
/// many spines as hosts.
const RATE: u32 = 10;
/// Packets that a flow sends before the receiver pulls any, as in NDP's paper at 10 Gbit/s (SIGCOMM
/// 2017, §6).
const FIRST_WINDOW: u32 = 30;
/// Packets that a queue holds: what arrives beyond them is trimmed (the same section).
const QUEUE: u32 = 8;

#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    both: simulator::Report,
    /// The commit of its source; `null` if that is no repository.
    htsim_commit: Option<String>,
    htsim_ndp: Cost,
}

/// Runs both.
///
/// # Errors
/// If htsim cannot be built, or one of the two fails.
pub(crate) fn run(cache: &Cache, options: &Args) -> Result<u8> {
    let fabric = &options.fabric;
    let spines = fabric.hosts;
    let datacenter = options.source.join("sim/datacenter");
    let simulation = |folder: &Path, end_us: u64| {
        let mut command = Command::new(datacenter.join("htsim_ndp"));
        command
            .current_dir(folder)
            .args(["-strat", "perm", "-seed", "1", "-mtu"])
            .arg(FRAME.to_string())
            .args(["-linkspeed", &(RATE * 1000).to_string()])
            .args(["-cwnd", &FIRST_WINDOW.to_string()])
            .args(["-q", &QUEUE.to_string()])
            .args(["-nodes", &(fabric.leaves * fabric.hosts).to_string()])
            .args(["-topo", "topology", "-tm", "flows", "-o", "log"])
            .args(["-end", &end_us.to_string()]);
        command
    };
    if options.dry_run {
        output::print(fabric.shown(spines, &options.figures)?)?;
        for command in builds(&options.source) {
            output::print(process::shown(&command))?;
        }
        output::print(process::shown(&simulation(Path::new("."), 1)))?;
        return Ok(0);
    }
    ensure!(
        datacenter.join("main_ndp.cpp").exists(),
        "{} has no sim/datacenter/main_ndp.cpp: name the folder of htsim's source (git clone \
         https://github.com/Broadcom/csg-htsim)",
        options.source.display()
    );
    progress::step("htsim", || {
        builds(&options.source).iter_mut().try_for_each(|command| {
            process::capture(command)?;
            Ok(())
        })
    })?;
    let model = fabric.perform(spines, cache, &options.figures)?;
    let directory = Temporary::new(cache.file(format!("run/{}.htsim", std::process::id())))?;
    let place = |name: &str| directory.path().join(name);
    fs::write(place("topology"), topology(fabric))?;
    fs::write(place("flows"), matrix(fabric, &model.flows))?;
    let mut command = simulation(directory.path(), end_us(&model.flows));
    let (output, seconds) =
        usage::with_seconds(|| progress::step("htsim_ndp", || process::capture(&mut command)))?;
    let (both, htsim_ndp) = model.beside(seconds, &times(&output, &model.flows)?)?;
    let name = format!("htsim-{}", both.date);
    let report = Report {
        both,
        htsim_commit: commit(&options.source),
        htsim_ndp,
    };
    let how = (options.figures.save, options.figures.json);
    super::tell(&report, &name, how, table)
}

/// The commands that build htsim.
fn builds(source: &Path) -> [Command; 2] {
    let make = |folder: &str, what: &str| {
        let mut command = Command::new("make");
        command.arg("-C").arg(source.join(folder)).arg(what);
        command
    };
    [
        make("sim", "libhtsim.a"),
        make("sim/datacenter", "htsim_ndp"),
    ]
}

fn commit(source: &Path) -> Option<String> {
    let mut asked = Command::new("git");
    asked
        .arg("-C")
        .arg(source)
        .args(["rev-parse", "--verify", "HEAD"]);
    process::capture(&mut asked)
        .ok()
        .map(|commit| commit.trim().to_owned())
}

/// The fabric, in htsim's words.
fn topology(fabric: &Fabric) -> String {
    let Fabric { leaves, hosts, .. } = fabric;
    let nodes = leaves * hosts;
    let [host_delay, delay] = DELAYS;
    format!(
        "Nodes {nodes}\nTiers 2\nPodsize {nodes}\n\nTier 0\nDownlink_speed_Gbps {RATE}\nRadix_Down {hosts}\n\
         Radix_Up {hosts}\nDownlink_Latency_ns {host_delay}\n\nTier 1\nDownlink_speed_Gbps {RATE}\n\
         Radix_Down {leaves}\nDownlink_Latency_ns {delay}\n"
    )
}

/// The flows, in htsim's words: their numbers begin with 1, times are in ps, and a packet is a
/// whole frame.
fn matrix(fabric: &Fabric, flows: &[Flow]) -> String {
    let nodes = fabric.leaves * fabric.hosts;
    let mut text = format!("Nodes {nodes}\nConnections {}\n", flows.len());
    for (number, flow) in (1..).zip(flows) {
        let (start, size) = (flow.start_ns * 1000, flow.size.div_ceil(PAYLOAD) * FRAME);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{}->{} id {number} start {start} size {size}",
            flow.src, flow.dst
        );
    }
    text
}

/// When the simulation ends at the latest: long after the last flow has started.
fn end_us(flows: &[Flow]) -> u64 {
    let last = flows.iter().map(|flow| flow.start_ns).max().unwrap_or(0);
    last / 1000 + 100_000
}

/// Indices of flows that ended, and their times in ns.
fn times(output: &str, flows: &[Flow]) -> Result<Vec<(usize, u64)>> {
    let ends = output.lines().filter_map(|line| {
        let (_, rest) = line.split_once(" flow_id ")?;
        let (number, rest) = rest.split_once(" finished at ")?;
        Some((number, rest.split(' ').next()?))
    });
    ends.map(|(number, end_us)| {
        let place = number.parse::<usize>()?.checked_sub(1);
        let flow = place.and_then(|place| flows.get(place));
        let (place, flow) = place
            .zip(flow)
            .with_context(|| format!("htsim has no flow {number}"))?;
        let end_ns = (end_us.parse::<f64>()? * 1000.0).round() as u64;
        Ok((place, end_ns.saturating_sub(flow.start_ns)))
    })
    .collect()
}

fn table(report: &Report) -> String {
    let commit = report.htsim_commit.as_deref().unwrap_or("?");
    let name = format!("htsim {}, NDP", commit.get(..12).unwrap_or(commit));
    report.both.table(&name, &report.htsim_ndp)
}

#[cfg(test)]
mod tests {
    use super::super::simulator::tests::{FABRIC, two_flows};
    use super::*;

    #[test]
    fn htsim_gets_the_flows_in_frames_and_picoseconds() {
        let text = matrix(&FABRIC(), &two_flows());
        let flows = "0->1 id 1 start 7000 size 1538\n0->17 id 2 start 50000 size 3076\n";
        assert_eq!(text, format!("Nodes 144\nConnections 2\n{flows}"));
        assert!(topology(&FABRIC()).contains("Radix_Down 16\nRadix_Up 16\n"));
    }

    #[test]
    fn times_are_those_of_the_flows_that_ended() {
        let output = "Starting simulation\n\
            Flow Ndp_0_17 flow_id 2 finished at 3.05 total bytes 3076\n";
        assert_eq!(times(output, &two_flows()).unwrap(), [(1, 3000)]);
        let other = output.replace("flow_id 2", "flow_id 3");
        assert!(times(&other, &two_flows()).is_err());
        assert_eq!(end_us(&two_flows()), 100_000);
    }
}
