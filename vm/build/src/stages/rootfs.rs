// SPDX-License-Identifier: MIT OR Apache-2.0

//! The root filesystem: kernel, headers, compilers, QEMU and the guest's programs, all from one
//! suite, so that every machine builds with the same tools.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::base::cache::{Cache, Entry, Key, Stage};
use crate::base::enter::{self, Enter};
use crate::base::process::Log;
use crate::stages::suite::Resolution;

/// Its folder in the cache.
pub const STAGE: Stage = Stage {
    name: "rootfs",
    keep: 4,
};

/// Change it when the way of building the root filesystem changes.
const RECIPE: &str = "rootfs 1";

/// Packages to build modules, and for the guest and its machine.
const PACKAGES: [&str; 27] = [
    "bc",
    "bindgen",
    "bison",
    "bpftool",
    "busybox-static",
    "ethtool",
    "flex",
    "gcc",
    "iperf3",
    "iproute2",
    "iputils-ping",
    "kmod",
    "libdw-dev",
    "libelf-dev",
    "libssl-dev",
    "make",
    "mount",
    "pahole",
    "procps",
    "python3-minimal",
    "qemu-system-x86",
    "rust-src",
    "rustc",
    "xz-utils",
    "zstd",
    "lz4",
    "ncurses-base",
];

/// An exception to the excluded files: licences, for the machine's image.
const INCLUDED: &str = "/usr/share/doc/*/copyright";

/// Excluded: documentation, translations, static libraries of LLVM (200 MB) and the parts of
/// rust-src that are not the standard library (370 MB).
pub fn excluded(resolution: &Resolution) -> Vec<String> {
    // In dpkg's patterns `*` also matches slashes, so the version must be explicit.
    let rust = format!("/usr/src/rustc-{}", rustc_upstream(resolution));
    let mut paths: Vec<String> = ["doc", "man", "locale", "info"]
        .map(|name| format!("/usr/share/{name}/*"))
        .to_vec();
    paths.push("/usr/lib/llvm-*/lib/*.a".to_owned());
    paths.extend(["src", "compiler"].map(|name| format!("{rust}/{name}/*")));
    paths
}

/// `1.97.1` of `1.97.1+dfsg1-1`.
fn rustc_upstream(resolution: &Resolution) -> &str {
    resolution
        .rustc_version
        .split(['+', '-', '~'])
        .next()
        .unwrap_or_default()
}

fn packages(resolution: &Resolution) -> Vec<String> {
    let kernel = &resolution.kernel;
    let mut packages = vec![resolution.image_package.clone()];
    packages.extend(["modules", "headers"].map(|part| format!("linux-{part}-{kernel}")));
    packages.push(resolution.compiler_package().to_owned());
    packages.extend(PACKAGES.map(str::to_owned));
    packages
}

/// Prefers the kernel's own rustc to other versions in the suite.
pub fn preferences(resolution: &Resolution) -> String {
    let upstream = rustc_upstream(resolution);
    format!("Package: src:rustc\nPin: version {upstream}+*\nPin-Priority: 1001\n")
}

/// `mmdebstrap` for the suite, preferring the kernel's own rustc; the caller adds packages.
pub fn mmdebstrap(resolution: &Resolution) -> Command {
    // In separate namespaces, so that an interrupt leaves neither a process nor a mount; for an
    // unprivileged user also in a user namespace that maps the user to root. mmdebstrap's own
    // unshare mode maps a subordinate id to root, which has no access to a private home directory.
    let mut command = enter::unshared();
    command.arg("mmdebstrap");
    command.args([
        "--mode=root",
        "--variant=apt",
        "--format=directory",
        "--architectures=amd64",
    ]);
    for option in &resolution.apt_options {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        command.arg(format!("--aptopt={name} \"{value}\""));
    }
    let preferences = preferences(resolution).replace('\n', "\\n");
    command.arg(format!(
        "--setup-hook=mkdir -p \"$1/etc/apt/preferences.d\" && \
         printf '{preferences}' >\"$1/etc/apt/preferences.d/weft\""
    ));
    command
}

/// Adds the suite and the target folder, the last arguments of `mmdebstrap`.
pub fn of_suite(command: &mut Command, resolution: &Resolution, target: &Path) {
    command.arg(resolution.sources.first().map_or("", |line| suite_of(line)));
    command.arg(target);
    command.args(&resolution.sources);
    command.env("SOURCE_DATE_EPOCH", "0");
}

/// The command that fills `target`.
pub fn command(resolution: &Resolution, target: &Path) -> Command {
    let mut command = mmdebstrap(resolution);
    for path in excluded(resolution) {
        command.arg(format!("--dpkgopt=path-exclude={path}"));
    }
    command.arg(format!("--dpkgopt=path-include={INCLUDED}"));
    command.arg(format!("--include={}", packages(resolution).join(",")));
    // The kernel's packages require it, and nothing here boots from a disk.
    command.arg("--essential-hook=mkdir -p \"$1/etc/initramfs-tools\"");
    // The mount point for the Rust metadata; it cannot be created in a read-only root.
    let headers = resolution.headers();
    command.arg(format!(
        "--customize-hook=mkdir -p \"$1{headers}/rust\" \"$1{headers}/scripts\" && \
         touch \"$1{headers}/scripts/target.json\""
    ));
    of_suite(&mut command, resolution, target);
    command
}

/// The suite in a line of `sources.list` as [`crate::stages::archive`] writes them.
fn suite_of(line: &str) -> &str {
    line.split_whitespace().rev().nth(1).unwrap_or_default()
}

fn key(resolution: &Resolution) -> Key {
    // The archive's address and the versions of other packages do not affect results.
    Key::new(RECIPE)
        .with(&resolution.suite)
        .with(&resolution.version)
        .with(&resolution.rustc_version)
        .with_all(packages(resolution))
        .with_all(excluded(resolution))
        .with(INCLUDED)
}

/// The entry, if it exists.
pub fn find(cache: &Cache, resolution: &Resolution) -> Result<Option<Entry>> {
    cache.find(&STAGE, &key(resolution).finish())
}

/// The root filesystem, built if necessary.
///
/// # Errors
/// If mmdebstrap fails, or the rustc in it is not the one that built the kernel.
pub fn ensure(cache: &Cache, resolution: &Resolution) -> Result<Entry> {
    let what = format!(
        "root filesystem of {} with {}",
        resolution.suite, resolution.kernel
    );
    cache.ensure(&STAGE, key(resolution), &what, |directory, log| {
        build(resolution, directory, log)
    })
}

fn build(resolution: &Resolution, directory: &Path, log: &Log) -> Result<()> {
    let root = directory.join("root");
    log.run(&mut command(resolution, &root))?;
    let version =
        crate::base::process::capture(Enter::new(&root).command("rustc").arg("--version"))?;
    let version = version.trim();
    anyhow::ensure!(
        version == resolution.rustc_text,
        "the kernel was built by {}, but the root filesystem holds {version}; try --refresh",
        resolution.rustc_text
    );
    Ok(())
}
