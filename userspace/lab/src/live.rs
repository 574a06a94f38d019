// SPDX-License-Identifier: MIT OR Apache-2.0

//! The current activity of ports, for people to watch. Times and rates are the fabric's.

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;
use weft_load::record::Detours;
use weft_net::{StatsReader, Testbed};

use crate::ports::PortReading;
use crate::testbed;

/// A testbed's ports, polled repeatedly.
pub struct Live {
    reader: StatsReader,
    dilation: f64,
    last: Vec<PortReading>,
    at: Instant,
}

/// The activity of all ports since the last poll.
#[derive(Clone, Debug, Serialize)]
pub struct Moment {
    /// Seconds since then.
    pub seconds: f64,
    /// The same in time of the machine.
    pub machine_seconds: f64,
    /// The ports with their qdiscs, node by node.
    pub ports: Vec<PortNow>,
}

/// A port's activity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PortNow {
    /// Its node.
    pub node: String,
    /// Its name there.
    pub port: String,
    /// The rate at which it sent, in bit/s, in bytes as its root qdisc counts them: with Ethernet's
    /// header, but without preamble, checksum and gap.
    pub rate: f64,
    /// The share of time for which its wire was busy; `None` if no qdisc of it reports that.
    pub busy: Option<f64>,
    /// Packets in its queue now.
    pub backlog_packets: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Flows that have packets in its queue now; `None` if its qdisc does not report them.
    pub flows: Option<u64>,
    /// Packets that it dropped in that time.
    pub drops: u64,
    /// Packets that it marked in that time.
    pub marks: u64,
    /// Queues of its neighbour that it keeps paused now; `None` if it has no qdisc that pauses.
    pub pausing: Option<u32>,
    /// Its own queues that are paused now.
    pub paused: Option<u32>,
    /// Packets of its own that left by another port in that time; `None` if it has no qdisc that
    /// detours.
    pub detoured: Option<u64>,
    /// Packets of other ports that it received.
    pub received: Option<u64>,
    /// Packets that it has dropped since its creation.
    pub drops_in_all: u64,
}

impl PortNow {
    fn since(last: &PortReading, now: &PortReading, machine_seconds: f64, dilation: f64) -> Self {
        // A qdisc that was created again counts from 0.
        let since = |last: u64, now: u64| now.checked_sub(last).unwrap_or(now);
        let detours = |of: fn(&Detours) -> u64| {
            let last = last.detours.as_ref().map_or(0, of);
            now.detours.as_ref().map(|now| since(last, of(now)))
        };
        let seconds = machine_seconds / dilation;
        let share = since(last.busy_ns, now.busy_ns) as f64 / 1e9 / machine_seconds;
        Self {
            node: now.node.clone(),
            port: now.port.clone(),
            rate: 8.0 * since(last.sent_bytes, now.sent_bytes) as f64 / seconds,
            busy: now.is_wire.then_some(share),
            backlog_packets: now.backlog_packets,
            backlog_bytes: now.backlog_bytes,
            flows: now.flows,
            drops: since(last.drops, now.drops),
            marks: since(last.marks, now.marks),
            pausing: now.backpressure.map(|it| it.pausing),
            paused: now.backpressure.map(|it| it.paused),
            detoured: detours(|it| it.sent),
            received: detours(|it| it.received),
            drops_in_all: now.drops,
        }
    }

    /// Whether it sends, holds, drops, detours or pauses anything.
    pub fn is_active(&self) -> bool {
        let pauses = self.pausing.unwrap_or(0) + self.paused.unwrap_or(0);
        let detours = self.detoured.unwrap_or(0) + self.received.unwrap_or(0);
        self.rate > 0.0 || self.backlog_packets > 0 || self.drops > 0 || pauses > 0 || detours > 0
    }
}

impl Live {
    /// # Errors
    ///
    /// If a namespace no longer exists, or privileges are missing.
    pub fn new(testbed: &Testbed) -> Result<Self> {
        let notes = testbed.record().map(|record| &record.notes);
        let dilation = notes.and_then(|notes| notes.get("dilation")?.parse().ok());
        let mut live = Self {
            reader: testbed.stats().map_err(testbed::explain)?,
            dilation: dilation.unwrap_or(1.0),
            last: Vec::new(),
            at: Instant::now(),
        };
        live.last = live.read()?;
        Ok(live)
    }

    /// The fabric's dilation.
    pub fn dilation(&self) -> f64 {
        self.dilation
    }

    /// The activity since the last call.
    ///
    /// # Errors
    ///
    /// If the kernel does not answer.
    pub fn look(&mut self) -> Result<Moment> {
        let now = self.read()?;
        // 1 ns at least, so that rates are finite.
        let machine_seconds = self.at.elapsed().as_secs_f64().max(1e-9);
        self.at = Instant::now();
        let blank = PortReading::default();
        let ports = now.iter().map(|port| {
            let is = |it: &&PortReading| it.node == port.node && it.port == port.port;
            let last = self.last.iter().find(is).unwrap_or(&blank);
            PortNow::since(last, port, machine_seconds, self.dilation)
        });
        let ports = ports.collect();
        self.last = now;
        Ok(Moment {
            seconds: machine_seconds / self.dilation,
            machine_seconds,
            ports,
        })
    }

    fn read(&mut self) -> Result<Vec<PortReading>> {
        let mut ports: Vec<PortReading> = Vec::new();
        let read = self.reader.read(|stats| {
            // The qdiscs of a port are adjacent.
            let is = |it: &PortReading| it.node == stats.node && it.port == stats.port;
            if !ports.last().is_some_and(is) {
                ports.push(PortReading {
                    node: stats.node.to_owned(),
                    port: stats.port.to_owned(),
                    ..PortReading::default()
                });
            }
            if let Some(port) = ports.last_mut() {
                port.add(&stats.into());
            }
        });
        read.map_err(testbed::explain)?;
        Ok(ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_the_fabrics() {
        let reading = |sent_bytes, busy_ns, drops| PortReading {
            sent_bytes,
            busy_ns,
            drops,
            is_wire: true,
            ..PortReading::default()
        };
        // One second of a machine with dilation 1000: 10 Mbit/s are 10 Gbit/s of the fabric.
        let last = reading(1000, 0, 2);
        let now = reading(1_251_000, 500_000_000, 5);
        let port = PortNow::since(&last, &now, 1.0, 1000.0);
        assert_eq!((port.rate, port.busy), (10e9, Some(0.5)));
        assert_eq!((port.drops, port.drops_in_all), (3, 5));
        assert!(port.is_active());
        let idle = PortNow::since(&now, &now, 1.0, 1000.0);
        assert!(!idle.is_active() && idle.rate == 0.0);
        // The qdisc was created again.
        assert_eq!(PortNow::since(&now, &last, 1.0, 1.0).rate, 8000.0);
    }
}
