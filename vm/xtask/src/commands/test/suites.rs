// SPDX-License-Identifier: MIT OR Apache-2.0

//! Test programs: their names, their tests, and the commands that run them.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use weft_build::base::process;

use crate::ktap;

/// A program's name in the guest.
pub(super) fn name(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// The command that runs a test program.
pub(super) fn command(program: &Path, filter: Option<&str>) -> Vec<String> {
    let filter = filter.into_iter().flat_map(|filter| ["--filter", filter]);
    std::iter::once(name(program))
        .chain(filter.map(str::to_owned))
        .collect()
}

/// Whether a program has a selected test; with `debug`, one for a debug kernel.
pub(super) fn has_test(program: &Path, filter: Option<&str>, debug: bool) -> Result<bool> {
    if filter.is_none() {
        return Ok(true);
    }
    let debug = debug.then_some("--debug");
    let names = process::capture(Command::new(program).arg("--list").args(debug))?;
    Ok(names.lines().any(|name| ktap::selects(filter, name)))
}
