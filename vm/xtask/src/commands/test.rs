// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask test`: host tests, guest tests, determinism; one final line for all.
//!
//! Host tests and guests run in parallel, with as many guests as there are processors, and their
//! output is printed one after the other. Guests' programs and kernels are built during the host
//! tests.

mod applications;
mod assumptions;
mod debug;
mod determinism;
mod guests;
mod host;
mod program;
mod shortcuts;
mod suites;
mod virtme;
mod wheel;

use std::sync::mpsc;

use anyhow::Result;
use clap::ValueEnum;
use weft_arguments::whole;
use weft_build::base::cache::{Cache, Stage};
use weft_build::base::output;
use weft_build::options::{ClockKind, Hardware, Target};
use weft_build::stages::chain::{self, Kernel};
use weft_machine::console;
use weft_machine::failure::Failure;

use crate::commands::kept;
use crate::ktap::{self, Tally};
use applications::Applications;

/// Run host tests, guest tests and the determinism test
#[derive(clap::Args, Debug)]
#[command(after_help = "\
The last line says how many tests passed and failed. A guest test fails too if the guest's kernel reports \
trouble while it runs. With --kernel debug, guest tests run on a kernel that looks for errors of memory, locks, \
lists and references, after deliberate errors have shown that it sees each kind; see vm/um/debug/README.md.

Examples:
  cargo xtask test
  cargo xtask test --host-only
  cargo xtask test --guest-only --filter pfabric
  cargo xtask test --virtme-ng
  cargo xtask test --kernel debug --cpus 4
  cargo xtask test --suite trixie-backports --kernel 7.2.12")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Only host tests: cargo's tests, and testbeds on the host's kernel
    #[arg(long, conflicts_with = "guest_only")]
    pub(crate) host_only: bool,
    /// Only guest tests
    #[arg(long)]
    pub(crate) guest_only: bool,
    /// Only tests whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// The qdiscs' guest tests under virtme-ng instead
    #[arg(long, conflicts_with = "host_only")]
    pub(crate) virtme_ng: bool,
    /// Clocks of the guest tests and the determinism test (default: both; instructions with --suite
    /// or --kernel, which select a stock kernel)
    #[arg(long, value_enum, conflicts_with = "virtme_ng")]
    pub(crate) clock: Option<TestClock>,
    /// Run each guest test this many times, to find unreliable tests
    #[arg(long, value_name = "N", conflicts_with = "host_only", allow_negative_numbers = true, value_parser = whole(1..=u32::MAX))]
    pub(crate) repeat: Option<u32>,
    /// Runs of the determinism test that must be identical
    #[arg(long, value_name = "N", default_value_t = 8, allow_negative_numbers = true, value_parser = whole(2..=u32::MAX))]
    pub(crate) runs: u32,
    #[command(flatten)]
    pub(crate) hardware: Hardware,
}

impl Args {
    /// The selected clocks.
    pub(crate) fn clock(&self) -> TestClock {
        let default = match self.target.any() {
            true => TestClock::Both,
            false => TestClock::Instructions,
        };
        self.clock.unwrap_or(default)
    }
}

/// The clocks under which tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TestClock {
    /// All on the stock kernel, in counted instructions
    Instructions,
    /// All under the model clock
    Model,
    /// All under the model clock; on the stock kernel all except tests for which one kernel is
    /// enough
    Both,
}

/// The stages in the cache.
pub(crate) const STAGES: [&Stage; 2] = [&wheel::STAGE, &virtme::STAGE];

