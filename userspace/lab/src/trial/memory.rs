// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether TCP had enough memory. One limit (`net.ipv4.tcp_mem`) applies to all sockets of a
//! machine together, even if they belong to hundreds of hosts: near the limit the kernel narrows
//! windows and buffers, and flows are slower than on a fabric of as many machines.

use std::fs;

use anyhow::{Context as _, Result};
use weft_net::Testbed;
use weft_topo::Topology;

use crate::testbed;

const FILE: &str = "/proc/thread-self/net/netstat";

/// How often the sockets of the fabric's hosts found TCP's memory short.
///
/// # Errors
///
/// If a namespace no longer exists, or the kernel does not report the count.
pub(super) fn shortages(testbed: &Testbed, topology: &Topology) -> Result<u64> {
    let of_host = |name: &str| {
        let text = testbed.enter(name, || fs::read_to_string(FILE));
        let text = text.map_err(testbed::explain)?.context(FILE)?;
        counter(&text, "TcpExt", "TCPMemoryPressures").with_context(|| format!("{name}: {FILE}"))
    };
    let hosts = topology.hosts().map(|id| topology.node(id).name.as_str());
    hosts.map(of_host).sum()
}

/// A counter from a file in which each group has one line with names, and a second line with
/// values.
fn counter(text: &str, group: &str, name: &str) -> Result<u64> {
    let mut lines = text
        .lines()
        .filter_map(|line| line.strip_prefix(group)?.strip_prefix(':'));
    let (names, values) = lines.next().zip(lines.next()).context("no such group")?;
    let mut all = names.split_whitespace().zip(values.split_whitespace());
    let (_, value) = all.find(|(it, _)| *it == name).context("no such counter")?;
    value.parse().with_context(|| format!("{name}: {value}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_name() {
        let text = "TcpExt: SyncookiesSent TCPMemoryPressures PFMemallocDrop\nTcpExt: 0 7 1\n\
                    IpExt: InNoRoutes TCPMemoryPressures\nIpExt: 3 9\n";
        assert_eq!(counter(text, "TcpExt", "TCPMemoryPressures").unwrap(), 7);
        assert_eq!(counter(text, "IpExt", "TCPMemoryPressures").unwrap(), 9);
        assert!(counter(text, "TcpExt", "InNoRoutes").is_err());
        assert!(counter(text, "MPTcpExt", "InNoRoutes").is_err());
        assert!(counter("TcpExt: A\nTcpExt: many\n", "TcpExt", "A").is_err());
    }

    #[test]
    fn this_kernel_has_the_counter() {
        let text = fs::read_to_string(FILE).unwrap();
        counter(&text, "TcpExt", "TCPMemoryPressures").unwrap();
    }
}
