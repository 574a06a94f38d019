// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The statistics of a `port` qdisc: its port, and its switch.

crate::statistics! {
    /// Statistics of a port, of its neighbours, and of its switch.
    Stats {
        /// Bytes in all ports of the switch.
        Gauge Size memory_backlog: u64,
        /// The highest value of that so far.
        Highest Size highest_memory_backlog: u64,
        /// Bytes that this port may hold now; 0 for no limit.
        Gauge Size share: u64,
        /// The most bytes in the port at once.
        Highest Size highest_backlog: u64,
        /// Packets dropped because the port held its share of the memory.
        Counter Number dropped_share: u64,
        /// Packets dropped because the memory was full.
        Counter Number dropped_memory: u64,
        /// Packets of a paused neighbour that were dropped because the headroom was full.
        Counter Number dropped_headroom: u64,
        /// Control frames dropped because too many were waiting.
        Counter Number dropped_control: u64,
        /// 1 if the upstream neighbour should be paused, otherwise 0.
        Gauge Number pausing: u32,
        /// Bytes in the switch that arrived at this port.
        Gauge Size ingress_backlog: u64,
        /// The highest value of that so far.
        Highest Size highest_ingress_backlog: u64,
        /// The current value of that above which the neighbour is paused; 0 for none.
        Gauge Size threshold: u64,
        /// Of these bytes, those in the headroom.
        Gauge Size headroom_backlog: u64,
        /// The highest value of that so far.
        Highest Size highest_headroom_backlog: u64,
        /// Pauses sent to the upstream neighbour, refreshes included.
        Counter Number pauses_sent: u64,
        /// Resumes sent.
        Counter Number resumes_sent: u64,
        /// Frames that could not be sent.
        Counter Number unsent: u64,
        /// 1 if the downstream neighbour has paused this port, otherwise 0.
        Gauge Number paused: u32,
        /// ns for which the port has been paused so far.
        Counter Time paused_ns: u64,
        /// Pauses received, refreshes included.
        Counter Number pauses_received: u64,
        /// Resumes received.
        Counter Number resumes_received: u64,
        /// Pauses that ended because their time was over.
        Counter Number lapsed: u64,
        /// Times that the watchdog ended a pause.
        Counter Number released: u64,
        /// Pauses ignored since the watchdog ended one.
        Counter Number ignored: u64,
        /// Frames ignored: other operations of MAC Control, or too short.
        Counter Number malformed: u64,
    }
    "  memory {memory_backlog} highest {highest_memory_backlog} share {share} highest_backlog {highest_backlog}"
    "  dropped share {dropped_share}p memory {dropped_memory}p headroom {dropped_headroom}p control {dropped_control}p"
    "  upstream pausing {pausing} backlog {ingress_backlog} highest {highest_ingress_backlog} threshold {threshold} headroom {headroom_backlog} highest {highest_headroom_backlog} sent pauses {pauses_sent} resumes {resumes_sent} unsent {unsent}"
    "  downstream paused {paused} for {paused_ns} received pauses {pauses_received} resumes {resumes_received} lapsed {lapsed} released {released} ignored {ignored} malformed {malformed}"
}
