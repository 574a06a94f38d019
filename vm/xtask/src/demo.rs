// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask demo`: one workload under several schemes, each in a guest of its own in virtual
//! time, all at the same time; their results side by side.

use std::fs;
use std::io::IsTerminal as _;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use indicatif::ProgressBar;

use crate::build::{self, Built};
use crate::cache::Cache;
use crate::cli::{ClockKind, Demo};
use crate::parallel;
use crate::process;
use crate::progress;
use crate::weft_run::{self, Left, Progress, Wanted};

/// Runs the demo: prints the comparison, writes the results and the report.
///
/// # Errors
/// If the guests cannot be built or run.
pub(crate) fn run(cache: &Cache, demo: &Demo) -> Result<u8> {
    if demo.dry_run {
        for scheme in &demo.scheme {
            let (clock, words) = (clock(demo).name(), words(demo, scheme).join(" "));
            println!("cargo xtask vm --clock {clock} -- {words}");
        }
        return Ok(0);
    }
    let built = build::all(cache, &demo.target.request(), &[clock(demo).kernel()])?;
    let shown = Shown::new(demo);
    let results = run_all(&built, demo, &shown)?;
    shown.finish();
    fs::create_dir_all(&demo.out).with_context(|| format!("making {}", demo.out.display()))?;
    let mut files = Vec::new();
    let mut changes = Vec::new();
    for (scheme, result) in demo.scheme.iter().zip(&results) {
        let path = demo.out.join(file(demo, scheme));
        changes.push(match fs::read(&path) {
            Ok(before) if before == result.file => Change::None,
            Ok(_) => Change::Other(path.display().to_string()),
            Err(_) => Change::First,
        });
        fs::write(&path, &result.file).with_context(|| format!("writing {}", path.display()))?;
        files.push(path);
    }
    let report = demo.out.join("report.html");
    let weft = &built.programs.weft;
    let compared = process::capture(Command::new(weft).arg("compare").args(&files))?;
    print!("{compared}");
    process::capture(
        Command::new(weft)
            .args(["report", "--out"])
            .arg(&report)
            .args(&files),
    )?;
    println!("\n{}", repeated(&changes));
    println!("report: {}", report.display());
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
fn words(demo: &Demo, scheme: &str) -> Vec<String> {
    let mut words: Vec<String> = ["weft", "run", &demo.topology].map(str::to_owned).to_vec();
    for (option, value) in [
        ("--dilation", demo.dilation.to_string()),
        ("--scheme", scheme.to_owned()),
        ("--workload", demo.workload.clone()),
        ("--load", demo.load.clone()),
        ("--flows", demo.flows.to_string()),
        ("--seed", demo.workload_seed.to_string()),
        ("--slack", demo.slack.clone()),
        ("--sample", demo.sample.clone()),
        ("--out", "/out".to_owned()),
    ] {
        words.extend([option.to_owned(), value]);
    }
    words
}

/// The result's name, as `weft run` gives it.
fn file(demo: &Demo, scheme: &str) -> String {
    format!("{scheme}-seed{}.jsonl", demo.workload_seed)
}

/// All schemes at the same time: with more guests than processors these are busy to the end.
fn run_all(built: &Built, demo: &Demo, shown: &Shown) -> Result<Vec<Left>> {
    parallel::map(&demo.scheme, demo.scheme.len(), |scheme, failed| {
        let wanted = Wanted {
            name: scheme,
            file: &file(demo, scheme),
            missing: "left no result",
        };
        let command = words(demo, scheme);
        weft_run::run(
            built,
            clock(demo),
            &demo.hardware,
            command,
            &wanted,
            failed,
            &mut |bytes| {
                shown.seen(scheme, bytes);
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
    scheme: String,
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
    fn new(demo: &Demo) -> Self {
        progress::note(&format!(
            "{} flows on {}, {}; {}",
            demo.flows,
            demo.topology,
            demo.scheme.join(", "),
            clock(demo).described()
        ));
        let guests = demo.scheme.iter().map(|scheme| Guest {
            scheme: scheme.clone(),
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

    fn seen(&self, scheme: &str, bytes: &[u8]) {
        let Ok(mut guests) = self.guests.lock() else {
            return;
        };
        let all = |guests: &[Guest]| -> u64 { guests.iter().map(Guest::ended).sum() };
        let before = all(&guests);
        if let Some(guest) = guests.iter_mut().find(|guest| guest.scheme == scheme) {
            guest.progress.take(bytes);
        }
        let (after, flows) = (all(&guests), guests.iter().map(|guest| guest.flows).sum());
        if after == before {
            return;
        }
        let text = text(&guests, self.begun.elapsed(), after, flows);
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

fn text(guests: &[Guest], elapsed: Duration, ended: u64, flows: u64) -> String {
    let mut text = String::new();
    for guest in guests {
        text += &format!("{} {}/{}, ", guest.scheme, guest.ended(), guest.flows);
    }
    let left = elapsed.mul_f64((flows - ended) as f64 / ended.max(1) as f64);
    text + &format!("about {} left", progress::seconds(left))
}

#[cfg(test)]
mod tests {
    use super::*;

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
