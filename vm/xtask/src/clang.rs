// SPDX-License-Identifier: MIT OR Apache-2.0

//! clang and lld of the suite, a layer over the root filesystem, which stays as it is.
//!
//! They are of the version whose library bindgen reads the kernel's headers with, so that both see
//! the same layouts.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::cache::{Cache, Entry, Key, Stage};
use crate::enter::{self, Enter};
use crate::suite::{self, Resolution};

pub(crate) const STAGE: Stage = Stage {
    name: "clang",
    keep: 2,
};

const SCRIPT: &str = "dpkg --install --force-unsafe-io /mnt/packages/*.deb";

/// What of the packages kbuild takes.
const PACKAGES: [&str; 3] = ["clang", "lld", "llvm"];

/// The layer.
#[derive(Clone)]
pub(crate) struct Clang {
    entry: Entry,
    /// `21`.
    major: String,
}

impl Clang {
    pub(crate) fn hash(&self) -> &str {
        self.entry.hash()
    }

    /// What lies over the root filesystem.
    pub(crate) fn layer(&self) -> PathBuf {
        self.entry.path().join("data")
    }

    /// The compiler's command.
    pub(crate) fn compiler(&self) -> String {
        format!("clang-{}", self.major)
    }

    /// The variable by which kbuild takes linker and tools of LLVM's, too.
    pub(crate) fn variable(&self) -> (&'static str, String) {
        ("LLVM", format!("-{}", self.major))
    }

    /// The same, as make's argument.
    pub(crate) fn setting(&self) -> String {
        let (name, value) = self.variable();
        format!("{name}={value}")
    }
}

/// The version of LLVM that bindgen has in a root filesystem: `21` of `/usr/lib/llvm-21`.
fn major(rootfs: &Entry) -> Result<String> {
    let libraries = rootfs.path().join("root/usr/lib");
    let mut majors = Vec::new();
    for entry in std::fs::read_dir(&libraries)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        majors.extend(name.strip_prefix("llvm-").map(str::to_owned));
    }
    majors.sort();
    majors
        .pop()
        .with_context(|| format!("no llvm in {}", libraries.display()))
}

/// The layer, built if need be.
///
/// # Errors
/// If the packages cannot be downloaded or installed.
pub(crate) fn ensure(cache: &Cache, resolution: &Resolution, rootfs: &Entry) -> Result<Clang> {
    let major = major(rootfs)?;
    let names = PACKAGES.map(|name| format!("{name}-{major}"));
    let key = Key::new(SCRIPT).with(rootfs.hash()).with_all(&names);
    let what = format!("clang {major} of {}", resolution.suite);
    let entry = cache.ensure(&STAGE, key, &what, |directory, log| {
        let root = rootfs.path().join("root");
        let downloads = directory.join("packages");
        let archive = suite::archive_of(cache, resolution)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        archive.download_missing(&names, &root, &downloads, log)?;
        let enter = Enter::layered(&root, &[], directory)?.with(&downloads, "/mnt/packages");
        log.run(
            enter
                .script(SCRIPT)
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )?;
        for done in ["work", "packages"] {
            enter::remove_tree(&directory.join(done))?;
        }
        Ok(())
    })?;
    Ok(Clang { entry, major })
}