/// Runs the tests. The exit status is 1 if one failed.
///
/// # Errors
/// If they cannot be run at all: cargo does not start, the guest cannot be built.
pub(crate) fn run(cache: &Cache, test: &Args) -> Result<u8> {
    if test.virtme_ng {
        return under_virtme(cache, test);
    }
    if test.target.debug() && (test.clock.is_some() || test.host_only) {
        let message = "--kernel debug runs guest tests, by the host's clock: leave --clock and --host-only out";
        return Err(Failure::setup(message).into());
    }
    let guest_only = test.guest_only || test.target.debug();
    if !guest_only {
        weft_build::base::host::provide(cache, &weft_build::base::host::TESTS)?;
    }
    let (of_host, of_guests) = std::thread::scope(|scope| {
        let (ends, ended) = mpsc::channel::<()>();
        let host = (!guest_only).then(|| {
            scope.spawn(|| {
                let tally = host::run(cache, test);
                drop(ends);
                tally
            })
        });
        let guests = (!test.host_only).then(|| guests(cache, test, &ended));
        let host = host.map(|host| {
            host.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        (host, guests)
    });
    let mut tally = of_host.transpose()?.unwrap_or_default();
    match of_guests.transpose() {
        Ok(guests) => tally.add(guests.unwrap_or_default()),
        Err(error) => {
            let _ = conclude(&tally);
            return Err(error);
        }
    }
    conclude(&tally)
}

/// Builds the parts that guests need, and runs the guests. Their output follows that of `host`,
/// whose sender is dropped at its end.
fn guests(cache: &Cache, test: &Args, host: &mpsc::Receiver<()>) -> Result<Tally> {
    let clocks = match test.target.debug() {
        true => &[ClockKind::Debug][..],
        false => clocks(test.clock()),
    };
    let kernels: Vec<Kernel> = clocks.iter().map(|clock| clock.kernel()).collect();
    let built = chain::all(cache, &test.target.request(), &kernels)?;
    let mut tally = Tally::default();
    if clocks.contains(&ClockKind::Debug) {
        tally.add(debug::detectors(&built, test, &mut print)?);
    }
    let applications = match clocks.contains(&ClockKind::Model) {
        true => Applications::prepare(&built, test.filter.as_deref())?,
        false => None,
    };
    let applications = applications.as_ref();
    tally.add(guests::run(&built, applications, test, clocks, host)?);
    if assumptions::is_selected(test.filter.as_deref()) {
        tally.add(assumptions::run(&built)?);
    }
    if clocks.contains(&ClockKind::Model) && program::is_selected(test.filter.as_deref()) {
        tally.add(program::run(&built)?);
    }
    if clocks.contains(&ClockKind::Model) && wheel::is_selected(test.filter.as_deref()) {
        tally.add(wheel::run(&built)?);
    }
    if clocks.contains(&ClockKind::Model) && test.filter.is_none() {
        tally.add(kept::drawn(
            &built,
            test.hardware.memory,
            test.hardware.timeout,
        )?);
    }
    Ok(tally)
}

/// The selected clocks, in order.
fn clocks(clock: TestClock) -> &'static [ClockKind] {
    match clock {
        TestClock::Instructions => &[ClockKind::Instructions],
        TestClock::Model => &[ClockKind::Model],
        TestClock::Both => &[ClockKind::Instructions, ClockKind::Model],
    }
}

fn under_virtme(cache: &Cache, test: &Args) -> Result<u8> {
    let built = chain::all(cache, &test.target.request(), &[Kernel::Stock])?;
    let output = virtme::run(&built, test.filter.as_deref(), &test.hardware, &mut print)?;
    let mut tally = ktap::parse(&output);
    if let Some(log) = console::trouble(&output) {
        output::print(format!("the guest's kernel is in trouble; its log:\n{log}"))?;
        tally.fail("the guest (see above)");
    }
    conclude(&tally)
}

fn conclude(tally: &Tally) -> Result<u8> {
    for failure in &tally.failures {
        output::print(format!("failed: {failure}"))?;
    }
    let skipped = match tally.skipped {
        0 => String::new(),
        count => format!(", {count} skipped"),
    };
    output::print(format!(
        "{} passed, {} failed{skipped}",
        tally.passed, tally.failed
    ))?;
    Ok(u8::from(tally.failed > 0 || tally.passed == 0))
}

fn print(bytes: &[u8]) {
    // The exit status still counts.
    let _ = output::bytes(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_passed_test_fails() {
        assert_eq!(conclude(&Tally::default()).unwrap(), 1);
        assert_eq!(
            conclude(&Tally {
                passed: 1,
                ..Tally::default()
            })
            .unwrap(),
            0
        );
        assert_eq!(
            conclude(&Tally {
                passed: 9,
                failed: 1,
                ..Tally::default()
            })
            .unwrap(),
            1
        );
    }
}
