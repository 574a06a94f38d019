// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a packet costs in each qdisc, at given backlogs and numbers of flows.
//!
//! Runs in the guest, started by `cargo xtask bench qdisc`. The path of a packet is whole: pktgen
//! makes it, `dev_queue_xmit()` hands it to the qdisc, the qdisc to a dummy device, which frees it.
//! In virtual time a nanosecond is an instruction, so time per packet is instructions per packet,
//! exact and repeatable; in real time it is what it takes here.
//!
//! Two ways to put a qdisc there:
//!
//! - *empty*: at the device's root. Each packet leaves before the next one comes, and qdiscs that
//!   may let a packet pass by an empty queue do.
//! - *backlog N*: under `hold`, which asks for a packet only when more than N are inside. Its cost
//!   is in every figure of that kind alike.
//!
//! A qdisc that is *full*, with a backlog of all that it may hold, sends each packet by a second
//! device: what is measured is a packet's whole way to there, and no packet ever leaves the
//! backlog.
//!
//! pktgen's packets all have one priority, which makes any priority queue a first-in-first-out one;
//! for the subjects called *ranked* `hold` gives each packet a random one. They have no IPv4
//! options; for the subjects called *room*, *records*, *full* and *tag* the qdisc `carry` above the
//! measured one inserts the one that `int` fills.

mod pktgen;
mod requests;
mod subjects;

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Parser;
use serde::Serialize;

use pktgen::Pktgen;
use subjects::{SUBJECTS, Subject};

/// Measures what a packet costs in each qdisc. Needs root, pktgen and weft's modules: it is made
/// for the guest.
#[derive(Parser)]
struct Arguments {
    /// Packets measured for each figure.
    #[arg(long, default_value_t = 20_000)]
    packets: u64,
    /// How often each figure is measured; the least counts. In real time whatever else the machine
    /// does makes it more; in virtual time they are all the same.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Size of a packet at layer 2, in bytes.
    #[arg(long, default_value_t = 1500)]
    size: u32,
    /// Only qdiscs whose name contains one of these, separated by commas.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Packets that stay in the queue, separated by commas; 0 stands for an empty queue.
    #[arg(long, value_delimiter = ',', default_value = "0,1,24,1000,10000")]
    backlogs: Vec<u32>,
    /// What requests cost about a qdisc that has packets, in place of packets.
    #[arg(long)]
    requests: bool,
    /// Where the results go, as JSON.
    #[arg(long, default_value = "/out/bench.json")]
    json: String,
}

/// One figure.
#[derive(Serialize)]
struct Figure {
    qdisc: &'static str,
    /// Packets held, or `null` for a qdisc at the root, which is empty between packets.
    backlog: Option<u32>,
    flows: u32,
    packets: u64,
    ns_per_packet: f64,
    packets_per_second: f64,
}

#[derive(Serialize)]
struct Results<F> {
    kernel: String,
    size: u32,
    figures: Vec<F>,
}

impl<F: Serialize> Results<F> {
    fn write(&self, path: &str) -> Result<()> {
        fs::write(path, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {path}"))
    }
}

const DEVICE: &str = "bench0";
/// By which packets go that find a qdisc full.
const SECOND: &str = "bench1";

/// Packets sent before anything is measured: the first ones pay for memory that the others reuse.
const WARM_UP: u64 = 1_000;

/// How many times the backlog is sent before anything is measured. It fills the queue, and then
/// takes it to a steady state: what stays is what leaves last, not what came first.
const TURNOVERS: u64 = 11;

/// Flows in a backlog, as in "at backlogs 1, 24, 1,000, 10,000 and flows 1, 24, 1,000, 10,000".
const FLOWS: [u32; 4] = [1, 24, 1_000, 10_000];
/// Flows in an empty queue.
const FLOWS_EMPTY: [u32; 2] = [1, 64];

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?
        .trim()
        .to_owned();
    run("modprobe", ["pktgen"])?;
    if arguments.requests {
        let results = Results {
            kernel,
            size: requests::SIZE,
            figures: requests::measure(&arguments.only)?,
        };
        return results.write(&arguments.json);
    }
    let mut figures = Vec::new();
    println!(
        "{:<28}{:>9}{:>8}{:>14}{:>14}",
        "qdisc", "backlog", "flows", "ns/packet", "packets/s"
    );
    // The machine's own warm-up.
    measure(&SUBJECTS[0], None, 1, &arguments)?;
    for subject in SUBJECTS {
        if !wanted(&arguments.only, subject.name) {
            continue;
        }
        for (backlog, flows) in rows(&arguments.backlogs) {
            if backlog.is_none() && subject.full.is_some() {
                continue;
            }
            let figure = measure(subject, backlog, flows, &arguments)?;
            let backlog = backlog.map_or("empty".into(), |packets| packets.to_string());
            println!(
                "{:<28}{backlog:>9}{flows:>8}{:>14.0}{:>14.0}",
                figure.qdisc, figure.ns_per_packet, figure.packets_per_second
            );
            figures.push(figure);
        }
    }
    let results = Results {
        kernel,
        size: arguments.size,
        figures,
    };
    results.write(&arguments.json)
}

