// SPDX-License-Identifier: MIT OR Apache-2.0

//! Programs as people use them, on fabrics under the model clock: Debian's, and one that is built from
//! crates. They are tested twice, and what is printed must be the same to the byte.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weft_guest::request::Request;

use crate::build::{self, Built};
use crate::cli::{ClockKind, Hardware};
use crate::guest::{self, Run};
use crate::ktap::{self, Tally};
use crate::parallel;
use crate::process;
use crate::programs;
use crate::progress;
use crate::vm;

/// What is tested, of the guest's suite.
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
const RUNS: [u32; 2] = [1, 2];

/// Runs those whose names contain `filter`. `seen` is given what they print. From now on all guests
/// have the packages.
///
/// # Errors
/// If a guest cannot be run, or the packages are not to be had.
pub(crate) fn check(
    built: &mut Built,
    filter: Option<&str>,
    hardware: &Hardware,
    seen: &mut dyn FnMut(&[u8]),
) -> Result<Tally> {
    let mut tally = Tally::default();
    let program = built.programs.applications.clone();
    if !has_test(&program, filter)? {
        return Ok(tally);
    }
    let example = programs::quic_example(&build::workspace(), &built.cache.log("quic-example")?)?;
    built.add_packages(&PACKAGES.map(str::to_owned))?;
    progress::note(&format!(
        "applications, {} times; {}",
        RUNS.len(),
        ClockKind::Model.described()
    ));
    let built = &*built;
    let outputs = parallel::map(&RUNS, parallel::processors(), |_, _| {
        run(built, &program, &example, filter, hardware)
    })?;
    let [first, second] = &outputs[..] else {
        anyhow::bail!("not two runs");
    };
    seen(first);
    tally.add(ktap::parse(&String::from_utf8_lossy(first)));
    match first == second {
        true => tally.pass(),
        false => {
            seen(second);
            tally.fail("applications print the same to the byte when they run again");
        }
    }
    Ok(tally)
}

fn has_test(program: &Path, filter: Option<&str>) -> Result<bool> {
    let names = process::capture(Command::new(program).arg("--list"))?;
    let asked = |name: &str| {
        let mut patterns = filter.into_iter().flat_map(|filter| filter.split(','));
        filter.is_none() || patterns.any(|pattern| name.contains(pattern))
    };
    Ok(names.lines().any(asked))
}

/// What it prints.
fn run(
    built: &Built,
    program: &Path,
    example: &Path,
    filter: Option<&str>,
    hardware: &Hardware,
) -> Result<Vec<u8>> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_owned();
    let mut files: Vec<(PathBuf, String)> = Vec::new();
    for path in [program, example] {
        let place = format!("usr/bin/{}", name(path).to_string_lossy());
        files.push((path.to_owned(), place));
    }
    let mut command = vec![name(program)];
    command.extend(
        filter
            .into_iter()
            .flat_map(|it| ["--filter".into(), it.into()]),
    );
    let run = Run {
        machine: vm::machine(built, ClockKind::Model, hardware)?,
        request: Request {
            command,
            ..Request::default()
        },
        files,
        timeout: Duration::from_secs(hardware.timeout),
        cancel: None,
    };
    let outcome = guest::run(built, &run, &mut |_| {}).context("applications")?;
    ensure!(!outcome.console.is_empty(), "applications print nothing");
    Ok(outcome.console)
}
