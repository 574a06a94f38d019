// SPDX-License-Identifier: MIT OR Apache-2.0

//! Detects when the kernel has removed the devices of all deleted namespaces.
//!
//! The kernel removes them in the background, in the order of deletion, all pending ones in one
//! batch. There is no call to wait for it, but a veth disappears from one namespace together with
//! its other end. So this creates a veth whose other end is in a namespace that is deleted last: it
//! disappears after the others, or together with them. In the latter case the kernel holds a lock
//! (the RTNL) until the last device is removed, so acquiring that lock afterwards is sufficient.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, unshare};
use weft_build::base::process;

const NAME: &str = "removal";
const POLL: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_secs(120);

/// The veth, as long as the other namespace exists.
pub(crate) struct Removal(File);

impl Removal {
    /// Must be called before anything is deleted.
    ///
    /// # Errors
    /// If the veth cannot be created.
    pub(crate) fn expect() -> Result<Self> {
        // Its thread ends, so that only the file holds the namespace.
        let make = || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            anyhow::Ok(File::open("/proc/thread-self/ns/net")?)
        };
        let made = std::thread::scope(|scope| scope.spawn(make).join());
        let namespace = made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_raw_fd());
        let mut add = Command::new("ip");
        add.args(["link", "add", NAME, "type", "veth", "peer", "name", NAME]);
        process::capture(add.args(["netns", &path]))?;
        Ok(Self(namespace))
    }

    /// Waits for the removal, after everything else was deleted.
    ///
    /// # Errors
    /// If it takes more than [`PATIENCE`].
    pub(crate) fn wait(self) -> Result<()> {
        drop(self.0);
        let begun = Instant::now();
        loop {
            match if_nametoindex(NAME) {
                Err(Errno::ENODEV) => break,
                Err(errno) => return Err(errno).context("looking for a device"),
                Ok(_) => std::thread::sleep(POLL),
            }
            ensure!(
                begun.elapsed() < PATIENCE,
                "the kernel has not removed the devices in {} s",
                PATIENCE.as_secs()
            );
        }
        process::capture(Command::new("ip").args(["link", "set", "dev", "lo", "up"]))?;
        Ok(())
    }
}