/// A backlog and a number of flows for each figure of a qdisc; `None` is an empty queue.
fn rows(backlogs: &[u32]) -> Vec<(Option<u32>, u32)> {
    let rows = backlogs.iter().flat_map(|&backlog| match backlog {
        0 => FLOWS_EMPTY.map(|flows| (None, flows)).to_vec(),
        _ => FLOWS.map(|flows| (Some(backlog), flows)).to_vec(),
    });
    rows.collect()
}

/// Whether a qdisc is among those that were asked for; if none was, all are.
fn wanted(only: &[String], name: &str) -> bool {
    only.is_empty() || only.iter().any(|part| name.contains(part))
}

/// Measures one figure.
fn measure(
    subject: &Subject,
    backlog: Option<u32>,
    flows: u32,
    arguments: &Arguments,
) -> Result<Figure> {
    let device = Dummy::new(DEVICE)?;
    let second = subject.full.map(Dummy::facing_a_switch).transpose()?;
    let limit = match (&second, backlog) {
        (Some(_), Some(backlog)) => backlog,
        // Above the backlog, and at least pfabric's default.
        _ => backlog.unwrap_or(0).max(23) + 1,
    };
    let parent = match backlog {
        Some(backlog) => {
            device.hold(backlog, subject.priorities, subject.txtime_ns)?;
            "parent 1:1"
        }
        None if subject.txtime_ns != 0 => {
            device.hold(0, subject.priorities, subject.txtime_ns)?;
            "parent 1:1"
        }
        None => "root",
    };
    let carried = format!("parent {}:1", subjects::CARRY);
    let parent = match subject.carry(DEVICE, parent) {
        Some(command) => {
            run("tc", command.split_whitespace())?;
            &carried
        }
        None => parent,
    };
    for command in subject.commands(DEVICE, parent, limit) {
        run("tc", command)?;
    }
    let pktgen = Pktgen::new(DEVICE, arguments.size, flows)?;
    pktgen.send(WARM_UP + u64::from(backlog.unwrap_or(0)) * TURNOVERS)?;
    let counted = || {
        let counted = subject
            .counter
            .map(|counter| device.counted_by_int(counter));
        counted.transpose()
    };
    let before = counted()?;
    let mut microseconds = u64::MAX;
    for _ in 0..arguments.rounds {
        let sent = pktgen.send(arguments.packets)?;
        if sent.errors != 0 || sent.packets != arguments.packets {
            bail!(
                "{} at backlog {backlog:?} with {flows} flows: {} of {} packets were dropped, so \
                 the figure would not be of what it says",
                subject.name,
                sent.errors,
                arguments.packets
            );
        }
        microseconds = microseconds.min(sent.microseconds);
    }
    let total = arguments.packets * u64::from(arguments.rounds);
    if let Some(second) = second {
        let went = second.sent()?;
        if went < total {
            bail!(
                "{}: {went} of {total} packets went by {SECOND}",
                subject.name
            );
        }
    }
    if let (Some(before), Some(after), Some(counter)) = (before, counted()?, subject.counter) {
        let counted = after - before;
        if counted != total {
            bail!(
                "{}: `int` counted {counted} of {total} packets as `{counter}`",
                subject.name
            );
        }
    }
    let ns_per_packet = microseconds as f64 * 1e3 / arguments.packets as f64;
    Ok(Figure {
        qdisc: subject.name,
        backlog,
        flows,
        packets: arguments.packets,
        ns_per_packet,
        packets_per_second: 1e9 / ns_per_packet,
    })
}

/// A dummy device, gone when this is dropped.
struct Dummy {
    name: &'static str,
}

