// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a debug kernel is asked once all tests have run: whether memory was lost, and whether
//! lockdep watched to the end.

use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use crate::kmemleak;
use crate::report::Report;

const LOCKDEP: &str = "/proc/lockdep_stats";

/// A check under its name.
type Check = (&'static str, fn() -> Result<()>);

/// How many checks there are.
pub(crate) const CHECKS: usize = 2;
const EACH: [Check; CHECKS] = [
    ("no_memory_is_lost", no_memory_is_lost),
    ("lockdep_watched_to_the_end", lockdep_is_on),
];

/// Makes the checks and reports them as a part of the program's tests; returns how many failed.
pub(crate) fn report(program: &mut Report) -> usize {
    const PART: &str = "debug_kernel";
    let mut part = Report::of_part(PART, CHECKS);
    let mut failed = 0;
    for (name, check) in EACH {
        let begun = Instant::now();
        let result = check();
        if let Err(error) = &result {
            failed += 1;
            part.note(&format!("{error:#}"));
        }
        let seconds = begun.elapsed().as_secs_f64();
        part.result(name, result.is_ok(), &format!("{seconds:.2} s"));
    }
    program.result(PART, failed == 0, "");
    failed
}

fn no_memory_is_lost() -> Result<()> {
    let lost = kmemleak::lost()?;
    ensure!(lost.is_empty(), "kmemleak:\n{}", lost.concat());
    Ok(())
}

/// Lockdep turns itself off when it has reported something, or has run out of room.
fn lockdep_is_on() -> Result<()> {
    let text = std::fs::read_to_string(LOCKDEP).context(LOCKDEP)?;
    let state = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("debug_locks:"));
    match state.map(str::trim) {
        Some("1") => Ok(()),
        state => bail!("{LOCKDEP}: debug_locks is {state:?}"),
    }
}
