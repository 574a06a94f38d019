// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The statistics of an `int` qdisc.

crate::statistics! {
    /// Statistics of a link, and of the packets that it stamped.
    Stats {
        /// The utilisation now, in thousandths.
        Gauge Number utilisation: u32,
        /// The highest utilisation when a packet left, in thousandths.
        Highest Number highest_utilisation: u32,
        /// Packets that got the utilisation of this link.
        Counter Number stamped: u64,
        /// Packets that carry a larger one.
        Counter Number kept: u64,
        /// Packets with neither records nor a tag, or with a tag of another scheme.
        Counter Number untagged: u64,
        /// Packets that were left as they are because there was no memory for a copy.
        Counter Number unwritable: u64,
        /// Packets that got a record of this link.
        Counter Number recorded: u64,
        /// Packets that had no room for another record.
        Counter Number full: u64,
        /// Packets that bring records back.
        Counter Number returning: u64,
    }
    "  utilisation {utilisation} highest {highest_utilisation} thousandths"
    "  stamped {stamped}p kept {kept}p untagged {untagged}p unwritable {unwritable}p"
    "  recorded {recorded}p full {full}p returning {returning}p"
}
