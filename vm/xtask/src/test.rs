// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask test`: host tests, guest tests, determinism; one closing line for all.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, Result};
use weft_guest::request::Request;

use crate::build::{self, Built, Kernel};
use crate::cache::Cache;
use crate::cli::{ClockKind, Test, TestClock};
use crate::console;
use crate::crates;
use crate::determinism;
use crate::enter;
use crate::guest::{self, Run};
use crate::host;
use crate::interrupt::{self, Kind};
use crate::ktap::{self, Tally};
use crate::process;
use crate::programs::Programs;
use crate::progress;
use crate::virtme;
use crate::vm;

/// Runs the tests. The exit status is 1 if one failed.
///
/// # Errors
/// If they cannot be run at all: cargo does not start, the guest cannot be built.
pub(crate) fn run(cache: &Cache, test: &Test) -> Result<u8> {
    let mut tally = Tally::default();
    if test.virtme_ng {
        let built = build::all(cache, &test.target.request(), &[Kernel::Stock])?;
        let command = command(&built.programs.selftests, test.filter.as_deref());
        let output = virtme::run(&built, &command, &test.hardware, &mut print)?;
        tally.add(ktap::parse(&output));
        if let Some(log) = console::trouble(&output) {
            println!("the guest's kernel is in trouble; its log:\n{log}");
            tally.fail("the guest (see above)");
        }
        return Ok(conclude(&tally));
    }
    if !test.guest_only {
        host::provide(cache, &host::TESTS)?;
        progress::note("host tests");
        tally.add(host(test, &[])?);
        for target in NEEDY {
            tally.add(host(test, &["--test", target])?);
        }
        tally.add(testbeds(cache, test)?);
    }
    if !test.host_only {
        let clocks = clocks(test.clock);
        let kernels: Vec<Kernel> = clocks.iter().map(|clock| clock.kernel()).collect();
        let built = build::all(cache, &test.target.request(), &kernels)?;
        for &clock in clocks {
            tally.add(guests(&built, test, clock)?);
        }
        for &clock in clocks.iter().filter(|_| test.filter.is_none()) {
            let runs = match (test.clock, clock) {
                // There it takes 20 times as long, and the scenario is the same.
                (TestClock::Both, ClockKind::Virtual) => test.runs.min(RUNS_BESIDE),
                _ => test.runs,
            };
            tally.add(determinism::check(&built, clock, runs, &test.hardware)?);
        }
    }
    Ok(conclude(&tally))
}

/// The clocks that are meant, in their order.
fn clocks(clock: TestClock) -> &'static [ClockKind] {
    match clock {
        TestClock::Virtual => &[ClockKind::Virtual],
        TestClock::Model => &[ClockKind::Model],
        TestClock::Both => &[ClockKind::Virtual, ClockKind::Model],
    }
}

/// Runs of the determinism test on the stock kernel if those under the model clock are made, too.
const RUNS_BESIDE: u32 = 2;

/// What of a test program runs on the stock kernel if all of it runs under the model clock: all that
/// loads, attaches, refuses and cleans up, and each kind of what packets meet there once.
const BESIDE: [(&str, &str); 2] = [
    (
        "weft-ebpf-selftests",
        "attach.,options.,malformed.,fabric.,_v4,policy.sent,spray.random",
    ),
    (
        "weft-fabric-selftests",
        "refusals.,testbeds.,idle.an_idle_fat_tree_is_as_fast_as_can_be_with_tags,kill.a_run_with_programs",
    ),
];

fn conclude(tally: &Tally) -> u8 {
    for failure in &tally.failures {
        println!("failed: {failure}");
    }
    let skipped = match tally.skipped {
        0 => String::new(),
        count => format!(", {count} skipped"),
    };
    println!("{} passed, {} failed{skipped}", tally.passed, tally.failed);
    u8::from(tally.failed > 0 || tally.passed == 0)
}

/// Tests on the host that need more than cargo, and that a plain `cargo test` leaves out. Without
/// `--package` cargo uses what it has built.
const NEEDY: [&str; 1] = ["report"];

/// Testbeds on this machine's kernel, in namespaces of their own: root may make these, others where
/// the machine lets them.
fn testbeds(cache: &Cache, test: &Test) -> Result<Tally> {
    let may = || {
        let mut unshare = Command::new("unshare");
        unshare.args(["--user", "--map-root-user", "--net", "--mount", "true"]);
        host::missing_of(&host::WEAVING).is_empty() && process::capture(&mut unshare).is_ok()
    };
    if enter::is_root() {
        host::provide(cache, &host::WEAVING)?;
    } else if !may() {
        println!(
            "skipped: testbeds on this machine's kernel; they need iproute2, and root or user \
             namespaces: sudo -E env PATH=\"$PATH\" cargo test --test fabric"
        );
        return Ok(Tally {
            skipped: 1,
            ..Tally::default()
        });
    }
    progress::note("testbeds on this machine's kernel");
    host(test, &["--test", "fabric"])
}

