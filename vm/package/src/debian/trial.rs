// SPDX-License-Identifier: MIT OR Apache-2.0

//! The test of the packages: installation, upgrade and purge in a fresh root filesystem, where DKMS
//! builds the modules; the installed files then run in a guest. The package `weft` alone is also
//! installed and used in older releases of Debian.
//!
//! The modules are built outside of the guest, whose translated code would need an hour.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use weft_build::base::cache::{Cache, Entry};
use weft_build::base::enter::Enter;
use weft_build::base::{process, progress};
use weft_build::guests;
use weft_build::guests::machine;
use weft_build::options::ClockKind;
use weft_build::stages::chain::{self, Built};
use weft_build::stages::suite::{self, Resolution};
use weft_machine::Guest;
use weft_machine::interrupt::Temporary;

use super::Args;
use super::{deb, fresh};
use crate::release::{self, Trial};

const SCRIPT: &str = include_str!("trial.sh");
const GUEST: &str = include_str!("guest.sh");
/// The releases besides the one that builds the packages.
const RELEASES: [&str; 2] = ["bookworm", "trixie"];

/// Runs the test.
///
/// # Errors
/// If a package fails; the log's tail has the reason.
pub(super) fn run(cache: &Cache, options: &Args, built: &Built<'_>, debs: &Entry) -> Result<()> {
    let resolution = &built.base.resolution;
    let weft: Vec<PathBuf> = deb::files(debs)?
        .into_iter()
        .filter(|file| {
            let name = file.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with("weft_")
        })
        .collect();
    let trial = Trial::Package {
        folder: debs.path(),
        dependencies: &fresh::dependencies(&weft)?,
    };
    for release in RELEASES.into_iter().chain([resolution.suite.as_str()]) {
        release::try_in(cache, resolution, release, trial)?;
    }
    let new = version(debs)?;
    // A version that sorts before the new one.
    let old = format!("{new}~old");
    let before = super::debs(cache, built, Some(&old))?;
    let next = next(cache, options, resolution)?;
    let root = fresh::ensure(cache, resolution, &next, debs)?;
    let place = cache.file(format!("run/{}.package", std::process::id()));
    let directory = Temporary::new(place)?;
    progress::step("packages installed, upgraded, purged", || {
        let log = cache.log("package-test")?;
        let layer = directory.path().join("layer");
        let mut command = Enter::layered(&root.path().join("root"), &[], &layer)?
            .with(before.path(), "/mnt/old")
            .with(debs.path(), "/mnt/new")
            .with_writable(directory.path(), "/mnt/build")
            .script(SCRIPT);
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command.args([&resolution.kernel, &old, &new]);
        log.run(command.args([&next.kernel, &next.version, &next.source_package]))
    })?;
    let installed = directory.path().join("installed");
    progress::step("what they installed, in a guest", || {
        in_guest(cache, options, &installed)
    })
}

/// The kernel for the upgrade.
fn next(cache: &Cache, options: &Args, now: &Resolution) -> Result<Resolution> {
    let mut request = options.target.request();
    request.suite.clone_from(&options.next);
    request.kernel = None;
    let next = suite::resolve(cache, &request)?;
    ensure!(
        next.kernel != now.kernel,
        "{} has no newer kernel than {}; --next names another suite",
        options.next,
        now.kernel
    );
    ensure!(
        next.rustc_text == now.rustc_text,
        "{} of {} was built by {}, {} by {}, and one machine has one; --next names another suite",
        next.kernel,
        options.next,
        next.rustc_text,
        now.kernel,
        now.rustc_text
    );
    Ok(next)
}

fn in_guest(cache: &Cache, options: &Args, installed: &Path) -> Result<()> {
    let mut built = chain::all(cache, &options.target.request(), &[])?;
    built.installed = Some(installed.to_owned());
    let script: PathBuf = installed.with_file_name("guest.sh");
    std::fs::write(&script, GUEST)?;
    let machine = machine::build(&built, ClockKind::Instructions, &options.hardware)?;
    let command = ["sh", "/root/guest.sh"];
    let run = Guest {
        files: vec![(script, "root/guest.sh".to_owned())],
        ..Guest::new(machine, command, options.hardware.timeout())
    };
    guests::succeed(&built, &run, "the test of what was installed").map(drop)
}

/// The version of the packages.
fn version(debs: &Entry) -> Result<String> {
    let files = deb::files(debs)?;
    let file = files.first().context("no package")?;
    let text = process::capture(
        Command::new("dpkg-deb")
            .arg("--field")
            .arg(file)
            .arg("Version"),
    )?;
    Ok(text.trim().to_owned())
}
