// SPDX-License-Identifier: MIT OR Apache-2.0

//! A fresh Debian of the suite: the packages' dependencies and a kernel's source, without any part
//! of weft. The kernel's headers are downloaded but not installed; likewise those of the kernel for
//! the upgrade, with its source.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use weft_build::base::cache::{Cache, Entry, Key, Stage};
use weft_build::base::process;
use weft_build::stages::rootfs;
use weft_build::stages::suite::Resolution;

use super::deb;

pub(crate) const STAGE: Stage = Stage {
    name: "package-root",
    keep: 2,
};

/// In a hook of mmdebstrap, `$1` is the root; the other values are in the text of the hook.
fn hook(resolution: &Resolution, next: &Resolution, dependencies: &str) -> String {
    let (kernel, version) = (&resolution.kernel, &resolution.version);
    format!(
        "apt() {{ root=\"$1\" && shift &&\n\
         chroot \"$root\" env DEBIAN_FRONTEND=noninteractive apt-get --yes --no-install-recommends \"$@\"; }}\n\
         apt \"$1\" satisfy '{dependencies}' &&\n\
         apt \"$1\" install '{source}={version}' &&\n\
         chroot \"$1\" apt-get clean &&\n\
         apt \"$1\" install 'linux-headers-{kernel}={version}' --download-only &&\n\
         printf '%s\\n' '{sources}' >\"$1/etc/apt/sources.list.d/next.list\" &&\n\
         printf 'APT::Default-Release \"%s\";\\n' '{suite}' >\"$1/etc/apt/apt.conf.d/next\" &&\n\
         apt \"$1\" update &&\n\
         apt \"$1\" install '{next_source}={next_version}' --download-only &&\n\
         apt \"$1\" install 'linux-headers-{next_kernel}={next_version}' --download-only",
        source = resolution.source_package,
        suite = resolution.suite,
        sources = next.sources.join("\n"),
        next_source = next.source_package,
        next_version = next.version,
        next_kernel = next.kernel,
    )
}

/// The root filesystem for packages, built if necessary.
///
/// # Errors
/// If the archive lacks a dependency.
pub(super) fn ensure(
    cache: &Cache,
    resolution: &Resolution,
    next: &Resolution,
    debs: &Entry,
) -> Result<Entry> {
    let dependencies = dependencies(&deb::files(debs)?)?;
    let hook = hook(resolution, next, &dependencies);
    let key = Key::new(&hook)
        .with(&resolution.suite)
        .with(rootfs::preferences(resolution))
        .with_all(rootfs::excluded(resolution));
    let what = format!(
        "fresh {} with what the packages depend on",
        resolution.suite
    );
    cache.ensure(&STAGE, key, &what, |directory, log| {
        log.run(&mut command(resolution, &hook, &directory.join("root")))
    })
}

fn command(resolution: &Resolution, hook: &str, target: &Path) -> Command {
    let mut command = rootfs::mmdebstrap(resolution);
    for path in rootfs::excluded(resolution) {
        command.arg(format!("--dpkgopt=path-exclude={path}"));
    }
    // The test checks all files of the packages.
    for path in ["doc/weft*", "man/*/weft*", "man/*/tc-*", "man/*/tcp-*"] {
        command.arg(format!("--dpkgopt=path-include=/usr/share/{path}"));
    }
    // Keeps apt's lists, so that the test needs no network.
    command.args(["--skip=cleanup/apt/lists", "--skip=cleanup/apt/cache"]);
    command.arg(format!("--customize-hook={hook}"));
    rootfs::of_suite(&mut command, resolution, target);
    command
}

/// The dependencies of packages.
///
/// # Errors
/// If a file is not a package.
pub(super) fn dependencies(debs: &[PathBuf]) -> Result<String> {
    let mut all = Vec::new();
    for file in debs {
        let mut command = Command::new("dpkg-deb");
        let text = process::capture(command.arg("--field").arg(file).arg("Depends"))?;
        all.extend(clauses(&text));
    }
    all.sort();
    all.dedup();
    Ok(all.join(", "))
}

fn clauses(depends: &str) -> Vec<String> {
    let words = |clause: &str| clause.split_whitespace().collect::<Vec<_>>().join(" ");
    depends
        .split(',')
        .map(words)
        .filter(|clause| !clause.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_parsed_line_by_line() {
        let text = "bc, dkms (>= 3.0.11),\n gcc | clang,\n";
        assert_eq!(clauses(text), ["bc", "dkms (>= 3.0.11)", "gcc | clang"]);
    }
}
