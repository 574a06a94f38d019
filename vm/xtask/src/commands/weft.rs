// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask demo` and `cargo xtask experiment`: `weft demo` and `weft run` from these sources.
//! They are built first, as one executable, which stays.

use std::ffi::OsString;
use std::process::Command;

use anyhow::Result;
use weft_build::base::cache::Cache;
use weft_build::base::{process, progress, workspace};
use weft_build::options::Target;
use weft_build::stages::image;
use weft_package::bundle;

/// Run weft from these sources, with a machine that is built first
#[derive(clap::Args, Debug)]
#[command(after_help = "\
What follows are the words of weft demo, or of weft run NAME; `weft run --help` says which there are.

Examples:
  cargo xtask demo
  cargo xtask experiment pfabric-fig4a
  cargo xtask experiment shoot-out-144 --memory 8192 -j 1
  cargo xtask experiment ./mine.toml --seed 1,2,3")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Arguments of weft
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "WORDS"
    )]
    pub(crate) words: Vec<OsString>,
}

/// The executable's path in the workspace.
const EXECUTABLE: &str = "target/weft";

/// Runs `weft` with its freshly built machine, and returns its exit status.
///
/// # Errors
/// If a part cannot be built.
pub(crate) fn run(cache: &Cache, command: &str, options: &Args) -> Result<u8> {
    let (built, entry) = image::built(cache, &options.target.request())?;
    let executable = workspace().join(EXECUTABLE);
    bundle::write(&built, &entry, &executable)?;
    progress::note(&format!(
        "{EXECUTABLE} is all of weft, for any x86-64 Linux: copy it to where your programs are"
    ));
    let mut weft = Command::new(&executable);
    process::passed_on(weft.arg(command).args(&options.words))
}
