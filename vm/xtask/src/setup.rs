// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask setup` and `cargo xtask build`.

use anyhow::Result;
use serde_json::{Value, json};
use weft_build::base::cache::{Cache, Entry};
use weft_build::base::host::{self, Need};
use weft_build::base::process::shown;
use weft_build::base::{output, workspace};
use weft_build::options::{ClockKind, Target};
use weft_build::stages::chain::{self, Base, Kernel};
use weft_build::stages::{bpf_linker, ebpf, metadata, modules, programs, rootfs, suite, um_kernel};

use crate::cli::{Build, Setup};

/// Runs `setup`. It leaves nothing for `test` and `demo` to install.
///
/// # Errors
/// Those of the stages.
pub(crate) fn setup(cache: &Cache, setup: &Setup) -> Result<u8> {
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
        describe_setup(
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

/// Runs `build`.
///
/// # Errors
/// Those of the stages.
pub(crate) fn build(cache: &Cache, build: &Build) -> Result<u8> {
    if build.dry_run {
        describe_setup(cache, &build.target, &host::MACHINE)?;
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
        let mut facts = facts(&built.base, &stock.metadata);
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

fn facts(base: &Base, metadata: &Entry) -> Value {
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

/// Prints the commands of the costly steps, and which are done already.
fn describe_setup(cache: &Cache, target: &Target, needs: &[Need]) -> Result<()> {
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
