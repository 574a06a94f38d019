// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask package`: Debian packages, and a test that installs, upgrades and purges them.

mod deb;
mod dissected;
mod fresh;
mod staged;
mod tools;
mod trial;

use std::fs;

use anyhow::{Context, Result, ensure};

use crate::build::{self, Base};
use crate::cache::{Cache, Entry, Stage};
use crate::cli::Package;
use crate::output;
use crate::progress;

/// What is kept in the cache.
pub(crate) const STAGES: [&Stage; 3] = [&deb::STAGE, &fresh::STAGE, &tools::STAGE];

/// Runs it.
///
/// # Errors
/// Those of the stages; with `--test` whatever the packages do wrong.
pub(crate) fn run(cache: &Cache, package: &Package) -> Result<u8> {
    let base = build::base(cache, &package.target.request())?;
    let debs = debs(cache, &base, None)?;
    let mut places = Vec::new();
    fs::create_dir_all(&package.out)
        .with_context(|| format!("making {}", package.out.display()))?;
    for deb in deb::files(&debs)? {
        let place = package.out.join(deb.file_name().unwrap_or_default());
        fs::copy(&deb, &place).with_context(|| format!("writing {}", place.display()))?;
        places.push(place);
    }
    if package.test {
        progress::step("Wireshark's plugin", || {
            let tools = tools::ensure(cache, &base.resolution, &base.rootfs)?;
            dissected::check(cache, &base, &tools, &build::workspace())
        })?;
        trial::run(cache, package, &base, &debs)?;
    }
    if package.json {
        output::json(&places)?;
    } else {
        for place in &places {
            output::print(place.display().to_string())?;
        }
    }
    Ok(0)
}

/// The packages of the workspace's version, or of another.
fn debs(cache: &Cache, base: &Base, version: Option<&str>) -> Result<Entry> {
    let workspace = build::workspace();
    let (ebpf, programs) = build::programs(cache, base, &workspace)?;
    ensure!(
        ebpf.is_some(),
        "{} has nothing to build the eBPF programs with, which the packages have",
        base.resolution.suite
    );
    let tools = tools::ensure(cache, &base.resolution, &base.rootfs)?;
    let staged = staged::Staged::gather(&workspace, &programs)?;
    deb::ensure(cache, base, &tools, &staged, version)
}
