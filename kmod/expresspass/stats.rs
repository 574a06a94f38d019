// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The statistics of an `expresspass` qdisc.

crate::statistics! {
    /// Statistics of a host's device.
    Stats {
        /// Frames that wait for credits or have one, and packets that need none.
        Gauge Number waiting: u32,
        /// Active flows from this host.
        Gauge Number sending: u32,
        /// Flows that this host sends credits to.
        Gauge Number receiving: u32,
        /// Credits that wait for the host's credit limit.
        Gauge Number queued: u32,
        /// Credits for which a frame waited.
        Counter Number used: u64,
        /// Credits for which no frame waited.
        Counter Number wasted: u64,
        /// Credits of unknown flows.
        Counter Number unknown: u64,
        /// Frames that left without the number of their credit.
        Counter Number unnumbered: u64,
        /// Requests sent.
        Counter Number requests: u64,
        /// Requests sent because no credit had arrived.
        Counter Number repeated: u64,
        /// Stops sent.
        Counter Number stops: u64,
        /// Credits sent.
        Counter Number sent: u64,
        /// Credits dropped by the host's credit limit.
        Counter Number dropped: u64,
        /// Frames that echoed a credit.
        Counter Number echoed: u64,
        /// Credits that no frame echoed.
        Counter Number lost: u64,
        /// Requests received that began a flow.
        Counter Number begun: u64,
        /// Requests received for which there was no room.
        Counter Number refused: u64,
        /// Flows that ended without a stop.
        Counter Number abandoned: u64,
        /// Packets dropped because too many waited.
        Counter Number dropped_full: u64,
        /// Packets dropped because there were too many flows.
        Counter Number dropped_flowless: u64,
        /// Messages dropped because too many were waiting.
        Counter Number dropped_control: u64,
        /// Messages from hosts other than the flow's.
        Counter Number foreign: u64,
        /// Messages refused by this host.
        Counter Number malformed: u64,
    }
    "  flows sending {sending} receiving {receiving} waiting {waiting}p"
    "  requests {requests} repeated {repeated} stops {stops} begun {begun} refused {refused} abandoned {abandoned}"
    "  credits received used {used} wasted {wasted} unknown {unknown} unnumbered {unnumbered}"
    "  credits sent {sent} queued {queued} dropped {dropped} echoed {echoed} lost {lost}"
    "  dropped full {dropped_full}p flowless {dropped_flowless}p control {dropped_control}p foreign {foreign} malformed {malformed}"
}
