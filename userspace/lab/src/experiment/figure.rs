// SPDX-License-Identifier: MIT OR Apache-2.0

//! The figures of a run, from its flows, its ports and its summary.

mod port;
mod receiver;
mod senders;

use anyhow::Result;
use weft_load::record::{
    Backpressure, Class, Flow, Hops, PortSample, in_time, measured, together_ns,
};

use super::found::Done;
use super::measure::{At, Measure, Of, Statistic};
use crate::results::Pooled;

/// The figure of several runs' flows together. `None` if it is not a percentile of flows.
pub(super) fn pooled(measure: &Measure, runs: &[&Done<'_>]) -> Option<(Pooled, f64)> {
    let p = measure.statistic?.percentile()?;
    let of = measure.of;
    let value = |flow: &Flow| {
        let ns = || flow.fct_ns.map(|ns| ns as f64);
        match of {
            Of::Slowdown => flow.slowdown,
            Of::Time => Some(ns()? / 1e3),
            Of::Delay => Some((ns()? - ns()? / flow.slowdown?) / 1e3),
            _ => None,
        }
    };
    if !matches!(of, Of::Slowdown | Of::Time | Of::Delay) {
        return None;
    }
    let takes = measure.takes(runs.first()?.topology());
    let flows = runs.iter().map(|done| done.run.flows.as_slice());
    let taken = |flow: &Flow| takes(flow).then(|| value(flow)).flatten();
    Some((Pooled::new(flows, |flow| !flow.warm_up, taken)?, p))
}

/// The figure of one run. `None` if there is nothing to measure.
///
/// # Errors
///
/// If the results have hosts that are not in the topology.
pub(super) fn of_run(measure: &Measure, done: &Done<'_>) -> Result<Option<f64>> {
    let topology = done.topology();
    let takes = measure.takes(topology);
    let flows = || done.run.flows.iter().filter(|flow| takes(flow));
    let statistic = measure.statistic.unwrap_or(Statistic::Mean);
    let per_flow = |count: fn(&Flow) -> Option<u64>| {
        let counts: Option<Vec<u64>> = flows().map(count).collect();
        Statistic::Mean.of(counts?.into_iter().map(|count| count as f64))
    };
    let together = |number: fn(Class) -> Option<u64>| {
        let times = together_ns(&done.run.flows, number);
        statistic.of(times.map(|ns| ns as f64 / 1e3))
    };
    Ok(match measure.of {
        Of::Slowdown => statistic.of(flows().filter_map(|flow| flow.slowdown)),
        Of::Time => {
            let times = flows().filter_map(|flow| flow.fct_ns);
            statistic.of(times.map(|ns| ns as f64 / 1e3))
        }
        Of::Delay => {
            let delays = flows().filter_map(|flow| {
                let ns = flow.fct_ns? as f64;
                Some((ns - ns / flow.slowdown?) / 1e3)
            });
            statistic.of(delays)
        }
        Of::Throughput => {
            let shares = receiver::throughputs(done, flows())?;
            statistic.of(shares.into_iter().map(|share| 100.0 * share))
        }
        Of::RequestTime => together(Class::incast),
        Of::RoundTime => together(Class::round),
        Of::Loss => {
            let loss = done.run.summary.as_ref().and_then(|summary| summary.loss);
            loss.map(|loss| 100.0 * loss)
        }
        Of::LossOfBytes => {
            let loss = done.run.summary.as_ref();
            let loss = loss.and_then(|summary| summary.loss_of_bytes);
            loss.map(|loss| 100.0 * loss)
        }
        Of::Detours => {
            let mss = u64::from(done.framing().mss.get());
            let sent = |flow: &Flow| flow.size.div_ceil(mss) + flow.retransmissions;
            let packets: u64 = done.run.flows.iter().map(sent).sum();
            let summary = done.run.summary.as_ref();
            let detours = summary.and_then(|summary| summary.sums.get("detours"));
            detours.map(|detours| 100.0 * detours as f64 / packets as f64)
        }
        Of::Detoured => {
            let hops = counted(flows());
            hops.and_then(|of| percent(of.detoured, of.packets))
        }
        Of::DetouredShare => {
            let all = counted(measured(&done.run.flows));
            let both = counted(flows()).zip(all);
            both.and_then(|(some, all)| percent(some.detoured, all.detoured))
        }
        Of::Utilization => receiver::utilization(done)?.map(|share| 100.0 * share),
        Of::SwitchOver => statistic.of(receiver::switch_overs(done)?),
        Of::Retransmissions => per_flow(|flow| Some(flow.retransmissions)),
        Of::Spurious => per_flow(|flow| flow.spurious),
        Of::Timeouts => per_flow(|flow| flow.timeouts),
        Of::Deadlines => in_time(flows()).map(|share| 100.0 * share),
        _ => of_ports(measure, done),
    })
}

/// The packets of flows together. `None` if the packets of more than one flow in a thousand were
/// not counted. (They are not counted for a flow whose port another flow uses later.)
fn counted<'a>(flows: impl Iterator<Item = &'a Flow>) -> Option<Hops> {
    const FLOWS: u64 = 1000;
    let (mut all, mut number, mut uncounted) = (Hops::default(), 0_u64, 0_u64);
    for flow in flows {
        number += 1;
        match flow.hops {
            Some(hops) => {
                all.packets += hops.packets;
                all.detoured += hops.detoured;
            }
            None => uncounted += 1,
        }
    }
    (FLOWS * uncounted <= number).then_some(all)
}

