// SPDX-License-Identifier: MIT OR Apache-2.0

//! The current activity of ports, for people to watch. Times and rates are the fabric's.

use std::time::Instant;

use anyhow::Result;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use weft_load::record::PortSample;
use weft_load::record::statistic::{self, Column};
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
#[derive(Clone, Debug, serde::Serialize)]
pub struct Moment {
    /// Seconds since then.
    pub seconds: f64,
    /// The same in time of the machine.
    pub machine_seconds: f64,
    /// The ports with their qdiscs, node by node.
    pub ports: Vec<PortNow>,
}

/// A port's activity.
#[derive(Clone, Debug, PartialEq)]
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
    /// Its statistics, in the order of [`columns`]: levels are the current ones, counters have
    /// counted since the last poll. `None` if it has no qdisc that reports one.
    pub statistics: Vec<Option<u64>>,
    /// Packets that it has dropped since its creation.
    pub drops_in_all: u64,
}

/// Calls `each` with the columns, in any order.
fn each_column(mut each: impl FnMut(Column, &dyn Fn(&PortReading) -> Option<u64>)) {
    for it in PortSample::STATISTICS {
        if let Some(column) = it.column {
            each(column, &|port| (it.get)(&port.sample));
        }
    }
    for it in PortReading::STATISTICS {
        if let Some(column) = it.column {
            each(column, &|port| (it.get)(port));
        }
    }
}

/// The statistics of each port.
pub fn columns() -> Vec<Column> {
    let mut columns = Vec::new();
    each_column(|column, _| columns.push(column));
    columns.sort_unstable_by_key(|column| column.place);
    columns
}

impl PortNow {
    fn since(last: &PortReading, now: &PortReading, machine_seconds: f64, dilation: f64) -> Self {
        let mut since = now.clone();
        since.sample.count_from(&last.sample);
        statistic::since(PortReading::STATISTICS, &mut since, last);
        let mut statistics = Vec::new();
        each_column(|column, get| statistics.push((column.place, get(&since))));
        statistics.sort_unstable_by_key(|(place, _)| *place);
        let seconds = machine_seconds / dilation;
        let share = since.sample.busy_ns as f64 / 1e9 / machine_seconds;
        Self {
            node: since.sample.node,
            port: since.sample.port,
            rate: 8.0 * since.sent_bytes as f64 / seconds,
            busy: now.is_wire.then_some(share),
            statistics: statistics.into_iter().map(|(_, value)| value).collect(),
            drops_in_all: now.sample.drops,
        }
    }

    /// The value of a column, by its key.
    pub fn value(&self, key: &str) -> Option<u64> {
        let columns = columns().into_iter().zip(&self.statistics);
        let mut values = columns.filter(|(column, _)| column.key == key);
        values.next().and_then(|(_, value)| *value)
    }

    /// Whether it sends, holds, drops, detours or pauses anything.
    pub fn is_active(&self) -> bool {
        // These alone say nothing of packets that are there.
        const QUIET: [&str; 3] = ["backlog_bytes", "flows", "marks"];
        let columns = columns().into_iter().zip(&self.statistics);
        let mut others = columns.filter(|(column, _)| !QUIET.contains(&column.key));
        self.rate > 0.0 || others.any(|(_, value)| value.is_some_and(|value| value > 0))
    }
}

impl Serialize for PortNow {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("node", &self.node)?;
        map.serialize_entry("port", &self.port)?;
        map.serialize_entry("rate", &self.rate)?;
        map.serialize_entry("busy", &self.busy)?;
        for (column, value) in columns().iter().zip(&self.statistics) {
            map.serialize_entry(column.key, value)?;
        }
        map.serialize_entry("drops_in_all", &self.drops_in_all)?;
        map.end()
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
            let is = |it: &&PortReading| it.is(&port.sample.node, &port.sample.port);
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
            let is = |it: &PortReading| it.is(stats.node, stats.port);
            if !ports.last().is_some_and(is) {
                ports.push(PortReading::named(stats.node, stats.port, false));
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
    fn live_rates_are_in_the_fabrics_time() {
        let reading = |sent_bytes, busy_ns, drops| PortReading {
            sample: PortSample {
                busy_ns,
                drops,
                ..PortSample::default()
            },
            sent_bytes,
            is_wire: true,
            ..PortReading::default()
        };
        // One second of a machine with dilation 1000: 10 Mbit/s are 10 Gbit/s of the fabric.
        let last = reading(1000, 0, 2);
        let now = reading(1_251_000, 500_000_000, 5);
        let port = PortNow::since(&last, &now, 1.0, 1000.0);
        assert_eq!((port.rate, port.busy), (10e9, Some(0.5)));
        assert_eq!((port.value("drops"), port.drops_in_all), (Some(3), 5));
        assert!(port.is_active());
        let idle = PortNow::since(&now, &now, 1.0, 1000.0);
        assert!(!idle.is_active() && idle.rate == 0.0);
        // The qdisc was created again.
        assert_eq!(PortNow::since(&now, &last, 1.0, 1.0).rate, 8000.0);
    }
}
