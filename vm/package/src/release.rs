// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of the executable and of the package `weft` in minimal root filesystems of Debian's
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

/// The subject of a test.
#[derive(Clone, Copy)]
pub(crate) enum Trial<'a> {
    /// `weft demo` with the standalone executable, which needs no other file.
    Executable(&'a Path),
    /// The package `weft` in a folder: installation, use, purge.
    Package {
        folder: &'a Path,
        dependencies: &'a str,
    },
}

/// Tests it in a release, whose root filesystem is built if necessary. Returns the output of `weft
/// demo`.
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
