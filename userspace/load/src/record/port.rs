// SPDX-License-Identifier: MIT OR Apache-2.0

//! Samples of ports. A statistic is one row of the table below: it is then in samples, in files of
//! results, in `weft top`, in the summary and in comparisons, and a measure of experiments.

use serde::{Deserialize, Serialize};

use super::statistic;

fn is_zero(number: &u64) -> bool {
    *number == 0
}

crate::port_statistics! {
    /// A port at a time. Counters count from the run's beginning.
    ///
    /// A port is sampled while packets wait in it and once more when none do, when it dropped a
    /// packet or sent its neighbour a message, and, if it sent any packet, at the end. Between two
    /// samples its queue is as at the former; before the first one it is empty. With
    /// `--sample-all` it is sampled each time.
    #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
    pub struct PortSample {
        /// ns since the run began.
        pub time_ns: u64,
        /// The node, for example `edge0`.
        pub node: String,
        /// The port's name, by what it leads to.
        pub port: String,
        /// Whether the node is a host, and no switch.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        pub host: bool,
    }

    {
        /// Packets in the queue.
        Level Packets backlog_packets: u64, top 0 "backlog_packets" "packets";
        /// Bytes in the queue.
        Level Bytes backlog_bytes: u64, top 1 "backlog_bytes" "kB";
        /// Of these, bytes in the first band, where the queue is a `prio`.
        #[serde(default, skip_serializing_if = "is_zero")]
        Level Bytes first_band_bytes: u64;
        /// Packets dropped, evictions among them.
        Counter Packets drops: u64, top 3 "drops";
        /// Packets dropped from the queue for a more urgent one.
        #[serde(default)]
        Counter Packets evictions: u64;
        /// Packets marked with congestion.
        #[serde(default)]
        Counter Packets marks: u64, top 4 "marks", sum "marks" "marked";
        /// ns for which the wire was serializing.
        Counter Time busy_ns: u64;
    }

    /// Of a port with per-hop flow control.
    backpressure:
    /// A port with per-hop flow control: its queues, and its messages to its neighbour. Counters
    /// count from the run's beginning.
    Backpressure {
        /// Queues that have packets.
        Level Number occupied: u32;
        /// Of these, queues that are not paused.
        Level Number active: u32;
        /// Queues that are paused, empty ones among them.
        Level Number paused: u32, top 6 "paused";
        /// Pause threshold in bytes.
        Level Bytes threshold: u64;
        /// Bytes in all ports of the switch.
        Level Bytes buffer_bytes: u64;
        /// Times a flow became active.
        Counter Number activations: u64;
        /// Of these, times its queue had packets of another flow.
        Counter Number collisions: u64;
        /// Queues of the neighbour that the port keeps paused.
        Level Number pausing: u32, top 5 "pausing";
        /// Pauses sent.
        Counter Number pauses_sent: u64;
        /// Resumes sent.
        Counter Number resumes_sent: u64;
        /// Bitmaps sent.
        Counter Number bitmaps_sent: u64;
        /// ns for which queues were paused, summed over all; pauses that have ended.
        Counter Time paused_ns: u64;
        /// Bytes in the longest queue.
        #[serde(default)]
        Level Bytes longest: u64;
        /// Pauses received and obeyed.
        #[serde(default)]
        Counter Number pauses_received: u64;
        /// Pauses that lapsed, because the neighbour was silent.
        #[serde(default)]
        Counter Number lapsed: u64;
    }

    /// Of a port that detours packets.
    detours:
    /// Packets that left by a port other than their own, since the run's beginning.
    Detours {
        /// Packets of this port that left by another one.
        Counter Packets sent: u64, top 7 "detoured", sum "detours" "detoured";
        /// Packets of other ports that came to this one.
        Counter Packets received: u64, top 8 "received";
    }
}

impl PortSample {
    /// Its counters become their increase since an earlier sample; from one whose qdiscs are made
    /// anew since then, they count from 0.
    pub fn count_from(&mut self, last: &Self) {
        statistic::since(Self::STATISTICS, self, last);
    }

    /// Divides its statistics that are times.
    pub fn divide_times(&mut self, by: f64) {
        statistic::divide_times(Self::STATISTICS, self, by);
    }
}
