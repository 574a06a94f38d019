// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ordinary programs on fabrics under the model clock: Debian's, and one that is built from crates.
//! They run twice, and both outputs must be byte-identical.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use weft_build::base::{progress, workspace};
use weft_build::guests;
use weft_build::guests::machine;
use weft_build::options::{ClockKind, Hardware};
use weft_build::stages::chain::Built;
use weft_build::stages::programs;
use weft_machine::Guest;

use super::suites;
use crate::ktap::{self, Tally};

/// The tested packages, from the guest's suite.
const PACKAGES: [&str; 9] = [
    "curl",
    "iperf3",
    "munge",
    "python3",
    "redis",
    "slurm-client",
    "slurmctld",
    "slurmd",
    "tcpdump",
];
pub(crate) const RUNS: usize = 2;

/// The requirements of their guests.
pub(crate) struct Applications<'a> {
    /// Includes the packages.
    built: Built<'a>,
    example: PathBuf,
}

impl<'a> Applications<'a> {
    /// Prepares the tests whose names contain `filter`; `None` if there are none.
    ///
    /// # Errors
    /// If a package is not available, or the example cannot be built.
    pub(crate) fn prepare(built: &Built<'a>, filter: Option<&str>) -> Result<Option<Self>> {
        if !suites::has_test(&built.programs.applications, filter, false)? {
            return Ok(None);
        }
        let log = built.cache.log("quic-example")?;
        let example = programs::quic_example(&workspace(), &log)?;
        let mut built = built.clone();
        built.add_packages(&PACKAGES.map(str::to_owned))?;
        Ok(Some(Self { built, example }))
    }

    /// Runs the tests, and returns their output.
    ///
    /// # Errors
    /// If the guest cannot be run.
    pub(crate) fn run(&self, filter: Option<&str>, hardware: &Hardware) -> Result<Vec<u8>> {
        let program = &self.built.programs.applications;
        let place = |path: &PathBuf| (path.clone(), format!("usr/bin/{}", suites::name(path)));
        let files = [program, &self.example].map(place).to_vec();
        let command = suites::command(program, filter);
        let machine = machine::build(&self.built, ClockKind::Model, hardware)?;
        let run = Guest {
            files,
            ..Guest::new(machine, command, hardware.timeout())
        };
        let outcome = guests::run(&self.built, &run, &mut |_| {}).context("applications")?;
        ensure!(!outcome.console.is_empty(), "applications print nothing");
        Ok(outcome.console)
    }
}

/// The tally of [`RUNS`] runs. `seen` receives their output.
pub(crate) fn judge(runs: Vec<Result<Vec<u8>>>, seen: &mut dyn FnMut(&[u8])) -> Tally {
    progress::note(&format!(
        "applications, {RUNS} times; {}",
        ClockKind::Model.described()
    ));
    let mut tally = Tally::default();
    let outputs: Vec<Vec<u8>> = match runs.into_iter().collect() {
        Ok(outputs) => outputs,
        Err(error) => {
            tally.fail(format!("{error:#}"));
            return tally;
        }
    };
    let Some((first, others)) = outputs.split_first() else {
        tally.fail("applications did not run");
        return tally;
    };
    seen(first);
    tally.add(ktap::parse(&String::from_utf8_lossy(first)));
    match others.iter().find(|other| *other != first) {
        None => tally.pass(),
        Some(other) => {
            seen(other);
            tally.fail("applications print the same to the byte when they run again");
        }
    }
    tally
}
