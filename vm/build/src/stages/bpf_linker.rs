// SPDX-License-Identifier: MIT OR Apache-2.0

//! The tools for eBPF programs: cargo and the core library for eBPF in the version of the kernel's
//! rustc, and bpf-linker.
//!
//! bpf-linker reads rustc's bitcode, so it must be built with the same LLVM as rustc. The tools are
//! a layer over the root filesystem, which stays unchanged.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::base::enter::{self, Enter};
use crate::base::process::Log;
use crate::base::{crates, progress};
use crate::stages::suite::{self, Resolution};

/// Its folder in the cache.
pub const STAGE: Stage = Stage {
    name: "bpf-linker",
    keep: 4,
};

/// The linker's path in the layer.
pub const LINKER: &str = "/usr/local/bin/bpf-linker";
const VERSION: &str = "0.13.0";

/// Both are built from the source package rustc.
const PACKAGES: [&str; 2] = ["cargo", "libstd-rust-dev-bpf"];

/// bpf-linker has a feature for each LLVM and looks for `lib/libLLVM.so`, which otherwise comes
/// with LLVM's headers (300 MB).
const SCRIPT: &str = r#"
dpkg --install --force-unsafe-io /mnt/packages/*.deb
library=$(ldd /usr/bin/rustc | sed -n 's/.* => \(.*libLLVM[^ ]*\) .*/\1/p')
major=$(echo "${library##*/}" | sed 's/[^0-9]*\([0-9]*\).*/\1/')
export LLVM_PREFIX=/usr/local/lib/bpf-linker
mkdir -p "$LLVM_PREFIX/lib"
ln -s "$library" "$LLVM_PREFIX/lib/libLLVM.so"
# The time goes into LLVM, which is optimized already.
export CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_DEBUG=false
CARGO_TARGET_DIR=/mnt/build/target cargo install --path /mnt/build/source --offline --locked \
	--no-default-features --features "llvm-$major" --root /usr/local --no-track
"#;

/// The layer, built if necessary; `None` if the suite has no core library for eBPF that fits the
/// kernel's rustc.
///
/// # Errors
/// If the packages or crates cannot be downloaded, or the linker cannot be built.
pub fn ensure(cache: &Cache, resolution: &Resolution, rootfs: &Entry) -> Result<Option<Entry>> {
    let key = || {
        Key::new(SCRIPT)
            .with(rootfs.hash())
            .with(VERSION)
            .with(&resolution.rustc_version)
            .with_all(PACKAGES)
    };
    // If it exists, the archive is not queried.
    if let Some(entry) = cache.find(&STAGE, &key().finish())? {
        return Ok(Some(entry));
    }
    let archive = suite::archive_of(cache, resolution)?;
    let offers = archive.versions(&PACKAGES.map(str::to_owned))?;
    let mut packages = Vec::new();
    for name in PACKAGES {
        let Some(version) = fitting(&offers, name, &resolution.rustc_version) else {
            progress::note(&format!(
                "without eBPF: {} has no {name} for the kernel's rustc {}",
                resolution.suite, resolution.rustc_version
            ));
            return Ok(None);
        };
        packages.push(format!("{name}={version}"));
    }
    let what = format!("bpf-linker {VERSION}");
    let entry = cache.ensure(&STAGE, key(), &what, |directory, log| {
        let root = rootfs.path().join("root");
        let build = directory.join("build");
        let downloads = directory.join("packages");
        let names: Vec<&str> = packages.iter().map(String::as_str).collect();
        archive.download_missing(&names, &root, &downloads, log)?;
        sources(&build, log)?;
        let enter = Enter::layered(&root, &[], directory)?
            .with(&downloads, "/mnt/packages")
            .with_writable(&build, crates::PLACE);
        log.run(enter.script(SCRIPT).env("CARGO_HOME", crates::CARGO_HOME))?;
        for done in ["work", "packages", "build"] {
            enter::remove_tree(&directory.join(done))?;
        }
        Ok(())
    })?;
    Ok(Some(entry))
}

/// The version of a package that fits the kernel's rustc: the same version if it exists, else one
/// of the same release.
fn fitting<'a>(offers: &'a [(String, String)], name: &str, rustc: &str) -> Option<&'a str> {
    let versions = || {
        let of_name = offers.iter().filter(|(package, _)| package == name);
        of_name.map(|(_, version)| version.as_str())
    };
    let upstream = |version: &str| version.split('+').next() == rustc.split('+').next();
    versions()
        .find(|version| *version == rustc)
        .or_else(|| versions().find(|version| upstream(version)))
}

/// The linker's source and the crates of its release.
fn sources(build: &Path, log: &Log) -> Result<()> {
    fs::create_dir_all(build)?;
    let source = build.join("source");
    crates::source("bpf-linker", VERSION, &source, log)?;
    // Its developers' settings require clang.
    enter::remove_tree(&source.join(".cargo"))?;
    crates::vendor(&source.join("Cargo.toml"), build, log)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_library_matches_the_kernels_rustc() {
        let offer = |package: &str, version: &str| (package.to_owned(), version.to_owned());
        let offers = [
            offer("cargo", "1.85.1+dfsg1-1"),
            offer("libstd-rust-dev-bpf", "1.97.1+dfsg1-2"),
            offer("libstd-rust-dev-bpf", "1.97.1+dfsg1-1"),
            offer("libstd-rust-dev-bpf", "1.96.1+dfsg1-2~bpo13+1"),
        ];
        let fits = |rustc| fitting(&offers, "libstd-rust-dev-bpf", rustc);
        assert_eq!(fits("1.97.1+dfsg1-1"), Some("1.97.1+dfsg1-1"));
        assert_eq!(fits("1.97.1+dfsg1-1+b1"), Some("1.97.1+dfsg1-2"));
        // trixie-backports builds its kernels with trixie's compiler.
        assert_eq!(fits("1.85.1+dfsg1-1+deb13u1"), None);
    }
}
