// SPDX-License-Identifier: MIT OR Apache-2.0

//! TCP connections that no process holds any more, and that the kernel has not ended yet.
//!
//! Such a connection has data or its FIN to deliver. Once its peer's namespace is gone it
//! retransmits them for a minute, or longer if the minimum timeout is slowed with the fabric. For
//! that time its namespace stays, with the control group in which it was opened and the group's
//! programs.

use std::fs;
use std::io;

use crate::attributes::u32_at;
use crate::layout::Layout;
use crate::namespace;
use crate::netlink::{Batch, DUMP, Socket};
use crate::plan::LOOPBACK;

/// `SOCK_DIAG_BY_FAMILY` and `SOCK_DESTROY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
const DESTROY: u16 = 21;
/// `struct inet_diag_req_v2`: family, protocol, two bytes, states, and the connection.
const REQUEST: usize = 56;
/// `struct inet_diag_sockid` in that and in the answer, `struct inet_diag_msg`.
const REQUEST_CONNECTION: usize = 8;
const CONNECTION: std::ops::Range<usize> = 4..52;
const INODE: usize = 68;
/// States that a connection may be in (net/tcp_states.h), except TIME_WAIT and those of listeners.
const STATES: u32 = 1 << 1 | 1 << 2 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
/// A connection that has ended in another way stops a round.
const ROUNDS: usize = 4;

/// Ends them in the namespaces of `nodes`, if the kernel can (`CONFIG_INET_DIAG_DESTROY`). The
/// calling thread ends up in one of these.
pub(crate) fn end(layout: &Layout, nodes: &[String]) {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    if !some() || !destroyed_ones_go(&release) {
        return;
    }
    for node in nodes {
        // An interrupted `down` leaves a name without its namespace.
        let entered =
            namespace::open(&layout.name(node)).and_then(|there| namespace::enter(&there));
        if entered.is_ok() {
            // Remaining ones end when their timers expire.
            let _ = end_here();
        }
    }
}

/// Whether there are any on this machine, if it reports them.
fn some() -> bool {
    let Ok(counts) = fs::read_to_string("/proc/net/sockstat") else {
        return true;
    };
    !counts.contains(" orphan 0 ")
}

/// Before Linux 6.11 a destroyed connection lost its timers and stayed for good (commit
/// bac76cf89816, "tcp: fix forever orphan socket caused by tcp_abort").
fn destroyed_ones_go(release: &str) -> bool {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().ok());
    let version: Option<(u32, u32)> = numbers.next().flatten().zip(numbers.next().flatten());
    version.is_some_and(|version| version >= (6, 11))
}

fn end_here() -> io::Result<()> {
    let mut diagnosis = Socket::open_diagnosis()?;
    for round in 0..ROUNDS {
        let mut found = Batch::default();
        for family in [libc::AF_INET, libc::AF_INET6] {
            let mut request = Batch::default();
            request.request(BY_FAMILY, DUMP, &header(family, STATES, &[0; 48]), |_| {});
            diagnosis.ask(&mut request, &mut Vec::new(), |socket| {
                let (Some(connection), Some(0)) = (socket.get(CONNECTION), u32_at(socket, INODE))
                else {
                    return;
                };
                found.request(DESTROY, 0, &header(family, 0, connection), |_| {});
            })?;
        }
        if found.is_empty() {
            break;
        }
        if round == 0 {
            // Their packets that wait at a port also hold them.
            set_links_down()?;
        }
        diagnosis.send(&mut found)?.ok();
    }
    Ok(())
}

fn header(family: i32, states: u32, connection: &[u8]) -> [u8; REQUEST] {
    let mut header = [0; REQUEST];
    header[0] = family as u8;
    header[1] = libc::IPPROTO_TCP as u8;
    header[4..REQUEST_CONNECTION].copy_from_slice(&states.to_ne_bytes());
    header[REQUEST_CONNECTION..].copy_from_slice(connection);
    header
}

fn set_links_down() -> io::Result<()> {
    let mut socket = Socket::open()?;
    let mut batch = Batch::default();
    socket.ask(&mut Batch::links(), &mut Vec::new(), |link| {
        let index = u32_at(link, 4).filter(|&index| index != LOOPBACK);
        if let Some(index) = index {
            batch.set_down(index);
        }
    })?;
    socket
        .send(&mut batch)?
        .map_err(|refused| refused.errno.into())
}

#[cfg(test)]
mod tests {
    use super::destroyed_ones_go;

    #[test]
    fn kernels_that_keep_destroyed_namespaces_are_recognised_by_release() {
        for release in ["7.2.12+deb14-amd64", "6.11.0-rc1", "6.18.44"] {
            assert!(destroyed_ones_go(release), "{release}");
        }
        for release in ["6.1.0-40-amd64", "6.10.9", "5.15", "", "unknown"] {
            assert!(!destroyed_ones_go(release), "{release}");
        }
    }
}
