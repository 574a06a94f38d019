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
        /// Packets without a tag, or with one of another scheme.
        Counter Number untagged: u64,
        /// Packets that were not stamped because there was no memory for a copy.
        Counter Number unwritable: u64,
    }
    "  utilisation {utilisation} highest {highest_utilisation} thousandths"
    "  stamped {stamped}p kept {kept}p untagged {untagged}p unwritable {unwritable}p"
}
