// SPDX-License-Identifier: MIT OR Apache-2.0

//! Checks whether the kernel has a part by using it: a part may be built in, loaded, or loaded on
//! first use, and only its use shows this reliably.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::path::Path;

use nix::errno::Errno;
use nix::sched::CloneFlags;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, setsockopt, socket, sockopt::TcpCongestion,
};
use weft_topo::Mac;

use crate::error::{Error, Result};
use crate::netlink::{Batch, End, Socket};
use crate::plan::{DEFAULT_CONTROL, PORTS, Plan};
use crate::qdisc::{Command, Object, QdiscCommand};
pub use crate::requirement::Part;
use crate::sysctl::Sysctl;
use crate::{modules, namespace, tc};

/// Whether the kernel has `part`. It is tried in a temporary network namespace; a module may be
/// loaded as a result.
///
/// # Errors
///
/// If namespaces may not be created, which requires root, or if the kernel refuses for a reason
/// other than a missing part.
pub fn has(part: Part<'_>) -> Result<bool> {
    // The thread stays in its namespace.
    namespace::on_thread(|| {
        namespace::make(CloneFlags::CLONE_NEWNET)?;
        attempt(part).map_err(|error| Error::system(format!("trying {part}"), error))
    })
}

/// Whether the kernel has IPv6: it may be built without, or booted with `ipv6.disable=1`.
pub fn has_ipv6() -> bool {
    // The attempt loads its module.
    let kind = SockFlag::SOCK_CLOEXEC;
    let asked = socket(AddressFamily::Inet6, SockType::Datagram, kind, None);
    asked.is_ok() && Path::new("/proc/sys/net/ipv6").exists()
}

impl Plan {
    /// Checks that the kernel has the parts for the plan's ports and hosts, and the machine `tc` if
    /// it is needed; loads the plan's modules for that. Missing parts are then not found only after
    /// hours of runs.
    ///
    /// # Errors
    ///
    /// [`Error::Lacks`] for the first missing part; errors of a module; as [`has`].
    pub fn require(&self) -> Result<()> {
        modules::load(&self.modules)?;
        let lines = || {
            self.nodes
                .iter()
                .flat_map(|node| node.qdiscs.iter().flatten())
        };
        let for_tc = lines().find_map(|line| match line {
            Command::Tc(command) => Some(command),
            Command::Qdisc(_) => None,
        });
        for_tc.map_or(Ok(()), tc::find)?;
        for part in self.parts() {
            if !has(part)? {
                return Err(Error::Lacks {
                    part: part.to_string(),
                    cure: part.cure(),
                });
            }
        }
        Ok(())
    }

    /// The kernel parts that the plan's ports and hosts need.
    pub fn parts(&self) -> BTreeSet<Part<'_>> {
        let nodes = self.nodes.iter();
        let lines = nodes.flat_map(|node| node.qdiscs.iter().flatten());
        let controls = self.nodes.iter().flat_map(|node| {
            let default = |it: &&Sysctl| it.path() == DEFAULT_CONTROL && !it.is_ignored();
            let default = node.sysctls.iter().rfind(default).map(Sysctl::value);
            default.into_iter().chain(node.metrics.congestion_control())
        });
        let controls = controls.map(Part::CongestionControl);
        lines.filter_map(part_of).chain(controls).collect()
    }

    /// Whether a port has a line that only `tc` can read.
    pub fn takes_tc(&self) -> bool {
        let mut lines = self
            .nodes
            .iter()
            .flat_map(|node| node.qdiscs.iter().flatten());
        lines.any(|line| matches!(line, Command::Tc(_)))
    }
}

/// The kernel part that a line needs.
fn part_of(line: &Command) -> Option<Part<'_>> {
    match line {
        Command::Tc(command) if command.object == Object::Filter => {
            command.kind.as_deref().map(Part::Classifier)
        }
        line => line.qdisc().map(Part::Qdisc),
    }
}

/// Tries a part in the calling thread's namespace, which is new.
fn attempt(part: Part<'_>) -> io::Result<bool> {
    match part {
        Part::Veth => Ok(pair()?.is_some()),
        Part::Qdisc(kind) => {
            let Some(mut socket) = pair()? else {
                return Ok(false);
            };
            let mut batch = Batch::default();
            batch.add_root_qdisc(FIRST, kind);
            // Without options most kinds are refused, but only a missing kind gives this error.
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

const FIRST: u32 = PORTS;
const SECOND: u32 = PORTS + 1;

/// A pair of devices in this namespace; `None` if the kernel has no veth.
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
