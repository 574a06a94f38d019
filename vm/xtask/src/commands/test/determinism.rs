// SPDX-License-Identifier: MIT OR Apache-2.0

//! The determinism test: runs with the same seed are byte-identical, and another seed gives another
//! run. Under the model clock, additional files in the guest, another processor and an observed run
//! make no difference.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use weft_build::base::{progress, workspace};
use weft_build::guests;
use weft_build::guests::machine;
use weft_build::options::{ClockKind, Hardware};
use weft_build::stages::chain::Built;
use weft_machine::{Guest, Outcome, transfer};

use crate::ktap::{self, Tally};

/// A short run with everything that could vary: timers, TCP, hashes, the random number generator.
const SCENARIO: &str = "selftests/determinism/scenario.sh";
/// Its path in the guest.
const PLACE: &str = "root/scenario.sh";
/// The test's name for `--filter`.
const NAME: &str = "determinism";
/// Its argument for an observed run.
const WATCHED: &str = "watched";
/// Number of additional files in the other image, of several MB each.
const BALLAST_FILES: usize = 3;
/// The variable that hides the processor's extensions from the loader and the libraries of the
/// other image's guest.
const PLAIN_PROCESSOR: &str = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX512F,-AVX2,-SSE4_2";
/// Files that depend on free memory, and so on the guest's files.
const OF_MEMORY: [&str; 2] = ["slabinfo", "dmesg"];

/// Whether the test runs: with all tests, or if selected.
pub(crate) fn is_selected(filter: Option<&str>) -> bool {
    ktap::selects(filter, NAME)
}

/// Everything that leaves the guest.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Trace {
    parts: [(&'static str, Vec<u8>); 3],
}

impl From<Outcome> for Trace {
    fn from(outcome: Outcome) -> Self {
        let log = outcome.kernel_log.into_bytes();
        Self {
            parts: [
                ("output", outcome.console),
                ("kernel log", log),
                ("files", outcome.tar),
            ],
        }
    }
}

impl Trace {
    /// The trace of a guest that only printed text.
    #[cfg(test)]
    pub(crate) fn of_output(output: &str) -> Self {
        Self {
            parts: [
                ("output", output.into()),
                ("kernel log", Vec::new()),
                ("files", Vec::new()),
            ],
        }
    }

    /// A description of the first difference.
    fn difference(&self, other: &Self) -> Option<String> {
        let mut pairs = self.parts.iter().zip(&other.parts);
        let ((name, a), (_, b)) = pairs.find(|((_, a), (_, b))| a != b)?;
        let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
        let lines = a.lines().zip(b.lines()).find(|(a, b)| a != b);
        Some(match lines {
            Some((a, b)) => format!("{name}: `{a}` against `{b}`"),
            None => format!("{name}: one is longer"),
        })
    }

    /// Like [`difference`](Self::difference), without the kernel's log and files that depend on
    /// memory.
    pub(crate) fn difference_but_for_memory(&self, other: &Self) -> Result<Option<String>> {
        let (a, b) = (self.but_for_memory()?, other.but_for_memory()?);
        let mut names = a.keys().chain(b.keys());
        Ok(names.find(|name| a.get(*name) != b.get(*name)).cloned())
    }

    /// The output and files, by name.
    fn but_for_memory(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let [(name, output), _, (_, tar)] = &self.parts;
        let mut all = transfer::files(tar).context("reading the guest's files")?;
        all.retain(|name, _| !OF_MEMORY.iter().any(|of_memory| name.ends_with(of_memory)));
        all.insert((*name).to_owned(), output.clone());
        Ok(all)
    }
}

/// The variation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variation {
    seed: u64,
    /// The guest has additional unused files, its programs use no extension of the processor,
    /// random numbers are drawn before the last run, and that run is observed.
    ballast: bool,
}

/// Runs that must be identical, the last of them under the model clock with another image; and one
/// run that must differ.
pub(crate) fn variations(clock: ClockKind, seed: u64, runs: u32) -> Vec<Variation> {
    let one = Variation {
        seed,
        ballast: false,
    };
    let mut all = vec![one; runs as usize];
    if clock == ClockKind::Model {
        all.push(Variation {
            ballast: true,
            ..one
        });
    }
    all.push(Variation {
        seed: seed.wrapping_add(1),
        ..one
    });
    all
}

/// Judges the results of [`variations`], in order.
pub(crate) fn judge(clock: ClockKind, seed: u64, traces: Vec<Result<Trace>>) -> Tally {
    let mut tally = Tally::default();
    let image = clock == ClockKind::Model;
    let runs = traces.len().saturating_sub(1 + usize::from(image));
    let beside = match image {
        true => ", one with another image",
        false => "",
    };
    let name = format!(
        "{NAME}: {runs} runs with one seed{beside}, one with another; {}",
        clock.described()
    );
    progress::note(&name);
    let traces: Vec<Trace> = match traces.into_iter().collect() {
        Ok(traces) => traces,
        Err(error) => {
            tally.fail(format!("{name}: {error:#}"));
            return tally;
        }
    };
    let [first, rest @ ..] = traces.as_slice() else {
        tally.fail(format!("{name}: no runs"));
        return tally;
    };
    let (same, others) = rest.split_at(runs.saturating_sub(1));
    let differences: Vec<_> = same
        .iter()
        .filter_map(|trace| first.difference(trace))
        .collect();
    match differences.first() {
        None => tally.pass(),
        Some(difference) => tally.fail(format!(
            "{runs} runs with seed {seed} are the same to the byte: {} differ from the first; {difference}",
            differences.len()
        )),
    }
    if let (true, [other, ..]) = (image, others) {
        match first.difference_but_for_memory(other) {
            Ok(None) => tally.pass(),
            Ok(Some(difference)) => {
                tally.fail(format!("another image is no other run: {difference}"));
            }
            Err(error) => tally.fail(format!("another image's files: {error:#}")),
        }
    }
    match others.last().and_then(|other| first.difference(other)) {
        Some(_) => tally.pass(),
        None => tally.fail("another seed is another run"),
    }
    tally
}

