// SPDX-License-Identifier: MIT OR Apache-2.0

//! Network namespaces without names: one lives as long as a descriptor of it.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nix::sched::{CloneFlags, setns, unshare};

const THIS_THREADS: &str = "/proc/thread-self/ns/net";

/// A network namespace.
pub(crate) struct Namespace {
    file: File,
}

impl Namespace {
    /// A new namespace that forwards packets and does not probe for duplicate addresses.
    pub(crate) fn new() -> Result<Self> {
        // A thread of its own, so that the caller stays where it is.
        let file = std::thread::spawn(|| -> Result<File> {
            unshare(CloneFlags::CLONE_NEWNET).context("unshare(CLONE_NEWNET)")?;
            Ok(File::open(THIS_THREADS)?)
        })
        .join()
        .expect("making a namespace does not panic")?;
        let namespace = Self { file };
        for (name, value) in [
            ("net/ipv4/ip_forward", "1"),
            ("net/ipv6/conf/all/forwarding", "1"),
            ("net/ipv6/conf/default/accept_dad", "0"),
        ] {
            namespace.sysctl(name, value)?;
        }
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// Runs `f` inside. Sockets and processes made there stay there.
    pub(crate) fn enter<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        let home = Home(File::open(THIS_THREADS)?);
        setns(&self.file, CloneFlags::CLONE_NEWNET).context("entering a namespace")?;
        let result = f();
        drop(home);
        Ok(result)
    }

    pub(crate) fn sysctl(&self, name: &str, value: &str) -> Result<()> {
        let path = format!("/proc/sys/{name}");
        self.enter(|| std::fs::write(&path, value))?
            .with_context(|| format!("writing {path}"))
    }

    /// Runs `ip` with these words; gives back what it prints.
    pub(crate) fn ip(&self, words: &str) -> Result<String> {
        self.command("ip", words)
    }

    /// Runs a program with these words; gives back what it prints.
    pub(crate) fn command(&self, program: &str, words: &str) -> Result<String> {
        let output = self
            .enter(|| {
                Command::new(program)
                    .args(words.split_whitespace())
                    .output()
            })?
            .with_context(|| format!("running {program}"))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        let complaint = complaint.trim_end();
        ensure!(output.status.success(), "{program} {words}: {complaint}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A path to it, for programs that take one.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}

/// Brings the thread back, also from a panic.
struct Home(File);

impl Drop for Home {
    fn drop(&mut self) {
        setns(&self.0, CloneFlags::CLONE_NEWNET).expect("returning to the first namespace");
    }
}
