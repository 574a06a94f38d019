// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask package`: builds Debian packages, and tests their installation, upgrade and purge.

mod deb;
mod dissected;
mod fresh;
mod staged;
mod tools;
mod trial;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use weft_build::base::cache::{Cache, Entry, Stage};
use weft_build::base::{output, progress, workspace};
use weft_build::options::{Hardware, Target, suite_name};
use weft_build::stages::chain::{self, Built, Kernel};
use weft_build::stages::image::{self, Compression};

use crate::bundle;

/// Build Debian packages: programs, plugin and pages; the modules' sources for DKMS
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Two packages: weft (amd64, for Debian 12 and later) has weft and its machine, weft-tag, weft-arbiter, weft-pase, tc's \
plugin, manual pages and completions; weft-dkms has the modules' sources, which DKMS builds on the machine where it is \
installed, again for each kernel that comes. Those of the same sources, made with the same cargo, are the same to the \
byte. What to do with them is in packaging/README.md.

--test runs weft as nobody in roots of Debian's releases. It installs both packages in a fresh root filesystem, where \
DKMS builds the modules when a kernel's headers come, upgrades them, runs what they installed in a guest, and purges \
them. It takes some minutes, a gigabyte of downloads the first time, and the network then.

Examples:
  cargo xtask package
  cargo xtask package --out /tmp/debs && sudo apt install /tmp/debs/weft_*.deb && weft demo
  cargo xtask package --test
  cargo xtask package --json           where they are, for scripts")]
pub struct Args {
    #[command(flatten)]
    target: Target,
    /// Output folder
    #[arg(long, value_name = "FOLDER", default_value = "packages")]
    out: PathBuf,
    /// Install, upgrade, run and purge them
    #[arg(long)]
    test: bool,
    /// With --test: the suite whose newer kernel is used for the upgrade
    #[arg(long, value_name = "SUITE", default_value = "sid", value_parser = suite_name, requires = "test")]
    next: String,
    /// Print their paths as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    hardware: Hardware,
}

impl Args {
    /// The kernel of the packages.
    pub fn target(&self) -> &Target {
        &self.target
    }
}

/// The stages in the cache.
pub const STAGES: [&Stage; 3] = [&deb::STAGE, &fresh::STAGE, &tools::STAGE];

/// Builds the packages, and tests them if requested.
///
/// # Errors
/// Those of the stages; with `--test`, any failure of the packages.
pub fn run(cache: &Cache, options: &Args) -> Result<u8> {
    let built = chain::in_place(cache, &options.target.request(), &[Kernel::Model])?;
    let base = &built.base;
    let debs = debs(cache, &built, None)?;
    let mut places = Vec::new();
    fs::create_dir_all(&options.out)
        .with_context(|| format!("making {}", options.out.display()))?;
    for deb in deb::files(&debs)? {
        let place = options.out.join(deb.file_name().unwrap_or_default());
        fs::copy(&deb, &place).with_context(|| format!("writing {}", place.display()))?;
        places.push(place);
    }
    if options.test {
        progress::step("Wireshark's plugin", || {
            let tools = tools::ensure(cache, &base.resolution, &base.rootfs)?;
            dissected::check(cache, base, &tools, &workspace())
        })?;
        trial::run(cache, options, &built, &debs)?;
    }
    places.push(bundle::sources(&built, &options.out)?);
    if options.json {
        output::json(&places)?;
    } else {
        for place in &places {
            output::print(place.display().to_string())?;
        }
    }
    Ok(0)
}

/// The packages with the workspace's version, or another one.
fn debs(cache: &Cache, built: &Built<'_>, version: Option<&str>) -> Result<Entry> {
    let base = &built.base;
    let tools = tools::ensure(cache, &base.resolution, &base.rootfs)?;
    let image = image::ensure(built, Compression::Small)?;
    let staged = staged::Staged::gather(&workspace(), &built.programs, &image)?;
    deb::ensure(cache, base, &tools, &staged, version)
}
