// SPDX-License-Identifier: MIT OR Apache-2.0

//! The figures that ports report.

use anyhow::Result;
use weft_load::record::{Backpressure, Detours};
use weft_mechanisms::bfc;
use weft_mechanisms::dibs;
use weft_mechanisms::pfabric::options as pfabric;
use weft_mechanisms::wire::options as wire;
use weft_net::QdiscStats;
use weft_net::qdisc::Handle;

use crate::gates::Lateness;

/// A source of readings.
pub(crate) trait Ports {
    /// All ports, each time in the same order.
    ///
    /// # Errors
    ///
    /// If the kernel does not answer.
    fn read(&mut self) -> Result<Vec<PortReading>>;
}

/// A port at a time; counters start with the port's creation, times are the machine's.
#[derive(Clone, Debug, Default)]
pub(crate) struct PortReading {
    pub(crate) node: String,
    pub(crate) port: String,
    /// Whether it is a host's port.
    pub(crate) host: bool,
    pub(crate) sent_packets: u64,
    pub(crate) sent_bytes: u64,
    /// In the queue: neither being sent nor in flight.
    pub(crate) backlog_packets: u64,
    pub(crate) backlog_bytes: u64,
    /// Of these, in the first band of a `prio`.
    pub(crate) first_band_bytes: u64,
    /// The class of that band, if there is one.
    pub(crate) first_band: Option<Handle>,
    pub(crate) drops: u64,
    /// Of these, packets whose bytes are in `dropped_bytes`: only some qdiscs report them.
    pub(crate) weighed_drops: u64,
    pub(crate) dropped_bytes: u64,
    pub(crate) evictions: u64,
    pub(crate) marks: u64,
    pub(crate) busy_ns: u64,
    /// Whether one of its qdiscs is a wire, which reports its busy time and delays.
    pub(crate) is_wire: bool,
    pub(crate) lateness: Lateness,
    /// Times are the machine's.
    pub(crate) backpressure: Option<Backpressure>,
    /// From a qdisc that detours packets.
    pub(crate) detours: Option<Detours>,
    /// Flows that have packets in the queue: only some qdiscs report them.
    pub(crate) flows: Option<u64>,
}

/// Readings whose counters continue if a qdisc is created again, and counts from 0.
pub(crate) struct Continued<'a> {
    ports: &'a mut dyn Ports,
    /// The kernel's last readings.
    last: Vec<PortReading>,
    /// The continued readings.
    all: Vec<PortReading>,
}

impl<'a> Continued<'a> {
    pub(crate) fn new(ports: &'a mut dyn Ports) -> Self {
        Self {
            ports,
            last: Vec::new(),
            all: Vec::new(),
        }
    }
}

