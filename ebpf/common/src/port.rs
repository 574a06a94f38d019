// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a program is told about the device to which it belongs, and what the loader has to put
//! back when it leaves.

pub use weft_mechanisms::common::rank::{Fallback, Policy};

weft_mechanisms::named! {
    /// What the device belongs to.
    Role {
        /// A host: packets are tagged on their way out and lose the tag on their way in.
        Host = 0 "host",
        /// A switch: the tag is read on the way in and stays on.
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
        /// The path that the packet's tag names in place of an upstream queue (its number plus 1).
        /// A packet without one follows its flow's path.
        Path = 3 "path",
    }
}

weft_mechanisms::named! {
    /// Which of a host's packets get a tag.
    Tagged {
        /// Those with payload of a TCP or UDP socket.
        Data = 0 "data",
        /// All of IP; those without such payload have [`Port::fixed`] as their rank.
        All = 1 "all",
    }
}

weft_mechanisms::named! {
    /// The rank that a switch gives to a packet without a tag that is longer than
    /// [`MAX_WITHOUT_DATA`].
    Untagged {
        /// The least urgent, where hosts tag their data: the packet's sender did not, or could not.
        Last = 0 "last",
        /// The most urgent, as that of any packet without a tag: where no host tags.
        First = 1 "first",
    }
}

/// Bytes of an IP packet that need not hold data. A TCP segment without payload has at most 100
/// (IPv6, all of TCP's options), `ping` sends 84 or 104.
pub const MAX_WITHOUT_DATA: u32 = 128;

/// An entry of [`map::PORT`](super::map::PORT). The enumerations are stored as their numbers. It
/// has a multiple of 8 bytes without padding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Port {
    /// [`Role`].
    pub role: u32,
    /// Host: [`Policy`].
    pub policy: u32,
    /// Host: [`Fallback`].
    pub fallback: u32,
    /// Host: rank under [`Policy::Fixed`], and of packets that have no other.
    pub fixed: u32,
    /// Switch: [`Spray`].
    pub spray: u32,
    /// Switch, [`Spray::RoundRobin`]: number of paths, 0 is any power of two; [`Spray::Path`]: how
    /// many ways on there are, not 0.
    pub paths: u32,
    /// Switch, [`Spray::RoundRobin`]: packets sprayed so far.
    pub sprayed: u64,
    /// Switch, [`Spray::Path`]: so many paths in a row take the same way on, not 0.
    pub stride: u32,
    /// Host: [`Tagged`].
    pub tagged: u32,
    /// Switch: [`Untagged`].
    pub untagged: u32,
    /// What the loader found and puts back, of no meaning to programs.
    pub before: Before,
}

/// The settings that the loader changed, as it found them, and one as it left it.
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
    /// Host: the MTU in bytes that IPv4 routes by the device got.
    pub route_mtu: u32,
    /// 1 if the device had no `clsact` qdisc and got one.
    pub clsact_added: u32,
}
