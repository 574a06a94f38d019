// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask setup`: builds everything that does not depend on weft's own source.

use anyhow::Result;
use serde_json::{Value, json};
use weft_build::base::cache::{Cache, Entry};
use weft_build::base::host::{self, Need};
use weft_build::base::process::shown;
use weft_build::base::{output, workspace};
use weft_build::options::{ClockKind, Target};
use weft_build::stages::chain::{self, Base};
use weft_build::stages::{bpf_linker, metadata, rootfs, suite, um_kernel};

/// Install host packages; build root filesystem, Rust metadata, boot image, bpf-linker, and the
/// kernel of the model clock
#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  cargo xtask setup
  cargo xtask setup --suite trixie-backports --list-kernels
  cargo xtask setup --suite trixie-backports --kernel 7.2.12
  cargo xtask setup --kernel debug     the debug kernel, too
  cargo xtask setup --dry-run          the commands, nothing is done
  cargo xtask setup --json             versions and paths, for scripts")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Print only the kernels in the suite
    #[arg(long)]
    pub(crate) list_kernels: bool,
    /// Print the commands and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print data as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Runs `setup`. Afterwards `test` and `demo` have nothing to install.
///
/// # Errors
/// Those of the stages.
pub(crate) fn run(cache: &Cache, setup: &Args) -> Result<u8> {
    let request = setup.target.request();
    if setup.list_kernels {
        host::ensure(cache)?;
        let kernels = suite::list(cache, &request)?;
        if setup.json {
            output::json(&kernels)?;
        } else {
            for kernel in &kernels {
                output::print(&kernel.release)?;
            }
        }
    } else if setup.dry_run {
        describe(
            cache,
            &setup.target,
            &[&host::MACHINE[..], &host::TESTS].concat(),
        )?;
    } else {
        host::ensure(cache)?;
        host::provide(cache, &host::TESTS)?;
        let base = chain::base(cache, &request)?;
        let metadata = metadata::ensure(cache, &base.resolution, &base.rootfs)?;
        bpf_linker::ensure(cache, &base.resolution, &base.rootfs)?;
        let program = |variant| {
            let workspace = workspace();
            um_kernel::ensure(variant, cache, &base.resolution, &base.rootfs, &workspace)
        };
        if setup.target.debug() {
            program(&um_kernel::DEBUG)?;
        }
        if setup.target.clock(None) == ClockKind::Model {
            program(&um_kernel::MODEL)?;
        }
        if setup.json {
            let facts = facts(&base, &metadata);
            output::json(&facts)?;
        }
    }
    Ok(0)
}

/// Versions and paths, for scripts.
pub(crate) fn facts(base: &Base, metadata: &Entry) -> Value {
    let resolution = &base.resolution;
    json!({
        "suite": resolution.suite,
        "kernel": resolution.kernel,
        "version": resolution.version,
        "rustc": resolution.rustc_text,
        "compiler": resolution.compiler,
        "root": base.rootfs.path().join("root"),
        "metadata": metadata.path(),
        "boot": base.boot.path(),
    })
}

/// Prints the commands of the expensive steps, and which of them are done.
pub(crate) fn describe(cache: &Cache, target: &Target, needs: &[Need]) -> Result<()> {
    let missing = host::missing_of(needs);
    if !missing.is_empty() {
        output::print(format!(
            "# host packages\n{}",
            shown(&host::install_command(&missing))
        ))?;
    }
    let Some(resolution) = suite::recorded(cache, &target.request()) else {
        output::print(format!(
            "# the kernel of {} is looked up first; the rest depends on it",
            target.suite
        ))?;
        return Ok(());
    };
    if let Some(entry) = rootfs::find(cache, &resolution)? {
        output::print(format!(
            "# the root filesystem is there: {}",
            entry.path().display()
        ))?;
    } else {
        let place = cache.file(rootfs::STAGE.name).join("root");
        output::print(format!(
            "# root filesystem\n{}",
            shown(&rootfs::command(&resolution, &place))
        ))?;
    }
    output::print(format!(
        "# Rust metadata, kernel image and initramfs of {}, bpf-linker, kernel of the model clock",
        resolution.kernel
    ))?;
    Ok(())
}
