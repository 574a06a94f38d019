// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a debug kernel is asked once all tests have run: whether memory was lost, and whether lockdep
//! watched to the end.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

const KMEMLEAK: &str = "/sys/kernel/debug/kmemleak";
const LOCKDEP: &str = "/proc/lockdep_stats";

/// Memory that is younger is not judged yet (`MSECS_MIN_AGE` in mm/kmemleak.c, 5 s).
const AGE: Duration = Duration::from_millis(5500);
/// What is found without a reference is looked at again, as it may just have been on its way from one
/// place to another.
const SCANS: u32 = 3;

/// Memory that others than weft lose: what its trace contains, and why it is nobody's fault here.
const KNOWN: [(&str, &str); 0] = [];

/// A check under its name.
type Check = (&'static str, fn() -> Result<()>);

/// How many checks there are.
pub(crate) const CHECKS: usize = 2;
const EACH: [Check; CHECKS] = [
    ("no_memory_is_lost", no_memory_is_lost),
    ("lockdep_watched_to_the_end", lockdep_is_on),
];

/// Makes the checks and prints them as a part of tests with this number; returns how many failed.
pub(crate) fn report(number: usize) -> usize {
    println!("  KTAP version 1\n  # Subtest: debug_kernel\n  1..{CHECKS}");
    let mut failed = 0;
    for (number, (name, check)) in (1..).zip(EACH) {
        let begun = Instant::now();
        let not = match check() {
            Ok(()) => "",
            Err(error) => {
                failed += 1;
                format!("{error:#}")
                    .lines()
                    .for_each(|line| println!("    # {line}"));
                "not "
            }
        };
        let seconds = begun.elapsed().as_secs_f64();
        println!("  {not}ok {number} {name} # {seconds:.2} s");
    }
    let not = if failed == 0 { "" } else { "not " };
    println!("{not}ok {number} debug_kernel");
    failed
}

/// Scans all memory for references to what was allocated.
///
/// # Errors
///
/// If there is no kmemleak, it has turned itself off, or found something.
fn no_memory_is_lost() -> Result<()> {
    std::thread::sleep(AGE);
    for _ in 0..SCANS {
        std::fs::write(KMEMLEAK, "scan").context("kmemleak does not scan")?;
    }
    let found = std::fs::read_to_string(KMEMLEAK).context(KMEMLEAK)?;
    let lost: Vec<&str> = objects(&found).filter(|object| !is_known(object)).collect();
    ensure!(lost.is_empty(), "kmemleak:\n{}", lost.concat());
    Ok(())
}

fn is_known(object: &str) -> bool {
    KNOWN.iter().any(|(trace, _)| object.contains(trace))
}

/// What kmemleak lists: an object's line, and its process, content and trace behind it.
fn objects(listed: &str) -> impl Iterator<Item = &str> {
    const HEAD: &str = "unreferenced object";
    let starts: Vec<usize> = listed.match_indices(HEAD).map(|(at, _)| at).collect();
    let ends: Vec<usize> = starts
        .iter()
        .copied()
        .skip(1)
        .chain([listed.len()])
        .collect();
    starts
        .into_iter()
        .zip(ends)
        .map(|(start, end)| &listed[start..end])
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kmemleak_lists_is_taken_apart() {
        let listed = "unreferenced object 0x1 (size 8):\n  comm \"tc\"\n    a+0x1\n\
                      unreferenced object 0x2 (size 9):\n  comm \"tc\"\n    b+0x1\n";
        let all: Vec<&str> = objects(listed).collect();
        assert_eq!(all.len(), 2);
        assert!(all[0].contains("a+0x1") && !all[0].contains("b+0x1"));
        assert!(all[1].ends_with("b+0x1\n"));
        assert_eq!(objects("").count(), 0);
    }
}
