// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The statistics of a `bfc` qdisc (`TCA_STATS_APP` of the qdisc) and of each queue (of a class):
//! no padding bytes, host-endian. New fields may be added at the end.
//!
//! The first field distinguishes the two, because `tc` prints them by the same function.

crate::statistics! {
    /// Statistics of a port, of its neighbours, and of its switch.
    Stats is 0 {
        /// Data queues that have packets.
        Gauge Number occupied: u32,
        /// Data queues that the downstream neighbour has paused.
        Gauge Number paused: u32,
        /// Data queues that have packets and are not paused: N_active.
        Gauge Number active: u32,
        /// The current pause threshold, in bytes.
        Gauge Size threshold: u64,
        /// The largest HRTT of the ingresses, in ns.
        Gauge Time hrtt: u64 as "largest_hrtt",
        /// Times a flow became active.
        Counter Number activations: u64,
        /// Of these, the times its queue had packets of another flow.
        Counter Number collisions: u64,
        /// Packets that found their queue above the threshold.
        Counter Number congested: u64,
        /// Of these, packets whose backpressure was elided.
        Counter Number elided: u64,
        /// Of these, packets from another port whose upstream queue is unknown.
        Counter Number unmarked: u64,
        /// Packets dropped because the port was full.
        Counter Number dropped_limit: u64,
        /// Packets dropped because the switch was full.
        Counter Number dropped_buffer: u64,
        /// Packets dropped for lack of memory to write their tag.
        Counter Number dropped_memory: u64,
        /// Control frames dropped because too many were waiting.
        Counter Number dropped_control: u64,
        /// The most bytes of data in the port at once.
        Highest Size highest_backlog: u64,
        /// Total ns for which queues have been paused so far.
        Counter Time paused_ns: u64,
        /// Upstream queues that are currently to be paused.
        Gauge Number pausing: u32,
        /// Pauses sent to the upstream neighbour.
        Counter Number pauses_sent: u64,
        /// Resumes sent.
        Counter Number resumes_sent: u64,
        /// Bitmaps sent.
        Counter Number bitmaps_sent: u64,
        /// Frames that could not be sent.
        Counter Number unsent: u64,
        /// Pauses received from the downstream neighbour.
        Counter Number pauses_received: u64,
        /// Resumes received.
        Counter Number resumes_received: u64,
        /// Bitmaps received.
        Counter Number bitmaps_received: u64,
        /// Pauses that lapsed.
        Counter Number lapsed: u64,
        /// Frames ignored: malformed.
        Counter Number malformed: u64,
        /// Frames ignored: not from the neighbour.
        Counter Number foreign: u64,
        /// Frames ignored: received before, or overtaken.
        Counter Number replayed: u64,
        /// Bytes of data in all ports of the switch.
        Gauge Size buffer_backlog: u64,
        /// The highest value of that so far.
        Highest Size highest_buffer_backlog: u64,
        /// Bytes in the longest data queue.
        Gauge Size longest: u64,
        /// Packets dropped because the port held its share of the switch's buffer.
        Counter Number dropped_share: u64,
        /// Queues that the watchdog released.
        Counter Number released: u64,
    }
    "  queues occupied {occupied} active {active} paused {paused} for {paused_ns} flows {activations} collisions {collisions}"
    "  longest {longest} threshold {threshold} hrtt {hrtt} congested {congested}p elided {elided}p unmarked {unmarked}p"
    "  dropped limit {dropped_limit}p buffer {dropped_buffer}p memory {dropped_memory}p control {dropped_control}p share {dropped_share}p highest_backlog {highest_backlog} buffer {buffer_backlog} highest {highest_buffer_backlog}"
    "  upstream pausing {pausing} sent pauses {pauses_sent} resumes {resumes_sent} bitmaps {bitmaps_sent} unsent {unsent}"
    "  downstream received pauses {pauses_received} resumes {resumes_received} bitmaps {bitmaps_received} lapsed {lapsed} released {released} ignored malformed {malformed} foreign {foreign} replayed {replayed}"
}

crate::statistics! {
    /// Statistics of one queue.
    QueueStats is 1 {
        /// Its number on the wire; 0 for the control queue.
        Gauge Number number: u32,
        /// Its priority class.
        Gauge Number class: u32,
        /// 1 if it is paused, otherwise 0.
        Gauge Number paused: u32,
        /// ns for which it has been paused so far.
        Counter Time paused_ns: u64,
    }
    "{number?  queue {number} class {class}|  control frames}{paused? paused|} paused_for {paused_ns}"
}
