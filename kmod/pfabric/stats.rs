// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The statistics of a `pfabric` qdisc.

crate::statistics! {
    /// Statistics of a port.
    Stats {
        /// Queued packets dropped to make room for a more urgent one.
        Counter Number evicted: u64,
        /// Packets dropped on arrival because they were the least urgent.
        Counter Number rejected: u64,
        /// Dequeues in which starvation prevention chose a packet other than the most urgent.
        Counter Number overtaken: u64,
        /// Bytes of the packets in `evicted`.
        Counter Size evicted_bytes: u64,
        /// Bytes of the packets in `rejected`.
        Counter Size rejected_bytes: u64,
        /// Flows that have packets in the queue now.
        Gauge Number flows: u32,
        /// The most packets in the queue at once.
        Highest Number highest_backlog: u32,
        /// The most bytes in the queue at once.
        Highest Size highest_backlog_bytes: u64,
    }
    "  evicted {evicted_bytes} {evicted}p rejected {rejected_bytes} {rejected}p overtaken {overtaken}p"
    "  flows {flows} highest_backlog {highest_backlog_bytes} {highest_backlog}p"
}