impl Ports for Continued<'_> {
    fn read(&mut self) -> Result<Vec<PortReading>> {
        let now = self.ports.read()?;
        if self.last.len() == now.len() {
            let all = self.all.iter_mut().zip(&self.last).zip(&now);
            all.for_each(|((all, last), now)| all.go_on(last, now));
        } else {
            self.all.clone_from(&now);
        }
        self.last = now;
        Ok(self.all.clone())
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
    /// Whether it holds packets or did at `last`, keeps its neighbour paused, or has dropped a
    /// packet or sent a message to its neighbour since then.
    pub(crate) fn is_of_interest_after(&self, last: &Self) -> bool {
        let told = |it: Backpressure| (it.pauses_sent, it.resumes_sent, it.bitmaps_sent);
        let is_pausing = self.backpressure.is_some_and(|it| it.pausing > 0);
        self.backlog_packets > 0
            || last.backlog_packets > 0
            || self.drops != last.drops
            || is_pausing
            || self.backpressure.map(told) != last.backpressure.map(told)
    }

    /// Adds to its counters the increase from `last` to `now`, and takes all levels from `now`.
    fn go_on(&mut self, last: &Self, now: &Self) {
        let go_on = |all: u64, last: u64, now: u64| all + now.checked_sub(last).unwrap_or(now);
        macro_rules! go_on {
            ($all:expr, $last:expr, $now:expr, $($counter:ident)*) => {
                $( $all.$counter = go_on($all.$counter, $last.$counter, $now.$counter); )*
            };
        }
        go_on!(self, last, now, sent_packets sent_bytes drops weighed_drops dropped_bytes);
        go_on!(self, last, now, evictions marks busy_ns);
        go_on!(self.lateness, last.lateness, now.lateness, count sum_ns);
        let buckets = last.lateness.buckets.iter().zip(now.lateness.buckets);
        for (all, (last, now)) in self.lateness.buckets.iter_mut().zip(buckets) {
            *all = go_on(*all, *last, now);
        }
        self.backlog_packets = now.backlog_packets;
        self.backlog_bytes = now.backlog_bytes;
        self.first_band_bytes = now.first_band_bytes;
        self.flows = now.flows;
        let before = (self.backpressure.unwrap_or_default(), last.backpressure);
        // While a port has no qdisc that reports this, the last value stays.
        if let Some(now) = now.backpressure {
            let (sum, last) = (before.0, before.1.unwrap_or_default());
            let mut all = now;
            macro_rules! counted {
                ($($counter:ident)*) => {
                    $( all.$counter = go_on(sum.$counter, last.$counter, now.$counter); )*
                };
            }
            counted!(activations collisions pauses_sent resumes_sent bitmaps_sent);
            counted!(paused_ns pauses_received lapsed);
            self.backpressure = Some(all);
        }
        // The same applies here.
        if let Some(now) = now.detours {
            let mut all = self.detours.unwrap_or_default();
            let last = last.detours.unwrap_or_default();
            go_on!(all, last, now, sent received);
            self.detours = Some(all);
        }
    }

    /// Adds a qdisc's figures: figures of the whole port come from the root, those that only one
    /// kind has come from that kind, at any depth.
    pub(crate) fn add(&mut self, qdisc: &QdiscFigures<'_>) {
        if qdisc.parent == Handle::ROOT {
            self.sent_packets = qdisc.sent_packets;
            self.sent_bytes = qdisc.sent_bytes;
            self.drops = qdisc.drops;
            self.backlog_packets += qdisc.backlog_packets;
            self.backlog_bytes += qdisc.backlog_bytes;
        }
        // A qdisc comes before its children.
        if self.first_band == Some(qdisc.parent) {
            self.first_band_bytes = qdisc.backlog_bytes;
        }
        match qdisc.kind {
            "prio" => self.first_band = Some(Handle(qdisc.handle.0 | 1)),
            wire::KIND => {
                let Some(stats) = weft_mechanisms::wire::stats::Stats::from_bytes(qdisc.app) else {
                    return;
                };
                self.is_wire = true;
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
                if let Some(stats) = weft_mechanisms::pfabric::stats::Stats::from_bytes(qdisc.app) {
                    self.evictions = stats.evicted;
                    self.weighed_drops = stats.evicted + stats.rejected;
                    self.dropped_bytes = stats.evicted_bytes + stats.rejected_bytes;
                    self.flows = Some(stats.flows.into());
                }
            }
            bfc::KIND => {
                if let Some(stats) = bfc::stats::Stats::from_bytes(qdisc.app) {
                    self.backpressure = Some(backpressure(&stats));
                }
            }
            dibs::KIND => {
                if let Some(stats) = dibs::stats::Stats::from_bytes(qdisc.app) {
                    self.marks = stats.marked;
                    self.detours = Some(Detours {
                        sent: stats.detoured_limit
                            + stats.detoured_bytes
                            + stats.detoured_share
                            + stats.detoured_early,
                        received: stats.received,
                    });
                }
            }
            // struct tc_codel_xstats: seven fields of the queue's state and limits, the last of
            // which is ecn_mark; then dropping, and ce_mark, which counts marks by another
            // threshold.
            "codel" => {
                self.marks = u64::from(word(qdisc.app, 6)) + u64::from(word(qdisc.app, 8));
            }
            // struct tc_red_xstats: early, pdrop, other, marked. A port of PASE has one for each
            // band.
            "red" => self.marks += u64::from(word(qdisc.app, 3)),
            // struct tc_fq_codel_xstats: type (0: the qdisc's), maxpacket, drop_overlimit,
            // ecn_mark. Then new_flow_count, new_flows_len, old_flows_len.
            "fq_codel" if word(qdisc.app, 0) == 0 => {
                self.marks = word(qdisc.app, 3).into();
                self.flows = Some(u64::from(word(qdisc.app, 5)) + u64::from(word(qdisc.app, 6)));
            }
            // struct tc_fq_qd_stats: eight of 64 bits, then flows, inactive_flows.
            "fq" => {
                let idle = word(qdisc.app, 17);
                self.flows = Some(word(qdisc.app, 16).saturating_sub(idle).into());
            }
            _ => {}
        }
    }
}

