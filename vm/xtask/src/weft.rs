// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask demo` and `cargo xtask experiment`: `weft demo` and `weft run`, of these sources.
//! What they take is built first, and stays as one executable.

use std::process::Command;

use anyhow::Result;
use weft_build::base::cache::Cache;
use weft_build::base::{process, progress, workspace};
use weft_build::stages::image;
use weft_package::bundle;

use crate::cli::Weft;

/// The executable, in the workspace.
const EXECUTABLE: &str = "target/weft";

/// Runs `weft` with a machine that is built for it, and returns its exit status.
///
/// # Errors
/// If something cannot be built.
pub(crate) fn run(cache: &Cache, command: &str, options: &Weft) -> Result<u8> {
    let (built, entry) = image::built(cache, &options.target.request())?;
    let executable = workspace().join(EXECUTABLE);
    bundle::write(&built, &entry, &executable)?;
    progress::note(&format!(
        "{EXECUTABLE} is all of weft, for any x86-64 Linux: copy it to where your programs are"
    ));
    let mut weft = Command::new(&executable);
    process::passed_on(weft.arg(command).args(&options.words))
}
