// SPDX-License-Identifier: MIT OR Apache-2.0

//! A workload over loopback: every host is an address of 127.0.0.0/8. It needs no privilege and no
//! fabric, and measures this machine's kernel rather than a network; for that, use `weft run`.
//!
//! ```sh
//! cargo run --release --example loopback -- --sizes web-search --flows 2000 --rate 2000
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use weft_load::arrivals::Process;
use weft_load::engine::{
    Config, Connections, Engine, Host, Lag, Outcome, Progress, Report, Since, Tick, Watch,
    raise_descriptor_limit,
};
use weft_load::framing::Framing;
use weft_load::generate::{Background, Until, Workload};
use weft_load::pairs::Pairs;
use weft_load::record::{self, Gate, Limit, Record, Summary};
use weft_load::sizes::Sizes;
use weft_load::slowdown::{Hop, IdlePath};
use weft_load::statistics::Buckets;

/// Sends a workload over loopback and prints the results
#[derive(Parser)]
struct Arguments {
    /// Hosts: addresses from 127.0.0.1 on
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(2..=250))]
    hosts: u8,
    /// A table's name, `fixed:20kB` or `uniform:1kB-1MB`
    #[arg(long, default_value = "web-search")]
    sizes: Sizes,
    /// `poisson`, or `lognormal:SIGMA`
    #[arg(long, default_value = "poisson")]
    arrivals: Process,
    /// Flows per second
    #[arg(long, default_value_t = 500.0, conflicts_with = "closed")]
    rate: f64,
    /// Flows at a time for each pair of hosts, instead of arrivals
    #[arg(long)]
    closed: Option<NonZeroU32>,
    /// Number of flows
    #[arg(long, default_value_t = 1_000)]
    flows: u64,
    /// Connections per pair that are opened ahead of the run and stay
    #[arg(long, value_name = "AHEAD")]
    persistent: Option<u32>,
    /// The hosts' TCP congestion control
    #[arg(long)]
    congestion_control: Option<String>,
    /// Declare flow sizes to weft's programs, which must be attached to this process's cgroup
    #[arg(long)]
    declare_size: bool,
    /// Seconds to wait for flows after the last start
    #[arg(long, default_value_t = 60)]
    patience: u64,
    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Also write all records to this file, as JSON Lines
    #[arg(long)]
    output: Option<PathBuf>,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments = Arguments::parse();
    let hosts = u32::from(arguments.hosts);
    let pairs = Pairs::uniform(hosts)?;
    let (sizes, all_pairs) = (arguments.sizes.clone(), pairs.to_string());
    let workload = Workload {
        hosts,
        background: Some(match arguments.closed {
            Some(outstanding) => Background::Closed {
                sizes,
                pairs,
                outstanding,
            },
            None => Background::Open {
                sizes,
                pairs,
                process: arguments.arrivals,
                rate: arguments.rate,
            },
        }),
        incast: None,
        added: Vec::new(),
        until: Until::Flows(arguments.flows),
        warm_up: 0.1,
        deadlines: None,
        priorities: None,
        seed: arguments.seed,
    };
    raise_descriptor_limit()?;
    let config = Config {
        connections: match arguments.persistent {
            Some(ahead) => Connections::Persistent { ahead },
            None => Connections::PerFlow,
        },
        port: 0,
        congestion_control: arguments.congestion_control.clone(),
        declare_size: arguments.declare_size,
        patience: Duration::from_secs(arguments.patience),
        ..Config::default()
    };
    let addresses = (1..=arguments.hosts).map(|n| Ipv4Addr::new(127, 0, 0, n));
    let host = |address: Ipv4Addr| Host {
        netns: None,
        address: address.into(),
    };
    let mut engine = Engine::new(addresses.map(host).collect(), config)?;
    let mut progress = |progress: Progress| {
        let Progress { flows, ended, .. } = progress;
        eprint!("\r{ended} of {flows} flows");
    };
    let watch = Watch {
        progress: Some(Tick {
            every: Duration::from_millis(200),
            call: &mut progress,
        }),
        ..Watch::default()
    };
    let report = engine.run(workload.flows()?, watch)?;
    eprintln!();

    // Loopback has no best possible time. This uses that of one wire of 10 Gbit/s.
    let link = Hop {
        rate: 10_000_000_000,
        delay: 0,
    };
    let framing = Framing::ethernet_tcp(1500, false).ok_or("1500 bytes hold headers")?;
    let yardstick = IdlePath::new(vec![link], framing)?;
    let flows: Vec<_> = report
        .flows
        .iter()
        .filter_map(|flow| {
            let best_ns = yardstick.best_ns(flow.flow.size);
            flow.record(Since::Start, 1.0, Some(best_ns), report.duration_ns)
        })
        .collect();
    let summary = Summary::new(&flows, &Buckets::default(), gates(&report), None);
    print(&report, &summary)?;
    if let Some(path) = &arguments.output {
        let mut file = BufWriter::new(File::create(path)?);
        let header = record::Header {
            format: record::FORMAT,
            weft: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: None,
            clock: None,
            seed: arguments.seed,
            topology: "loopback".to_owned(),
            scheme: "none".to_owned(),
            parameters: BTreeMap::new(),
            workload: record::Workload {
                sizes: arguments.sizes.to_string(),
                arrivals: match arguments.closed {
                    Some(outstanding) => format!("closed:{outstanding}"),
                    None => arguments.arrivals.to_string(),
                },
                pairs: all_pairs,
                load: None,
                collective: None,
                incast: None,
                added: Vec::new(),
                deadline: None,
                priorities: None,
                flows: flows.len() as u64,
                warm_up: workload.warm_up,
                no_cool_down: false,
            },
            dilation: 1.0,
            buckets: Vec::new(),
            options: Vec::new(),
            inputs: BTreeMap::new(),
            inherited: BTreeMap::new(),
        };
        record::write(&mut file, &Record::Header(Box::new(header)))?;
        for flow in flows {
            record::write(&mut file, &Record::Flow(flow))?;
        }
        record::write(&mut file, &Record::Summary(summary))?;
        file.flush()?;
    }
    Ok(())
}