/// Runs the scenario once.
///
/// # Errors
/// If the guest cannot be run, or the scenario fails.
pub(crate) fn scenario(
    built: &Built,
    clock: ClockKind,
    hardware: &Hardware,
    variation: Variation,
) -> Result<Trace> {
    let hardware = Hardware {
        seed: Some(variation.seed),
        ..hardware.clone()
    };
    let machine = machine::build(built, clock, &hardware)?;
    let mut command = vec!["sh".to_owned(), format!("/{PLACE}")];
    command.extend(variation.ballast.then(|| WATCHED.to_owned()));
    let workspace = workspace();
    let mut files = vec![(workspace.join(SCENARIO), PLACE.to_owned())];
    if variation.ballast {
        let ballast = |n| (built.programs.weft.clone(), format!("root/ballast-{n}"));
        files.extend((0..BALLAST_FILES).map(ballast));
    }
    let mut run = Guest {
        files,
        ..Guest::new(machine, command, hardware.timeout())
    };
    if variation.ballast {
        run.request.environment.push(PLAIN_PROCESSOR.into());
    }
    Ok(guests::succeed(built, &run, SCENARIO)?.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(output: &str, log: &str) -> Trace {
        Trace {
            parts: [
                ("output", output.into()),
                ("kernel log", log.into()),
                ("files", Vec::new()),
            ],
        }
    }

    #[test]
    fn runs_must_be_equal_with_one_seed_and_differ_with_another() {
        let judged = |outputs: &[&str]| {
            let traces = outputs.iter().map(|output| Ok(trace(output, "")));
            let tally = judge(ClockKind::Instructions, 1, traces.collect());
            (tally.passed, tally.failed)
        };
        assert_eq!(judged(&["a", "a", "a", "b"]), (2, 0));
        assert_eq!(judged(&["a", "a", "b", "c"]), (1, 1));
        assert_eq!(judged(&["a", "a", "a", "a"]), (1, 1));
        assert_eq!(judged(&[]), (0, 1));
        let seeds = |clock| {
            let all = variations(clock, 7, 2).into_iter();
            all.map(|run| (run.seed, run.ballast)).collect::<Vec<_>>()
        };
        let (one, other) = ((7, false), (8, false));
        assert_eq!(seeds(ClockKind::Instructions), [one, one, other]);
        assert_eq!(seeds(ClockKind::Model), [one, one, (7, true), other]);
        let failed = judge(ClockKind::Model, 1, vec![Ok(trace("a", "")), bail_out()]);
        assert_eq!((failed.passed, failed.failed), (0, 1));
    }

    #[test]
    fn another_image_may_differ_in_memory_only() {
        let with = |output: &str, log: &str, files: [(&str, &str); 2]| {
            let mut archive = tar::Builder::new(Vec::new());
            for (name, content) in files {
                let mut header = tar::Header::new_gnu();
                header.set_size(content.len() as u64);
                archive
                    .append_data(&mut header, name, content.as_bytes())
                    .unwrap();
            }
            let mut trace = trace(output, log);
            trace.parts[2].1 = archive.into_inner().unwrap();
            trace
        };
        let judged = |image| {
            let one = || with("a", "l", [("slabinfo", "1"), ("tcp", "2")]);
            let other = trace("b", "l");
            let traces = [one(), one(), image, other].map(Ok);
            let tally = judge(ClockKind::Model, 1, traces.into());
            (tally.passed, tally.failed)
        };
        assert_eq!(
            judged(with("a", "m", [("slabinfo", "3"), ("tcp", "2")])),
            (3, 0)
        );
        assert_eq!(
            judged(with("a", "l", [("slabinfo", "1"), ("tcp", "3")])),
            (2, 1)
        );
        assert_eq!(
            judged(with("c", "l", [("slabinfo", "1"), ("tcp", "2")])),
            (2, 1)
        );
        assert_eq!(
            judged(with("a", "l", [("slabinfo", "1"), ("udp", "2")])),
            (2, 1)
        );
    }

    fn bail_out() -> Result<Trace> {
        anyhow::bail!("the guest died")
    }

    #[test]
    fn the_first_difference_is_named() {
        let a = trace("x\ny\n", "1\n2\n");
        assert_eq!(a.difference(&a), None);
        let difference = a.difference(&trace("x\ny\n", "1\n3\n")).unwrap();
        assert_eq!(difference, "kernel log: `2` against `3`");
        assert_eq!(
            a.difference(&trace("x\ny\nz\n", "1\n2\n")).unwrap(),
            "output: one is longer"
        );
    }
}
