// SPDX-License-Identifier: MIT OR Apache-2.0

//! What makes and checks Debian packages: debhelper and lintian of the suite, and tshark, which
//! shows what Wireshark's plugin reads; a layer over the root
//! filesystem, which stays as it is.

use std::path::PathBuf;

use anyhow::Result;

use crate::cache::{Cache, Entry, Key, Stage};
use crate::enter::{self, Enter};
use crate::suite::{self, Resolution};

pub(crate) const STAGE: Stage = Stage {
    name: "package-tools",
    keep: 2,
};

const SCRIPT: &str = "dpkg --install --force-unsafe-io /mnt/packages/*.deb";

const PACKAGES: [&str; 5] = ["debhelper", "dh-dkms", "dpkg-dev", "lintian", "tshark"];

/// What lies over the root filesystem.
pub(super) fn layer(tools: &Entry) -> PathBuf {
    tools.path().join("data")
}

/// The layer, built if need be.
///
/// # Errors
/// If the packages cannot be downloaded or installed.
pub(super) fn ensure(cache: &Cache, resolution: &Resolution, rootfs: &Entry) -> Result<Entry> {
    let key = Key::new(SCRIPT).with(rootfs.hash()).with_all(PACKAGES);
    let what = format!("debhelper, lintian and tshark of {}", resolution.suite);
    cache.ensure(&STAGE, key, &what, |directory, log| {
        let root = rootfs.path().join("root");
        let downloads = directory.join("packages");
        let archive = suite::archive_of(cache, resolution)?;
        let download = || archive.download_missing(&PACKAGES, &root, &downloads, log);
        // The archive may have newer versions by now than it had when it was last asked.
        download().or_else(|_| {
            log.run(&mut archive.update_command())?;
            download()
        })?;
        let enter = Enter::layered(&root, &[], directory)?.with(&downloads, "/mnt/packages");
        let mut command = enter.script(SCRIPT);
        log.run(command.env("DEBIAN_FRONTEND", "noninteractive"))?;
        for done in ["work", "packages"] {
            enter::remove_tree(&directory.join(done))?;
        }
        Ok(())
    })
}
