// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench qdisc`: the cost of a packet.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use weft_arguments::whole;
use weft_build::base::cache::Cache;
use weft_build::options::ClockKind;
use weft_build::stages::chain::{self, Built, Kernel};
use weft_machine::Clock;

use super::Figures;

/// Instructions per packet and packets per second, weft's and stock qdiscs side by side
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask bench qdisc
  cargo xtask bench qdisc --only pfabric --packets 100000
  cargo xtask bench qdisc --only pfifo --backlogs 0,24
  cargo xtask bench qdisc --save --json > bench.json")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) figures: Figures,
    /// Packets measured for each figure
    #[arg(long, default_value_t = 20_000, allow_negative_numbers = true, value_parser = whole(1..=u64::MAX))]
    pub(crate) packets: u64,
    /// Only qdiscs whose name contains this, or one of several separated by commas
    #[arg(long, value_name = "NAMES")]
    pub(crate) only: Option<String>,
    /// Only these numbers of packets in the queue, separated by commas; 0 is an empty queue
    #[arg(long, value_name = "PACKETS", value_delimiter = ',', allow_negative_numbers = true, value_parser = whole(0..=u32::MAX))]
    pub(crate) backlogs: Vec<u32>,
}

impl Args {
    /// The requested backlogs, separated by commas; `None` for all.
    fn backlogs(&self) -> Option<String> {
        let backlogs: Vec<String> = self.backlogs.iter().map(u32::to_string).collect();
        (!backlogs.is_empty()).then(|| backlogs.join(","))
    }
}

/// Number of counts in real time, of which the best one is used: the host always has other work.
const REAL_ROUNDS: u32 = 5;

/// The output of `weft-bench`.
#[derive(Deserialize)]
struct Measured {
    kernel: String,
    size: u32,
    figures: Vec<Measurement>,
}

#[derive(Deserialize)]
struct Measurement {
    qdisc: String,
    backlog: Option<u32>,
    flows: u32,
    packets: u64,
    ns_per_packet: f64,
    packets_per_second: f64,
}

/// A saved figure: virtual time and real time.
#[derive(Serialize)]
struct Figure {
    qdisc: String,
    /// Packets that stay in the queue while one enters and one leaves; `null`: at the device's
    /// root, empty.
    backlog: Option<u32>,
    flows: u32,
    packets: u64,
    /// Under the instruction clock, one a nanosecond: exact and repeatable.
    instructions_per_packet: f64,
    /// Real time, on the machine that ran it: the best of [`REAL_ROUNDS`].
    packets_per_second: f64,
}

#[derive(Serialize)]
struct Report {
    date: String,
    kernel: String,
    suite: String,
    /// The clock of the run in real time.
    real_clock: &'static str,
    packet_bytes: u32,
    figures: Vec<Figure>,
}

/// Runs the benchmark.
///
/// # Errors
/// If the guest cannot be built or run.
pub(crate) fn run(cache: &Cache, options: &Args) -> Result<u8> {
    let built = chain::all(cache, &options.figures.target.request(), &[Kernel::Stock])?;
    let (exact, _) = measure(&built, options, ClockKind::Instructions)?;
    let (real, clock) = measure(&built, options, ClockKind::Real)?;
    let report = Report {
        date: super::today()?,
        kernel: exact.kernel,
        suite: options.figures.target.suite.clone(),
        real_clock: match clock {
            Clock::Kvm => "kvm",
            _ => "tcg",
        },
        packet_bytes: exact.size,
        figures: join(exact.figures, real.figures)?,
    };
    let name = format!("{}-{}", report.date, report.kernel);
    let name = super::name(name, options.only.as_ref());
    let name = match options.backlogs() {
        Some(backlogs) => format!("{name}-backlogs-{backlogs}"),
        None => name,
    };
    let how = (options.figures.save, options.figures.json);
    super::tell(&report, &name, how, table)
}

/// One run of the guest's program.
fn measure(built: &Built, options: &Args, clock: ClockKind) -> Result<(Measured, Clock)> {
    let mut command = vec!["--packets".to_owned(), options.packets.to_string()];
    if clock == ClockKind::Real {
        command.extend(["--rounds".into(), REAL_ROUNDS.to_string()]);
    }
    if let Some(backlogs) = options.backlogs() {
        command.extend(["--backlogs".into(), backlogs]);
    }
    let what = match clock {
        ClockKind::Real => "qdiscs in real time",
        _ => "qdiscs in virtual time",
    };
    let only = options.only.as_ref();
    super::weft_bench(
        built,
        clock,
        &options.figures.hardware,
        &command,
        only,
        what,
    )
}

