// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The statistics of a `wire` qdisc.

/// Buckets of the lateness histogram.
pub const LATENESS_BUCKETS: usize = 32;

crate::statistics! {
    /// Statistics of a wire.
    Stats {
        /// Time spent serializing, in nanoseconds.
        Counter Time busy_ns: u64,
        /// Packets on the wire: their serialization has begun and they are not delivered yet.
        Gauge Number in_flight: u32,
        /// Bytes of the packets in `in_flight`.
        Gauge Size in_flight_bytes: u32,
        /// Packets delivered. A packet's lateness is that of the timer.
        Counter Number late_count: u64,
        /// Sum of their lateness in nanoseconds.
        Counter Time late_sum_ns: u64,
        /// The greatest lateness in nanoseconds.
        Highest Time late_max_ns: u64,
        /// Packets by lateness: bucket 0 counts the punctual packets, bucket `i` those with
        /// `2^(i-1) <= ns < 2^i`; the last one has no upper end.
        Counter Times late_histogram: [u64; LATENESS_BUCKETS],
        /// Bytes that may be in flight; `in_flight_bytes` can exceed them by less than a packet.
        Gauge Size in_flight_limit: u64,
        /// Packets that the limit held back although the wire was free.
        Counter Number held: u64,
    }
    "  busy {busy_ns} in_flight {in_flight_bytes} {in_flight}p{!in_flight_limit}{held? held {held}|}"
    "  lateness count {late_count} mean {late_mean_ns=late_sum_ns/late_count} max {late_max_ns}{late_histogram}"
}
