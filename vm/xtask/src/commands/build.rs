// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask build`: builds weft's own parts of a guest with the stock kernel.

use anyhow::Result;
use serde_json::json;
use weft_build::base::cache::Cache;
use weft_build::base::process::shown;
use weft_build::base::{host, output, workspace};
use weft_build::options::Target;
use weft_build::stages::chain::{self, Kernel};
use weft_build::stages::{ebpf, modules, programs};

use super::setup;

/// Build kernel modules, eBPF programs, guest programs and the tc plugin
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask build
  cargo xtask build --suite experimental
  cargo xtask build --json             where the modules are, for scripts")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print the commands and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print data as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs `build`.
///
/// # Errors
/// Those of the stages.
pub(crate) fn run(cache: &Cache, build: &Args) -> Result<u8> {
    if build.dry_run {
        setup::describe(cache, &build.target, &host::MACHINE)?;
        output::print("# kernel modules, inside the root filesystem")?;
        output::print("make -C /usr/lib/modules/KERNEL/build M=kmod modules")?;
        output::print("# eBPF programs, inside the root filesystem")?;
        output::print("cargo build --release --target bpfel-unknown-none")?;
        let workspace = workspace();
        output::print(format!(
            "# guest programs\n{}\n{}",
            shown(&programs::command(&workspace, None)),
            shown(&programs::weft_command(&workspace, None)?)
        ))?;
        return Ok(0);
    }
    let built = chain::in_place(cache, &build.target.request(), &[Kernel::Stock])?;
    if build.json {
        let stock = built.stock()?;
        let mut facts = setup::facts(&built.base, &stock.metadata);
        facts["modules"] = json!(modules::files(stock.modules.path())?);
        facts["ebpf"] = json!(built.ebpf.as_ref().map(ebpf::object));
        facts["programs"] = json!([
            built.programs.init,
            built.programs.selftests,
            built.programs.weft
        ]);
        facts["plugin"] = json!(built.programs.plugin);
        output::json(&facts)?;
    }
    Ok(0)
}
