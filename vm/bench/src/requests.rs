// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench requests`: the cost of requests about a qdisc that has packets, or large
//! reserved memory.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use weft_build::base::cache::Cache;
use weft_build::options::ClockKind;
use weft_build::stages::chain::{self, Kernel};

use super::Figures;

/// Cost of requests about a qdisc that has packets or large reserved memory, weft's and stock ones
/// side by side
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Who has a network namespace can make them; some of their work is under the qdisc's lock. SECURITY.md has the figures.

Examples:
  cargo xtask bench requests
  cargo xtask bench requests --only pfabric,fq_codel
  cargo xtask bench requests --save --json > requests.json")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) figures: Figures,
    /// Only qdiscs whose name contains this, or one of several separated by commas
    #[arg(long, value_name = "NAMES")]
    pub(crate) only: Option<String>,
}

/// The output of `weft-bench --requests`.
#[derive(Deserialize)]
struct Measured {
    kernel: String,
    figures: Vec<Figure>,
}

/// The cost of a `tc` process.
#[derive(Deserialize, Serialize)]
struct Figure {
    qdisc: String,
    options: String,
    /// `add`, `show`, `delete` or `narrow`.
    request: String,
    /// Packets in the qdisc.
    waiting: u32,
    /// In virtual time, which is instructions.
    ns: u64,
}

impl Figure {
    /// The key of its row in the table.
    fn row(&self) -> (&str, &str, u32) {
        (&self.qdisc, &self.options, self.waiting)
    }
}

#[derive(Serialize)]
struct Report {
    date: String,
    kernel: String,
    suite: String,
    figures: Vec<Figure>,
}

/// Runs the benchmark.
///
/// # Errors
/// If the guest cannot be built or run.
pub(crate) fn run(cache: &Cache, options: &Args) -> Result<u8> {
    let built = chain::all(cache, &options.figures.target.request(), &[Kernel::Stock])?;
    let (measured, _): (Measured, _) = super::weft_bench(
        &built,
        ClockKind::Instructions,
        &options.figures.hardware,
        &["--requests".to_owned()],
        options.only.as_ref(),
        "requests",
    )?;
    let report = Report {
        date: super::today()?,
        kernel: measured.kernel,
        suite: options.figures.target.suite.clone(),
        figures: measured.figures,
    };
    let name = format!("requests-{}-{}", report.date, report.kernel);
    let name = super::name(name, options.only.as_ref());
    let how = (options.figures.save, options.figures.json);
    super::tell(&report, &name, how, table)
}

/// A row for each qdisc, its options and its backlog: thousands of instructions per request.
fn table(report: &Report) -> String {
    const REQUESTS: [&str; 4] = ["add", "show", "delete", "narrow"];
    let mut rows: Vec<(&str, &str, u32)> = Vec::new();
    for figure in &report.figures {
        let row = figure.row();
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let mut text = format!(
        "Linux {} ({}), {}: thousands of instructions of a tc process\n\n{:<9} {:>7}",
        report.kernel, report.suite, report.date, "qdisc", "waiting"
    );
    for request in REQUESTS {
        text += &format!(" {request:>7}");
    }
    text += "  options\n";
    for row in rows {
        text += &format!("{:<9} {:>7}", row.0, row.2);
        for request in REQUESTS {
            let mut of_row = report.figures.iter().filter(|figure| figure.row() == row);
            text += &match of_row.find(|figure| figure.request == request) {
                Some(figure) => format!(" {:>7}", figure.ns / 1000),
                None => format!(" {:>7}", "-"),
            };
        }
        text += &format!("  {}\n", row.1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_a_row_per_backlog_and_a_column_per_request() {
        let figure = |request: &str, waiting, ns| Figure {
            qdisc: "fq".to_owned(),
            options: "limit 9".to_owned(),
            request: request.to_owned(),
            waiting,
            ns,
        };
        let report = Report {
            date: "2026-01-31".to_owned(),
            kernel: "7.2".to_owned(),
            suite: "forky".to_owned(),
            figures: vec![
                figure("add", 0, 1_234_567),
                figure("show", 0, 2_000_000),
                figure("add", 10_000, 3_999_999),
            ],
        };
        let table = table(&report);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines[2],
            "qdisc     waiting     add    show  delete  narrow  options"
        );
        assert_eq!(
            lines[3],
            "fq              0    1234    2000       -       -  limit 9"
        );
        assert_eq!(
            lines[4],
            "fq          10000    3999       -       -       -  limit 9"
        );
    }
}
