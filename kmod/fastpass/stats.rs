// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The statistics of a `fastpass` qdisc.

crate::statistics! {
    /// Statistics of an endpoint.
    Stats {
        /// Whether the arbiter has identified itself: 0 or 1.
        Gauge Number synchronised: u32,
        /// Packets that wait for a timeslot.
        Gauge Number waiting: u32,
        /// Timeslots requested but not given yet.
        Gauge Number outstanding: u32,
        /// Timeslots given that have not begun yet.
        Gauge Number ahead: u32,
        /// Packets sent in timeslots.
        Counter Number scheduled: u64,
        /// Of these, packets that had no tag to carry their path.
        Counter Number pathless: u64,
        /// Packets sent at once because their destination is not an endpoint.
        Counter Number unscheduled: u64,
        /// Control packets, of this endpoint and of an arbiter on this host.
        Counter Number control: u64,
        /// Their bytes.
        Counter Size control_bytes: u64,
        /// Packets dropped because too many were waiting for their destination.
        Counter Number dropped_full: u64,
        /// Packets dropped because too many that need no timeslot were waiting.
        Counter Number dropped_unscheduled: u64,
        /// Timeslots used to send packets, or saved up for a packet longer than one.
        Counter Number used: u64,
        /// Timeslots that began when nothing was waiting for their destination.
        Counter Number wasted: u64,
        /// Timeslots that were over before the host could use them; they were requested again.
        Counter Number missed: u64,
        /// Timeslots that could not be kept because they were too far ahead, or already taken; they
        /// were requested again.
        Counter Number unkept: u64,
        /// Timeslots lost on their way; they were requested again.
        Counter Number lost: u64,
        /// The total lateness of the timeslots in which packets were sent.
        Counter Time late_sum_ns: u64,
        /// The greatest lateness.
        Highest Time late_max_ns: u64,
        /// Requests and acknowledgements sent to the arbiter.
        Counter Number said: u64,
        /// Packets accepted from the arbiter.
        Counter Number heard: u64,
        /// Times that an arbiter began a new session.
        Counter Number resets: u64,
        /// Packets that were not from the arbiter, forged, or of an earlier session.
        Counter Number foreign: u64,
        /// Packets that were not valid in the protocol.
        Counter Number malformed: u64,
        /// Reports sent to the arbiter.
        Counter Number reports: u64,
        /// Packets from other endpoints that did not arrive.
        Counter Number lost_packets: u64,
    }
    "  synchronised {synchronised} waiting {waiting}p outstanding {outstanding} ahead {ahead}"
    "  scheduled {scheduled}p pathless {pathless}p unscheduled {unscheduled}p control {control}p {control_bytes} dropped full {dropped_full}p unscheduled {dropped_unscheduled}p"
    "  timeslots used {used} wasted {wasted} missed {missed} unkept {unkept} lost {lost} late mean {late_mean_ns=late_sum_ns/used} max {late_max_ns}"
    "  arbiter said {said}p heard {heard}p resets {resets} foreign {foreign}p malformed {malformed}p"
    "  paths reports {reports}p lost {lost_packets}p"
}
