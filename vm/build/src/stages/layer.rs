// SPDX-License-Identifier: MIT OR Apache-2.0

//! A layer over the root filesystem, which stays unchanged: packages of the suite with their
//! dependencies.

use std::path::PathBuf;

use anyhow::Result;

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::base::enter::{self, Enter};
use crate::stages::suite::{self, Resolution};

const SCRIPT: &str = "dpkg --install --force-unsafe-io /mnt/packages/*.deb";

/// The folder with the installed files.
pub fn place(layer: &Entry) -> PathBuf {
    layer.path().join("data")
}

/// The layer, built if necessary.
///
/// # Errors
/// If the packages cannot be downloaded or installed.
pub fn ensure(
    cache: &Cache,
    stage: &Stage,
    (what, packages): (&str, &[&str]),
    resolution: &Resolution,
    rootfs: &Entry,
) -> Result<Entry> {
    let key = Key::new(SCRIPT).with(rootfs.hash()).with_all(packages);
    cache.ensure(stage, key, what, |directory, log| {
        let root = rootfs.path().join("root");
        let downloads = directory.join("packages");
        let archive = suite::archive_of(cache, resolution)?;
        archive.download_missing(packages, &root, &downloads, log)?;
        let enter = Enter::layered(&root, &[], directory)?.with(&downloads, "/mnt/packages");
        let mut command = enter.script(SCRIPT);
        log.run(command.env("DEBIAN_FRONTEND", "noninteractive"))?;
        for done in ["work", "packages"] {
            enter::remove_tree(&directory.join(done))?;
        }
        Ok(())
    })
}
