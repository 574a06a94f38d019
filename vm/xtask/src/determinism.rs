// SPDX-License-Identifier: MIT OR Apache-2.0

//! Virtual time keeps its promise: runs with one seed are the same to the byte, another seed is
//! another run.

use std::time::Duration;

use anyhow::{Result, bail};
use weft_guest::request::Request;

use crate::build::{self, Built};
use crate::cli::{ClockKind, Hardware};
use crate::guest::{self, Outcome, Run};
use crate::ktap::Tally;
use crate::parallel;
use crate::progress;
use crate::vm;

/// A short run with everything that could differ: timers, TCP, hashes, the random number generator.
const SCENARIO: &str = "selftests/determinism/scenario.sh";
/// Where it is in the guest.
const PLACE: &str = "root/scenario.sh";

/// All that leaves the guest.
#[derive(Clone, PartialEq, Eq)]
struct Trace {
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

/// Runs the scenario `runs` times with one seed and once with another.
///
/// # Errors
/// If a guest cannot be run.
pub(crate) fn check(
    built: &Built,
    clock: ClockKind,
    runs: u32,
    hardware: &Hardware,
) -> Result<Tally> {
    let seed = hardware.seed;
    // The last one is the odd one out.
    let seeds: Vec<u64> = (0..runs)
        .map(|_| seed)
        .chain([seed.wrapping_add(1)])
        .collect();
    let name = format!(
        "determinism: {runs} runs with one seed, one with another; {}",
        clock.described()
    );
    let traces = progress::step(&name, || run_all(built, clock, hardware, &seeds))?;
    let (other, same) = match traces.split_last() {
        Some((other, same)) if !same.is_empty() => (other, same),
        _ => bail!("no runs"),
    };
    let mut tally = Tally::default();
    let differences = same
        .iter()
        .filter_map(|trace| same[0].difference(trace))
        .collect::<Vec<_>>();
    match differences.first() {
        None => tally.pass(),
        Some(first) => tally.fail(format!(
            "{} runs with seed {seed} are the same to the byte: {} differ from the first; {first}",
            same.len(),
            differences.len()
        )),
    }
    match same[0].difference(other) {
        Some(_) => tally.pass(),
        None => tally.fail("another seed is another run"),
    }
    Ok(tally)
}

/// Runs as many at a time as there are processors: a busy host must make no difference either.
fn run_all(
    built: &Built,
    clock: ClockKind,
    hardware: &Hardware,
    seeds: &[u64],
) -> Result<Vec<Trace>> {
    parallel::map(seeds, parallel::processors(), |&seed, _| {
        let hardware = Hardware {
            seed,
            ..hardware.clone()
        };
        run_one(built, clock, &hardware)
    })
}

fn run_one(built: &Built, clock: ClockKind, hardware: &Hardware) -> Result<Trace> {
    let run = Run {
        machine: vm::machine(built, clock, hardware)?,
        request: Request {
            command: vec!["sh".into(), format!("/{PLACE}").into()],
            ..Request::default()
        },
        files: vec![(build::workspace().join(SCENARIO), PLACE.to_owned())],
        timeout: Duration::from_secs(hardware.timeout),
        cancel: None,
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
