// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The statistics of a `dibs` qdisc: its port, and its switch.

crate::statistics! {
    /// Statistics of a port and of its switch.
    Stats {
        /// Packets detoured because the port held its limit of packets.
        Counter Number detoured_limit: u64,
        /// Packets detoured because the port held its limit of bytes.
        Counter Number detoured_bytes: u64,
        /// Packets detoured because the port held its share of the switch's buffer, or the buffer
        /// was full.
        Counter Number detoured_share: u64,
        /// Packets detoured before the port was full.
        Counter Number detoured_early: u64,
        /// Packets of other ports that were detoured to this one.
        Counter Number received: u64,
        /// Packets on their way to this port now.
        Gauge Number coming: u32,
        /// Packets that this port marked, including those that it detoured.
        Counter Number marked: u64,
        /// Packets that could not be marked for lack of memory.
        Counter Number unmarked: u64,
        /// Packets dropped because no port had room for them.
        Counter Number dropped_full: u64,
        /// Packets dropped because they had no hop left; the next switch would have dropped them.
        Counter Number dropped_ttl: u64,
        /// Packets dropped because only nodes at the other end of this link can use them.
        Counter Number dropped_link: u64,
        /// Packets dropped because the port had no room and does not detour.
        Counter Number dropped_off: u64,
        /// Packets dropped from inside, by a change of the limits.
        Counter Number dropped_change: u64,
        /// The most packets that have waited in the port at once.
        Highest Number highest_backlog: u32,
        /// The most bytes that have waited in the port at once.
        Highest Size highest_backlog_bytes: u64,
        /// Bytes in all ports of the switch.
        Gauge Size switch_backlog: u64,
        /// The highest value of that so far.
        Highest Size highest_switch_backlog: u64,
        /// Packets of any port of the switch that were dropped after their detour was decided: the
        /// chosen port had disappeared, and no other had room.
        Counter Number switch_dropped_lost: u64,
        /// Packets of any port of the switch whose chosen port had disappeared, and that went by
        /// another.
        Counter Number switch_diverted: u64,
    }
    "  detoured limit {detoured_limit}p bytes {detoured_bytes}p share {detoured_share}p early {detoured_early}p received {received}p coming {coming}p"
    "  marked {marked}p unmarked {unmarked}p dropped full {dropped_full}p ttl {dropped_ttl}p link {dropped_link}p off {dropped_off}p change {dropped_change}p"
    "  highest_backlog {highest_backlog_bytes} {highest_backlog}p switch {switch_backlog} highest {highest_switch_backlog} lost {switch_dropped_lost}p diverted {switch_diverted}p"
}
