// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask demo` and `cargo xtask experiment`: `weft demo` and `weft run`, of these sources.
//! What they take is built first.

use std::process::Command;

use anyhow::Result;
use weft_machine::image::VARIABLE;

use crate::cache::Cache;
use crate::cli::Weft;
use crate::image;
use crate::process;

/// Runs `weft` with a machine that is built for it, and returns its exit status.
///
/// # Errors
/// If something cannot be built.
pub(crate) fn run(cache: &Cache, command: &str, options: &Weft) -> Result<u8> {
    let (built, entry) = image::built(cache, &options.target.request())?;
    let mut weft = Command::new(&built.programs.weft);
    weft.arg(command).args(&options.words);
    weft.env(VARIABLE, image::file(&entry));
    weft.env("WEFT_CACHE", cache.root());
    process::passed_on(&mut weft)
}
