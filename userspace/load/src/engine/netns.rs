// SPDX-License-Identifier: MIT OR Apache-2.0

//! The network namespace in which the thread creates sockets.

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};

use nix::sched::{CloneFlags, setns};

use super::system;
use crate::error::{Error, Result};

/// The hosts' namespaces and the thread's own.
#[derive(Debug)]
pub(super) struct Namespaces {
    /// The thread's original namespace; not opened if all hosts are in it.
    home: Option<OwnedFd>,
    hosts: Vec<Option<OwnedFd>>,
    /// The host whose namespace the thread is in.
    inside: Option<usize>,
}

impl Namespaces {
    pub(super) fn new(hosts: Vec<Option<OwnedFd>>) -> Result<Self> {
        let home = if hosts.iter().any(Option::is_some) {
            let path = "/proc/thread-self/ns/net";
            Some(File::open(path).map_err(system(path))?.into())
        } else {
            None
        };
        Ok(Self {
            home,
            hosts,
            inside: None,
        })
    }

    /// Enters a host's namespace. The thread stays there, because the next socket is often in the
    /// same namespace.
    pub(super) fn enter(&mut self, host: usize) -> Result<()> {
        if self.inside == Some(host) {
            return Ok(());
        }
        let Some(namespace) = self.hosts.get(host).and_then(Option::as_ref) else {
            return self.leave();
        };
        setns(namespace.as_fd(), CloneFlags::CLONE_NEWNET).map_err(|error| Error::System {
            doing: format!("entering the network namespace of host h{host}"),
            error: error.into(),
        })?;
        self.inside = Some(host);
        Ok(())
    }

    /// Returns to the thread's own namespace.
    pub(super) fn leave(&mut self) -> Result<()> {
        if let (Some(home), Some(_)) = (&self.home, self.inside) {
            setns(home.as_fd(), CloneFlags::CLONE_NEWNET)
                .map_err(system("returning to the first network namespace"))?;
            self.inside = None;
        }
        Ok(())
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // Only after an error: otherwise the thread is back already. The thread came from there, so
        // returning succeeds as long as its privileges are unchanged.
        let _ = self.leave();
    }
}
