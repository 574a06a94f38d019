// SPDX-License-Identifier: MIT OR Apache-2.0

//! Removes a testbed, complete or not.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recv};
use weft_topo::Mac;

use crate::error::{Error, Result};
use crate::layout::{self, Layout, Lock};
use crate::namespace;
use crate::netlink::{Batch, End, Message, Socket};
use crate::orphans;
use crate::plan::{LOOPBACK, PORTS, check_name};
use crate::processes::{self, Whose};

/// The removed and the remaining parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The number of namespaces that had a name.
    pub namespaces: usize,
    /// Processes in one of the namespaces, with the node: their namespace is removed when they end.
    pub held: Vec<(String, u32)>,
}

/// Removes the testbed `name`, complete or not, and waits until the kernel has removed its devices.
///
/// The testbed's own processes ([`Plan::set_processes`](crate::Plan::set_processes)) are ended,
/// others are not. A namespace loses its name now. If another process is in it ([`Removed::held`]),
/// or has a socket there, such as a [`StatsReader`](crate::StatsReader)'s, it is removed when that
/// ends. TCP connections that no process holds any more are ended.
///
/// # Errors
///
/// [`Error::NoTestbed`]; errors of the system.
pub fn down(name: &str) -> Result<Removed> {
    check_name(name)?;
    let _lock = Lock::acquire()?;
    remove(&existing(name)?)
}

/// Ends all processes in the namespaces of the testbed `name`, regardless of who started them: asks
/// each one to end, and kills it after 2 s. Returns their number. The calling process is not among
/// them.
///
/// # Errors
///
/// [`Error::NoTestbed`]; errors of the system.
pub fn kill(name: &str) -> Result<usize> {
    check_name(name)?;
    let _lock = Lock::acquire()?;
    let layout = existing(name)?;
    processes::end(&layout, &layout.nodes()?, Whose::Anybody)
}

fn existing(name: &str) -> Result<Layout> {
    let layout = Layout::new(name);
    if layout.exists()? {
        return Ok(layout);
    }
    Err(Error::NoTestbed {
        name: name.to_owned(),
        others: layout::testbeds()?,
    })
}

/// The caller holds the lock.
pub(crate) fn remove(layout: &Layout) -> Result<Removed> {
    let nodes = layout.nodes()?;
    processes::end(layout, &nodes, Whose::Testbed)?;
    let held = processes::within(layout, &nodes)?;
    // The thread ends up in a namespace that ends with it.
    namespace::on_thread(|| {
        orphans::end(layout, &nodes);
        let sentinel = Sentinel::new();
        layout.remove()?;
        match sentinel {
            Ok(sentinel) => sentinel.wait(),
            // If no more namespaces may be created, this cannot be determined; all names are gone.
            Err(_) => Ok(()),
        }
    })?;
    Ok(Removed {
        namespaces: nodes.len(),
        held,
    })
}

/// Detects when the kernel has removed the devices of all namespaces that were released before this
/// one.
///
/// The kernel removes namespaces in the background, all released ones at once, batch after batch.
/// There is no way to wait for a particular one. But a veth disappears from one namespace when the
/// other end's is removed, and a socket can receive that event. So the other end is in a namespace
/// that is released last: its batch is that of the others, or a later one. If it is theirs, they
/// are removed under one hold of the kernel's lock (the RTNL), and the last released one is among
/// the first: a process that then acquires the lock knows that all are gone.
struct Sentinel {
    socket: Socket,
    last: fs::File,
}

impl Sentinel {
    /// The calling thread ends up in a namespace that must end with it.
    fn new() -> Result<Self> {
        let watching = |error: io::Error| Error::system("watching namespaces", error);
        let here = namespace::enter_new()?;
        let mut socket = Socket::open().map_err(watching)?;
        let last = namespace::enter_new()?;
        namespace::enter(&here)?;
        let end = |byte| End {
            name: "sentinel",
            index: PORTS,
            mac: Mac([2, 0, 0, 0, 0, byte]),
            mtu: 1500,
            tx_queue_length: 0,
            gso_max_segments: 1,
        };
        let mut batch = Batch::default();
        batch.add_veth(&end(1), &end(2), last.as_raw_fd());
        socket
            .send(&mut batch)
            .map_err(watching)?
            .map_err(|refused| Error::Refused {
                what: "watching namespaces".to_owned(),
                errno: refused.errno,
                message: refused.message,
            })?;
        socket.hear_of_links().map_err(watching)?;
        Ok(Self { socket, last })
    }

    fn wait(mut self) -> Result<()> {
        const PATIENCE: Duration = Duration::from_secs(60);
        const WHAT: &str = "waiting for the kernel to remove the namespaces";
        drop(self.last);
        let begun = Instant::now();
        let mut buffer = [0; 8192];
        loop {
            let waiting = |errno: nix::Error| Error::system(WHAT, errno);
            let left = PATIENCE.saturating_sub(begun.elapsed());
            let timeout = PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX);
            // SAFETY: the socket is open as long as `self.socket` lives, which is until the end of
            // this function.
            let socket = unsafe { BorrowedFd::borrow_raw(self.socket.as_raw_fd()) };
            match poll(&mut [PollFd::new(socket, PollFlags::POLLIN)], timeout) {
                Ok(0) => return Err(waiting(nix::Error::ETIMEDOUT)),
                Err(nix::Error::EINTR) => continue,
                polled => polled.map_err(waiting)?,
            };
            let length =
                recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::empty()).map_err(waiting)?;
            if Message::split(&buffer[..length]).any(|message| message.kind == libc::RTM_DELLINK) {
                break;
            }
        }
        // Any request that needs the lock.
        let mut batch = Batch::default();
        batch.set_up(LOOPBACK);
        self.socket
            .send(&mut batch)
            .map_err(|error| Error::system(WHAT, error))?
            .map_err(|refused| Error::system(WHAT, refused.errno))
    }
}
