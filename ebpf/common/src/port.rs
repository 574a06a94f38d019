// SPDX-License-Identifier: MIT OR Apache-2.0

//! The configuration of a device's programs, and the settings that the loader restores when it
//! detaches them.

pub use weft_mechanisms::common::rank::{Fallback, Policy};

weft_mechanisms::named! {
    /// The role of the device's node.
    Role {
        /// A host: packets are tagged on their way out and lose the tag on their way in.
        Host = 0 "host",
        /// A switch: the tag is read on the way in and stays in the packet.
        Switch = 1 "switch",
    }
}

weft_mechanisms::named! {
    /// Whether a switch gives each packet a hash of its own, so that the packets of a flow take
    /// all paths of a multipath route.
    Spray {
        /// The flow's hash: equal-cost multipath routing, a flow takes one path.
        Off = 0 "off",
        /// One path after the other.
        RoundRobin = 1 "round-robin",
        /// Any path.
        Random = 2 "random",
        /// The path that the packet's tag names in its field for the upstream queue (the path's
        /// number plus 1). A packet without one follows its flow's path.
        Path = 3 "path",
    }
}

weft_mechanisms::named! {
    /// Packets of a host that get a tag.
    Tagged {
        /// Packets with payload of a TCP or UDP socket.
        Data = 0 "data",
        /// All IP packets; those without such payload have [`Port::fixed`] as their rank.
        All = 1 "all",
    }
}

weft_mechanisms::named! {
    /// The rank that a switch gives to a packet without a tag that is longer than
    /// [`MAX_WITHOUT_DATA`].
    Untagged {
        /// The least urgent, for fabrics whose hosts tag their data: the sender did not or could
        /// not tag this packet.
        Last = 0 "last",
        /// The most urgent, as for any packet without a tag, for fabrics whose hosts do not tag.
        First = 1 "first",
    }
}

/// Largest IP packet, in bytes, that counts as having no data. A TCP segment without payload has at
/// most 100 (IPv6, all of TCP's options), `ping` sends 84 or 104.
pub const MAX_WITHOUT_DATA: u32 = 128;

/// An entry of [`map::PORT`](super::map::PORT). Enumerations are stored as their numbers. The size
/// is a multiple of 8 bytes without padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Port {
    /// [`Role`].
    pub role: u32,
    /// Host: [`Policy`].
    pub policy: u32,
    /// Host: [`Fallback`].
    pub fallback: u32,
    /// Host: rank under [`Policy::Fixed`], and of packets without another rank.
    pub fixed: u32,
    /// Switch: [`Spray`].
    pub spray: u32,
    /// Switch, [`Spray::RoundRobin`]: number of paths; 0 means any power of two. [`Spray::Path`]:
    /// number of next hops, not 0.
    pub paths: u32,
    /// Switch, [`Spray::RoundRobin`]: packets sprayed so far.
    pub sprayed: u64,
    /// Switch, [`Spray::Path`]: number of successive paths with the same next hop, not 0.
    pub stride: u32,
    /// Host: [`Tagged`].
    pub tagged: u32,
    /// Switch: [`Untagged`].
    pub untagged: u32,
    /// Settings that the loader restores; programs ignore them.
    pub before: Before,
}

/// The settings that the loader changed, with their previous values, and one with its new value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Before {
    /// Host: the device's `gso_max_size`, bytes.
    pub gso_max_size: u32,
    /// Host: the device's `gso_ipv4_max_size`, bytes.
    pub gso_ipv4_max_size: u32,
    /// Host: the device's `gso_max_segs`, packets.
    pub gso_max_segs: u32,
    /// Host: `net.ipv6.conf.DEV.mtu`, bytes; 0 if there is no IPv6.
    pub ipv6_mtu: u32,
    /// Switch: `net.ipv4.ip_forward_update_priority`.
    pub forward_update_priority: u32,
    /// Switch: `net.ipv4.fib_multipath_hash_policy`.
    pub ipv4_hash_policy: u32,
    /// Switch: `net.ipv6.fib_multipath_hash_policy`; `u32::MAX` if there is no IPv6.
    pub ipv6_hash_policy: u32,
    /// Host: the MTU in bytes that the device's IPv4 routes got.
    pub route_mtu: u32,
    /// 1 if the device had no `clsact` qdisc and got one.
    pub clsact_added: u32,
}
