// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench hops`: processor time per data packet and hop under the model clock.
//!
//! A hop is a data segment that crosses a link, without loss. Acknowledgements and retransmissions
//! are in the time but not in the count. The time is the user and system time of all the guest's
//! processes on the host, including the start of the kernel and of the fabric.

use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use weft_build::base::cache::Cache;
use weft_build::base::progress;
use weft_build::options::{ClockKind, Hardware};
use weft_build::stages::chain::{self, Built, Kernel};

use super::Figures;
use super::usage::Usage;
use crate::weft_run::{self, Run};

/// Processor time per data packet and hop under the model clock
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask bench hops --only k4-droptail,k4-pfabric
  cargo xtask bench hops --only k4-droptail --pump
  cargo xtask bench hops --runs 5 --save")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) figures: Figures,
    /// Only points with these names, separated by commas (see selftests/bench)
    #[arg(long, value_name = "NAMES")]
    pub(crate) only: Option<String>,
    /// The kernel sends and discards the bytes of large flows, as with weft run --pump
    #[arg(long)]
    pub(crate) pump: bool,
    /// Measure each point this many times, in turns, and print the run of median cost (odd)
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = odd)]
    pub(crate) runs: u32,
}

/// A number with a median among as many figures.
fn odd(word: &str) -> Result<u32, String> {
    let number = word.parse().ok().filter(|number| number % 2 == 1);
    number.ok_or_else(|| "expected an odd number, such as 1 or 5".to_owned())
}

/// A run to measure.
struct Point {
    name: &'static str,
    topology: &'static str,
    /// Number of hosts at a switch, and in a pod; a leaf-spine fabric is one pod.
    edge: u64,
    pod: u64,
    scheme: &'static str,
    dilation: u32,
    workload: &'static str,
    flows: u64,
    memory_mib: u32,
}

/// Seed of the workload.
const SEED: u64 = 1;

const LEAF_SPINE: &str = "leaf-spine:leaves=9,spines=4,hosts=16";

const K4: Point = Point {
    name: "k4-droptail",
    topology: "fat-tree:k=4",
    edge: 2,
    pod: 4,
    scheme: "droptail",
    dilation: 1000,
    workload: "web-search",
    flows: 600,
    memory_mib: 1024,
};

const LEAVES: Point = Point {
    name: "144-droptail",
    topology: LEAF_SPINE,
    edge: 16,
    pod: u64::MAX,
    flows: 2000,
    ..K4
};

/// By increasing size, because a run's memory is known only if it exceeds that of all earlier runs.
const POINTS: [Point; 9] = [
    K4,
    Point {
        name: "k4-pfabric",
        scheme: "pfabric",
        ..K4
    },
    Point {
        name: "k8-droptail",
        topology: "fat-tree:k=8",
        edge: 4,
        pod: 16,
        ..K4
    },
    LEAVES,
    Point {
        name: "144-pfabric",
        scheme: "pfabric",
        ..LEAVES
    },
    Point {
        name: "144-droptail-10000",
        flows: 10_000,
        ..LEAVES
    },
    Point {
        name: "bfc-128",
        topology: "leaf-spine:leaves=8,spines=8,hosts=16,rate=100gbit,delay=1us",
        scheme: "bfc",
        dilation: 40_000,
        workload: "google-all-rpc",
        flows: 30_000,
        ..LEAVES
    },
    Point {
        name: "k16-droptail",
        topology: "fat-tree:k=16",
        edge: 8,
        pod: 64,
        flows: 1000,
        memory_mib: 4096,
        ..K4
    },
    Point {
        name: "k16-pfabric",
        topology: "fat-tree:k=16",
        edge: 8,
        pod: 64,
        scheme: "pfabric",
        flows: 1000,
        memory_mib: 4096,
        ..K4
    },
];

#[derive(Serialize)]
struct Figure {
    point: &'static str,
    topology: &'static str,
    scheme: &'static str,
    workload: &'static str,
    flows: u64,
    /// Whether the kernel moved the bytes of large flows by itself.
    pump: bool,
    /// Data segments times links.
    hops: u64,
    user_seconds: f64,
    system_seconds: f64,
    wall_seconds: f64,
    /// Processor microseconds per hop.
    us_per_hop: f64,
    /// That of each run of this point, in ascending order; this figure is the one in the middle.
    us_per_hop_of_runs: Vec<f64>,
    /// The host memory of the guest's kernel, including the guest's own; `null` if an earlier
    /// process had more, so that the value is unknown.
    memory_mib: Option<u64>,
}

