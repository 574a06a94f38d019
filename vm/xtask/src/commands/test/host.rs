// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests on the host: cargo's tests, and testbeds on this machine's kernel.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use weft_build::base::cache::Cache;
use weft_build::base::{crates, enter, host, output, process, progress, workspace};
use weft_machine::interrupt::{self, Kind};

use super::Args;
use super::print;
use crate::ktap::Tally;

/// Runs all of them.
///
/// # Errors
/// If cargo does not start, or requirements cannot be installed.
pub(super) fn run(cache: &Cache, test: &Args) -> Result<Tally> {
    progress::note("host tests");
    let mut tally = cargo(test, &[])?;
    for target in NEEDY {
        tally.add(cargo(test, &["--test", target])?);
    }
    tally.add(testbeds(cache, test)?);
    Ok(tally)
}

/// Tests on the host that need other programs, and that a plain `cargo test` skips. Without
/// `--package` cargo uses its present build.
const NEEDY: [&str; 1] = ["report"];

/// Testbeds on this machine's kernel, in separate namespaces: root may create these, other users if
/// the machine allows it.
fn testbeds(cache: &Cache, test: &Args) -> Result<Tally> {
    let may = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--net", "--mount", "true"]);
        host::missing_of(&host::WEAVING).is_empty() && process::capture(&mut unshare).is_ok()
    };
    if enter::is_root() {
        host::provide(cache, &host::WEAVING)?;
    } else if !may() {
        output::print(
            "skipped: testbeds on this machine's kernel; they need iproute2, and root or user \
             namespaces: sudo -E env PATH=\"$PATH\" cargo test --test fabric",
        )?;
        return Ok(Tally {
            skipped: 1,
            ..Tally::default()
        });
    }
    progress::note("testbeds on this machine's kernel");
    cargo(test, &["--test", "fabric"])
}

/// cargo's tests: all without further requirements, or the selected ones.
fn cargo(test: &Args, selected: &[&str]) -> Result<Tally> {
    let mut command = crates::cargo();
    command
        .current_dir(workspace())
        .args(["test", "--no-fail-fast"])
        .args(selected);
    if let Some(filter) = &test.filter {
        command.args(["--", filter]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut guarded = interrupt::spawn(&mut command, Kind::Group)?;
    let pipe = guarded.child.stdout.take().context("cargo has no output")?;
    let mut output = Vec::new();
    let mut lines = BufReader::new(pipe);
    loop {
        // Whole lines, because progress of other steps is printed meanwhile.
        let begin = output.len();
        if lines.read_until(b'\n', &mut output)? == 0 {
            break;
        }
        progress::aside(|| print(&output[begin..]));
    }
    let status = guarded.child.wait()?;
    let mut tally = cargo_tally(&String::from_utf8_lossy(&output));
    if !status.success() && tally.failed == 0 {
        tally.fail("cargo test (see above)");
    }
    Ok(tally)
}

/// Sums up the `test result:` lines and names the failed tests.
fn cargo_tally(output: &str) -> Tally {
    let mut tally = Tally::default();
    for line in output.lines() {
        // A time may follow.
        let failed = line
            .strip_prefix("test ")
            .and_then(|rest| rest.split_once(" ... FAILED"));
        if let Some((name, _)) = failed {
            tally.failures.push(name.to_owned());
        }
        let Some(counts) = line.strip_prefix("test result: ") else {
            continue;
        };
        let count = |what: &str| {
            let word = counts
                .split(['.', ';'])
                .find_map(|part| part.trim().strip_suffix(what))?;
            word.trim().parse::<usize>().ok()
        };
        tally.passed += count("passed").unwrap_or(0);
        tally.failed += count("failed").unwrap_or(0);
        tally.skipped += count("ignored").unwrap_or(0);
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_results_of_cargo_are_summed_up() {
        let output = "\
running 2 tests
test a::b ... ok
test a::c ... FAILED
test d ... FAILED <0.02s>

test result: FAILED. 1 passed; 2 failed; 3 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: ok. 44 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.07s
";
        let tally = cargo_tally(output);
        assert_eq!((tally.passed, tally.failed, tally.skipped), (45, 2, 3));
        assert_eq!(tally.failures, ["a::c", "d"]);
    }
}
