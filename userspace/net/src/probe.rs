// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether the kernel has a part, found out by using it: a part may be built in, loaded, or loaded
//! when it is first asked for, and only that tells for sure.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::thread;

use nix::errno::Errno;
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use weft_topo::Mac;

use crate::error::{Error, Result};
use crate::netlink::{Batch, End, Socket};
use crate::qdisc::QdiscCommand;

/// A part of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// Pairs of virtual Ethernet devices.
    Veth,
    /// A queueing discipline, by its kind.
    Qdisc(&'a str),
    /// A classifier, by its kind, for filters of a `clsact` qdisc.
    Classifier(&'a str),
    /// A congestion control of TCP, by its name.
    CongestionControl(&'a str),
}

/// Whether the kernel has `part`. It is tried in a network namespace that is made for this and gone
/// afterwards; a module may have been loaded.
///
/// # Errors
///
/// If namespaces may not be made, which takes root, or the kernel refuses for another reason than
/// that it lacks the part.
pub fn has(part: Part<'_>) -> Result<bool> {
    let what = || match part {
        Part::Veth => "trying veth".to_owned(),
        Part::Qdisc(kind) => format!("trying the qdisc {kind}"),
        Part::Classifier(kind) => format!("trying the classifier {kind}"),
        Part::CongestionControl(name) => format!("trying the congestion control {name}"),
    };
    // The thread is in its namespace for good.
    let tried = thread::scope(|scope| scope.spawn(|| attempt(part)).join());
    match tried {
        Ok(found) => found.map_err(|error| Error::system(what(), error)),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn attempt(part: Part<'_>) -> io::Result<bool> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    match part {
        Part::Veth => Ok(pair()?.is_some()),
        Part::Qdisc(kind) => {
            let Some(mut socket) = pair()? else {
                return Ok(false);
            };
            let mut batch = Batch::default();
            batch.add_root_qdisc(FIRST, kind);
            // Without options most are refused; only that the kind is not there is said so.
            Ok(match socket.send(&mut batch)? {
                Ok(()) => true,
                Err(refused) => refused.errno != Errno::ENOENT,
            })
        }
        Part::Classifier(kind) => {
            let Some(mut socket) = pair()? else {
                return Ok(false);
            };
            let mut batch = Batch::default();
            batch.add_qdisc(FIRST, &QdiscCommand::clsact("first"));
            batch.add_ingress_filter(FIRST, kind);
            Ok(match socket.send(&mut batch)? {
                Ok(()) => true,
                Err(refused) => refused.errno != Errno::ENOENT,
            })
        }
        Part::CongestionControl(name) => {
            let socket = TcpListener::bind(SocketAddr::from(([0, 0, 0, 0], 0)))?;
            match setsockopt(&socket, TcpCongestion, &name.into()) {
                Ok(()) => Ok(true),
                Err(Errno::ENOENT) => Ok(false),
                Err(errno) => Err(errno.into()),
            }
        }
    }
}

const FIRST: u32 = 2;
const SECOND: u32 = 3;

/// A pair of devices in this namespace; `None` if the kernel has none.
fn pair() -> io::Result<Option<Socket>> {
    let end = |name, index: u32| End {
        name,
        index,
        mac: Mac([2, 0, 0, 0, 0, index as u8]),
        mtu: 1500,
        tx_queue_length: 1000,
        gso_max_segments: 1,
    };
    let here = File::open("/proc/thread-self/ns/net")?;
    let mut socket = Socket::open()?;
    let mut batch = Batch::default();
    batch.add_veth(
        &end("first", FIRST),
        &end("second", SECOND),
        here.as_raw_fd(),
    );
    match socket.send(&mut batch)? {
        Ok(()) => Ok(Some(socket)),
        Err(refused) if refused.errno == Errno::EOPNOTSUPP => Ok(None),
        Err(refused) => Err(refused.errno.into()),
    }
}