fn backpressure(stats: &bfc::stats::Stats) -> Backpressure {
    Backpressure {
        occupied: stats.occupied,
        active: stats.active,
        paused: stats.paused,
        threshold: stats.threshold,
        buffer_bytes: stats.buffer_backlog,
        activations: stats.activations,
        collisions: stats.collisions,
        pausing: stats.pausing,
        pauses_sent: stats.pauses_sent,
        resumes_sent: stats.resumes_sent,
        bitmaps_sent: stats.bitmaps_sent,
        paused_ns: stats.paused_ns,
        longest: stats.longest,
        pauses_received: stats.pauses_received,
        lapsed: stats.lapsed,
    }
}

/// The changes since a reading; times are converted to the fabric's.
pub(crate) fn backpressure_since(
    before: Option<Backpressure>,
    now: Option<Backpressure>,
    dilation: f64,
) -> Option<Backpressure> {
    let (now, before) = (now?, before.unwrap_or_default());
    Some(Backpressure {
        activations: now.activations - before.activations,
        collisions: now.collisions - before.collisions,
        pauses_sent: now.pauses_sent - before.pauses_sent,
        resumes_sent: now.resumes_sent - before.resumes_sent,
        bitmaps_sent: now.bitmaps_sent - before.bitmaps_sent,
        paused_ns: ((now.paused_ns - before.paused_ns) as f64 / dilation).round() as u64,
        pauses_received: now.pauses_received - before.pauses_received,
        lapsed: now.lapsed - before.lapsed,
        ..now
    })
}

/// The changes since a reading.
pub(crate) fn detours_since(before: Option<Detours>, now: Option<Detours>) -> Option<Detours> {
    let (now, before) = (now?, before.unwrap_or_default());
    Some(Detours {
        sent: now.sent - before.sent,
        received: now.received - before.received,
    })
}

/// The `index`th word of 32 bits; 0 if there is none.
fn word(bytes: &[u8], index: usize) -> u32 {
    let word = bytes.chunks_exact(4).nth(index);
    word.and_then(|word| word.try_into().ok())
        .map_or(0, u32::from_ne_bytes)
}

/// The activity of all ports between two readings.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Packets, and their bytes.
    sent_by_hosts: (u64, u64),
    drops: u64,
    weighed_drops: u64,
    dropped_bytes: u64,
    pub(crate) marks: u64,
    /// Packets, counted at each detour; `None` if no port detours.
    pub(crate) detours: Option<u64>,
    pub(crate) lateness: Lateness,
}

impl Totals {
    /// The share of packets that were dropped somewhere; `None` if there were none.
    pub(crate) fn loss(&self) -> Option<f64> {
        let sent = self.sent_by_hosts.0;
        (sent > 0).then(|| self.drops as f64 / sent as f64)
    }

    /// The same for bytes; `None` also if not all ports that dropped packets report their bytes.
    pub(crate) fn loss_of_bytes(&self) -> Option<f64> {
        let sent = self.sent_by_hosts.1;
        let is_known = sent > 0 && self.weighed_drops == self.drops;
        is_known.then(|| self.dropped_bytes as f64 / sent as f64)
    }
}

