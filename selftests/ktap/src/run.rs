// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs tests and reports.

use std::cell::RefCell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use crate::debug;
use crate::kmsg::KernelLog;
use crate::report::Report;

/// kselftest's exit status when every test was skipped.
const KSFT_SKIP: u8 = 4;

/// How long a test may take before it counts as hung. In virtual time, sleeping costs nothing: a
/// test that waits for what never comes gets here at once.
const TIME_LIMIT: Duration = Duration::from_secs(3600);

/// Between two tests.
const REST: Duration = Duration::from_millis(500);

/// A part: the tests of one file.
#[derive(Clone, Copy)]
pub struct Part {
    /// The file's, say.
    pub name: &'static str,
    /// In the order in which they run.
    pub tests: &'static [Test],
    /// As [`Test::inexact`], of all its tests.
    pub inexact: Option<&'static str>,
}

impl Part {
    /// Tests for which nothing else is said.
    pub const fn new(name: &'static str, tests: &'static [Test]) -> Self {
        Self {
            name,
            tests,
            inexact: None,
        }
    }

    /// See [`Test::inexact`].
    #[must_use]
    pub const fn exact(self, why: &'static str) -> Self {
        Self {
            inexact: Some(why),
            ..self
        }
    }
}

/// One test.
#[derive(Clone, Copy)]
pub struct Test {
    /// What holds.
    pub name: &'static str,
    /// Finds out whether it does: an error or a panic is a failure, [`Skip`] as an error a skip.
    pub run: fn(&Context) -> Result<()>,
    /// Whether one kernel is enough. It is for what our own code decides, where another test sees
    /// each kernel load that code and run it, and for what costs minutes where instructions are
    /// counted. A test that is not marked runs on each.
    pub once: bool,
    /// Why it is left out where the clock is the host's and several processors run, which share the
    /// host with others: it needs an exact clock, or a machine that does nothing else.
    pub inexact: Option<&'static str>,
    /// Whether it takes a debug kernel; no other runs it.
    pub debug: bool,
    /// Whether it takes the stock kernel, and not User Mode Linux. That lacks some kinds of qdisc,
    /// and gives the processor to another task only where a task asks whether it should.
    pub stock: bool,
}

impl Test {
    /// A test of which nothing else is said.
    pub const fn new(name: &'static str, run: fn(&Context) -> Result<()>) -> Self {
        Self {
            name,
            run,
            once: false,
            inexact: None,
            debug: false,
            stock: false,
        }
    }

    /// See [`Test::once`].
    #[must_use]
    pub const fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// See [`Test::inexact`].
    #[must_use]
    pub const fn exact(self, why: &'static str) -> Self {
        Self {
            inexact: Some(why),
            ..self
        }
    }

    /// See [`Test::debug`].
    #[must_use]
    pub const fn debug(self) -> Self {
        Self {
            debug: true,
            ..self
        }
    }

    /// See [`Test::stock`].
    #[must_use]
    pub const fn stock(self) -> Self {
        Self {
            stock: true,
            ..self
        }
    }
}

