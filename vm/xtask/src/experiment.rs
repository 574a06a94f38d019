// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask experiment`: the runs of a named experiment, each in a guest of its own in virtual
//! time, and `weft`'s judgement of them.

use std::collections::BTreeMap;
use std::fs;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Deserialize;
use weft_guest::request::Request;

use crate::build::{self, Built};
use crate::cache::Cache;
use crate::cli::{ClockKind, Experiment, Hardware};
use crate::guest;
use crate::parallel;
use crate::process;
use crate::programs;
use crate::progress;
use crate::transfer;
use crate::vm;

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
        return passed_on(&mut command);
    };
    let built = build::all(cache, &options.target.request())?;
    let weft = &built.programs.weft;
    let mut asked = Command::new(weft);
    asked
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
    judge.args(words(options, name)).arg("--judge");
    if options.json {
        judge.arg("--json");
    }
    passed_on(&mut judge)
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

/// Runs a command that prints for us, and returns its status.
fn passed_on(command: &mut Command) -> Result<u8> {
    let status = command.status().with_context(|| process::shown(command))?;
    Ok(status
        .code()
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1))
}

fn run_all(built: &Built, options: &Experiment, name: &str, runs: &[&Planned]) -> Result<()> {
    let shown = Shown::new(name, runs.len());
    let workers = options.guests.unwrap_or_else(parallel::processors);
    let places: Vec<usize> = (0..runs.len()).collect();
    parallel::map(&places, workers, |&place, failed| {
        let planned = runs[place];
        let run = guest::Run {
            machine: vm::machine(built, ClockKind::Virtual, &hardware(options, planned))?,
            request: Request {
                command: command(planned).into_iter().map(Into::into).collect(),
                ..Request::default()
            },
            files: Vec::new(),
            timeout: Duration::from_secs(options.hardware.timeout),
            cancel: Some(Arc::clone(failed)),
        };
        let outcome = guest::run(built, &run, &mut |bytes| shown.seen(place, bytes))
            .with_context(|| planned.file.clone())?;
        let path = Path::new(&planned.file);
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(content) = transfer::file(&outcome.tar, &file)? else {
            let output = String::from_utf8_lossy(&outcome.console);
            bail!(
                "{} was not made (status {})\n{}",
                planned.file,
                outcome.status,
                process::last_lines(&output, 30)
            );
        };
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        // As soon as it is there: what is interrupted goes on from here.
        fs::write(path, &content).with_context(|| format!("writing {}", path.display()))?;
        shown.ended(place, &planned.file);
        Ok(())
    })?;
    shown.finish();
    Ok(())
}

/// A run's machine: another seed of the workload is another sample of the guest's randomness, too,
/// for example of how its kernel hashes flows.
fn hardware(options: &Experiment, planned: &Planned) -> Hardware {
    let seed = options.hardware.seed;
    Hardware {
        seed: seed.wrapping_add(planned.seed).wrapping_sub(1),
        ..options.hardware.clone()
    }
}

/// What the guest runs.
fn command(planned: &Planned) -> Vec<String> {
    let seed = planned.seed.to_string();
    let own = [
        "--scheme",
        &planned.scheme,
        "--seed",
        &seed,
        "--out",
        "/out",
    ];
    let begin = ["weft", "run"].map(str::to_owned);
    let words = begin.into_iter().chain(planned.words.iter().cloned());
    words.chain(own.map(str::to_owned)).collect()
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
    guests: BTreeMap<usize, Guest>,
}

#[derive(Default)]
struct Guest {
    /// Output since the last line's end.
    line: Vec<u8>,
    /// The share of flows that ended, 0 to 1.
    share: f64,
}

impl Shown {
    fn new(name: &str, runs: usize) -> Self {
        progress::note(&format!("{name}: {runs} runs"));
        Self {
            begun: Instant::now(),
            runs,
            bar: std::io::stderr().is_terminal().then(bar),
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
        let shares = state.guests.values().map(|guest| guest.share);
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

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed:>6} {msg}");
    let bar = ProgressBar::new_spinner();
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

impl Guest {
    /// Lines such as `droptail, seed 1: 60 of 600 flows, about 100 s left`.
    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte != b'\n' && byte != b'\r' {
                self.line.push(byte);
                continue;
            }
            let line = String::from_utf8_lossy(&self.line);
            if let Some(share) = share(&line) {
                self.share = share.clamp(0.0, 1.0);
            }
            self.line.clear();
        }
    }
}

fn share(line: &str) -> Option<f64> {
    let (_, rest) = line.split_once(": ")?;
    let (ended, rest) = rest.split_once(" of ")?;
    let (flows, _) = rest.split_once(" flows")?;
    Some(ended.parse::<f64>().ok()? / flows.parse::<f64>().ok()?.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guest_runs_is_what_weft_plans() {
        let planned = r#"[{"words":["rack:hosts=2","--load","0.5"],"scheme":"dctcp","seed":7,
            "file":"results/x/dctcp-seed7.jsonl","done":false}]"#;
        let plan: Vec<Planned> = serde_json::from_str(planned).unwrap();
        let expected = "weft run rack:hosts=2 --load 0.5 --scheme dctcp --seed 7 --out /out";
        assert_eq!(command(&plan[0]).join(" "), expected);
    }

    #[test]
    fn a_guest_tells_how_far_it_is() {
        let mut guest = Guest::default();
        guest.take(b"\rdctcp, seed 1: 60 of 600 flows, about 100 s left  ");
        assert_eq!(guest.share, 0.0);
        guest.take(b"\rdctcp, seed 1: 66 of 6");
        assert_eq!(guest.share, 0.1);
        guest.take(b"00 flows, about 99 s left\nsomething else: 7 of 9\n");
        assert_eq!(guest.share, 0.11);
    }
}