pub(crate) fn totals(before: &[PortReading], after: &[PortReading]) -> Totals {
    let mut totals = Totals::default();
    for (before, after) in before.iter().zip(after) {
        let since = |count: fn(&PortReading) -> u64| count(after).saturating_sub(count(before));
        totals.drops += since(|port| port.drops);
        totals.weighed_drops += since(|port| port.weighed_drops);
        totals.dropped_bytes += since(|port| port.dropped_bytes);
        totals.marks += since(|port| port.marks);
        if let Some(detours) = detours_since(before.detours, after.detours) {
            *totals.detours.get_or_insert(0) += detours.sent;
        }
        if after.host {
            totals.sent_by_hosts.0 += since(|port| port.sent_packets) + since(|port| port.drops);
            totals.sent_by_hosts.1 +=
                since(|port| port.sent_bytes) + since(|port| port.dropped_bytes);
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

    /// A child qdisc that has only statistics of its kind.
    fn child<'a>(kind: &'a str, app: &'a [u8]) -> QdiscFigures<'a> {
        QdiscFigures {
            kind,
            handle: Handle(0x2_0000),
            parent: Handle(0x1_0001),
            sent_packets: 0,
            sent_bytes: 0,
            backlog_packets: 0,
            backlog_bytes: 0,
            drops: 0,
            app,
        }
    }

    /// A port's reading with such a qdisc.
    fn reading(kind: &str, app: &[u8]) -> PortReading {
        let mut port = PortReading::default();
        port.add(&child(kind, app));
        port
    }

    /// The same as at PASE's ports: a RED queue in each band.
    #[test]
    fn all_bands_marks_are_the_ports() {
        let mut port = PortReading::default();
        for marked in [7_u32, 0, 2] {
            let statistics = [1, 2, 3, marked].map(u32::to_ne_bytes);
            port.add(&child("red", statistics.as_flattened()));
        }
        assert_eq!(port.marks, 9);
    }

    #[test]
    fn what_is_in_flight_is_in_no_queue() {
        let stats = weft_mechanisms::wire::stats::Stats {
            busy_ns: 5,
            in_flight: 3,
            in_flight_bytes: 4500,
            late_count: 1,
            late_sum_ns: 7,
            late_max_ns: 7,
            late_histogram: [0; weft_mechanisms::wire::stats::LATENESS_BUCKETS],
            in_flight_limit: 1_061_076,
            held: 0,
        };
        let app = stats.to_bytes();
        let mut port = PortReading::default();
        port.add(&QdiscFigures {
            kind: "wire",
            handle: Handle(0x1_0000),
            parent: Handle::ROOT,
            sent_packets: 10,
            sent_bytes: 15000,
            backlog_packets: 8,
            backlog_bytes: 12_000,
            drops: 2,
            app: &app,
        });
        assert_eq!((port.backlog_packets, port.backlog_bytes), (5, 7500));
        assert_eq!((port.sent_packets, port.drops, port.busy_ns), (10, 2, 5));
    }

    #[test]
    fn the_first_band_of_a_prio_is_told_apart() {
        let mut port = PortReading::default();
        for (kind, handle, parent, backlog_bytes) in [
            ("htb", 0x1_0000, u32::MAX, 5000),
            ("prio", 0x10_0000, 0x1_0001, 5000),
            ("pfifo", 0x11_0000, 0x10_0001, 300),
            ("pfifo", 0x12_0000, 0x10_0002, 4700),
        ] {
            port.add(&QdiscFigures {
                kind,
                handle: Handle(handle),
                parent: Handle(parent),
                sent_packets: 0,
                sent_bytes: 0,
                backlog_packets: 0,
                backlog_bytes,
                drops: 0,
                app: &[],
            });
        }
        assert_eq!((port.backlog_bytes, port.first_band_bytes), (5000, 300));
    }

    #[test]
    fn backpressure_counts_from_the_beginning_and_says_how_it_is_now() {
        let reading = |stats: bfc::stats::Stats| reading("bfc", &stats.to_bytes()).backpressure;
        let before = bfc::stats::Stats {
            occupied: 9,
            collisions: 5,
            pauses_sent: 100,
            paused_ns: 1_000_000,
            pauses_received: 3,
            ..Default::default()
        };
        let now = bfc::stats::Stats {
            occupied: 3,
            active: 2,
            collisions: 7,
            pauses_sent: 150,
            paused_ns: 4_000_400,
            buffer_backlog: 30_000,
            longest: 9_000,
            pauses_received: 7,
            ..Default::default()
        };
        let since = backpressure_since(reading(before), reading(now), 1000.0);
        let expected = Backpressure {
            occupied: 3,
            active: 2,
            collisions: 2,
            pauses_sent: 50,
            paused_ns: 3_000,
            buffer_bytes: 30_000,
            longest: 9_000,
            pauses_received: 4,
            ..Backpressure::default()
        };
        assert_eq!(since, Some(expected));
        assert_eq!(backpressure_since(None, None, 1000.0), None);
    }

    #[test]
    fn a_port_without_a_queue_is_of_interest_when_it_pauses_its_neighbour() {
        let port = |pausing, pauses_sent, buffer_bytes| PortReading {
            backpressure: Some(Backpressure {
                pausing,
                pauses_sent,
                buffer_bytes,
                ..Backpressure::default()
            }),
            ..PortReading::default()
        };
        let idle = port(0, 7, 0);
        assert!(port(1, 7, 0).is_of_interest_after(&idle));
        assert!(port(0, 8, 0).is_of_interest_after(&idle));
        // The contents of the switch's other ports are reported by those.
        assert!(!port(0, 7, 9_000).is_of_interest_after(&idle));
        assert!(!PortReading::default().is_of_interest_after(&PortReading::default()));
    }

    #[test]
    fn that_a_queue_has_become_empty_is_of_interest_once() {
        let port = |backlog_packets| PortReading {
            backlog_packets,
            ..PortReading::default()
        };
        assert!(port(0).is_of_interest_after(&port(1)));
        assert!(!port(0).is_of_interest_after(&port(0)));
    }

    /// Gives readings one after the other.
    struct Given(Vec<PortReading>);

    impl Ports for Given {
        fn read(&mut self) -> Result<Vec<PortReading>> {
            Ok(vec![self.0.remove(0)])
        }
    }

    #[test]
    fn counters_go_on_where_a_qdisc_is_made_anew() {
        let reading = |count: u64, told: bool| PortReading {
            busy_ns: 10 * count,
            drops: count,
            backlog_packets: count % 2,
            lateness: Lateness {
                count,
                ..Lateness::default()
            },
            backpressure: told.then(|| Backpressure {
                pauses_sent: count,
                longest: count,
                ..Backpressure::default()
            }),
            ..PortReading::default()
        };
        let steps = [(5, true), (8, true), (0, false), (2, true), (3, true)];
        let mut given = Given(steps.map(|(count, told)| reading(count, told)).into());
        let mut ports = Continued::new(&mut given);
        let mut seen = Vec::new();
        for _ in steps {
            let port = ports.read().unwrap().remove(0);
            let told = port.backpressure.unwrap();
            assert_eq!(
                (port.drops, port.lateness.count),
                (port.busy_ns / 10, port.drops)
            );
            seen.push((
                port.drops,
                port.backlog_packets,
                told.pauses_sent,
                told.longest,
            ));
        }
        let expected = [
            (5, 1, 5, 5),
            (8, 0, 8, 8),
            (8, 0, 8, 8),
            (10, 0, 10, 2),
            (11, 1, 11, 3),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn marks_are_read_from_red_codel_and_fq_codel() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let red: Vec<u8> = words(&[1, 2, 3, 44]);
        assert_eq!(reading("red", &red).marks, 44);
        let codel: Vec<u8> = words(&[1500, 2, 3, 4, u32::MAX, 6, 70, 1, 5]);
        assert_eq!(reading("codel", &codel).marks, 75);
        let codel: Vec<u8> = words(&[0, 1500, 6, 55]);
        assert_eq!(reading("fq_codel", &codel).marks, 55);
    }

    #[test]
    fn detours_and_marks_are_read_from_dibs_and_summed_up() {
        let of = |stats: &dibs::stats::Stats| reading("dibs", &stats.to_bytes());
        let before = dibs::stats::Stats {
            detoured_limit: 5,
            received: 2,
            marked: 7,
            ..Default::default()
        };
        let now = dibs::stats::Stats {
            detoured_limit: 15,
            detoured_bytes: 100,
            detoured_share: 1_000,
            detoured_early: 10_000,
            received: 9,
            marked: 27,
            ..Default::default()
        };
        let (before, now) = (of(&before), of(&now));
        let expected = Detours {
            sent: 11_110,
            received: 7,
        };
        assert_eq!(detours_since(before.detours, now.detours), Some(expected));
        let none = reading("dibs", &[]);
        assert_eq!(none.detours, None);
        let all = [before.clone(), before.clone(), none.clone()];
        let all = totals(&all, &[now.clone(), now.clone(), none.clone()]);
        assert_eq!((all.marks, all.detours), (40, Some(22_220)));
        assert_eq!(
            totals(std::slice::from_ref(&none), std::slice::from_ref(&none)).detours,
            None
        );
        // The qdisc was created again: it counts from 0.
        let mut given = Given(vec![now.clone(), before, now]);
        let mut ports = Continued::new(&mut given);
        let mut last = || ports.read().unwrap().remove(0).detours.unwrap();
        assert_eq!(
            (last().received, last().received, last().received),
            (9, 11, 18)
        );
    }

    #[test]
    fn loss_is_of_what_hosts_sent_and_of_bytes_where_all_drops_are_weighed() {
        let port = |host, sent: u64, drops, weighed_drops| PortReading {
            host,
            sent_packets: sent,
            sent_bytes: 1000 * sent,
            drops,
            weighed_drops,
            dropped_bytes: 100 * weighed_drops,
            ..PortReading::default()
        };
        let before = vec![port(true, 5, 1, 1), port(false, 50, 2, 2)];
        let after = vec![port(true, 13, 3, 3), port(false, 60, 5, 5)];
        let known = totals(&before, &after);
        assert_eq!(known.loss(), Some(0.5));
        assert_eq!(known.loss_of_bytes(), Some(500.0 / 8200.0));
        let after = vec![port(true, 13, 3, 3), port(false, 60, 5, 4)];
        let unknown = totals(&before, &after);
        assert_eq!(unknown.loss(), Some(0.5));
        assert_eq!(unknown.loss_of_bytes(), None);
        assert_eq!(totals(&before, &before).loss(), None);
    }
}
