// SPDX-License-Identifier: MIT OR Apache-2.0

//! The utilization of one receiver's link, and the delay of its switch from flow to flow.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use weft_load::framing::Framing;
use weft_load::record::Flow;
use weft_load::statistics::goodput;

use super::subject::Subject;

/// A receiver's link.
struct Receiver {
    /// bit/s.
    rate: f64,
    framing: Framing,
}

impl Receiver {
    fn of(subject: &Subject<'_>, host: u32) -> Result<Self> {
        let rate = subject.rate(host);
        Ok(Self {
            rate: rate.context("a flow to a host that is not there")? as f64,
            framing: subject.framing,
        })
    }

    /// The time, in ns, that these bytes on the wire take on the link.
    fn busy_ns(&self, wire_bytes: u64) -> f64 {
        8e9 * wire_bytes as f64 / self.rate
    }

    /// The time of a full packet, in ns.
    fn packet_ns(&self) -> f64 {
        self.busy_ns(self.framing.wire_bytes(self.framing.mss.get()))
    }

    /// The best possible rate of payload, in bit/s.
    fn goodput(&self) -> f64 {
        8e9 * f64::from(self.framing.mss.get()) / self.packet_ns()
    }
}

/// A flow, and its end, in ns since the run began.
type Ended<'a> = (&'a Flow, u64);

/// The flows to the host that receives the most bytes, with their ends, and its link. Flows that
/// are not measured are included if they ended. `None` if there are no flows, or a measured one did
/// not end.
fn busiest<'a>(subject: &Subject<'a>) -> Result<Option<(Receiver, Vec<Ended<'a>>)>> {
    let counts = |flow: &&Flow| !flow.warm_up || flow.fct_ns.is_some();
    let flows = || subject.run.flows.iter().filter(counts);
    let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
    for flow in flows() {
        *bytes.entry(flow.dst).or_default() += flow.size;
    }
    let Some((&host, _)) = bytes.iter().max_by_key(|(_, bytes)| **bytes) else {
        return Ok(None);
    };
    let link = Receiver::of(subject, host)?;
    let flows: Option<Vec<_>> = flows()
        .filter(|flow| flow.dst == host)
        .map(|flow| Some((flow, flow.start_ns + flow.fct_ns?)))
        .collect();
    Ok(flows.map(|flows| (link, flows)))
}

/// The share of the best goodput, 0 to 1. `None` as for [`busiest`].
pub(super) fn utilization(subject: &Subject<'_>) -> Result<Option<f64>> {
    let Some((link, flows)) = busiest(subject)? else {
        return Ok(None);
    };
    let begin = flows.iter().map(|(flow, _)| flow.start_ns).min();
    let end = flows.iter().map(|(_, end)| *end).max();
    let time = begin.zip(end).map_or(0, |(begin, end)| end - begin);
    let bytes = flows.iter().map(|(flow, _)| flow.size).sum();
    Ok(goodput(bytes, time).map(|goodput| goodput / link.goodput()))
}

/// Each flow's bytes per time, as a share of the best goodput of the receiver's link.
pub(super) fn throughputs<'a>(
    subject: &Subject<'_>,
    flows: impl Iterator<Item = &'a Flow>,
) -> Result<Vec<f64>> {
    let mut shares = Vec::new();
    for flow in flows {
        let link = Receiver::of(subject, flow.dst)?;
        let came = match flow.fct_ns {
            Some(ns) => Some((flow.size, ns)),
            None => flow.partial.map(|partial| (partial.bytes, partial.ns)),
        };
        let goodput = came.and_then(|(bytes, ns)| goodput(bytes, ns));
        shares.extend(goodput.map(|goodput| goodput / link.goodput()));
    }
    Ok(shares)
}

/// The delays, in packet times, from each flow that ended to the next; see `switch-over`. If the
/// next flow began only after that end, the pair is not a switch-over.
pub(super) fn switch_overs(subject: &Subject<'_>) -> Result<Vec<f64>> {
    let Some((link, mut flows)) = busiest(subject)? else {
        return Ok(Vec::new());
    };
    flows.sort_by_key(|(_, end)| *end);
    let pairs = flows.windows(2).filter_map(|pair| match pair {
        [(_, before), (flow, end)] if flow.start_ns < *before => Some((before, flow, end)),
        _ => None,
    });
    let over = pairs.map(|(before, flow, end)| {
        let own = link.busy_ns(link.framing.flow_wire_bytes(flow.size));
        ((end - before) as f64 - own) / link.packet_ns()
    });
    Ok(over.collect())
}
