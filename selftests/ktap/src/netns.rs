// SPDX-License-Identifier: MIT OR Apache-2.0

//! Network namespaces: one without a name lives as long as a descriptor of it.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd};
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use nix::sched::{CloneFlags, setns, unshare};

const THIS_THREADS: &str = "/proc/thread-self/ns/net";
const PROC_SYS: &str = "/proc/sys";

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// A new one with its loopback down and IPv6 off, so that no packet is sent that no test asked
    /// for (router solicitations, multicast listener reports).
    ///
    /// # Errors
    ///
    /// What the kernel refuses.
    pub fn without_ipv6() -> Result<Self> {
        let namespace = Self::new()?;
        for which in ["all", "default"] {
            let name = format!("net/ipv6/conf/{which}/disable_ipv6");
            // A kernel without IPv6 has nothing to turn off.
            if namespace.enter(|| Path::new(PROC_SYS).join(&name).exists())? {
                namespace.write_sysctl(&name, "1")?;
            }
        }
        Ok(namespace)
    }

    /// A new one that forwards packets and does not probe for duplicate addresses.
    ///
    /// # Errors
    ///
    /// What the kernel refuses.
    pub fn forwarding() -> Result<Self> {
        let namespace = Self::new()?;
        for (name, value) in [
            ("net/ipv4/ip_forward", "1"),
            ("net/ipv6/conf/all/forwarding", "1"),
            ("net/ipv6/conf/default/accept_dad", "0"),
        ] {
            namespace.write_sysctl(name, value)?;
        }
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// The one that is mounted there, such as `/run/netns/NAME`.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = File::open(path).with_context(|| format!("opening {}", path.display()))?;
        Ok(Self { file })
    }

    fn new() -> Result<Self> {
        // A thread of its own, so that the caller stays where it is.
        let file = std::thread::spawn(|| -> Result<File> {
            unshare(CloneFlags::CLONE_NEWNET).context("unshare(CLONE_NEWNET)")?;
            File::open(THIS_THREADS).context(THIS_THREADS)
        })
        .join()
        .expect("making a namespace does not panic")?;
        Ok(Self { file })
    }

    /// Runs `f` inside. Sockets and processes made there stay there.
    ///
    /// # Errors
    ///
    /// If it cannot be entered.
    ///
    /// # Panics
    ///
    /// If the thread cannot return: it must not go on elsewhere.
    pub fn enter<T>(&self, f: impl FnOnce() -> T) -> Result<T> {
        let home = Home(File::open(THIS_THREADS).context(THIS_THREADS)?);
        setns(&self.file, CloneFlags::CLONE_NEWNET).context("entering a namespace")?;
        let result = f();
        drop(home);
        Ok(result)
    }

    /// Writes a sysctl of the namespace, for example `net/ipv4/ip_forward`.
    ///
    /// # Errors
    ///
    /// If there is none of that name, or it does not take the value.
    pub fn write_sysctl(&self, name: &str, value: &str) -> Result<()> {
        let path = Path::new(PROC_SYS).join(name);
        self.enter(|| std::fs::write(&path, value))?
            .with_context(|| format!("writing {}", path.display()))
    }

    /// Runs `ip` with these words; gives back what it prints.
    ///
    /// # Errors
    ///
    /// As [`Namespace::command`].
    pub fn ip(&self, words: &str) -> Result<String> {
        self.command("ip", words)
    }

    /// Runs a program with these words; gives back what it prints.
    ///
    /// # Errors
    ///
    /// If it cannot be started or fails: what it says.
    pub fn command(&self, program: &str, words: &str) -> Result<String> {
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
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
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
