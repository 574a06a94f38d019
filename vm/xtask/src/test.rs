// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask test`: host tests, guest tests, determinism; one closing line for all.
//!
//! Host tests and guests run at the same time, as many guests as there are processors, and what
//! they print is shown one after the other. Guests' programs and kernels are built beside the host
//! tests.

mod applications;
mod debug;
mod guests;
mod host;
mod program;
mod suites;
mod wheel;

use std::sync::mpsc;

use anyhow::Result;
use weft_build::base::cache::{Cache, Stage};
use weft_build::base::output;
use weft_build::options::ClockKind;
use weft_build::stages::chain::{self, Kernel};
use weft_machine::console;
use weft_machine::failure::Failure;

use crate::cli::{Test, TestClock};
use crate::kept;
use crate::ktap::{self, Tally};
use crate::virtme;
use applications::Applications;

/// What is kept in the cache.
pub(crate) const STAGES: [&Stage; 2] = [&wheel::STAGE, &virtme::STAGE];

/// Runs the tests. The exit status is 1 if one failed.
///
/// # Errors
/// If they cannot be run at all: cargo does not start, the guest cannot be built.
pub(crate) fn run(cache: &Cache, test: &Test) -> Result<u8> {
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

/// Builds what guests need, and runs them. They print when `host`, whose sender goes away then, has
/// printed.
fn guests(cache: &Cache, test: &Test, host: &mpsc::Receiver<()>) -> Result<Tally> {
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

/// The clocks that are meant, in their order.
fn clocks(clock: TestClock) -> &'static [ClockKind] {
    match clock {
        TestClock::Virtual => &[ClockKind::Virtual],
        TestClock::Model => &[ClockKind::Model],
        TestClock::Both => &[ClockKind::Virtual, ClockKind::Model],
    }
}

fn under_virtme(cache: &Cache, test: &Test) -> Result<u8> {
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
    fn a_run_without_a_passed_test_is_no_success() {
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
