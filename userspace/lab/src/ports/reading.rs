// SPDX-License-Identifier: MIT OR Apache-2.0

//! The figures of a port at a time.

use weft_load::port_statistics;
use weft_load::record::PortSample;
use weft_load::record::statistic;
use weft_net::QdiscStats;
use weft_net::qdisc::Handle;

use crate::gates::Lateness;

port_statistics! {
    /// A port at a time; counters start with the port's creation, times are the machine's.
    #[derive(Clone, Debug, Default)]
    pub(crate) struct PortReading {
        /// Its statistics for a sample. The backlog is what is in the queue: neither being sent nor
        /// in flight.
        pub(crate) sample: PortSample,
        /// The class of the first band of a `prio`, if there is one.
        pub(crate) first_band: Option<Handle>,
        /// Whether one of its qdiscs is a wire, which reports its busy time and delays.
        pub(crate) is_wire: bool,
        pub(crate) lateness: Lateness,
    }

    {
        /// Packets that left the queue.
        Counter Packets sent_packets: u64;
        /// Bytes that left the queue.
        Counter Bytes sent_bytes: u64;
        /// Of the dropped packets, those whose bytes are in `dropped_bytes`: only some qdiscs
        /// report them.
        Counter Packets weighed_drops: u64;
        /// Bytes of these.
        Counter Bytes dropped_bytes: u64;
        /// Flows that have packets in the queue: only some qdiscs report them.
        Level Number flows: Option<u64>, top 2 "flows";
    }
}

/// A qdisc's figures from the kernel.
pub(crate) struct QdiscFigures<'a> {
    pub(crate) kind: &'a str,
    pub(crate) handle: Handle,
    pub(crate) parent: Handle,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) backlog_packets: u64,
    pub(crate) backlog_bytes: u64,
    pub(crate) drops: u64,
    /// `TCA_STATS_APP`.
    pub(crate) app: &'a [u8],
}

impl<'a> From<&QdiscStats<'a>> for QdiscFigures<'a> {
    fn from(stats: &QdiscStats<'a>) -> Self {
        Self {
            kind: stats.kind,
            handle: stats.handle,
            parent: stats.parent,
            sent_packets: stats.packets,
            sent_bytes: stats.bytes,
            backlog_packets: stats.backlog_packets.into(),
            backlog_bytes: stats.backlog_bytes.into(),
            drops: stats.drops.into(),
            app: stats.app,
        }
    }
}

impl PortReading {
    /// A port without figures.
    pub(crate) fn named(node: &str, port: &str, host: bool) -> Self {
        Self {
            sample: PortSample {
                node: node.to_owned(),
                port: port.to_owned(),
                host,
                ..PortSample::default()
            },
            ..Self::default()
        }
    }

    /// Whether it is this port.
    pub(crate) fn is(&self, node: &str, port: &str) -> bool {
        self.sample.node == node && self.sample.port == port
    }

    /// Adds to its counters the increase from `last` to `now`, and takes all levels from `now`.
    /// While a port has no qdisc that reports a statistic, its last value stays.
    pub(super) fn accumulate(&mut self, last: &Self, now: &Self) {
        let sample = &mut self.sample;
        statistic::accumulate(PortSample::STATISTICS, sample, &last.sample, &now.sample);
        statistic::accumulate(Self::STATISTICS, self, last, now);
        let (all, last, now) = (&mut self.lateness, &last.lateness, &now.lateness);
        let add = |all: &mut u64, last: u64, now: u64| {
            *all += statistic::increase(last, now);
        };
        add(&mut all.count, last.count, now.count);
        add(&mut all.sum_ns, last.sum_ns, now.sum_ns);
        let buckets = last.buckets.iter().zip(now.buckets);
        for (all, (last, now)) in all.buckets.iter_mut().zip(buckets) {
            add(all, *last, now);
        }
    }
}
