// SPDX-License-Identifier: MIT OR Apache-2.0

//! Minimal root filesystems of Debian's releases without any part of weft, to test its program and
//! its package.

use anyhow::Result;

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::stages::archive::Archive;
use crate::stages::rootfs;
use crate::stages::suite::Resolution;

/// Their folder in the cache.
pub const STAGE: Stage = Stage {
    name: "minimal-root",
    keep: 8,
};

/// Installs packages that satisfy a package's dependencies; in a hook `$1` is the root.
const SATISFY: &str = "chroot \"$1\" env DEBIAN_FRONTEND=noninteractive \
                       apt-get --yes --no-install-recommends satisfy";
/// Excluded: files that no program reads.
const EXCLUDED: [&str; 4] = ["doc", "info", "locale", "man"];

/// The root of a release, built if necessary, with packages that satisfy `dependencies` (may be
/// empty). Its apt has the package lists, so that a package can be installed without a network.
///
/// # Errors
/// If the archive lacks the release, or packages for the dependencies.
pub fn ensure(
    cache: &Cache,
    resolution: &Resolution,
    suite: &str,
    dependencies: &str,
) -> Result<Entry> {
    let key = Key::new(SATISFY)
        .with(suite)
        .with(dependencies)
        .with_all(EXCLUDED);
    let what = format!("minimal root filesystem of {suite}");
    cache.ensure(&STAGE, key, &what, |directory, log| {
        let archive = Archive::new(cache, &resolution.mirror, suite)?;
        let release = Resolution {
            suite: suite.to_owned(),
            sources: archive.sources().to_vec(),
            apt_options: archive.options().to_vec(),
            ..resolution.clone()
        };
        let mut command = rootfs::mmdebstrap(&release);
        for name in EXCLUDED {
            command.arg(format!("--dpkgopt=path-exclude=/usr/share/{name}/*"));
        }
        // All files of weft's package are installed.
        command.arg("--dpkgopt=path-include=/usr/share/*/weft*");
        if !dependencies.is_empty() {
            command.args(["--skip=cleanup/apt/lists", "--skip=cleanup/apt/cache"]);
            command.arg(format!("--customize-hook={SATISFY} '{dependencies}'"));
        }
        rootfs::of_suite(&mut command, &release, &directory.join("root"));
        log.run(&mut command)
    })
}
