// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft` as users have it: one executable in an otherwise empty root, as an unprivileged user with
//! few resources, killed at any moment; and with the host's own programs.

use anyhow::Result;
use weft_build::base::{enter, progress};
use weft_build::stages::chain::Built;
use weft_build::stages::image::{self, Compression};
use weft_machine::interrupt::Temporary;
use weft_package::bundle;

use crate::ktap::{self, Tally};

/// The test's name for `--filter`.
const NAME: &str = "one_program";
/// Number of kills.
const KILLS: u32 = 10;

/// Whether the test runs: with all tests, or if selected.
pub(super) fn is_selected(filter: Option<&str>) -> bool {
    ktap::selects(filter, NAME)
}

/// Builds the executable and tests it.
///
/// # Errors
/// If it cannot be built.
pub(super) fn run(built: &Built<'_>) -> Result<Tally> {
    let mut tally = Tally::default();
    if !enter::is_root() {
        progress::note("one_program: skipped, only root makes roots for another user");
        tally.skipped += 1;
        return Ok(tally);
    }
    let entry = image::ensure(built, Compression::Fast)?;
    let place = format!("run/{}.executable", std::process::id());
    let folder = Temporary::new(built.cache.file(place))?;
    let executable = folder.path().join("weft");
    bundle::write(built, &entry, &executable)?;
    match bundle::test(built.cache, &executable, KILLS) {
        Ok(()) => tally.pass(),
        Err(error) => tally.fail(format!("{NAME}: {error:#}")),
    }
    Ok(tally)
}
