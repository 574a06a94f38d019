// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! What a `fastpass` qdisc tells of itself.

crate::statistics! {
    /// Statistics of an endpoint.
    Stats {
        /// Whether the arbiter has said who it is: 0 or 1.
        Gauge Number synchronised: u32,
        /// Packets that wait for a timeslot.
        Gauge Number waiting: u32,
        /// Timeslots that the arbiter has not given yet.
        Gauge Number outstanding: u32,
        /// Timeslots given that have not come yet.
        Gauge Number ahead: u32,
        /// Packets sent in timeslots.
        Counter Number scheduled: u64,
        /// Of these, packets that had no tag to carry their path.
        Counter Number pathless: u64,
        /// Packets sent at once: to nobody who is an endpoint.
        Counter Number unscheduled: u64,
        /// Packets of the control protocol, of this endpoint and of an arbiter on this host.
        Counter Number control: u64,
        /// Their bytes.
        Counter Size control_bytes: u64,
        /// Packets dropped as too many waited for their destination.
        Counter Number dropped_full: u64,
        /// Packets dropped as too many waited unscheduled.
        Counter Number dropped_unscheduled: u64,
        /// Timeslots in which packets were sent, or that a packet longer than one saved up.
        Counter Number used: u64,
        /// Timeslots that came when nothing waited for their destination any more.
        Counter Number wasted: u64,
        /// Timeslots over before the host could make use of them: they were asked for again.
        Counter Number missed: u64,
        /// Timeslots that could not be kept, as they were too far ahead, or another one's: asked
        /// for again.
        Counter Number unkept: u64,
        /// Timeslots lost on their way: asked for again.
        Counter Number lost: u64,
        /// How late timeslots began, of those in which something was sent, in all.
        Counter Time late_sum_ns: u64,
        /// The latest.
        Highest Time late_max_ns: u64,
        /// Requests and acknowledgements sent to the arbiter.
        Counter Number said: u64,
        /// Packets of the arbiter that were heeded.
        Counter Number heard: u64,
        /// Times that an arbiter began a new session.
        Counter Number resets: u64,
        /// Packets that were none of the arbiter's, forged, or of a former session.
        Counter Number foreign: u64,
        /// Packets that were none of the protocol.
        Counter Number malformed: u64,
        /// Reports sent to the arbiter.
        Counter Number reports: u64,
        /// Packets of others that did not arrive.
        Counter Number lost_packets: u64,
    }
    "  synchronised {synchronised} waiting {waiting}p outstanding {outstanding} ahead {ahead}"
    "  scheduled {scheduled}p pathless {pathless}p unscheduled {unscheduled}p control {control}p {control_bytes} dropped full {dropped_full}p unscheduled {dropped_unscheduled}p"
    "  timeslots used {used} wasted {wasted} missed {missed} unkept {unkept} lost {lost} late mean {late_mean_ns=late_sum_ns/used} max {late_max_ns}"
    "  arbiter said {said}p heard {heard}p resets {resets} foreign {foreign}p malformed {malformed}p"
    "  paths reports {reports}p lost {lost_packets}p"
}
