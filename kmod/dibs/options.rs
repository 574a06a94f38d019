// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `dibs` qdisc.

use crate::common::options::Unit;
pub use crate::common::share::{ALPHA_1, ALPHA_OFF, MAX_ALPHA};

/// Default of `LIMIT`: "100 pkt per port" (Table 1).
pub const DEFAULT_LIMIT: u32 = 100;
/// `LIMIT`, `LIMIT_BYTES`: no limit.
pub const NO_LIMIT: u32 = 0;
/// Default of `MARK`: "set the marking threshold to 20 packets" (§5.3).
pub const DEFAULT_MARK: u32 = 20;
/// `MARK`: only detoured packets are marked.
pub const NO_MARK: u32 = 0;
/// `TTL`: unchanged.
pub const TTL_AS_IT_IS: u32 = 0;
/// The largest `TTL`.
pub const MAX_TTL: u32 = 255;
/// Default of `ALPHA`: 1.
pub const DEFAULT_ALPHA: u32 = ALPHA_1;
/// Default of `FROM`, in hundredths of the limit.
pub const DEFAULT_FROM: u32 = 50;
/// The largest `FROM`.
pub const MAX_FROM: u32 = 100;
/// Default of `RANKS`: the highest priority that Linux assigns by itself (`TC_PRIO_MAX`).
pub const DEFAULT_RANKS: u32 = 15;

/// Which port a packet is detoured to (§2, §7), and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// Any port that has room.
    #[default]
    Random,
    /// The port with the fewest bytes.
    LoadAware,
    /// Of the ports that have room, the one that the packet's flow prefers.
    Flow,
    /// Any port that has room; also, with a probability, before this port is full.
    Probabilistic,
    /// None: the packet is dropped.
    Off,
}

crate::choice!(Policy {
    Random,
    LoadAware,
    Flow,
    Probabilistic,
    Off
});

/// The words for [`Policy`], in its order.
pub const POLICIES: &[&str] = &["random", "load-aware", "flow", "probabilistic", "off"];

crate::options! {
    /// The most packets in the port, including those on their way to it; [`NO_LIMIT`]: no limit.
    /// The default is [`DEFAULT_LIMIT`] if there is no other limit, and [`NO_LIMIT`] if bytes or
    /// shares are limited.
    LIMIT = 1, limit: u32
        as "limit" [Unit::Packets, "PACKETS", "a number of packets"],
        default |said| match (said.limit_bytes.unwrap_or(0), said.share.unwrap_or(0)) {
            (0, 0) => DEFAULT_LIMIT,
            _ => NO_LIMIT,
        };
    /// The most bytes in the port; [`NO_LIMIT`]: no limit.
    LIMIT_BYTES = 2, limit_bytes: u32
        as "limit_bytes" [Unit::Size, "BYTES", "a size of at most 4294967295 bytes"] silent 0,
        default |said| 0;
    /// The number of waiting packets from which on an arriving packet is marked, if it is
    /// ECN-capable; [`NO_MARK`]: none is.
    MARK = 3, mark: u32
        as "mark" [Unit::Packets, "PACKETS", "a number of packets"],
        default |said| DEFAULT_MARK;
    /// Whether the port faces a switch: then other ports may detour packets to it.
    DETOUR_TO = 4, detour_to: bool
        as "detour_to" [Unit::Switch("detour-to", "nodetour-to"), "", ""],
        or c"Detour-to must be 0 or 1",
        default |said| false;
    /// Which port a packet is detoured to.
    POLICY = 5, policy: Policy
        as "policy" [
            Unit::Choice(POLICIES),
            "",
            "random, load-aware, flow, probabilistic or off"
        ],
        or c"Policy must be random, load-aware, flow, probabilistic or off",
        default |said| Policy::Random;
    /// The most hops that a packet has left after a detour, at most [`MAX_TTL`]; [`TTL_AS_IT_IS`]:
    /// unchanged.
    TTL = 6, ttl: u32
        as "ttl" [Unit::Number, "HOPS", "a number of hops"] silent TTL_AS_IT_IS as u64,
        in (TTL_AS_IT_IS, MAX_TTL), or c"TTL must be at most 255",
        default |said| TTL_AS_IT_IS;
    /// The most bytes in all ports of the switch together; 0: each port has its own buffer.
    SHARE = 7, share: u32
        as "share" [Unit::Size, "BYTES", "a size of at most 4294967295 bytes"] silent 0,
        default |said| 0;
    /// The multiple, in 1/128s, of the free part of `SHARE` that this port may hold, at most
    /// [`MAX_ALPHA`]; [`ALPHA_OFF`]: all that is free.
    ALPHA = 8, alpha: u32
        as "alpha" [
            Unit::Parts(ALPHA_1, "off"),
            "NUMBER",
            "a number or fraction, for example 8 or 1/2, or off"
        ] silent DEFAULT_ALPHA as u64,
        in (ALPHA_OFF, MAX_ALPHA), or c"Alpha must be between 1/128 and 128, or off",
        default |said| DEFAULT_ALPHA;
    /// Hundredths of the limit from which on [`Policy::Probabilistic`] may detour a packet, at most
    /// [`MAX_FROM`].
    FROM = 9, from: u32
        as "from" [Unit::Percent, "PERCENT", "a percentage"] silent DEFAULT_FROM as u64,
        in (0, MAX_FROM), or c"From must be at most 100 percent",
        default |said| DEFAULT_FROM;
    /// The rank from which on packets are the least urgent; 0: all packets are.
    RANKS = 10, ranks: u32
        as "ranks" [Unit::Number, "RANK", "a rank"] silent DEFAULT_RANKS as u64,
        default |said| DEFAULT_RANKS;
}

crate::independent_options!();
