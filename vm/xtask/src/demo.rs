// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask demo`: one workload under several schemes, once for each seed, each run in a guest
//! of its own in virtual time, as many at the same time as there are processors; their results side
//! by side.

use std::fs;
use std::io::IsTerminal as _;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::ProgressBar;

use crate::build::{self, Built};
use crate::cache::Cache;
use crate::cli::{ClockKind, Demo};
use crate::output;
use crate::parallel;
use crate::process;
use crate::progress;
use crate::weft_run::{self, Left, Progress, Wanted};

/// Runs the demo: prints the comparison, writes the results and the report.
///
/// # Errors
/// If the guests cannot be built or run.
pub(crate) fn run(cache: &Cache, demo: &Demo) -> Result<u8> {
    weft_run::distinct(&demo.scheme)?;
    if demo.dry_run {
        for run in runs(demo) {
            let hardware = demo.hardware.for_workload(run.seed);
            let words = words(demo, &run);
            let line = weft_run::shown(&demo.target, clock(demo), &hardware, &words)?;
            output::print(&line)?;
        }
        return Ok(0);
    }
    let runs = runs(demo);
    for run in &runs {
        // What cannot be handed over is said before anything is built.
        weft_run::files(&words(demo, run))?;
    }
    let built = build::all(cache, &demo.target.request(), &[clock(demo).kernel()])?;
    let shown = Shown::new(demo, runs.len());
    let results = run_all(&built, demo, &runs, &shown)?;
    shown.finish();
    let mut files = Vec::new();
    let mut changes = Vec::new();
    for (run, result) in runs.iter().zip(&results) {
        let path = demo.out.join(run.file());
        changes.push(match fs::read(&path) {
            Ok(before) if before == result.file => Change::None,
            Ok(_) => Change::Other(path.display().to_string()),
            Err(_) => Change::First,
        });
        result.write(&path)?;
        files.push(path);
    }
    let report = demo.out.join("report.html");
    let weft = &built.programs.weft;
    let compared = process::capture(Command::new(weft).arg("compare").args(&files))?;
    output::bytes(compared.as_bytes())?;
    process::capture(
        Command::new(weft)
            .args(["report", "--out"])
            .arg(&report)
            .args(&files),
    )?;
    output::print(format!("\n{}", repeated(&changes)))?;
    output::print(format!("report: {}", report.display()))?;
    // Not to be believed: the comparison says why.
    Ok(results
        .iter()
        .map(|result| result.status)
        .max()
        .unwrap_or(0))
}

fn clock(demo: &Demo) -> ClockKind {
    demo.target.clock(demo.clock)
}

/// What one guest runs.
struct DemoRun {
    scheme: String,
    /// Of the workload.
    seed: u64,
}

impl DemoRun {
    fn file(&self) -> String {
        weft_run::file(&self.scheme, self.seed)
    }
}

/// The schemes of a seed one after the other, so that what is interrupted has whole comparisons.
fn runs(demo: &Demo) -> Vec<DemoRun> {
    let seeds = demo.workload_seed.iter();
    let of = |&seed| {
        let run = move |scheme: &String| DemoRun {
            scheme: scheme.clone(),
            seed,
        };
        demo.scheme.iter().map(run)
    };
    seeds.flat_map(of).collect()
}

/// A result's file beside that of the run before.
enum Change {
    None,
    First,
    /// Its path.
    Other(String),
}

/// Whether the run was the one before it again.
fn repeated(changes: &[Change]) -> String {
    let others: Vec<_> = changes
        .iter()
        .filter_map(|change| match change {
            Change::Other(path) => Some(path.as_str()),
            _ => None,
        })
        .collect();
    if !others.is_empty() {
        return format!(
            "other bytes than the run before: {} (another kernel, build, seed or size?)",
            others.join(", ")
        );
    }
    if changes.iter().all(|change| matches!(change, Change::None)) {
        return "the same bytes as the run before".into();
    }
    "the next run says whether its bytes are the same".into()
}

/// What the guest runs.
fn words(demo: &Demo, run: &DemoRun) -> Vec<String> {
    let options = [
        ("--dilation", demo.dilation.to_string()),
        ("--scheme", run.scheme.clone()),
        ("--workload", demo.workload.clone()),
        ("--load", demo.load.clone()),
        ("--flows", demo.flows.to_string()),
        ("--seed", run.seed.to_string()),
        ("--slack", demo.slack.clone()),
        ("--sample", demo.sample.clone()),
        ("--out", "/out".to_owned()),
    ];
    weft_run::words(&demo.topology, options)
}

