// SPDX-License-Identifier: MIT OR Apache-2.0

//! The part of the kernel's source that weft's modules work with: networking, and its headers.
//!
//! Nothing is built from it. A test compares its functions with those that weft's modules assume.

use std::path::PathBuf;

use anyhow::Result;

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::base::enter::Enter;
use crate::stages::metadata;
use crate::stages::suite::Resolution;

/// Its folder in the cache.
pub const STAGE: Stage = Stage {
    name: "source",
    keep: 2,
};

/// The folders of the kernel's source that are kept.
pub const FOLDERS: [&str; 5] = [
    "include/net",
    "net/core",
    "net/ipv4",
    "net/ipv6",
    "net/sched",
];

/// `$1` source package, then the folders in it.
const SCRIPT: &str = r#"
cd /mnt/source
package=$1
shift
dpkg-deb --fsys-tarfile source.deb | tar -xO "./usr/src/$package.tar.xz" | xz -dT0 | tar -x "$@"
rm source.deb
mv "$package" tree
"#;

/// The source, unpacked if necessary.
///
/// # Errors
/// If it cannot be downloaded, or lacks one of the [`FOLDERS`].
pub fn ensure(cache: &Cache, resolution: &Resolution, rootfs: &Entry) -> Result<Entry> {
    let key = Key::new(SCRIPT)
        .with(&resolution.source_package)
        .with(&resolution.version)
        .with_all(FOLDERS);
    let what = format!("source of {}", resolution.kernel);
    cache.ensure(&STAGE, key, &what, |directory, log| {
        metadata::download_source(cache, resolution, directory, log)?;
        let root = rootfs.path().join("root");
        let enter = Enter::new(&root).with_writable(directory, "/mnt/source");
        let package = &resolution.source_package;
        let folders = FOLDERS.map(|folder| format!("{package}/{folder}"));
        let mut command = enter.script(SCRIPT);
        log.run(command.arg(package).args(folders))
    })
}

/// The root of the source tree.
pub fn tree(source: &Entry) -> PathBuf {
    source.path().join("tree")
}
