// SPDX-License-Identifier: MIT OR Apache-2.0

//! Virtual time keeps its promise: runs with one seed are the same to the byte, another seed is
//! another run.

use anyhow::{Result, bail};

use crate::build::{self, Built};
use crate::cli::{ClockKind, Hardware};
use crate::guest::{self, Outcome, Run};
use crate::ktap::Tally;
use crate::progress;
use crate::vm;

/// A short run with everything that could differ: timers, TCP, hashes, the random number generator.
const SCENARIO: &str = "selftests/determinism/scenario.sh";
/// Where it is in the guest.
const PLACE: &str = "root/scenario.sh";

/// All that leaves the guest.
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
    /// The first difference, in words.
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
}

/// The seeds of `runs` runs that must be the same, and of one that must not.
pub(crate) fn seeds(seed: u64, runs: u32) -> impl Iterator<Item = u64> {
    // The last one is the odd one out.
    (0..runs).map(move |_| seed).chain([seed.wrapping_add(1)])
}

/// What came of the runs of [`seeds`], in their order.
pub(crate) fn judge(clock: ClockKind, seed: u64, traces: Vec<Result<Trace>>) -> Tally {
    let mut tally = Tally::default();
    let runs = traces.len().saturating_sub(1);
    let name = format!(
        "determinism: {runs} runs with one seed, one with another; {}",
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
    let Some((other, [first, same @ ..])) = traces.split_last() else {
        tally.fail(format!("{name}: no runs"));
        return tally;
    };
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
    match first.difference(other) {
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
    seed: u64,
) -> Result<Trace> {
    let hardware = Hardware {
        seed,
        ..hardware.clone()
    };
    let machine = vm::machine(built, clock, &hardware)?;
    let command = ["sh".to_owned(), format!("/{PLACE}")];
    let run = Run {
        files: vec![(build::workspace().join(SCENARIO), PLACE.to_owned())],
        ..Run::new(machine, command, hardware.timeout())
    };
    let outcome = guest::run(built, &run, &mut |_| {})?;
    if outcome.status != 0 {
        let output = String::from_utf8_lossy(&outcome.console);
        let output = crate::process::last_lines(&output, 30);
        bail!("{SCENARIO} ended with status {}\n{output}", outcome.status);
    }
    Ok(outcome.into())
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
    fn runs_with_one_seed_are_the_same_and_with_another_are_not() {
        let judged = |outputs: &[&str]| {
            let traces = outputs.iter().map(|output| Ok(trace(output, "")));
            let tally = judge(ClockKind::Model, 1, traces.collect());
            (tally.passed, tally.failed)
        };
        assert_eq!(judged(&["a", "a", "a", "b"]), (2, 0));
        assert_eq!(judged(&["a", "a", "b", "c"]), (1, 1));
        assert_eq!(judged(&["a", "a", "a", "a"]), (1, 1));
        assert_eq!(judged(&[]), (0, 1));
        assert_eq!(seeds(7, 2).collect::<Vec<_>>(), [7, 7, 8]);
        let failed = judge(ClockKind::Model, 1, vec![Ok(trace("a", "")), bail_out()]);
        assert_eq!((failed.passed, failed.failed), (0, 1));
    }

    fn bail_out() -> Result<Trace> {
        bail!("the guest died")
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
