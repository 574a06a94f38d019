// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `pfabric` qdisc (Alizadeh et al., "pFabric: Minimal Near-Optimal
//! Datacenter Transport", SIGCOMM 2013, section 4.1).

use crate::common::options::Unit;

/// The qdisc's name, as in `tc qdisc add … pfabric`.
pub const KIND: &str = "pfabric";

/// The default limit in packets: "typically less than two bandwidth-delay products (~36KB or 24
/// full-sized packets in our simulations)" (section 4.1).
pub const DEFAULT_LIMIT: u32 = 24;

/// The largest limit in packets. All memory of a queue is reserved when it is created.
pub const MAX_LIMIT: u32 = 65_536;

/// The smallest Ethernet frame without its check sequence, in bytes: it gives the number of packets
/// that can fill a byte limit.
const SMALLEST_FRAME: u32 = 60;

crate::options! {
    /// Queue limit in packets, 1 to [`MAX_LIMIT`]. The default is [`DEFAULT_LIMIT`] if there is no
    /// limit in bytes. With a byte limit only, it is the number of smallest Ethernet frames (60
    /// bytes) that fill that limit, within the range, so that only the byte limit takes effect.
    LIMIT = 1, limit: u32
        as "limit" [Unit::Packets, "PACKETS", "a number of packets"],
        in (1, MAX_LIMIT), or c"Limit must be between 1 and 65536 packets",
        default |said| match said.limit_bytes.unwrap_or(0) {
            0 => DEFAULT_LIMIT,
            bytes => (bytes / SMALLEST_FRAME).clamp(1, MAX_LIMIT),
        };
    /// Queue limit in bytes; 0 for none.
    LIMIT_BYTES = 2, limit_bytes: u32
        as "limit_bytes" [Unit::Size, "BYTES", "a size of at most 4294967295 bytes"] silent 0,
        default |said| 0;
    /// Whether the earliest packet of the most urgent packet's flow is sent, rather than the most
    /// urgent packet itself, as in the paper.
    STARVATION_PREVENTION = 3, starvation_prevention: bool
        as "starvation_prevention" [Unit::Switch("starvation", "nostarvation"), "", ""],
        or c"Starvation prevention must be 0 or 1",
        default |said| true;
}

crate::independent_options!();
