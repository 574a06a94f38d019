// SPDX-License-Identifier: MIT OR Apache-2.0

//! Existing testbeds: their list, their descriptions, and their nodes.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::SigSet;
use nix::sys::stat::Mode;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::layout::{self, Layout};
use crate::links;
use crate::namespace;
use crate::netlink::Socket;
use crate::plan::check_name;

/// The description of a complete testbed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The topology's title.
    pub title: String,
    /// The scheme's name, if it has one.
    pub scheme: Option<String>,
    /// The notes of the caller of `up` ([`Settings::notes`](crate::Settings::notes)).
    #[serde(default)]
    pub notes: BTreeMap<String, String>,
    /// Settings of the machine that its nodes inherit and that differ from the kernel's defaults:
    /// variables that cannot be set in a namespace, or could not be.
    #[serde(default)]
    pub inherited: BTreeMap<String, String>,
    /// When it was complete, in seconds since 1970.
    pub created: u64,
}

/// A testbed of which any part exists.
#[derive(Clone, Debug)]
pub struct Testbed {
    name: String,
    pub(crate) layout: Layout,
    nodes: Vec<String>,
    record: Option<Record>,
}

/// Tables of sockets, and the state of a socket that can receive: `TCP_LISTEN`, and the `TCP_CLOSE`
/// of a UDP socket that is not connected.
const SOCKETS: [(&str, &str); 4] = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];

/// Whether a line of such a table, `sl local_address rem_address st …`, is about a port.
fn is_at(socket: &str, port: u16, state: &str) -> bool {
    let words: Vec<&str> = socket.split_whitespace().take(4).collect();
    let [_, local, _, in_state] = words.as_slice() else {
        return false;
    };
    let local = local.rsplit_once(':').map(|(_, port)| port);
    let local = local.and_then(|port| u16::from_str_radix(port, 16).ok());
    local == Some(port) && *in_state == state
}

/// All testbeds, by name.
///
/// # Errors
///
/// If `/run` cannot be read.
pub fn list() -> Result<Vec<Testbed>> {
    layout::testbeds()?
        .iter()
        .map(|name| Testbed::read(name))
        .collect()
}

impl Testbed {
    /// The testbed `name`.
    ///
    /// # Errors
    ///
    /// [`Error::NoTestbed`] if no part of it exists.
    pub fn open(name: &str) -> Result<Self> {
        check_name(name)?;
        if !Layout::new(name).exists()? {
            return Err(Error::NoTestbed {
                name: name.to_owned(),
                others: layout::testbeds()?,
            });
        }
        Self::read(name)
    }

