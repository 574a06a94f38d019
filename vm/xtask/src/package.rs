// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask package`: Debian packages, and a test that installs, upgrades and purges them.

mod deb;
mod dissected;
mod fresh;
mod staged;
mod tools;
mod trial;

use std::fs;

use anyhow::{Context, Result};
use weft_build::base::cache::{Cache, Entry, Stage};
use weft_build::base::{output, progress, workspace};
use weft_build::stages::chain::{self, Built, Kernel};
use weft_build::stages::image::{self, Compression};

use crate::bundle;
use crate::cli::Package;

/// What is kept in the cache.
pub(crate) const STAGES: [&Stage; 3] = [&deb::STAGE, &fresh::STAGE, &tools::STAGE];

/// Runs it.
///
/// # Errors
/// Those of the stages; with `--test` whatever the packages do wrong.
pub(crate) fn run(cache: &Cache, package: &Package) -> Result<u8> {
    let built = chain::in_place(cache, &package.target.request(), &[Kernel::Model])?;
    let base = &built.base;
    let debs = debs(cache, &built, None)?;
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
            dissected::check(cache, base, &tools, &workspace())
        })?;
        trial::run(cache, package, &built, &debs)?;
    }
    places.push(bundle::sources(&built, &package.out)?);
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
fn debs(cache: &Cache, built: &Built<'_>, version: Option<&str>) -> Result<Entry> {
    let base = &built.base;
    let tools = tools::ensure(cache, &base.resolution, &base.rootfs)?;
    let image = image::ensure(built, Compression::Small)?;
    let staged = staged::Staged::gather(&workspace(), &built.programs, &image)?;
    deb::ensure(cache, base, &tools, &staged, version)
}
