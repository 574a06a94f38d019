// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask experiment`: the runs of a named experiment, each in a guest of its own in virtual
//! time, and `weft`'s judgement of them.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context as _, Result};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use weft_guest::request::CLOCK;

use crate::build::{self, Built};
use crate::cache::Cache;
use crate::cli::{ClockKind, Experiment};
use crate::kept;
use crate::parallel;
use crate::process;
use crate::programs;
use crate::progress;
use crate::weft_run::{self, Progress, Wanted};

/// A run, as `weft run NAME --dry-run --json` tells of it.
#[derive(Debug, Deserialize)]
struct Planned {
    /// The words after `weft run`, without scheme, seed and folder.
    words: Vec<String>,
    scheme: String,
    seed: u64,
    /// Where its results go.
    file: String,
    /// Whether they are there.
    done: bool,
    /// What decides them, if that is known.
    fingerprint: Option<Value>,
    /// What the guest needs, in MiB, if it is more than usual.
    memory: Option<u32>,
}

/// How results came to be, which stands beside them: weft's `Made`.
#[derive(Serialize)]
struct Made<'a> {
    sha256: String,
    fingerprint: &'a Value,
    seconds: u64,
    guest: Vec<String>,
}

/// Writes it, if it is known what decides them.
fn write_made(
    path: &Path,
    planned: &Planned,
    left: &[u8],
    seconds: u64,
    guest: Vec<String>,
) -> Result<()> {
    let Some(fingerprint) = &planned.fingerprint else {
        return Ok(());
    };
    let made = Made {
        sha256: weft_run::sha256(left),
        fingerprint,
        seconds,
        guest,
    };
    weft_run::write(&path.with_extension("made"), &serde_json::to_vec(&made)?)
}

/// Runs what has no results, and prints what `weft` says of it.
///
/// # Errors
/// If the guests cannot be built or run, or there is no such experiment.
pub(crate) fn run(cache: &Cache, options: &Experiment) -> Result<u8> {
    let (Some(name), false) = (&options.experiment, options.dry_run) else {
        let weft = programs::weft(&build::workspace(), &cache.log("programs")?)?;
        let mut command = Command::new(weft);
        match &options.experiment {
            Some(name) => command.args(words(options, name)).arg("--dry-run"),
            None => command.arg("experiments"),
        };
        if options.json {
            command.arg("--json");
        }
        return process::passed_on(&mut command);
    };
    let built = build::all(cache, &options.target.request(), &[clock(options).kernel()])?;
    let weft = &built.programs.weft;
    let mut asked = Command::new(weft);
    asked
        .env(CLOCK, clock(options).name())
        .env(kept::RELEASE, built.release(clock(options).kernel())?)
        .args(words(options, name))
        .args(["--dry-run", "--json"]);
    let plan: Vec<Planned> =
        serde_json::from_str(&process::capture(&mut asked)?).context("reading what weft plans")?;
    let missing: Vec<&Planned> = plan
        .iter()
        .filter(|run| options.again || !run.done)
        .collect();
    run_all(&built, options, name, &missing)?;
    let mut judge = Command::new(weft);
    judge.env(CLOCK, clock(options).name());
    judge.args(words(options, name)).arg("--judge");
    if options.json {
        judge.arg("--json");
    }
    process::passed_on(&mut judge)
}

fn clock(options: &Experiment) -> ClockKind {
    options.target.clock(options.clock)
}

/// What `weft` is told of the experiment.
fn words(options: &Experiment, name: &str) -> Vec<String> {
    let mut words = vec!["run".to_owned(), name.to_owned()];
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    option("--out", options.out.display().to_string());
    if let Some(scale) = &options.scale {
        option("--scale", scale.clone());
    }
    if let Some(seeds) = &options.workload_seed {
        option("--seed", seeds.clone());
    }
    words
}

fn run_all(built: &Built, options: &Experiment, name: &str, runs: &[&Planned]) -> Result<()> {
    let shown = Shown::new(name, runs.len(), clock(options));
    let workers = options.guests.unwrap_or_else(parallel::processors);
    let places: Vec<usize> = (0..runs.len()).collect();
    parallel::map(&places, workers, |&place, failed| {
        let planned = runs[place];
        let path = Path::new(&planned.file);
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let wanted = Wanted {
            name: &planned.file,
            file: &file,
            missing: "was not made",
        };
        let hardware = options.hardware.for_workload(planned.seed);
        let hardware = hardware.with_memory(planned.memory);
        let command = weft_run::of_plan(&planned.words, &planned.scheme, planned.seed);
        let mut guest = vec!["--clock".to_owned(), clock(options).name().to_owned()];
        guest.extend(options.target.for_results().words());
        guest.extend(hardware.for_results().words(&command));
        let begun = Instant::now();
        let left = weft_run::run(
            built,
            clock(options),
            &hardware,
            command,
            &wanted,
            failed,
            &mut |bytes| {
                shown.seen(place, bytes);
            },
        )?;
        // As soon as it is there: what is interrupted goes on from here.
        left.write(path)?;
        write_made(
            path,
            planned,
            &left.file,
            begun.elapsed().as_secs() + 1,
            guest,
        )?;
        shown.ended(place, &planned.file);
        Ok(())
    })?;
    shown.finish();
    Ok(())
}

/// How far the guests are, of which each says so itself.
struct Shown {
    begun: Instant,
    runs: usize,
    bar: Option<ProgressBar>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    ended: usize,
    /// Of runs that are under way.
    guests: BTreeMap<usize, Progress>,
}

impl Shown {
    fn new(name: &str, runs: usize, clock: ClockKind) -> Self {
        progress::note(&format!("{name}: {runs} runs; {}", clock.described()));
        Self {
            begun: Instant::now(),
            runs,
            bar: std::io::stderr()
                .is_terminal()
                .then(|| progress::spinner("")),
            state: Mutex::default(),
        }
    }

    fn seen(&self, place: usize, bytes: &[u8]) {
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        state.guests.entry(place).or_default().take(bytes);
        if let Some(bar) = &self.bar {
            bar.set_message(self.text(&state));
        }
    }

    fn ended(&self, place: usize, file: &str) {
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        state.guests.remove(&place);
        state.ended += 1;
        match &self.bar {
            Some(bar) => bar.set_message(self.text(&state)),
            None => progress::note(&format!("{}: {file}", self.text(&state))),
        }
    }

    fn text(&self, state: &State) -> String {
        let shares = state.guests.values().map(Progress::share);
        let done = state.ended as f64 + shares.sum::<f64>();
        let mut text = format!("{} of {} runs", state.ended, self.runs);
        if done > 0.0 {
            let left = (self.runs as f64 - done).max(0.0) / done;
            let left = self.begun.elapsed().mul_f64(left);
            text += &format!(", about {} left", progress::seconds(left));
        }
        text
    }

    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.runs > 0 {
            let time = progress::seconds(self.begun.elapsed());
            progress::note(&format!("{time} in all"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guest_runs_is_what_weft_plans() {
        let planned = r#"[{"words":["rack:hosts=2","--load","0.5"],"scheme":"dctcp","seed":7,
            "file":"results/x/dctcp-seed7.jsonl","done":false,"fingerprint":null,"memory":null}]"#;
        let plan: Vec<Planned> = serde_json::from_str(planned).unwrap();
        let expected = "weft run rack:hosts=2 --load 0.5 --scheme dctcp --seed 7 --out /out";
        let command = weft_run::of_plan(&plan[0].words, &plan[0].scheme, plan[0].seed);
        assert_eq!(command.join(" "), expected);
    }
}