    fn read(name: &str) -> Result<Self> {
        let layout = Layout::new(name);
        // Another version's record counts as none.
        let record = fs::read(layout.record())
            .ok()
            .and_then(|json| serde_json::from_slice(&json).ok());
        Ok(Self {
            name: name.to_owned(),
            nodes: layout.nodes()?,
            record,
            layout,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The nodes that have a namespace, by name: `h2` before `h10`.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// Its description; `None` if `up` was interrupted, or the testbed was created by other means.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// The configuration script of a host that is a separate machine, if it is one
    /// ([`Plan::inside`](crate::Plan::inside)).
    pub fn inside(&self, host: &str) -> PathBuf {
        self.layout.inside(host)
    }

    /// The folder of its processes' logs.
    pub fn logs(&self) -> PathBuf {
        self.layout.logs()
    }

    /// Whether a socket listens at a TCP port of a node, or is bound to that UDP port.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`]; [`Error::Privilege`].
    pub fn listens(&self, node: &str, port: u16) -> Result<bool> {
        let tables = self.enter(node, || {
            SOCKETS.map(|(table, state)| {
                let path = format!("/proc/thread-self/net/{table}");
                (fs::read_to_string(path).unwrap_or_default(), state)
            })
        })?;
        let all = tables.iter();
        Ok(all.into_iter().any(|(table, state)| {
            let mut sockets = table.lines().skip(1);
            sockets.any(|socket| is_at(socket, port, state))
        }))
    }

    /// The names of a node's ports.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`]; [`Error::Privilege`]; errors of the system.
    pub fn ports(&self, node: &str) -> Result<Vec<String>> {
        let listed = self.enter(node, || {
            let mut ports = Vec::new();
            let mut socket = Socket::open()?;
            links::each(&mut socket, |device| {
                if device.is_port() {
                    ports.push(device.name.to_owned());
                }
            })?;
            Ok::<_, io::Error>(ports)
        })?;
        listed.map_err(|error| Error::system(format!("{node}: its ports"), error))
    }

    /// A descriptor of a node's namespace, which keeps it alive.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`].
    pub fn namespace(&self, node: &str) -> Result<File> {
        if !self.nodes.iter().any(|name| name == node) {
            return Err(Error::NoNode {
                testbed: self.name.clone(),
                name: node.to_owned(),
                others: self.nodes.clone(),
            });
        }
        namespace::open(&self.layout.name(node))
    }

    /// Runs `f` with the calling thread in a node's namespace. Sockets created there stay there.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`]; [`Error::Privilege`].
    ///
    /// # Panics
    ///
    /// If the thread cannot return, because it must not continue elsewhere.
    pub fn enter<T>(&self, node: &str, f: impl FnOnce() -> T) -> Result<T> {
        namespace::visit(&self.namespace(node)?, f)
    }

    /// A command that runs in a node's namespace, as with `ip netns exec`: `/sys` is that of the
    /// namespace. It also sees the testbed's nodes in `/etc/hosts`, and keeps `/sys/fs/cgroup` and
    /// `/sys/fs/bpf`.
    ///
    /// # Errors
    ///
    /// [`Error::NoNode`]. A failure in the child is the error of its spawning.
    pub fn command(&self, node: &str, program: impl AsRef<OsStr>) -> Result<Command> {
        let namespace = self.namespace(node)?;
        let hosts = Some(self.layout.hosts())
            .filter(|hosts| hosts.exists())
            .map(c_path);
        let mut command = Command::new(program);
        let prepare = move || enter_with_mounts(&namespace, hosts.as_deref());
        // SAFETY: between fork and exec there are only system calls on descriptors and strings that
        // were created before; nothing is allocated and no lock is taken.
        unsafe { command.pre_exec(prepare) };
        Ok(command)
    }
}

fn c_path(path: PathBuf) -> CString {
    CString::new(path.into_os_string().into_encoded_bytes()).expect("a path without zero bytes")
}

/// Makes a command begin with no signal blocked, whatever its caller blocks: a child inherits
/// blocked signals.
pub fn unblock_signals(command: &mut Command) {
    // SAFETY: between fork and exec there is only a system call.
    unsafe { command.pre_exec(|| Ok(SigSet::empty().thread_set_mask()?)) };
}

fn enter_with_mounts(namespace: &File, hosts: Option<&CStr>) -> io::Result<()> {
    const NONE: Option<&CStr> = None;
    // As in `unblock_signals`.
    SigSet::empty().thread_set_mask()?;
    setns(namespace, CloneFlags::CLONE_NEWNET)?;
    unshare(CloneFlags::CLONE_NEWNS)?;
    // Unmounts outside also apply here; otherwise this would keep namespaces alive.
    mount(NONE, c"/", NONE, MsFlags::MS_SLAVE | MsFlags::MS_REC, NONE)?;
    if let Some(hosts) = hosts {
        mount(Some(hosts), c"/etc/hosts", NONE, MsFlags::MS_BIND, NONE)?;
    }
    let path = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let below = [c"/sys/fs/cgroup", c"/sys/fs/bpf"];
    let kept = below.map(|below| open(below, path, Mode::empty()).ok());
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some(c"sysfs"), c"/sys", Some(c"sysfs"), flags, NONE)?;
    for (below, kept) in below.iter().zip(&kept) {
        let Some(kept) = kept else { continue };
        let mut name = [0; 32];
        let source = descriptor_path(kept.as_raw_fd(), &mut name);
        match mount(
            Some(source),
            *below,
            NONE,
            MsFlags::MS_BIND | MsFlags::MS_REC,
            NONE,
        ) {
            // The new sysfs has no such directory: nothing was mounted there.
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// `/proc/self/fd/N`, without allocating.
fn descriptor_path(descriptor: i32, buffer: &mut [u8; 32]) -> &CStr {
    use std::io::Write as _;
    let mut rest = &mut buffer[..];
    // The buffer has room for any number, and ends in zeros.
    let _ = write!(rest, "/proc/self/fd/{descriptor}");
    CStr::from_bytes_until_nul(buffer).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_sockets_are_distinguished_from_connected_ones() {
        let listening =
            "   0: 00000000:18EB 00000000:0000 0A 00000000:00000000 00:00000000 00000000";
        let connected =
            "   1: 0301010A:18EB 0301000A:B2A6 01 00000000:00000000 00:00000000 00000000";
        assert!(is_at(listening, 6379, "0A"));
        assert!(!is_at(listening, 6380, "0A"));
        assert!(!is_at(connected, 6379, "0A"));
        assert!(!is_at("", 6379, "0A"));
    }
}
