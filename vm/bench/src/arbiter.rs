// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask bench arbiter`: the cost of a timeslot in Fastpass's arbiter, compared with the
//! authors' algorithms.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use weft_arguments::{real, whole};
use weft_build::base::cache::Cache;
use weft_build::base::{crates, progress, workspace};

/// Cost of a timeslot in Fastpass's arbiter, compared with the authors' algorithms
#[derive(Debug, clap::Args)]
#[command(after_help = "\
On this machine, in time of a processor, in turns; one thread against three on the wall, too. What is measured is in userspace/arbiter/README.md.

Examples:
  cargo xtask bench arbiter
  cargo xtask bench arbiter --nodes 256 --load 0.95
  cargo xtask bench arbiter --save")]
pub(crate) struct Args {
    /// Endpoints, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "256,1024,4096", allow_negative_numbers = true, value_parser = whole(1..=usize::MAX))]
    pub(crate) nodes: Vec<usize>,
    /// Loads of the endpoints' links, 0 to 1, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "0.8,0.9,0.95,0.99", allow_negative_numbers = true, value_parser = real(0.0..=1.0))]
    pub(crate) load: Vec<f64>,
    /// Number of timeslots with 256 endpoints; proportionally fewer with more endpoints
    #[arg(long, default_value_t = 200_000, allow_negative_numbers = true, value_parser = whole(1..=u64::MAX))]
    pub(crate) timeslots: u64,
    /// Seed of the demands
    #[arg(long, default_value_t = 1, allow_negative_numbers = true, value_parser = whole(0..=u64::MAX))]
    pub(crate) seed: u64,
    /// Print data as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Keep the figures in selftests/bench/results, under the date
    #[arg(long)]
    pub(crate) save: bool,
}

/// The figures of one subject in one setting, as `userspace/arbiter/benches` prints them.
#[derive(Deserialize, Serialize)]
struct Row {
    setting: String,
    subject: String,
    packets: f64,
    median_ns: f64,
    lower_bound_ns: f64,
    turns_ns: Vec<f64>,
}

/// The control messages of endpoints and arbiter per timeslot.
#[derive(Deserialize, Serialize)]
struct Control {
    setting: String,
    heard: f64,
    said: f64,
    share: f64,
}

#[derive(Deserialize, Serialize)]
struct Figures {
    seed: u64,
    allocation: Vec<Row>,
    paths: Vec<Row>,
    pipeline: Vec<Row>,
    comm: Vec<Row>,
    control: Vec<Control>,
}

#[derive(Serialize)]
struct Report {
    date: String,
    processor: String,
    processors: usize,
    #[serde(flatten)]
    figures: Figures,
}

/// Runs the benchmark.
///
/// # Errors
/// If it cannot be built or run.
pub(crate) fn run(cache: &Cache, options: &Args) -> Result<u8> {
    let mut command = crates::cargo();
    command.current_dir(workspace());
    command.args(["bench", "--profile", "release", "--package", "weft-arbiter"]);
    command.args(["--bench", "arbiter", "--"]);
    command.args(["--seed", &options.seed.to_string()]);
    command.args(["--timeslots", &options.timeslots.to_string()]);
    let join = |words: Vec<String>| words.join(",");
    let nodes = options.nodes.iter().map(usize::to_string).collect();
    command.args(["--nodes", &join(nodes)]);
    let loads = options.load.iter().map(f64::to_string).collect();
    command.args(["--load", &join(loads)]);
    let log = cache.log("arbiter")?;
    let figures = progress::step("arbiter", || log.run_piped(&mut command))?;
    let report = Report {
        date: super::today()?,
        processor: super::processor()?,
        processors: std::thread::available_parallelism()?.get(),
        figures: serde_json::from_str(&figures).context("what the benchmark says")?,
    };
    let name = format!("arbiter-{}", report.date);
    let how = (options.save, options.json);
    super::tell(&report, &name, how, text)
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "µs of a processor per timeslot, the median of turns and the least; {}, {}\n",
        report.processor, report.date
    );
    for (title, rows) in [
        ("allocation", &report.figures.allocation),
        ("path selection", &report.figures.paths),
    ] {
        table(title, rows, &mut text);
    }
    let _ = write!(
        text,
        "\nBoth, by one thread and by three, in batches of timeslots: µs on the wall, and of all processors. \
         There are {},\nfree ones if nothing else runs.\n",
        report.processors
    );
    table("threads, batch", &report.figures.pipeline, &mut text);
    table("the protocol, too", &report.figures.comm, &mut text);
    let _ = write!(
        text,
        "\n{:30}{:>9}{:>9}  % of links' bytes\n",
        "datagrams per timeslot", "heard", "said"
    );
    for Control {
        setting,
        heard,
        said,
        share,
    } in &report.figures.control
    {
        let _ = writeln!(text, "{setting:30}{heard:>9.2}{said:>9.2}  {share:.2}");
    }
    text
}

/// A line for each setting, two columns for each subject.
fn table(title: &str, rows: &[Row], text: &mut String) {
    let mut subjects: Vec<&str> = Vec::new();
    for row in rows {
        if !subjects.contains(&row.subject.as_str()) {
            subjects.push(&row.subject);
        }
    }
    let _ = write!(text, "\n{title:30}{:>9}", "packets");
    for name in &subjects {
        let _ = write!(text, "  {name:>15}");
    }
    text.push('\n');
    for setting in rows.chunk_by(|a, b| a.setting == b.setting) {
        let _ = write!(text, "{:30}{:>9.1}", setting[0].setting, setting[0].packets);
        for subject in &subjects {
            let row = setting.iter().find(|row| row.subject == *subject);
            let shown = row.map(|row| {
                let [median, least] = [row.median_ns, row.lower_bound_ns].map(|ns| ns / 1e3);
                format!("{median:.2} {least:.2}")
            });
            let _ = write!(text, "  {:>15}", shown.unwrap_or_default());
        }
        text.push('\n');
    }
}
