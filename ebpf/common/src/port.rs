// SPDX-License-Identifier: MIT OR Apache-2.0

//! What a program is told about the device to which it belongs, and what the loader has to put
//! back when it leaves.

macro_rules! choices {
    ($(#[doc = $doc:literal])* $name:ident { $($(#[doc = $variant_doc:literal])* $variant:ident = $value:literal $text:literal,)* }) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name { $($(#[doc = $variant_doc])* $variant = $value,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name on the command line.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The one with this number.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($value => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

choices! {
    /// What the device belongs to.
    Role {
        /// A host: packets are tagged on their way out and lose the tag on their way in.
        Host = 0 "host",
        /// A switch: the tag is read on the way in and stays on.
        Switch = 1 "switch",
    }
}

choices! {
    /// How a host ranks a packet. Lower is more urgent.
    ///
    /// "… each packet carry a single number in its header that encodes its priority" (Alizadeh et
    /// al., "pFabric", SIGCOMM 2013). A packet that is sent again is ranked by its own bytes, as
    /// the first time: see the `remaining` policy.
    Policy {
        /// Bytes of the flow that were not sent before this packet: "the priority is set to be the
        /// remaining flow size", so that "packets that are transmitted earlier have lower priority
        /// than packets that are transmitted later (because they have relatively higher remaining
        /// flow sizes in their priority fields)" (section 4.1).
        ///
        /// A packet's bytes alone decide, also when they are sent again. The other reading, the
        /// size less what was acknowledged, gives the packets of one window one and the same rank,
        /// which contradicts the sentence above. The two agree on what matters after a loss: the
        /// first packet that is missing begins where the acknowledged bytes end.
        Remaining = 0 "remaining",
        /// The flow's size: "using absolute flow size as the priority instead of remaining flow
        /// size", which makes starvation prevention unnecessary (section 4.1).
        Size = 1 "size",
        /// Bytes of the flow that were sent before this packet, for unknown sizes: least attained
        /// service.
        Sent = 2 "sent",
        /// Time to the flow's deadline in µs when the packet is sent, at most 2^31 − 1; 0 once it
        /// has passed. Flows without one come after all that have one, by their remaining size.
        Deadline = 3 "deadline",
        /// The flow's class; of a flow without one, the same number for all.
        Fixed = 4 "fixed",
    }
}

choices! {
    /// How a packet is ranked whose flow did not say its size, or exceeds it.
    Fallback {
        /// As policy `sent`.
        Sent = 0 "sent",
        /// Bytes from this packet's first to the last that the application has written: what waits
        /// in a TCP socket. Of other sockets, as `sent`.
        Queued = 1 "queued",
    }
}

choices! {
    /// Whether a switch gives each packet a hash of its own, so that the packets of a flow take
    /// all paths of a multipath route.
    Spray {
        /// The flow's hash: equal-cost multipath routing, a flow takes one path.
        Off = 0 "off",
        /// One path after the other.
        RoundRobin = 1 "round-robin",
        /// Any path.
        Random = 2 "random",
    }
}

/// An entry of [`map::PORT`](super::map::PORT). The enumerations are stored as their numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Port {
    /// [`Role`].
    pub role: u32,
    /// Host: [`Policy`].
    pub policy: u32,
    /// Host: [`Fallback`].
    pub fallback: u32,
    /// Host: rank under [`Policy::Fixed`].
    pub fixed: u32,
    /// Switch: [`Spray`].
    pub spray: u32,
    /// Switch, [`Spray::RoundRobin`]: number of paths; 0 is any power of two.
    pub paths: u32,
    /// Switch, [`Spray::RoundRobin`]: packets sprayed so far.
    pub sprayed: u64,
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
    /// 0. The structure has a multiple of 8 bytes without padding.
    pub unused: u32,
}
