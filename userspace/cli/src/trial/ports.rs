// SPDX-License-Identifier: MIT OR Apache-2.0

//! What ports say of themselves.

use anyhow::Result;
use weft_proto::{pfabric, wire};

use super::gates::Lateness;

/// Where the readings come from.
pub(crate) trait Ports {
    /// All ports, each time in the same order.
    ///
    /// # Errors
    ///
    /// If the kernel does not answer.
    fn read(&mut self) -> Result<Vec<PortReading>>;
}

/// A port at a time; counters count from the port's beginning, times are the machine's.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortReading {
    pub(crate) node: String,
    pub(crate) port: String,
    /// Whether it is a host's.
    pub(crate) host: bool,
    pub(crate) sent_packets: u64,
    /// In the queue: neither being sent nor in flight.
    pub(crate) backlog_packets: u64,
    pub(crate) backlog_bytes: u64,
    pub(crate) drops: u64,
    pub(crate) evictions: u64,
    pub(crate) marks: u64,
    pub(crate) busy_ns: u64,
    pub(crate) lateness: Lateness,
}

/// A qdisc's figures, as the kernel gives them.
pub(crate) struct QdiscFigures<'a> {
    pub(crate) kind: &'a str,
    pub(crate) root: bool,
    pub(crate) sent_packets: u64,
    pub(crate) backlog_packets: u64,
    pub(crate) backlog_bytes: u64,
    pub(crate) drops: u64,
    /// `TCA_STATS_APP`.
    pub(crate) app: &'a [u8],
}

impl PortReading {
    /// Takes a qdisc's figures: what is of all of the port from the root, what only one kind has
    /// from that one, wherever it is.
    pub(crate) fn add(&mut self, qdisc: &QdiscFigures<'_>) {
        if qdisc.root {
            self.sent_packets = qdisc.sent_packets;
            self.drops = qdisc.drops;
            self.backlog_packets += qdisc.backlog_packets;
            self.backlog_bytes += qdisc.backlog_bytes;
        }
        match qdisc.kind {
            wire::KIND => {
                let Some(stats) = wire::Stats::from_bytes(qdisc.app) else {
                    return;
                };
                self.busy_ns = stats.busy_ns;
                self.backlog_packets = self
                    .backlog_packets
                    .saturating_sub(u64::from(stats.in_flight));
                self.backlog_bytes = self
                    .backlog_bytes
                    .saturating_sub(u64::from(stats.in_flight_bytes));
                self.lateness = Lateness {
                    count: stats.late_count,
                    sum_ns: stats.late_sum_ns,
                    buckets: stats.late_histogram,
                };
            }
            pfabric::KIND => {
                if let Some(stats) = pfabric::Stats::from_bytes(qdisc.app) {
                    self.evictions = stats.evicted;
                }
            }
            // struct tc_red_xstats: early, pdrop, other, marked.
            "red" => self.marks = word(qdisc.app, 3).into(),
            // struct tc_fq_codel_xstats: type (0: the qdisc's), maxpacket, drop_overlimit, ecn_mark.
            "fq_codel" if word(qdisc.app, 0) == 0 => self.marks = word(qdisc.app, 3).into(),
            _ => {}
        }
    }
}

/// The `index`th word of 32 bits; 0 if there is none.
fn word(bytes: &[u8], index: usize) -> u32 {
    let word = bytes.chunks_exact(4).nth(index);
    word.and_then(|word| word.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

/// What all ports did between two readings.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) sent_by_hosts: u64,
    pub(crate) drops: u64,
    pub(crate) lateness: Lateness,
}

pub(crate) fn totals(before: &[PortReading], after: &[PortReading]) -> Totals {
    let mut totals = Totals::default();
    for (before, after) in before.iter().zip(after) {
        let since = |count: fn(&PortReading) -> u64| count(after).saturating_sub(count(before));
        totals.drops += since(|port| port.drops);
        if after.host {
            totals.sent_by_hosts += since(|port| port.sent_packets) + since(|port| port.drops);
        }
        totals.lateness.count += since(|port| port.lateness.count);
        totals.lateness.sum_ns += since(|port| port.lateness.sum_ns);
        let buckets = before.lateness.buckets.iter().zip(&after.lateness.buckets);
        for (total, (before, after)) in totals.lateness.buckets.iter_mut().zip(buckets) {
            *total += after.saturating_sub(*before);
        }
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_flight_is_in_no_queue() {
        let stats = wire::Stats {
            busy_ns: 5,
            in_flight: 3,
            in_flight_bytes: 4500,
            late_count: 1,
            late_sum_ns: 7,
            late_max_ns: 7,
            late_histogram: [0; wire::LATENESS_BUCKETS],
        };
        let app = stats.to_bytes();
        let mut port = PortReading::default();
        port.add(&QdiscFigures {
            kind: "wire",
            root: true,
            sent_packets: 10,
            backlog_packets: 8,
            backlog_bytes: 12_000,
            drops: 2,
            app: &app,
        });
        assert_eq!((port.backlog_packets, port.backlog_bytes), (5, 7500));
        assert_eq!((port.sent_packets, port.drops, port.busy_ns), (10, 2, 5));
    }

    #[test]
    fn marks_are_read_from_red_and_fq_codel() {
        let words = |words: [u32; 4]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let qdisc = |kind, app| QdiscFigures {
            kind,
            root: false,
            sent_packets: 0,
            backlog_packets: 0,
            backlog_bytes: 0,
            drops: 0,
            app,
        };
        let red: Vec<u8> = words([1, 2, 3, 44]);
        let mut port = PortReading::default();
        port.add(&qdisc("red", &red));
        assert_eq!(port.marks, 44);
        let codel: Vec<u8> = words([0, 1500, 6, 55]);
        let mut port = PortReading::default();
        port.add(&qdisc("fq_codel", &codel));
        assert_eq!(port.marks, 55);
    }
}
