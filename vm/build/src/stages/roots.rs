// SPDX-License-Identifier: MIT OR Apache-2.0

//! Minimal root filesystems of Debian's releases, which have nothing of weft's: where its program
//! and its package are tried.

use anyhow::Result;

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::stages::archive::Archive;
use crate::stages::rootfs;
use crate::stages::suite::Resolution;

/// Their place in the cache.
pub const STAGE: Stage = Stage {
    name: "minimal-root",
    keep: 8,
};

/// Installs the packages that satisfy a package's dependencies, `$1` in a hook being the root.
const SATISFY: &str = "chroot \"$1\" env DEBIAN_FRONTEND=noninteractive \
                       apt-get --yes --no-install-recommends satisfy";
/// Left out: what no program reads.
const EXCLUDED: [&str; 4] = ["doc", "info", "locale", "man"];

/// The root of a release, built if need be, with what satisfies `dependencies` (none: an empty
/// text). Apt then knows the archive, so that a package can be installed without a network.
///
/// # Errors
/// If the archive does not have the release, or what satisfies the dependencies.
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
        // All of weft's package is there.
        command.arg("--dpkgopt=path-include=/usr/share/*/weft*");
        if !dependencies.is_empty() {
            command.args(["--skip=cleanup/apt/lists", "--skip=cleanup/apt/cache"]);
            command.arg(format!("--customize-hook={SATISFY} '{dependencies}'"));
        }
        rootfs::of_suite(&mut command, &release, &directory.join("root"));
        log.run(&mut command)
    })
}