/// Joins the figures of virtual and real time.
fn join(exact: Vec<Measurement>, real: Vec<Measurement>) -> Result<Vec<Figure>> {
    ensure!(
        exact.len() == real.len(),
        "the two runs did not measure the same"
    );
    let twins = exact.into_iter().zip(real);
    twins
        .map(|(exact, real)| {
            let same = exact.qdisc == real.qdisc
                && exact.backlog == real.backlog
                && exact.flows == real.flows;
            ensure!(same, "the two runs did not measure the same");
            Ok(Figure {
                qdisc: exact.qdisc,
                backlog: exact.backlog,
                flows: exact.flows,
                packets: exact.packets,
                instructions_per_packet: exact.ns_per_packet,
                packets_per_second: real.packets_per_second,
            })
        })
        .collect()
}

/// A table for each backlog and number of flows, with a column for each qdisc.
fn table(report: &Report) -> String {
    let mut qdiscs: Vec<&str> = Vec::new();
    let mut rows: Vec<(Option<u32>, u32)> = Vec::new();
    for figure in &report.figures {
        if !qdiscs.contains(&figure.qdisc.as_str()) {
            qdiscs.push(&figure.qdisc);
        }
        if !rows.contains(&(figure.backlog, figure.flows)) {
            rows.push((figure.backlog, figure.flows));
        }
    }
    let mut text = format!(
        "Linux {} ({}), {} bytes a packet, {}\n",
        report.kernel, report.suite, report.packet_bytes, report.date
    );
    let figure_of = |row: &(Option<u32>, u32), qdisc: &str| {
        let found = |f: &&Figure| (f.backlog, f.flows) == *row && f.qdisc == qdisc;
        report.figures.iter().find(found)
    };
    let real = format!(
        "packets per second (real time, {}, in thousands)",
        report.real_clock
    );
    type Value = fn(&Figure) -> f64;
    let figures: [(&str, Value); 2] = [
        ("instructions per packet (virtual time)", |f| {
            f.instructions_per_packet
        }),
        (&real, |f| f.packets_per_second / 1e3),
    ];
    for (title, value) in figures {
        text += &format!("\n{title}\n{:>9}{:>8}", "backlog", "flows");
        for qdisc in &qdiscs {
            text += &format!("  {qdisc:>8}");
        }
        text += "\n";
        for row in &rows {
            let backlog = row
                .0
                .map_or("empty".to_owned(), |packets| packets.to_string());
            text += &format!("{backlog:>9}{:>8}", row.1);
            for qdisc in &qdiscs {
                let width = qdisc.len().max(8);
                match figure_of(row, qdisc) {
                    Some(figure) => text += &format!("  {:>width$.0}", value(figure)),
                    None => text += &format!("  {:>width$}", "-"),
                }
            }
            text += "\n";
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measurement(qdisc: &str, ns: f64) -> Measurement {
        Measurement {
            qdisc: qdisc.into(),
            backlog: Some(24),
            flows: 1,
            packets: 10,
            ns_per_packet: ns,
            packets_per_second: 1e9 / ns,
        }
    }

    #[test]
    fn instructions_come_from_virtual_time_and_rates_from_real_time() {
        let figures = join(
            vec![measurement("fq", 4000.0)],
            vec![measurement("fq", 2000.0)],
        )
        .unwrap();
        assert_eq!(figures[0].instructions_per_packet, 4000.0);
        assert_eq!(figures[0].packets_per_second, 500_000.0);
    }

    #[test]
    fn runs_that_measured_different_things_are_not_joined() {
        assert!(
            join(
                vec![measurement("fq", 1.0)],
                vec![measurement("pfifo", 1.0)]
            )
            .is_err()
        );
        assert!(join(vec![measurement("fq", 1.0)], Vec::new()).is_err());
    }

    #[test]
    fn the_table_has_a_row_for_each_backlog_and_a_column_for_each_qdisc() {
        let twins = || {
            vec![
                measurement("fq", 4000.0),
                measurement("wire + pfifo", 5000.0),
            ]
        };
        let report = Report {
            date: "2026-01-31".into(),
            kernel: "7.2".into(),
            suite: "forky".into(),
            real_clock: "tcg",
            packet_bytes: 1500,
            figures: join(twins(), twins()).unwrap(),
        };
        let table = table(&report);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[3], "  backlog   flows        fq  wire + pfifo");
        assert_eq!(lines[4], "       24       1      4000          5000");
    }
}
