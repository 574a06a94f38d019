// SPDX-License-Identifier: MIT OR Apache-2.0

//! Addresses of nodes.
//!
//! A node has one IPv4 and one IPv6 address; links have none. An address states its node's location
//! in three one-byte numbers, so that a block of nodes is a prefix:
//!
//! | block             | IPv4              | IPv6                        |
//! |-------------------|-------------------|-----------------------------|
//! | the fabric        | `10.0.0.0/8`      | `fd77:6566:7400::/48`       |
//! | a pod             | `10.P.0.0/16`     | `fd77:6566:7400:PP00::/56`  |
//! | a switch's hosts  | `10.P.S.0/24`     | `fd77:6566:7400:PPSS::/64`  |
//! | a node            | `10.P.S.I`        | `fd77:6566:7400:PPSS::I`    |
//!
//! The IPv4 scheme is that of M. Al-Fares, A. Loukissas, A. Vahdat, "A scalable, commodity data
//! center network architecture", SIGCOMM 2008, §3.2: in pod P the switches are `10.P.S.1`, edge
//! switches first, the hosts of edge switch S are `10.P.S.2` and up, and the core switches are
//! `10.k.J.I`. The other topologies are one pod, 0, and their upper switches, if any, are pod 1.
//! The IPv6 scheme is a unique local prefix (RFC 4193) that spells "weft".
//!
//! Each fabric has its own network namespaces, so all fabrics use the same addresses.
//!
//! A next hop is on the other end of the port, whatever its address. For IPv4 it is the peer's
//! address, in a route with the flag `onlink`. For IPv6 it is the link-local address of the peer's
//! port, which the kernel derives from the port's MAC address (EUI-64, RFC 4291 appendix A).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum of hosts per switch, limited by its block of addresses.
pub const MAX_HOSTS_PER_SWITCH: u32 = 253;

/// The location of a node. Ordered like its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The pod; for a core switch, a number after the last pod's.
    pub pod: u8,
    /// The switch in the pod.
    pub switch: u8,
    /// 1 is the switch; its hosts start at 2.
    pub id: u8,
}

impl Address {
    pub(crate) const fn new(pod: u8, switch: u8, id: u8) -> Self {
        Self { pod, switch, id }
    }

    /// The address of the `index`th switch of `pod`.
    ///
    /// Callers have checked that the numbers fit a byte.
    pub(crate) const fn switch(pod: u32, index: u32) -> Self {
        Self::new(pod as u8, index as u8, 1)
    }

    /// The address of the `index`th host of a switch, from 0.
    pub(crate) const fn host(pod: u32, switch: u32, index: u32) -> Self {
        Self::new(pod as u8, switch as u8, (index + 2) as u8)
    }

    /// `10.P.S.I`.
    pub const fn v4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, self.pod, self.switch, self.id)
    }

    /// `fd77:6566:7400:PPSS::I`.
    pub const fn v6(self) -> Ipv6Addr {
        let subnet = u16::from_be_bytes([self.pod, self.switch]);
        Ipv6Addr::new(0xfd77, 0x6566, 0x7400, subnet, 0, 0, 0, self.id as u16)
    }

    /// The address of one family.
    pub const fn of_family(self, ipv6: bool) -> IpAddr {
        match ipv6 {
            false => IpAddr::V4(self.v4()),
            true => IpAddr::V6(self.v6()),
        }
    }
}

/// An Ethernet address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The locally administered address of a port: node and port by their indices, unique in a
    /// fabric.
    pub(crate) const fn of_port(node: u16, port: u16) -> Self {
        let [a, b] = node.to_be_bytes();
        let [c, d] = port.to_be_bytes();
        Self([0x02, 0x77, a, b, c, d])
    }

    /// The IPv6 link-local address derived from it (RFC 4291, appendix A).
    pub const fn link_local(self) -> Ipv6Addr {
        let [a, b, c, d, e, f] = self.0;
        Ipv6Addr::new(
            0xfe80,
            0,
            0,
            0,
            u16::from_be_bytes([a ^ 0x02, b]),
            u16::from_be_bytes([c, 0xff]),
            u16::from_be_bytes([0xfe, d]),
            u16::from_be_bytes([e, f]),
        )
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