impl Dummy {
    fn new(name: &'static str) -> Result<Self> {
        run("ip", ["link", "add", name, "type", "dummy"])?;
        let this = Self { name };
        // prio's children take their limit from the transmit queue's length.
        run("ip", ["link", "set", name, "txqueuelen", "20000", "up"])?;
        Ok(this)
    }

    /// The second, with a qdisc, and a neighbour that is known.
    fn facing_a_switch(qdisc: &str) -> Result<Self> {
        let this = Self::new(SECOND)?;
        for (program, line) in [
            ("ip", format!("address add 10.1.0.1/24 dev {SECOND}")),
            (
                "ip",
                format!(
                    "neighbour add 10.1.0.2 lladdr 02:00:00:00:00:03 dev {SECOND} nud permanent"
                ),
            ),
            (
                "tc",
                format!("qdisc add dev {SECOND} root handle 1: {qdisc}"),
            ),
        ] {
            run(program, line.split_whitespace())?;
        }
        Ok(this)
    }

    /// How many packets it sent.
    fn sent(&self) -> Result<u64> {
        let path = format!("/sys/class/net/{}/statistics/tx_packets", self.name);
        let count = fs::read_to_string(&path).with_context(|| path.clone())?;
        count
            .trim()
            .parse()
            .with_context(|| format!("{path}: {count}"))
    }

    /// Puts `hold` at the root.
    fn hold(&self, backlog: u32, priorities: u32, txtime_ns: u64) -> Result<()> {
        let command = format!(
            "qdisc add dev {DEVICE} root handle 1: hold backlog {backlog} random_priority {priorities} txtime {txtime_ns}ns"
        );
        run("tc", command.split_whitespace())
    }

    /// A counter of its qdisc `int`.
    fn counted_by_int(&self, counter: &str) -> Result<u64> {
        let shown = output("tc", ["-j", "-s", "qdisc", "show", "dev", self.name])?;
        counted(&shown, "int", counter).with_context(|| {
            format!(
                "no `{counter}` of `int`: {}",
                String::from_utf8_lossy(&shown)
            )
        })
    }
}

impl Drop for Dummy {
    fn drop(&mut self) {
        let _ = run("ip", ["link", "del", self.name]);
    }
}

fn run<I, S>(program: &str, arguments: I) -> Result<()>
where
    I: IntoIterator<Item = S>,
    S: AsRef<std::ffi::OsStr>,
{
    output(program, arguments).map(drop)
}

/// Runs a program and returns its output.
fn output<I, S>(program: &str, arguments: I) -> Result<Vec<u8>>
where
    I: IntoIterator<Item = S>,
    S: AsRef<std::ffi::OsStr>,
{
    let mut command = Command::new(program);
    command.args(arguments);
    let output = command
        .output()
        .with_context(|| format!("cannot run {program}"))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(output.stdout)
}

/// A counter of the first qdisc of a kind, in the output of `tc -j -s qdisc show`.
fn counted(shown: &[u8], kind: &str, counter: &str) -> Option<u64> {
    let qdiscs: serde_json::Value = serde_json::from_slice(shown).ok()?;
    let is_kind = |qdisc: &&serde_json::Value| qdisc["kind"] == kind;
    let qdisc = qdiscs.as_array()?.iter().find(is_kind)?;
    qdisc[counter].as_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_backlogs_are_measured_unless_some_are_requested() {
        let all = Arguments::parse_from(["weft-bench"]);
        let all = rows(&all.backlogs);
        assert_eq!(all.len(), 18);
        assert_eq!(all[..3], [(None, 1), (None, 64), (Some(1), 1)]);
        let few = Arguments::parse_from(["weft-bench", "--backlogs", "24,0"]);
        let few = rows(&few.backlogs);
        assert_eq!(few.len(), 6);
        assert_eq!(few[3..], [(Some(24), 10_000), (None, 1), (None, 64)]);
    }

    #[test]
    fn a_counter_is_that_of_the_requested_qdisc() {
        let shown = br#"[{"kind":"hold","recorded":1},{"kind":"int","bytes":3,"recorded":2}]"#;
        assert_eq!(counted(shown, "int", "recorded"), Some(2));
        assert_eq!(counted(shown, "int", "full"), None);
        assert_eq!(counted(shown, "wire", "recorded"), None);
        assert_eq!(counted(b"", "int", "recorded"), None);
    }
}
