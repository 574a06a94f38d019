// SPDX-License-Identifier: MIT OR Apache-2.0

//! The figures that ports report.

mod own;
mod reading;
mod stock;
#[cfg(test)]
mod tests;

use anyhow::Result;
use weft_load::record::{Backpressure, Sums};
use weft_mechanisms::wire::options as wire;
use weft_net::qdisc::Handle;

use crate::gates::Lateness;
pub(crate) use reading::{PortReading, QdiscFigures};

/// A source of readings.
pub(crate) trait Ports {
    /// All ports, each time in the same order.
    ///
    /// # Errors
    ///
    /// If the kernel does not answer.
    fn read(&mut self) -> Result<Vec<PortReading>>;
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
            all.for_each(|((all, last), now)| all.accumulate(last, now));
        } else {
            self.all.clone_from(&now);
        }
        self.last = now;
        Ok(self.all.clone())
    }
}

impl PortReading {
    /// Whether it holds packets or did at `last`, keeps its neighbour paused, or has dropped a
    /// packet or sent a message to its neighbour since then.
    pub(crate) fn is_of_interest_after(&self, last: &Self) -> bool {
        let told = |it: Backpressure| (it.pauses_sent, it.resumes_sent, it.bitmaps_sent);
        let (now, last) = (&self.sample, &last.sample);
        let is_pausing = now.backpressure.is_some_and(|it| it.pausing > 0);
        now.backlog_packets > 0
            || last.backlog_packets > 0
            || now.drops != last.drops
            || is_pausing
            || now.backpressure.map(told) != last.backpressure.map(told)
    }

    /// Adds a qdisc's figures: figures of the whole port come from the root, those that only one
    /// kind has come from that kind, at any depth.
    pub(crate) fn add(&mut self, qdisc: &QdiscFigures<'_>) {
        if qdisc.parent == Handle::ROOT {
            self.sent_packets = qdisc.sent_packets;
            self.sent_bytes = qdisc.sent_bytes;
            self.sample.drops = qdisc.drops;
            self.sample.backlog_packets += qdisc.backlog_packets;
            self.sample.backlog_bytes += qdisc.backlog_bytes;
        }
        // A qdisc comes before its children.
        if self.first_band == Some(qdisc.parent) {
            self.sample.first_band_bytes = qdisc.backlog_bytes;
        }
        match qdisc.kind {
            "prio" => self.first_band = Some(Handle(qdisc.handle.0 | 1)),
            wire::KIND => self.add_wire(qdisc.app),
            kind => {
                own::add(self, kind, qdisc.app);
                stock::add(self, kind, qdisc.app);
            }
        }
    }

    fn add_wire(&mut self, app: &[u8]) {
        let Some(stats) = weft_mechanisms::wire::stats::Stats::from_bytes(app) else {
            return;
        };
        let sample = &mut self.sample;
        let (packets, bytes) = (stats.in_flight.into(), stats.in_flight_bytes.into());
        sample.backlog_packets = sample.backlog_packets.saturating_sub(packets);
        sample.backlog_bytes = sample.backlog_bytes.saturating_sub(bytes);
        sample.busy_ns = stats.busy_ns;
        self.is_wire = true;
        self.lateness = Lateness {
            count: stats.late_count,
            sum_ns: stats.late_sum_ns,
            buckets: stats.late_histogram,
        };
    }
}

/// The activity of all ports between two readings.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Packets, and their bytes.
    sent_by_hosts: (u64, u64),
    drops: u64,
    weighed_drops: u64,
    dropped_bytes: u64,
    pub(crate) sums: Sums,
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
    let samples = before.iter().zip(after);
    let samples = samples.map(|(before, after)| (&before.sample, &after.sample));
    let mut totals = Totals {
        sums: Sums::new(samples),
        ..Totals::default()
    };
    for (before, after) in before.iter().zip(after) {
        let since = |count: fn(&PortReading) -> u64| count(after).saturating_sub(count(before));
        let drops = since(|port| port.sample.drops);
        let dropped_bytes = since(|port| port.dropped_bytes);
        totals.drops += drops;
        totals.weighed_drops += since(|port| port.weighed_drops);
        totals.dropped_bytes += dropped_bytes;
        if after.sample.host {
            totals.sent_by_hosts.0 += since(|port| port.sent_packets) + drops;
            totals.sent_by_hosts.1 += since(|port| port.sent_bytes) + dropped_bytes;
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