#[derive(Serialize)]
struct Report {
    date: String,
    kernel: String,
    processor: String,
    figures: Vec<Figure>,
}

/// Runs the benchmark.
///
/// # Errors
/// If no point has the requested name, a guest cannot be built, or no point runs. The exit status
/// is 1 if some points fail.
pub(crate) fn run(cache: &Cache, options: &Args) -> Result<u8> {
    let wanted = |point: &&Point| {
        options
            .only
            .as_ref()
            .is_none_or(|only| only.split(',').any(|name| point.name == name))
    };
    let points: Vec<&Point> = POINTS.iter().filter(wanted).collect();
    let names = || POINTS.map(|point| point.name).join(", ");
    ensure!(!points.is_empty(), "--only: one or several of {}", names());
    let built = chain::all(cache, &options.figures.target.request(), &[Kernel::Model])?;
    let mut runs: Vec<Vec<Figure>> = points.iter().map(|_| Vec::new()).collect();
    let mut failed = Vec::new();
    for _ in 0..options.runs {
        for (point, runs) in points.iter().zip(&mut runs) {
            match measure(&built, point, options) {
                Ok(figure) => {
                    progress::note(&format!("{}: {:.2} µs", point.name, figure.us_per_hop));
                    runs.push(figure);
                }
                // Keeps the results of the other points, which took long to measure.
                Err(error) => {
                    progress::note(&format!("{}: {error:#}", point.name));
                    if !failed.contains(&point.name) {
                        failed.push(point.name);
                    }
                }
            }
        }
    }
    let figures: Vec<Figure> = runs.into_iter().filter_map(median).collect();
    ensure!(!figures.is_empty(), "failed: {}", failed.join(", "));
    let report = Report {
        date: super::today()?,
        kernel: built.base.resolution.kernel.clone(),
        processor: super::processor()?,
        figures,
    };
    let pump = if options.pump { "-pump" } else { "" };
    let name = format!("hops{pump}-{}-{}", report.date, report.kernel);
    let name = super::name(name, options.only.as_ref());
    let how = (options.figures.save, options.figures.json);
    let status = super::tell(&report, &name, how, table)?;
    if !failed.is_empty() {
        eprintln!("failed: {}", failed.join(", "));
        return Ok(1);
    }
    Ok(status)
}

/// The run of median cost, with the costs of all.
fn median(mut runs: Vec<Figure>) -> Option<Figure> {
    runs.sort_by(|a, b| a.us_per_hop.total_cmp(&b.us_per_hop));
    let all = runs.iter().map(|run| run.us_per_hop).collect();
    // Only a point's first run can need more memory than all before.
    let memory_mib = runs.iter().find_map(|run| run.memory_mib);
    let middle = runs.len() / 2;
    let median = runs.into_iter().nth(middle)?;
    Some(Figure {
        us_per_hop_of_runs: all,
        memory_mib,
        ..median
    })
}

fn measure(built: &Built, point: &Point, args: &Args) -> Result<Figure> {
    let hardware = &args.figures.hardware;
    let hardware = Hardware {
        memory: hardware.memory.max(point.memory_mib),
        ..hardware.clone()
    };
    let options = [
        ("--dilation", point.dilation.to_string()),
        ("--workload", point.workload.to_owned()),
        ("--load", "0.6".to_owned()),
        ("--flows", point.flows.to_string()),
        ("--warm-up", "0".to_owned()),
    ];
    // The same number of flows under every scheme.
    let mut flags = vec!["--no-cool-down"];
    flags.extend(args.pump.then_some("--pump"));
    let words = weft_run::words(point.topology, options, &flags);
    let run = Run::new(words, point.scheme, SEED);
    let (begun, before) = (Instant::now(), Usage::so_far()?);
    let result = run.perform(built, ClockKind::Model, &hardware, &Arc::default())?;
    let (wall, after) = (begun.elapsed(), Usage::so_far()?);
    let hops = hops(point, &String::from_utf8(result)?)?;
    let user_seconds = after.user_seconds - before.user_seconds;
    let system_seconds = after.system_seconds - before.system_seconds;
    let memory = (after.memory_kib > before.memory_kib).then_some(after.memory_kib >> 10);
    Ok(Figure {
        point: point.name,
        topology: point.topology,
        scheme: point.scheme,
        workload: point.workload,
        flows: point.flows,
        pump: args.pump,
        hops,
        user_seconds,
        system_seconds,
        wall_seconds: wall.as_secs_f64(),
        us_per_hop: (user_seconds + system_seconds) * 1e6 / hops as f64,
        us_per_hop_of_runs: Vec::new(),
        memory_mib: memory.and_then(|mib| u64::try_from(mib).ok()),
    })
}