/// `None` if the whole is nothing.
fn percent(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| 100.0 * part as f64 / of as f64)
}

/// `None` if there are no samples, or ports have no such figure.
fn of_ports(measure: &Measure, done: &Done<'_>) -> Option<f64> {
    let place = port::Place {
        at: measure.at.as_ref().map(At::names),
        after: measure.after.map(|time| time.0),
        until: measure.until.map(|time| time.0),
    };
    let statistic = measure.statistic.unwrap_or(Statistic::Mean);
    if measure.of == Of::Unevenness {
        let levels = senders::unevenness(done, place);
        return statistic.over_time(levels).map(|share| 100.0 * share);
    }
    let ports = port::Ports::new(done, place)?;
    let kb = |bytes: u64| bytes as f64 / 1e3;
    let busy = || Some(100.0 * ports.count(|it| Some(it.busy_ns as f64))? / ports.time());
    let count =
        |value: fn(&Backpressure) -> u64| ports.count(port::backpressure(|it| value(it) as f64));
    match measure.of {
        Of::Backlog => statistic.over_time(ports.levels(|it| Some(kb(it.backlog_bytes)))?),
        Of::Buffer => {
            let levels = ports.of_nodes(|it| it.backlog_bytes as f64);
            let bytes = statistic.over_time(levels);
            bytes.map(|bytes| bytes / 1e3)
        }
        Of::Queue => {
            let longest = port::backpressure(|it| kb(it.longest));
            statistic.over_time(ports.levels(longest)?)
        }
        Of::Queues => {
            let occupied = port::backpressure(|it| it.occupied.into());
            statistic.over_time(ports.levels(occupied)?)
        }
        Of::Collisions => {
            let share = count(|it| it.collisions)? / count(|it| it.activations)?;
            Some(100.0 * share).filter(|share| share.is_finite())
        }
        Of::Empty => {
            let empty = |it: &PortSample| Some(f64::from(u8::from(it.backlog_packets == 0)));
            let empty = Statistic::Mean.over_time(ports.levels_from(1.0, empty)?);
            empty.map(|share| 100.0 * share)
        }
        Of::Busy => busy(),
        Of::Idle => busy().map(|busy| 100.0 - busy),
        Of::Recovery => ports.sends_again(0.9).map(|ns| ns as f64 / 1e3),
        Of::Pauses => Some(count(|it| it.pauses_sent)? / ports.length() * 1e6),
        Of::Paused => {
            let pauses = count(|it| it.pauses_received)?;
            Some(count(|it| it.paused_ns)? / pauses / 1e3).filter(|time| time.is_finite())
        }
        _ => None,
    }
}