/// `TESTS`: test functions under their own names. Marks before a name: `#[once]`, `#[exact =
/// "why"]`, `#[debug]`, `#[stock]`, see [`Test::once`], [`Test::inexact`], [`Test::debug`] and
/// [`Test::stock`].
#[macro_export]
macro_rules! tests {
    ($($(#[$($mark:tt)+])* $test:ident),+ $(,)?) => {
        pub(crate) const TESTS: &[$crate::Test] = &[
            $($crate::marked!($crate::Test::new(stringify!($test), $test); $([$($mark)+])*)),+
        ];
    };
}

/// A test, or a part, with its marks.
#[doc(hidden)]
#[macro_export]
macro_rules! marked {
    ($it:expr;) => {
        $it
    };
    ($it:expr; [$mark:ident] $($more:tt)*) => {
        $crate::marked!($it.$mark(); $($more)*)
    };
    ($it:expr; [$mark:ident = $why:literal] $($more:tt)*) => {
        $crate::marked!($it.$mark($why); $($more)*)
    };
}

/// Parts: the `TESTS` of modules, under the modules' names. `#[exact = "why"]` before a name marks
/// all of its tests.
#[macro_export]
macro_rules! parts {
    ($($(#[$($mark:tt)+])* $part:ident),+ $(,)?) => {
        const { &[$(
            $crate::marked!(
                $crate::Part::new(stringify!($part), $part::TESTS);
                $([$($mark)+])*
            )
        ),+] }
    };
}

/// What a test may tell its runner.
#[derive(Default)]
pub struct Context {
    notes: RefCell<Vec<String>>,
    expected: RefCell<Vec<&'static str>>,
}

impl Context {
    /// Adds a diagnostic line to the report: a figure that was measured, say.
    pub fn note(&self, line: impl Into<String>) {
        self.notes.borrow_mut().push(line.into());
    }

    /// Kernel messages that contain `text` are no failure of this test.
    pub fn expect_kernel_message(&self, text: &'static str) {
        self.expected.borrow_mut().push(text);
    }
}

/// The error of a test that cannot run here.
#[derive(Debug)]
pub struct Skip(pub String);

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Skip {}

enum Outcome {
    Pass,
    Skip(String),
    Fail(String),
}

/// Which tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    /// Those whose `part.test` contains this, or one of several that commas separate.
    pub(crate) filter: String,
    /// Without those for which one kernel is enough, as another has run them.
    pub(crate) again: bool,
    /// On a debug kernel: also those that take one, and of those that need an exact clock only why
    /// they are left out.
    pub(crate) debug: bool,
}

/// Whether this kernel is User Mode Linux.
fn in_user_mode() -> bool {
    let processors = std::fs::read_to_string("/proc/cpuinfo");
    processors.is_ok_and(|text| text.contains("User Mode Linux"))
}

/// The tests that are selected.
pub(crate) fn select<'a>(
    parts: &'a [Part],
    selection: &'a Selection,
) -> impl Iterator<Item = (&'a Part, &'a Test)> {
    let is_stock = !in_user_mode();
    parts
        .iter()
        .flat_map(|part| part.tests.iter().map(move |test| (part, test)))
        .filter(move |(part, test)| {
            let name = format!("{}.{}", part.name, test.name);
            let mut patterns = selection.filter.split(',');
            patterns.any(|pattern| name.contains(pattern))
                && !(selection.again && test.once)
                && (selection.debug || !test.debug)
                && (is_stock || !test.stock)
        })
}

/// The tests of a program, and what goes on around them.
pub(crate) struct Suite {
    pub(crate) parts: &'static [Part],
    /// As [`crate::Program::watch_kernel_log`].
    pub(crate) watch_kernel_log: bool,
    /// Called before the first test.
    pub(crate) prepare: fn(),
    /// Called after each test; its error is the test's failure.
    pub(crate) settle: fn() -> Result<()>,
}

/// Runs the selected tests, one subtest per part and each test `repeat` times; returns the exit
/// status.
///
/// # Errors
///
/// If the kernel log cannot be read.
pub(crate) fn run(suite: &Suite, selection: &Selection, repeat: usize) -> Result<ExitCode> {
    let parts = suite.parts;
    let selected: Vec<(&Part, Vec<&Test>)> = parts
        .iter()
        .map(|part| {
            (
                part,
                select(std::slice::from_ref(part), selection)
                    .flat_map(|(_, test)| std::iter::repeat_n(test, repeat)),
            )
        })
        .map(|(part, tests)| (part, tests.collect::<Vec<_>>()))
        .filter(|(_, tests)| !tests.is_empty())
        .collect();
    // A failed assertion is reported by the test's own line.
    std::panic::set_hook(Box::new(|_| ()));
    let root = nix::unistd::geteuid().is_root();
    let mut log = (root && suite.watch_kernel_log)
        .then(|| KernelLog::open().context("opening /dev/kmsg"))
        .transpose()?;
    if root {
        (suite.prepare)();
    }
    let debug = selection.debug && root;
    let mut report = Report::of_program(selected.len() + usize::from(debug));
    let (mut failed, mut skipped, mut passed) = (0, 0, 0);
    for (part, tests) in &selected {
        let mut results = Report::of_part(part.name, tests.len());
        let (mut part_failed, mut part_skipped) = (0, 0);
        for test in tests {
            let context = Context::default();
            let clock = Clock::start();
            let inexact = test.inexact.or(part.inexact);
            let outcome = match inexact.filter(|_| selection.debug) {
                Some(why) => Outcome::Skip(format!("not here: {why}")),
                None if root => {
                    let name = format!("{}.{}", part.name, test.name);
                    run_one(&name, test, &context, log.as_mut(), suite.settle)
                }
                None => Outcome::Skip("needs root".to_owned()),
            };
            let figures = clock.stop();
            for note in context.notes.borrow().iter() {
                results.note(note);
            }
            match outcome {
                Outcome::Pass => results.result(test.name, true, &figures),
                Outcome::Skip(why) => {
                    part_skipped += 1;
                    results.result(test.name, true, &format!("SKIP {why}"));
                }
                Outcome::Fail(why) => {
                    part_failed += 1;
                    results.note(&why);
                    results.result(test.name, false, &figures);
                }
            }
        }
        report.result(part.name, part_failed == 0, "");
        failed += part_failed;
        skipped += part_skipped;
        passed += tests.len() - part_failed - part_skipped;
    }
    if debug {
        let failures = debug::report(&mut report);
        failed += failures;
        passed += debug::CHECKS - failures;
    }
    println!("# Totals: pass:{passed} fail:{failed} skip:{skipped}");
    Ok(match (failed, passed) {
        (0, 0) => ExitCode::from(KSFT_SKIP),
        (0, _) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn run_one(
    name: &str,
    test: &Test,
    context: &Context,
    log: Option<&mut KernelLog>,
    settle: fn() -> Result<()>,
) -> Outcome {
    let watch = Watch::start(name);
    let result = catch_unwind(AssertUnwindSafe(|| (test.run)(context)));
    let mut problems = Vec::new();
    match result {
        Ok(Ok(())) => {}
        Ok(Err(error)) => match error.downcast_ref::<Skip>() {
            Some(skip) => return Outcome::Skip(skip.to_string()),
            None => problems.push(format!("{error:#}")),
        },
        Err(panic) => problems.push(describe(&*panic)),
    }
    if let Err(error) = settle() {
        problems.push(format!("{error:#}"));
    }
    // Namespaces go away in the background; the next test is to find the machine at rest.
    std::thread::sleep(REST);
    match log.map(|log| log.complaints(&context.expected.borrow())) {
        None => {}
        Some(Ok(complaints)) => {
            problems.extend(complaints.into_iter().map(|line| format!("kernel: {line}")));
        }
        Some(Err(error)) => problems.push(format!("reading the kernel log: {error:#}")),
    }
    drop(watch);
    if problems.is_empty() {
        Outcome::Pass
    } else {
        Outcome::Fail(problems.join("\n"))
    }
}

fn describe(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("panicked")
        .to_owned()
}

/// Ends the run if a test hangs.
struct Watch {
    _done: mpsc::Sender<()>,
}

impl Watch {
    fn start(name: &str) -> Self {
        let (done, waiting) = mpsc::channel();
        let name = name.to_owned();
        std::thread::spawn(move || {
            if waiting.recv_timeout(TIME_LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                println!(
                    "Bail out! {name} hangs: not finished after {} s",
                    TIME_LIMIT.as_secs()
                );
                std::process::exit(1);
            }
        });
        Self { _done: done }
    }
}

/// What a test takes: time, and processor time of this process and of those it has waited for,
/// which is what costs real time where time is virtual.
struct Clock {
    start: Instant,
    busy: Duration,
}

impl Clock {
    fn start() -> Self {
        Self {
            start: Instant::now(),
            busy: processor_time(),
        }
    }

    fn stop(self) -> String {
        let time = self.start.elapsed().as_secs_f64();
        let busy = (processor_time() - self.busy).as_secs_f64();
        format!("{time:.2} s, of it busy {busy:.2} s")
    }
}

fn processor_time() -> Duration {
    let of = |who| {
        let usage = getrusage(who).ok()?;
        let (user, system) = (usage.user_time(), usage.system_time());
        let us = |time: TimeVal| time.tv_sec() * 1_000_000 + time.tv_usec();
        u64::try_from(us(user) + us(system)).ok()
    };
    let us = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| of(who).unwrap_or(0));
    Duration::from_micros(us.iter().sum())
}
