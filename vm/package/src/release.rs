// SPDX-License-Identifier: MIT OR Apache-2.0

//! Trials of the executable and of the package `weft` in minimal root filesystems of Debian's
//! releases, as an unprivileged user.

use std::path::Path;

use anyhow::Result;
use weft_build::base::cache::Cache;
use weft_build::base::enter::Enter;
use weft_build::base::progress;
use weft_build::stages::roots;
use weft_build::stages::suite::Resolution;
use weft_machine::interrupt::Temporary;

const SCRIPT: &str = include_str!("release.sh");

/// What is tried.
#[derive(Clone, Copy)]
pub(crate) enum Trial<'a> {
    /// `weft demo` of the one executable, which needs nothing that a root does not have.
    Executable(&'a Path),
    /// The package `weft` in a folder: installed, used, purged.
    Package {
        folder: &'a Path,
        dependencies: &'a str,
    },
}

/// Tries it in a release, whose root filesystem is built if need be. Returns what `weft demo`
/// prints.
///
/// # Errors
/// If weft fails: with the end of the log.
pub(crate) fn try_in(
    cache: &Cache,
    resolution: &Resolution,
    release: &str,
    trial: Trial<'_>,
) -> Result<String> {
    let (kind, log, title, path, dependencies) = match trial {
        Trial::Executable(path) => ("executable", "bundle", "weft demo", path, ""),
        Trial::Package {
            folder,
            dependencies,
        } => (
            "package",
            "package",
            "the package weft",
            folder,
            dependencies,
        ),
    };
    let root = roots::ensure(cache, resolution, release, dependencies)?;
    let place = cache.file(format!("run/{}.{release}", std::process::id()));
    let layer = Temporary::new(place)?;
    progress::step(&format!("{title} in {release}"), || {
        let mut command = Enter::layered(&root.path().join("root"), &[], layer.path())?
            .with(&std::fs::canonicalize(path)?, "/mnt/weft")
            .script(SCRIPT);
        command.env("DEBIAN_FRONTEND", "noninteractive").arg(kind);
        cache
            .log(&format!("{log}-test-{release}"))?
            .run_piped(&mut command)
    })
}
