// SPDX-License-Identifier: MIT OR Apache-2.0

//! Network namespaces without names: one lives as long as a descriptor of it.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};

use anyhow::{Context as _, Result};
use nix::sched::{CloneFlags, setns, unshare};

const THIS_THREADS: &str = "/proc/thread-self/ns/net";

/// A network namespace.
#[derive(Debug)]
pub(crate) struct Namespace {
    file: File,
}

impl Namespace {
    /// A new namespace with its loopback down. IPv6 is off, so that no packet is sent that no test
    /// asked for (router solicitations, multicast listener reports).
    pub(crate) fn new() -> Result<Self> {
        // A thread of its own, so that the caller stays where it is.
        let file = std::thread::spawn(|| -> Result<File> {
            unshare(CloneFlags::CLONE_NEWNET).context("unshare(CLONE_NEWNET)")?;
            for which in ["all", "default"] {
                let path = format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6");
                // A kernel without IPv6 has nothing to turn off.
                if let Err(error) = std::fs::write(&path, "1")
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    return Err(error).context(path);
                }
            }
            File::open(THIS_THREADS).context(THIS_THREADS)
        })
        .join()
        .expect("making a namespace does not panic")?;
        Ok(Self { file })
    }

    /// Runs `f` inside. Sockets and processes made there stay there.
    pub(crate) fn enter<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        let home = Home(File::open(THIS_THREADS).context(THIS_THREADS)?);
        setns(&self.file, CloneFlags::CLONE_NEWNET).context("entering a namespace")?;
        let result = f();
        drop(home);
        Ok(result)
    }

    /// Writes a sysctl of the namespace, for example `net/ipv4/ip_forward`.
    pub(crate) fn write_sysctl(&self, name: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{name}");
        self.enter(|| std::fs::write(&path, value))?
            .with_context(|| format!("writing {path}"))
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Brings the thread back, also from a panic.
struct Home(File);

impl Drop for Home {
    fn drop(&mut self) {
        // The test would go on in the wrong namespace: better none at all.
        setns(&self.0, CloneFlags::CLONE_NEWNET).expect("returning to the first namespace");
    }
}