/// The validity gates of the run.
fn gates(report: &Report) -> Vec<Gate> {
    let finished = |outcome: &Outcome| matches!(outcome, Outcome::Finished { .. });
    let others = report.flows.iter().filter(|flow| !finished(&flow.outcome));
    vec![
        Gate::new(
            "generator's lag, mean",
            report.lag.mean_ns(),
            Limit::AtMost(1e6),
            "ns",
        ),
        Gate::new(
            "flows that did not finish",
            Some(others.count() as f64),
            Limit::AtMost(0.0),
            "",
        ),
    ]
}

fn print(report: &Report, summary: &Summary) -> io::Result<()> {
    let mut to = io::stdout().lock();
    writeln!(
        to,
        "{:?} after {:.3} s",
        report.ended,
        report.duration_ns as f64 / 1e9
    )?;
    let Lag { max_ns, .. } = report.lag;
    writeln!(
        to,
        "{} connections; generator's lag {:.1} us, at most {:.1} us; {} segments retransmitted",
        report.connections,
        report.lag.mean_ns().unwrap_or(0.0) / 1e3,
        max_ns as f64 / 1e3,
        report
            .flows
            .iter()
            .map(|flow| flow.retransmissions)
            .sum::<u64>(),
    )?;
    if let Some(goodput) = summary.goodput {
        writeln!(to, "goodput {:.3} Gbit/s", goodput / 1e9)?;
    }
    if !summary.valid {
        writeln!(to, "INVALID")?;
    }
    for reason in summary.reasons() {
        writeln!(to, "  {reason}")?;
    }
    let failed = report.flows.iter().filter_map(|flow| match flow.outcome {
        Outcome::Failed(failure) => Some((flow.flow.id, failure)),
        _ => None,
    });
    for (id, failure) in failed.take(10) {
        writeln!(to, "  flow {id}: {failure}")?;
    }
    writeln!(
        to,
        "flow completion time in us, and how many times that of one idle 10 Gbit/s wire"
    )?;
    writeln!(
        to,
        "{:>16} {:>7} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "size", "flows", "mean", "P50", "P99", "max", "slowdown"
    )?;
    for bucket in &summary.buckets {
        let fct = &bucket.fct_ns;
        let us = |ns: f64| ns / 1e3;
        writeln!(
            to,
            "{:>16} {:>7} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>10.2}",
            bucket.bucket,
            fct.count,
            us(fct.mean),
            us(fct.p50),
            us(fct.p99),
            us(fct.max),
            bucket.slowdown.mean,
        )?;
    }
    Ok(())
}
