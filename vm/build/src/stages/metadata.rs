// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rust metadata of the stock kernel.
//!
//! Debian's headers lack the files that a Rust module is compiled against (`rust/*.rmeta`, the
//! macro libraries, `scripts/target.json`). The kernel's own source, configuration and compiler
//! reproduce them, with the mangled symbols of the stock kernel; only these files are kept.

use std::path::Path;

use anyhow::Result;

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::base::enter::Enter;
use crate::base::process::Log;
use crate::stages::suite::{self, Resolution};

/// Its folder in the cache.
pub const STAGE: Stage = Stage {
    name: "metadata",
    keep: 4,
};

/// `$1` kernel release, `$2` source package, `$3` C compiler, `$4` parallel jobs.
const SCRIPT: &str = r#"
cd /mnt/build
dpkg-deb --fsys-tarfile source.deb | tar -xO "./usr/src/$2.tar.xz" | xz -dT0 | tar -x
rm source.deb
mkdir object
cp "/usr/lib/modules/$1/config" object/.config
build() { make -C "$2" O=/mnt/build/object CC="$3" -j"$4" "$5"; }
build "$@" olddefconfig
# Says what is missing; without it the configuration would only drop Rust, silently.
build "$@" rustavailable
build "$@" prepare
mkdir rust
cp object/rust/*.rmeta object/rust/*.so rust/
cp object/scripts/target.json .
rm -rf object "$2"
"#;

/// The metadata, built if necessary.
///
/// # Errors
/// If the source cannot be downloaded or built.
pub fn ensure(cache: &Cache, resolution: &Resolution, rootfs: &Entry) -> Result<Entry> {
    let key = Key::new(SCRIPT).with(rootfs.hash());
    let what = format!("Rust metadata of {}", resolution.kernel);
    cache.ensure(&STAGE, key, &what, |directory, log| {
        build(cache, resolution, rootfs, directory, log)
    })
}

fn build(
    cache: &Cache,
    resolution: &Resolution,
    rootfs: &Entry,
    directory: &Path,
    log: &Log,
) -> Result<()> {
    download_source(cache, resolution, directory, log)?;
    let enter = Enter::new(&rootfs.path().join("root")).with_writable(directory, "/mnt/build");
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = enter.script(SCRIPT);
    command.args([
        &resolution.kernel,
        &resolution.source_package,
        &resolution.compiler,
    ]);
    log.run(command.arg(jobs.to_string()))
}

/// Downloads the package with the kernel's source into `directory`, as `source.deb`.
///
/// # Errors
/// If the archive no longer has it, or cannot be reached.
pub fn download_source(
    cache: &Cache,
    resolution: &Resolution,
    directory: &Path,
    log: &Log,
) -> Result<()> {
    let archive = suite::archive_of(cache, resolution)?;
    let package = format!("{}={}", resolution.source_package, resolution.version);
    let source = archive.download(&package, directory, log)?;
    Ok(std::fs::rename(source, directory.join("source.deb"))?)
}

/// The root filesystem with the metadata in the headers' tree.
pub fn grafted(resolution: &Resolution, rootfs: &Entry, metadata: &Entry) -> Enter {
    let headers = resolution.headers();
    Enter::new(&rootfs.path().join("root"))
        .with(&metadata.path().join("rust"), &format!("{headers}/rust"))
        .with(
            &metadata.path().join("target.json"),
            &format!("{headers}/scripts/target.json"),
        )
}
