// SPDX-License-Identifier: MIT OR Apache-2.0

//! File systems, host name and loopback, which every command expects.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::mount::{MsFlags, mount};
use nix::unistd::sethostname;

/// The command's output folder, which is handed to the host.
pub(crate) const OUT: &str = "/out";

/// Type, place and options of each file system, in the order of mounting. [`OPTIONAL`] lists those
/// that a kernel may lack.
const FILE_SYSTEMS: [(&str, &str, &str); 11] = [
    ("devtmpfs", "/dev", "mode=755"),
    ("devpts", "/dev/pts", "gid=5,mode=620,ptmxmode=666"),
    ("tmpfs", "/dev/shm", "mode=1777"),
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("tmpfs", "/run", "mode=755"),
    ("tmpfs", "/tmp", "mode=1777"),
    ("tracefs", "/sys/kernel/tracing", ""),
    ("debugfs", "/sys/kernel/debug", ""),
    ("cgroup2", "/sys/fs/cgroup", ""),
    ("bpf", "/sys/fs/bpf", "mode=700"),
];

/// The kernel of the model clock has no tracing.
const OPTIONAL: [&str; 1] = ["tracefs"];

/// Whether the kernel supports a type of file system. `/proc` must be mounted.
pub(crate) fn known(kind: &str) -> Result<bool> {
    let known =
        std::fs::read_to_string("/proc/filesystems").context("reading /proc/filesystems")?;
    Ok(known
        .lines()
        .any(|line| line.split_whitespace().next_back() == Some(kind)))
}

/// Turns the bare initramfs into an ordinary machine.
///
/// # Errors
/// Errors of the kernel, with the step's name.
pub(crate) fn set_up() -> Result<()> {
    for (kind, place, options) in FILE_SYSTEMS {
        if OPTIONAL.contains(&kind) && !known(kind)? {
            continue;
        }
        // Mount points on sysfs exist already (and could not be created); the others may not.
        if !Path::new(place).exists() {
            std::fs::create_dir_all(place).with_context(|| format!("making {place}"))?;
        }
        mount(
            Some(kind),
            place,
            Some(kind),
            MsFlags::empty(),
            Some(options),
        )
        .with_context(|| format!("mounting {kind} on {place}"))?;
    }
    for directory in ["/run/netns", "/run/lock", OUT] {
        std::fs::create_dir_all(directory).with_context(|| format!("making {directory}"))?;
    }
    for (link, target) in [
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
    ]
    .into_iter()
    .chain([
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ]) {
        std::os::unix::fs::symlink(target, link).with_context(|| format!("linking {link}"))?;
    }
    sethostname("weft")?;
    let status = Command::new("/usr/bin/ip")
        .args(["link", "set", "lo", "up"])
        .status()?;
    ensure!(status.success(), "ip link set lo up: {status}");
    Ok(())
}
