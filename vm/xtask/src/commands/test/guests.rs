// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests in guests: the test programs, applications, and the determinism test.

use std::path::Path;
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use anyhow::Result;
use weft_build::base::progress;
use weft_build::guests;
use weft_build::guests::machine;
use weft_build::options::ClockKind;
use weft_build::stages::chain::{Built, Kernel};
use weft_build::stages::programs::Programs;
use weft_machine::{Guest, parallel};

use super::applications::{self, Applications};
use super::print;
use super::suites::{command, has_test, name};
use super::{Args, TestClock};
use crate::commands::test::determinism::{self, Trace, Variation};
use crate::commands::test::shortcuts;
use crate::ktap::{self, Tally};

/// Number of determinism runs on the stock kernel if the model clock is tested, too: on the stock
/// kernel the same scenario takes 20 times as long.
const RUNS_BESIDE: u32 = 2;

/// The work of a guest.
enum Job<'a> {
    /// The applications.
    Applications(&'a Applications<'a>),
    /// A test program. Its output goes to the channel, which is closed at its end.
    Program(&'a Path, Mutex<Option<mpsc::Sender<Vec<u8>>>>),
    /// The scenario, with a seed.
    Scenario(Variation),
    /// The scenario of the kernel's shortcuts, with parameters that turn some off.
    Shortcuts(Vec<&'static str>),
}

/// The result of a job.
enum Outcome {
    Applications(Result<Vec<u8>>),
    Program(Tally, Duration),
    Scenario(Result<Trace>),
    Shortcuts(Result<Trace>),
}

/// Runs all jobs, in as many guests as there are processors, the longest first. Their output is
/// printed one after the other, once the sender of `host` is dropped.
///
/// # Errors
/// If a test program cannot list its tests.
pub(super) fn run(
    built: &Built,
    applications: Option<&Applications<'_>>,
    test: &Args,
    clocks: &[ClockKind],
    host: &mpsc::Receiver<()>,
) -> Result<Tally> {
    let programs = selected(&built.programs, test)?;
    let (mut jobs, mut outputs) = (Vec::new(), Vec::new());
    for &clock in clocks {
        if let (ClockKind::Model, Some(applications)) = (clock, applications) {
            let job = || (clock, Job::Applications(applications));
            jobs.extend(std::iter::repeat_with(job).take(applications::RUNS));
        }
        for &program in &programs {
            let (sender, receiver) = mpsc::channel();
            jobs.push((clock, Job::Program(program, Mutex::new(Some(sender)))));
            outputs.push((clock, receiver));
        }
    }
    if clocks.contains(&ClockKind::Model) && shortcuts::is_selected(test.filter.as_deref()) {
        let all = shortcuts::variations().into_iter();
        jobs.extend(all.map(|off| (ClockKind::Model, Job::Shortcuts(off))));
    }
    for &clock in repeated(test, clocks) {
        let all = determinism::variations(clock, test.hardware.seed(), runs(test, clock));
        jobs.extend(all.into_iter().map(|run| (clock, Job::Scenario(run))));
    }
    if jobs.is_empty() {
        let filter = test.filter.as_deref().unwrap_or_default();
        progress::note(&format!("no guest test's name contains `{filter}`"));
    }
    let outcomes = std::thread::scope(|scope| {
        let run = || parallel::map(&jobs, at_a_time(clocks), |job, _| Ok(one(built, test, job)));
        let running = scope.spawn(run);
        // An error means that the sender is gone.
        let _ = host.recv();
        let mut shown = None;
        for (clock, output) in outputs {
            if shown.replace(clock) != Some(clock) {
                let release = built.release(clock.kernel())?;
                progress::note(&format!("guest tests on {release}; {}", clock.described()));
            }
            output.iter().for_each(|bytes| print(&bytes));
        }
        running
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    Ok(sum_up(test, clocks, &jobs, outcomes))
}

/// The clocks for the determinism test.
fn repeated<'a>(test: &Args, clocks: &'a [ClockKind]) -> impl Iterator<Item = &'a ClockKind> {
    let selected = determinism::is_selected(test.filter.as_deref());
    clocks
        .iter()
        .filter(move |clock| selected && **clock != ClockKind::Debug)
}

/// The number of concurrent guests. The debug kernel's guests have several processors each.
fn at_a_time(clocks: &[ClockKind]) -> usize {
    match clocks.contains(&ClockKind::Debug) {
        true => 1,
        false => parallel::processors(),
    }
}

/// Number of determinism runs with one seed.
fn runs(test: &Args, clock: ClockKind) -> u32 {
    match (test.clock(), clock) {
        (TestClock::Both, ClockKind::Instructions) => test.runs.min(RUNS_BESIDE),
        _ => test.runs,
    }
}

fn sum_up(
    test: &Args,
    clocks: &[ClockKind],
    jobs: &[(ClockKind, Job<'_>)],
    outcomes: Vec<Outcome>,
) -> Tally {
    let mut tally = Tally::default();
    let mut traces: Vec<(ClockKind, Result<Trace>)> = Vec::new();
    let (mut of_applications, mut of_shortcuts) = (Vec::new(), Vec::new());
    for ((clock, job), outcome) in jobs.iter().zip(outcomes) {
        match (job, outcome) {
            (Job::Program(program, _), Outcome::Program(own, time)) => {
                let (time, name) = (progress::seconds(time), name(program));
                let counts = format!("{} passed, {} failed", own.passed, own.failed);
                progress::note(&format!(
                    "{time:>6} {name}, {} clock: {counts}",
                    clock.name()
                ));
                tally.add(own);
            }
            (_, Outcome::Scenario(trace)) => traces.push((*clock, trace)),
            (_, Outcome::Applications(output)) => of_applications.push(output),
            (_, Outcome::Shortcuts(trace)) => of_shortcuts.push(trace),
            (_, Outcome::Program(..)) => {}
        }
    }
    for &clock in repeated(test, clocks) {
        let (own, others) = traces.into_iter().partition(|(other, _)| *other == clock);
        traces = others;
        let own = Vec::into_iter(own).map(|(_, trace)| trace);
        tally.add(determinism::judge(
            clock,
            test.hardware.seed(),
            own.collect(),
        ));
    }
    if !of_shortcuts.is_empty() {
        tally.add(shortcuts::judge(of_shortcuts));
    }
    if !of_applications.is_empty() {
        tally.add(applications::judge(of_applications, &mut print));
    }
    tally
}

/// Runs a job in a guest.
fn one(built: &Built, test: &Args, (clock, job): &(ClockKind, Job<'_>)) -> Outcome {
    match job {
        Job::Applications(applications) => {
            let filter = test.filter.as_deref();
            Outcome::Applications(applications.run(filter, &test.hardware))
        }
        Job::Program(path, output) => {
            let begun = Instant::now();
            let sender = output.lock().unwrap_or_else(PoisonError::into_inner).take();
            let tally = program(built, test, *clock, path, &mut |bytes| {
                // The receiver exists until all jobs have ended.
                let _ = sender.as_ref().map(|sender| sender.send(bytes.to_vec()));
            });
            Outcome::Program(tally, begun.elapsed())
        }
        Job::Scenario(run) => {
            Outcome::Scenario(determinism::scenario(built, *clock, &test.hardware, *run))
        }
        Job::Shortcuts(off) => Outcome::Shortcuts(shortcuts::scenario(built, &test.hardware, off)),
    }
}

/// The command for a clock. All tests run under the model clock; on the stock kernel only those for
/// which one kernel is not enough. With a filter, tests run on each kernel.
fn command_under(program: &Path, test: &Args, clock: ClockKind) -> Vec<String> {
    let mut command = command(program, test.filter.as_deref());
    let both = test.clock() == TestClock::Both && clock == ClockKind::Instructions;
    if both && test.filter.is_none() {
        command.push("--again".into());
    }
    if clock == ClockKind::Debug {
        command.push("--debug".into());
    }
    if let Some(times) = test.repeat {
        command.extend(["--repeat".into(), times.to_string()]);
    }
    command
}

/// The test programs with selected tests, those first that take longest on the stock kernel.
fn selected<'a>(programs: &'a Programs, test: &Args) -> Result<Vec<&'a Path>> {
    let ebpf = programs.ebpf.iter().map(|ebpf| ebpf.selftests.as_path());
    let mut selected: Vec<&Path> = vec![&programs.selftests, &programs.fabric_selftests];
    selected.extend(ebpf);
    let mut matching = Vec::new();
    for program in selected {
        if has_test(program, test.filter.as_deref(), test.target.debug())? {
            matching.push(program);
        }
    }
    Ok(matching)
}

/// Runs a test program in a guest.
fn program(
    built: &Built,
    test: &Args,
    clock: ClockKind,
    program: &Path,
    seen: &mut dyn FnMut(&[u8]),
) -> Tally {
    let command = command_under(program, test, clock);
    let run = run_of(built, test, clock, command);
    tally_of(&name(program), built, run, seen)
}

/// The tally of a guest whose command prints KTAP; `seen` receives the output.
pub(super) fn tally_of(
    name: &str,
    built: &Built,
    run: Result<Guest>,
    seen: &mut dyn FnMut(&[u8]),
) -> Tally {
    let mut output = Vec::new();
    let outcome = run.and_then(|run| {
        guests::run(built, &run, &mut |bytes| {
            output.extend_from_slice(bytes);
            seen(bytes);
        })
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
    tally
}

/// A guest for a command.
pub(super) fn run_of(
    built: &Built,
    test: &Args,
    clock: ClockKind,
    command: Vec<String>,
) -> Result<Guest> {
    let mut machine = machine::build(built, clock, &test.hardware)?;
    if clock.kernel() == Kernel::Stock {
        // Debian builds KFENCE in and leaves it disabled.
        machine.append.push("kfence.sample_interval=100".into());
    }
    Ok(Guest::new(machine, command, test.hardware.timeout()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};

    fn shown(words: &str, clock: ClockKind) -> String {
        let words = ["x", "test"].into_iter().chain(words.split_whitespace());
        let Command::Test(test) = Cli::parse_from(words).command else {
            panic!("not test")
        };
        command_under(Path::new("/t/weft-selftests"), &test, clock).join(" ")
    }

    #[test]
    fn every_test_runs_under_the_model_clock_and_unmarked_ones_on_the_stock_kernel() {
        let (model, stock) = (ClockKind::Model, ClockKind::Instructions);
        assert_eq!(shown("--clock both", model), "weft-selftests");
        assert_eq!(shown("--clock both", stock), "weft-selftests --again");
        assert_eq!(shown("", stock), "weft-selftests --again");
        assert_eq!(shown("--clock instructions", stock), "weft-selftests");
        // Selected tests run on each kernel, and so do all tests if only one kernel is selected.
        assert_eq!(shown("--filter a", stock), "weft-selftests --filter a");
        assert_eq!(shown("--suite sid", stock), "weft-selftests");
    }
}