/// A flow in a result.
#[derive(Deserialize)]
struct Flow {
    src: u64,
    dst: u64,
    size: u64,
}

/// Payload of a segment with timestamps, at Ethernet's MTU.
const SEGMENT: u64 = 1448;

/// Data segments of a flow times the links that they cross, with `edge` hosts at a switch and `pod`
/// in a pod.
pub(super) fn of_flow((src, dst): (u64, u64), size: u64, (edge, pod): (u64, u64)) -> u64 {
    let links = if src / edge == dst / edge {
        2
    } else if src / pod == dst / pod {
        4
    } else {
        6
    };
    size.div_ceil(SEGMENT) * links
}

/// The sum over all flows of a result.
fn hops(point: &Point, result: &str) -> Result<u64> {
    let mut hops = 0;
    for line in result
        .lines()
        .filter(|line| line.starts_with(r#"{"record":"flow""#))
    {
        let Flow { src, dst, size } = serde_json::from_str(line).context("reading a flow")?;
        hops += of_flow((src, dst), size, (point.edge, point.pod));
    }
    ensure!(hops > 0, "{}: the result has no flow", point.name);
    Ok(hops)
}

fn table(report: &Report) -> String {
    let mut text = format!("{}, {}, {}\n", report.date, report.kernel, report.processor);
    text += "                      flows       hops   processor s    µs/hop   memory MiB\n";
    for figure in &report.figures {
        text += &format!(
            "{:<20} {:>6} {:>10} {:>13.1} {:>9.2} {:>12}\n",
            figure.point,
            figure.flows,
            figure.hops,
            figure.user_seconds + figure.system_seconds,
            figure.us_per_hop,
            figure
                .memory_mib
                .map_or("?".to_owned(), |mib| mib.to_string())
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_reported_by_its_run_of_median_cost() {
        let figure = |us_per_hop, memory_mib| Figure {
            point: K4.name,
            topology: K4.topology,
            scheme: K4.scheme,
            workload: K4.workload,
            flows: K4.flows,
            pump: false,
            hops: 1,
            user_seconds: us_per_hop,
            system_seconds: 0.0,
            wall_seconds: us_per_hop,
            us_per_hop,
            us_per_hop_of_runs: Vec::new(),
            memory_mib,
        };
        let runs = vec![figure(3.0, Some(7)), figure(1.0, None), figure(2.0, None)];
        let median = median(runs).unwrap();
        assert_eq!((median.user_seconds, median.memory_mib), (2.0, Some(7)));
        assert_eq!(median.us_per_hop_of_runs, [1.0, 2.0, 3.0]);
        assert!(super::median(Vec::new()).is_none());
        assert_eq!(odd("5"), Ok(5));
        assert!(
            ["0", "4", "-1", "five"]
                .iter()
                .all(|word| odd(word).is_err())
        );
    }

    #[test]
    fn hops_are_segments_times_links() {
        let flow = |src, dst, size| {
            format!(r#"{{"record":"flow","id":0,"src":{src},"dst":{dst},"size":{size}}}"#)
        };
        let result = [
            r#"{"record":"header"}"#.to_owned(),
            flow(0, 1, 1448),
            flow(0, 2, 1449),
            flow(0, 15, 1),
        ];
        let all = 2 + 2 * 4 + 6;
        assert_eq!(hops(&K4, &result.join("\n")).unwrap(), all);
        assert_eq!(hops(&LEAVES, &flow(0, 143, 1)).unwrap(), 4);
        assert!(hops(&K4, "").is_err());
    }
}
