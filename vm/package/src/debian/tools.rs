// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tools to build and check Debian packages: debhelper and lintian of the suite, and tshark to test
//! Wireshark's plugin; a layer over the root filesystem.

use anyhow::Result;
use weft_build::base::cache::{Cache, Entry, Stage};
use weft_build::stages::layer;
use weft_build::stages::suite::Resolution;

pub(crate) const STAGE: Stage = Stage {
    name: "package-tools",
    keep: 2,
};

const PACKAGES: [&str; 5] = ["debhelper", "dh-dkms", "dpkg-dev", "lintian", "tshark"];

/// The layer, built if necessary.
///
/// # Errors
/// If the packages cannot be downloaded or installed.
pub(super) fn ensure(cache: &Cache, resolution: &Resolution, rootfs: &Entry) -> Result<Entry> {
    let what = format!("debhelper, lintian and tshark of {}", resolution.suite);
    layer::ensure(cache, &STAGE, (&what, &PACKAGES), resolution, rootfs)
}