/// What cargo tests: all that needs nothing else, or what is selected.
fn host(test: &Test, selected: &[&str]) -> Result<Tally> {
    let mut command = crates::cargo();
    command
        .current_dir(build::workspace())
        .args(["test", "--no-fail-fast"])
        .args(selected);
    if let Some(filter) = &test.filter {
        command.args(["--", filter]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut guarded = interrupt::spawn(&mut command, Kind::Group)?;
    let mut pipe = guarded.child.stdout.take().context("cargo has no output")?;
    let (mut output, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let length = pipe.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        output.extend_from_slice(&chunk[..length]);
        print(&chunk[..length]);
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

/// The command that runs a test program.
fn command(program: &Path, filter: Option<&str>) -> Vec<String> {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let filter = filter.into_iter().flat_map(|filter| ["--filter", filter]);
    std::iter::once(name.as_ref())
        .chain(filter)
        .map(str::to_owned)
        .collect()
}

/// Which of a program's tests run: those asked for, else those that belong under the clock.
fn filter<'a>(program: &Path, test: &'a Test, clock: ClockKind) -> Option<&'a str> {
    let beside = || {
        let both = test.clock == TestClock::Both && clock == ClockKind::Virtual;
        let mut known = BESIDE.iter().filter(|_| both);
        let own = known.find(|(name, _)| program.ends_with(name));
        own.map(|(_, filter)| *filter)
    };
    test.filter.as_deref().or_else(beside)
}

/// The test programs that have a test to run.
fn selected<'a>(programs: &'a Programs, test: &Test) -> Result<Vec<&'a Path>> {
    let mut selected = vec![programs.selftests.as_path(), &programs.fabric_selftests];
    selected.extend(programs.ebpf.iter().map(|ebpf| ebpf.selftests.as_path()));
    let Some(filter) = &test.filter else {
        return Ok(selected);
    };
    let mut matching = Vec::new();
    for program in selected {
        let names = process::capture(Command::new(program).arg("--list"))?;
        let asked = |name: &str| filter.split(',').any(|pattern| name.contains(pattern));
        if names.lines().any(asked) {
            matching.push(program);
        }
    }
    if matching.is_empty() {
        progress::note(&format!("no guest test's name contains `{filter}`"));
    }
    Ok(matching)
}

/// The guest's test programs, each in a guest of its own, all at the same time. What they print is
/// shown one after the other.
fn guests(built: &Built, test: &Test, clock: ClockKind) -> Result<Tally> {
    let programs = selected(&built.programs, test)?;
    progress::note(&format!(
        "guest tests on {}; {}",
        built.release(clock.kernel())?,
        clock.described()
    ));
    std::thread::scope(|scope| {
        let start = |program| {
            let (sender, receiver) = mpsc::channel();
            let run = move || {
                guest(built, test, clock, program, &mut |bytes| {
                    // The receiver is there until the thread is joined.
                    let _ = sender.send(bytes.to_vec());
                })
            };
            (scope.spawn(run), receiver)
        };
        let running: Vec<_> = programs.into_iter().map(start).collect();
        let mut tally = Tally::default();
        for (run, output) in running {
            output.iter().for_each(|bytes| print(&bytes));
            match run.join() {
                Ok(result) => tally.add(result?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(tally)
    })
}

/// One test program, in a guest.
fn guest(
    built: &Built,
    test: &Test,
    clock: ClockKind,
    program: &Path,
    seen: &mut dyn FnMut(&[u8]),
) -> Result<Tally> {
    let command = command(program, filter(program, test, clock));
    let name = command[0].clone();
    let mut machine = vm::machine(built, clock, &test.hardware)?;
    if clock.kernel() == Kernel::Stock {
        // Debian builds KFENCE in and leaves it off.
        machine.append.push("kfence.sample_interval=100".into());
    }
    let run = Run {
        machine,
        request: Request {
            command: command.into_iter().map(Into::into).collect(),
            ..Request::default()
        },
        files: Vec::new(),
        timeout: Duration::from_secs(test.hardware.timeout),
        cancel: None,
    };
    let mut output = Vec::new();
    let outcome = guest::run(built, &run, &mut |bytes| {
        output.extend_from_slice(bytes);
        seen(bytes);
    });
    let mut tally = ktap::parse(&String::from_utf8_lossy(&output));
    match outcome {
        Ok(outcome) if outcome.status != 0 && tally.failed == 0 => {
            tally.fail(format!("{name} ended with status {}", outcome.status));
        }
        Ok(_) => {}
        Err(error) => {
            seen(format!("{error:#}\n").as_bytes());
            tally.fail(format!("the guest of {name} (see above)"));
        }
    }
    Ok(tally)
}

fn print(bytes: &[u8]) {
    let mut stdout = std::io::stdout();
    // Nobody may be reading any more; the exit status still counts.
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargos_results_are_summed_up() {
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

    #[test]
    fn a_run_without_a_passed_test_is_no_success() {
        assert_eq!(conclude(&Tally::default()), 1);
        assert_eq!(
            conclude(&Tally {
                passed: 1,
                ..Tally::default()
            }),
            0
        );
        assert_eq!(
            conclude(&Tally {
                passed: 9,
                failed: 1,
                ..Tally::default()
            }),
            1
        );
    }
}
