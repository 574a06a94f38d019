// SPDX-License-Identifier: MIT OR Apache-2.0

//! The suite's clang and lld, as a layer over the root filesystem, which stays unchanged.
//!
//! Their version is that of the library with which bindgen reads the kernel's headers, so that both
//! have the same layouts.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::base::cache::{Cache, Entry, Stage};
use crate::stages::layer;
use crate::stages::suite::Resolution;

/// Its folder in the cache.
pub const STAGE: Stage = Stage {
    name: "clang",
    keep: 2,
};

/// Packages that kbuild needs.
const PACKAGES: [&str; 3] = ["clang", "lld", "llvm"];

/// The layer.
#[derive(Clone)]
pub struct Clang {
    entry: Entry,
    /// `21`.
    major: String,
}

impl Clang {
    /// The hash of its inputs.
    pub fn hash(&self) -> &str {
        self.entry.hash()
    }

    /// The folder that is mounted over the root filesystem.
    pub fn layer(&self) -> PathBuf {
        layer::place(&self.entry)
    }

    /// The compiler's command.
    pub fn compiler(&self) -> String {
        format!("clang-{}", self.major)
    }

    /// The variable that makes kbuild use LLVM's linker and tools, too.
    pub fn variable(&self) -> (&'static str, String) {
        ("LLVM", format!("-{}", self.major))
    }

    /// The variable as an argument of make.
    pub fn setting(&self) -> String {
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

/// The layer, built if necessary.
///
/// # Errors
/// If the packages cannot be downloaded or installed.
pub fn ensure(cache: &Cache, resolution: &Resolution, rootfs: &Entry) -> Result<Clang> {
    let major = major(rootfs)?;
    let names = PACKAGES.map(|name| format!("{name}-{major}"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let what = format!("clang {major} of {}", resolution.suite);
    let entry = layer::ensure(cache, &STAGE, (&what, &names), resolution, rootfs)?;
    Ok(Clang { entry, major })
}
