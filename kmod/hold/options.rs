// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `hold` qdisc, which keeps a backlog in its child for tests and benchmarks.

use crate::common::options::Unit;

/// The qdisc's name.
pub const KIND: &str = "hold";

crate::options! {
    /// Packets that stay in the child.
    BACKLOG = 1, backlog: u32
        as "backlog" [Unit::Packets, "PACKETS", "a number of packets"],
        default |said| 0;
    /// Mask of pseudo-random priorities; 0 leaves priorities unchanged.
    RANDOM_PRIORITY = 2, random_priority: u32
        as "random_priority" [Unit::Mask, "MASK", "a mask of 32 bits"] silent 0,
        default |said| 0;
    /// Transmit time of each packet, in ns after its arrival (`CLOCK_TAI`); 0 sets none. For `etf`.
    TXTIME = 3, txtime: u64
        as "txtime" [Unit::Time, "TIME", "a time"] silent 0,
        default |said| 0;
}

crate::independent_options!();