/// As many at the same time as there are processors.
fn run_all(built: &Built, demo: &Demo, runs: &[DemoRun], shown: &Shown) -> Result<Vec<Left>> {
    let places: Vec<usize> = (0..runs.len()).collect();
    parallel::map(&places, parallel::processors(), |&place, failed| {
        let run = &runs[place];
        let file = run.file();
        let wanted = Wanted {
            name: &file,
            file: &file,
            missing: "was not made",
        };
        weft_run::run(
            built,
            clock(demo),
            &demo.hardware.for_workload(run.seed),
            words(demo, run),
            &wanted,
            failed,
            &mut |bytes| {
                shown.seen(place, bytes);
            },
        )
    })
}

/// How far the guests are, of which each says so itself.
struct Shown {
    begun: Instant,
    bar: Option<ProgressBar>,
    guests: Mutex<Vec<Guest>>,
}

struct Guest {
    progress: Progress,
    flows: u64,
}

impl Guest {
    /// Flows that ended.
    fn ended(&self) -> u64 {
        self.progress.ended.min(self.flows)
    }
}

impl Shown {
    fn new(demo: &Demo, runs: usize) -> Self {
        let (flows, seeds) = (demo.flows, demo.workload_seed.len());
        let seeds = match seeds {
            1 => "a seed".to_owned(),
            number => format!("{number} seeds"),
        };
        progress::note(&format!(
            "{flows} flows on {} with {seeds} each, {}; {}",
            demo.topology,
            demo.scheme.join(", "),
            clock(demo).described()
        ));
        let guests = (0..runs).map(|_| Guest {
            progress: Progress::default(),
            flows: demo.flows,
        });
        Self {
            begun: Instant::now(),
            bar: std::io::stderr()
                .is_terminal()
                .then(|| progress::spinner("")),
            guests: Mutex::new(guests.collect()),
        }
    }

    fn seen(&self, place: usize, bytes: &[u8]) {
        let Ok(mut guests) = self.guests.lock() else {
            return;
        };
        let all = |guests: &[Guest]| -> u64 { guests.iter().map(Guest::ended).sum() };
        let before = all(&guests);
        if let Some(guest) = guests.get_mut(place) {
            guest.progress.take(bytes);
        }
        let (after, flows) = (all(&guests), guests.iter().map(|guest| guest.flows).sum());
        if after == before {
            return;
        }
        let text = text(guests.len(), self.begun.elapsed(), after, flows);
        match &self.bar {
            Some(bar) => bar.set_message(text),
            // A file gets a line for each tenth.
            None if 10 * before / flows < 10 * after / flows => progress::note(&text),
            None => {}
        }
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        progress::note(&format!(
            "{} in all",
            progress::seconds(self.begun.elapsed())
        ));
    }
}

fn text(runs: usize, elapsed: Duration, ended: u64, flows: u64) -> String {
    let left = elapsed.mul_f64((flows - ended) as f64 / ended.max(1) as f64);
    format!(
        "{ended} of {flows} flows in {runs} runs, about {} left",
        progress::seconds(left)
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{self, Cli};

    #[test]
    fn each_scheme_meets_each_seeds_flows() {
        let words = "x demo --scheme dctcp,pfabric --workload-seed 4,5 --seed 7";
        let cli::Command::Demo(demo) = Cli::parse_from(words.split(' ')).command else {
            panic!("a demo");
        };
        let runs = runs(&demo);
        let files: Vec<String> = runs.iter().map(DemoRun::file).collect();
        assert_eq!(
            files,
            [
                "dctcp-seed4.jsonl",
                "pfabric-seed4.jsonl",
                "dctcp-seed5.jsonl",
                "pfabric-seed5.jsonl"
            ]
        );
        assert_eq!(demo.hardware.for_workload(runs[0].seed).seed(), 10);
        assert!(words_of(&demo, &runs[3]).contains("--scheme pfabric"));
        assert!(words_of(&demo, &runs[3]).contains("--seed 5"));
    }

    fn words_of(demo: &Demo, run: &DemoRun) -> String {
        words(demo, run).join(" ")
    }

    #[test]
    fn a_run_is_compared_with_the_one_before() {
        let other = || Change::Other("demo/a.jsonl".into());
        assert!(repeated(&[Change::None, Change::None]).starts_with("the same bytes"));
        assert!(repeated(&[Change::First, Change::None]).starts_with("the next run"));
        let text = repeated(&[Change::None, other(), Change::First]);
        assert!(
            text.contains("other bytes") && text.contains("demo/a.jsonl ("),
            "{text}"
        );
    }
}
