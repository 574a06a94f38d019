// SPDX-License-Identifier: MIT OR Apache-2.0

//! Debian packages in a guest: those of `--package` and their dependencies, from the guest's suite.
//!
//! They are installed in a layer over the root filesystem, which stays unchanged. From there they
//! go into a separate archive, which the guest unpacks after the base. If the root filesystem
//! already has a package, such as Python, the guest gets its files as well.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use weft_machine::cpio;

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::base::enter::{self, Enter};
use crate::base::process::Log;
use crate::stages::suite::{self, Resolution};

/// Its folder in the cache.
pub const STAGE: Stage = Stage {
    name: "packages",
    keep: 8,
};

const SCRIPT: &str = include_str!("packages.sh");
/// The archive's file in the stage.
const INITRAMFS: &str = "packages.cpio";

/// Checks a package's name according to Debian's policy (§5.6.1).
///
/// # Errors
/// A description of valid names.
pub fn name(text: &str) -> Result<String, String> {
    let first = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let sound = |c: char| first(c) || "+-.".contains(c);
    if text.len() >= 2 && text.starts_with(first) && text.chars().all(sound) {
        return Ok(text.to_owned());
    }
    Err("a package's name has lower-case letters, digits, +, - and .".into())
}

/// The packages with their dependencies, built if necessary.
///
/// # Errors
/// If the suite has no such package, or one cannot be downloaded or installed.
pub fn ensure(
    cache: &Cache,
    resolution: &Resolution,
    rootfs: &Entry,
    boot: &Entry,
    names: &[String],
) -> Result<Entry> {
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    let key = Key::new(SCRIPT)
        .with(rootfs.hash())
        .with(boot.hash())
        .with_all(&names);
    let what = format!("packages {} of {}", names.join(", "), resolution.suite);
    cache.ensure(&STAGE, key, &what, |directory, log| {
        build(cache, resolution, rootfs, boot, &names, directory, log)
    })
}

/// The archive in a finished stage.
pub fn initramfs(packages: &Entry) -> PathBuf {
    packages.path().join(INITRAMFS)
}

fn build(
    cache: &Cache,
    resolution: &Resolution,
    rootfs: &Entry,
    boot: &Entry,
    names: &[&str],
    directory: &Path,
    log: &Log,
) -> Result<()> {
    let root = rootfs.path().join("root");
    let archive = suite::archive_of(cache, resolution)?;
    let unknown = archive.unknown(names)?;
    ensure!(
        unknown.is_empty(),
        "{} has no package {}",
        resolution.suite,
        unknown.join(", ")
    );
    let (downloads, build) = (directory.join("packages"), directory.join("build"));
    fs::create_dir_all(&build)?;
    archive.download_missing(names, &root, &downloads, log)?;
    let mut command = Enter::layered(&root, &[], directory)?
        .with(&downloads, "/mnt/packages")
        .with(&boot.path().join("tree"), "/mnt/base")
        .with_writable(&build, "/mnt/build")
        .script(SCRIPT);
    // Python then checks compiled files by a hash of their source, not by a time, which the guest's
    // files do not have.
    command.env("SOURCE_DATE_EPOCH", "0");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    log.run(command.args(names))?;
    let mut initramfs = cpio::Archive::default();
    initramfs.tree(&build.join("tree"), "")?;
    fs::write(directory.join(INITRAMFS), initramfs.finish()?)?;
    fs::rename(build.join("versions"), directory.join("versions"))
        .context("the packages' versions")?;
    for done in ["work", "data", "packages", "build"] {
        enter::remove_tree(&directory.join(done))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_package_follows_debians_rules() {
        for text in ["redis", "g++", "libstdc++6", "python3.14-minimal", "7zip"] {
            assert_eq!(name(text), Ok(text.to_owned()));
        }
        for text in ["", "a", "-y", "Redis", "a b", "redis=1", "../x", "+x"] {
            assert!(name(text).is_err(), "{text}");
        }
    }
}
