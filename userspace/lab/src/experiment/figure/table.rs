// SPDX-License-Identifier: MIT OR Apache-2.0

//! The measures that an experiment may name, an entry each.

use anyhow::Result;
use weft_load::record::{
    Backpressure, Class, Flow, Hops, PortSample, Summary, group_completion_times_ns, in_time,
    measured,
};

use super::growth::growth;
use super::port::{Place, Ports, backpressure};
use super::subject::Subject;
use super::{receiver, senders};
use crate::experiment::statistic::Statistic;

/// A measure.
#[derive(Debug)]
pub(crate) struct Figure {
    /// Its name in `of = "…"`.
    pub(super) name: &'static str,
    /// Empty for a number.
    pub(super) unit: &'static str,
    pub(super) takes: Takes,
    how: How,
}

/// The options that a measure takes.
#[derive(Clone, Copy, Debug)]
pub(in crate::experiment) struct Takes {
    /// A statistic, which it also needs: it has many values.
    pub(in crate::experiment) statistic: bool,
    /// Whether that may be Jain's index: its values are flows' shares.
    pub(in crate::experiment) jain: bool,
    /// Sizes, classes and hosts of flows.
    pub(in crate::experiment) flows: bool,
    /// Ports and times.
    pub(in crate::experiment) ports: Where,
}

/// The ports that a measure may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiment) enum Where {
    /// Neither ports nor times.
    Nowhere,
    /// One port, or all of switches; and times.
    Anywhere,
    /// It needs one port, and the time from which on.
    OnePort,
    /// Times only: it is of all hosts.
    AllHosts,
}

/// How a measure is computed.
#[derive(Debug)]
enum How {
    /// The statistic of a value of flows. Its percentiles are of all seeds' flows together.
    Flows(fn(&Flow) -> Option<f64>),
    /// From the whole run.
    Run(fn(&Asked<'_>) -> Option<f64>),
    /// From hosts' links, which the topology may lack.
    Links(fn(&Asked<'_>) -> Result<Option<f64>>),
    /// From samples of ports.
    Ports(fn(&Asked<'_>, &Ports<'_>) -> Option<f64>),
    /// From the share of time in which wires send, in %.
    Busy(fn(f64) -> f64),
}

/// The options of a measure, and the run.
pub(in crate::experiment) struct Asked<'a> {
    pub(in crate::experiment) subject: &'a Subject<'a>,
    /// The mean by default.
    pub(in crate::experiment) statistic: Statistic,
    /// Whether a flow is included.
    pub(in crate::experiment) takes: &'a dyn Fn(&Flow) -> bool,
    pub(in crate::experiment) place: Place<'a>,
}

const NOTHING: Takes = Takes {
    statistic: false,
    jain: false,
    flows: false,
    ports: Where::Nowhere,
};
const STATISTIC: Takes = Takes {
    statistic: true,
    ..NOTHING
};
const FLOWS: Takes = Takes {
    flows: true,
    ..NOTHING
};
pub(super) const PORTS: Takes = Takes {
    ports: Where::Anywhere,
    ..NOTHING
};
/// With a statistic over time.
pub(super) const LEVEL: Takes = Takes {
    statistic: true,
    ..PORTS
};

impl Figure {
    const fn new(name: &'static str, unit: &'static str, takes: Takes, how: How) -> Self {
        Self {
            name,
            unit,
            takes,
            how,
        }
    }

    /// Of each flow.
    const fn flows(name: &'static str, unit: &'static str, of: fn(&Flow) -> Option<f64>) -> Self {
        let takes = Takes {
            statistic: true,
            ..FLOWS
        };
        Self::new(name, unit, takes, How::Flows(of))
    }

    const fn run(
        name: &'static str,
        unit: &'static str,
        takes: Takes,
        of: fn(&Asked<'_>) -> Option<f64>,
    ) -> Self {
        Self::new(name, unit, takes, How::Run(of))
    }

    const fn links(
        name: &'static str,
        unit: &'static str,
        takes: Takes,
        of: fn(&Asked<'_>) -> Result<Option<f64>>,
    ) -> Self {
        Self::new(name, unit, takes, How::Links(of))
    }

    const fn ports(
        name: &'static str,
        unit: &'static str,
        takes: Takes,
        of: fn(&Asked<'_>, &Ports<'_>) -> Option<f64>,
    ) -> Self {
        Self::new(name, unit, takes, How::Ports(of))
    }

    /// The value of a run. `None` if there is nothing to measure.
    ///
    /// # Errors
    ///
    /// If the results have hosts that are not in the topology, or too few samples for the figure.
    pub(super) fn value(&self, asked: &Asked<'_>) -> Result<Option<f64>> {
        Ok(match self.how {
            How::Flows(of) => asked.statistic.of(asked.flows().filter_map(of)),
            How::Run(of) => of(asked),
            How::Links(of) => of(asked)?,
            How::Ports(of) => {
                let ports = Ports::new(asked.subject, asked.place);
                ports.and_then(|ports| of(asked, &ports))
            }
            How::Busy(of) => match Ports::new(asked.subject, asked.place) {
                Some(ports) => Some(of(ports.busy()?)),
                None => None,
            },
        })
    }

    /// The value of a flow, if its percentiles are of all seeds' flows together.
    pub(super) fn of_flow(&self) -> Option<fn(&Flow) -> Option<f64>> {
        match self.how {
            How::Flows(of) => Some(of),
            _ => None,
        }
    }
}

/// All measures, in the order in which they are listed.
pub(super) static FIGURES: &[Figure] = &[
    // Flows' times, divided by the best possible.
    Figure::flows("slowdown", "", |flow| flow.slowdown),
    Figure::flows("time", "µs", |flow| Some(flow.fct_ns? as f64 / 1e3)),
    // Flows' times minus the best possible: for a flow of one packet, its wait in queues.
    Figure::flows("delay", "µs", |flow| {
        let ns = flow.fct_ns? as f64;
        Some((ns - ns / flow.slowdown?) / 1e3)
    }),
    // Flows' bytes over their times, as a share of the best goodput of the receiver's link. For a
    // flow that did not end, the bytes that had arrived at the end of the run.
    Figure::links(
        "throughput",
        "%",
        Takes {
            jain: true,
            flows: true,
            ..STATISTIC
        },
        |asked| {
            let shares = receiver::throughputs(asked.subject, asked.flows())?;
            Ok(asked
                .statistic
                .of(shares.into_iter().map(|share| 100.0 * share)))
        },
    ),
    // Incasts' times from the first byte of any flow to the last of all.
    Figure::run("request-time", "µs", STATISTIC, |asked| {
        asked.together(Class::incast)
    }),
    // The same of a collective's rounds, or of the writing of a block.
    Figure::run("round-time", "µs", STATISTIC, |asked| {
        asked.together(Class::round)
    }),
    // The share of packets that were dropped somewhere.
    Figure::run("loss", "%", NOTHING, |asked| {
        Some(100.0 * asked.summary()?.loss?)
    }),
    // The same for bytes; only if all qdiscs that dropped packets report their bytes.
    Figure::run("loss-of-bytes", "%", NOTHING, |asked| {
        Some(100.0 * asked.summary()?.loss_of_bytes?)
    }),
    // The number of detours that ports made, as a share of the data packets that flows sent: at
    // least the share of detoured packets, including acknowledgements.
    Figure::run("detours", "%", NOTHING, |asked| {
        let mss = u64::from(asked.subject.framing.mss.get());
        let sent = |flow: &Flow| flow.size.div_ceil(mss) + flow.retransmissions;
        let packets: u64 = asked.subject.run.flows.iter().map(sent).sum();
        let detours = asked.summary()?.sums.get("detours")?;
        Some(100.0 * detours as f64 / packets as f64)
    }),
    // The share of flows' packets that took more hops than a shortest path has: needs `--hops`, and
    // the count of all flows except at most one in a thousand.
    Figure::run("detoured", "%", FLOWS, |asked| {
        let hops = counted(asked.flows())?;
        percent(hops.detoured, hops.packets)
    }),
    // Of all such packets, the share that belongs to these flows.
    Figure::run("detoured-share", "%", FLOWS, |asked| {
        let all = counted(measured(&asked.subject.run.flows))?;
        percent(counted(asked.flows())?.detoured, all.detoured)
    }),
    // The goodput of the busiest receiver from its first flow's start to its last one's end, as a
    // share of the best goodput of its link.
    Figure::links("utilization", "%", NOTHING, |asked| {
        Ok(receiver::utilization(asked.subject)?.map(|share| 100.0 * share))
    }),
    // The growth of flows under way while measured flows start, as a share of those that start
    // meanwhile; then the same of their bytes.
    Figure::run("growth", "%", NOTHING, |asked| {
        Some(100.0 * growth(&asked.subject.run.flows, |_| 1)?)
    }),
    Figure::run("growth-of-bytes", "%", NOTHING, |asked| {
        Some(100.0 * growth(&asked.subject.run.flows, |flow| flow.size)?)
    }),
    // At the busiest receiver, how long after one flow the next flow ends, minus the time for which
    // that next flow alone keeps the link busy, in packet times. It is 0 for flows that are
    // served one after the other at full rate; an idle link makes it larger; bytes that a flow
    // received before its turn make it smaller.
    Figure::links("switch-over", "packets", STATISTIC, |asked| {
        Ok(asked.statistic.of(receiver::switch_overs(asked.subject)?))
    }),
    // Retransmitted segments, per flow.
    Figure::run("retransmissions", "", FLOWS, |asked| {
        asked.per_flow(|flow| Some(flow.retransmissions))
    }),
    // Of these, segments that the receiver reported as duplicates, per flow: a lower bound.
    Figure::run("spurious", "", FLOWS, |asked| {
        asked.per_flow(|flow| flow.spurious)
    }),
    Figure::run("timeouts", "", FLOWS, |asked| {
        asked.per_flow(|flow| flow.timeouts)
    }),
    // Of the flows with a deadline, the share that met it.
    Figure::run("deadlines", "%", FLOWS, |asked| {
        Some(100.0 * in_time(asked.flows())?)
    }),
    // Bytes that wait at a port.
    Figure::ports("backlog", "kB", LEVEL, |asked, ports| {
        let backlog = ports.levels(|it| Some(kb(it.backlog_bytes)))?;
        asked.statistic.over_time(backlog)
    }),
    // Bytes that wait at all ports of a switch together.
    Figure::ports("buffer", "kB", LEVEL, |asked, ports| {
        let levels = ports.of_nodes(|it| it.backlog_bytes as f64);
        Some(asked.statistic.over_time(levels)? / 1e3)
    }),
    // Bytes in the longest queue of a port with per-hop flow control.
    Figure::ports("queue", "kB", LEVEL, |asked, ports| {
        let longest = ports.levels(backpressure(|it| kb(it.longest)))?;
        asked.statistic.over_time(longest)
    }),
    // Queues of such a port that have packets.
    Figure::ports("queues", "", LEVEL, |asked, ports| {
        let occupied = ports.levels(backpressure(|it| it.occupied.into()))?;
        asked.statistic.over_time(occupied)
    }),
    // Of the times that a flow became active at such a port, the share in which its queue had
    // packets of another flow.
    Figure::ports("collisions", "%", PORTS, |_, ports| {
        let share = count(ports, |it| it.collisions)? / count(ports, |it| it.activations)?;
        Some(100.0 * share).filter(|share| share.is_finite())
    }),
    // The share of time in which no packet waits at a port.
    Figure::ports("empty", "%", PORTS, |_, ports| {
        let empty = |it: &PortSample| Some(f64::from(u8::from(it.backlog_packets == 0)));
        Some(100.0 * Statistic::Mean.over_time(ports.levels_from(1.0, empty)?)?)
    }),
    // The share of time in which a port's wire is busy.
    Figure::new("busy", "%", PORTS, How::Busy(|busy| busy)),
    Figure::new("idle", "%", PORTS, How::Busy(|busy| 100.0 - busy)),
    // Pauses that a port sent to its neighbour.
    Figure::ports("pauses", "per ms", PORTS, |_, ports| {
        Some(count(ports, |it| it.pauses_sent)? / ports.length() * 1e6)
    }),
    // The average time for which a port was paused after a pause had arrived.
    Figure::ports("paused", "µs", PORTS, |_, ports| {
        let pauses = count(ports, |it| it.pauses_received)?;
        Some(count(ports, |it| it.paused_ns)? / pauses / 1e3).filter(|time| time.is_finite())
    }),
    // The unevenness of sending among hosts with flows under way: between two samples, the standard
    // deviation of the amounts that they sent over their mean.
    Figure::run(
        "unevenness",
        "%",
        Takes {
            ports: Where::AllHosts,
            ..LEVEL
        },
        |asked| {
            let levels = senders::unevenness(asked.subject, asked.place);
            Some(100.0 * asked.statistic.over_time(levels)?)
        },
    ),
    // The time from a given time until a port's wire is busy for nine tenths of the time between
    // two samples.
    Figure::ports(
        "recovery",
        "µs",
        Takes {
            ports: Where::OnePort,
            ..PORTS
        },
        |_, ports| Some(ports.sends_again(0.9)? as f64 / 1e3),
    ),
];

impl<'a> Asked<'a> {
    /// The chosen flows.
    fn flows(&self) -> impl Iterator<Item = &'a Flow> + use<'a> {
        let takes = self.takes;
        self.subject
            .run
            .flows
            .iter()
            .filter(move |flow| takes(flow))
    }

    /// The mean of a count. `None` if a flow lacks it.
    fn per_flow(&self, count: fn(&Flow) -> Option<u64>) -> Option<f64> {
        let counts: Option<Vec<u64>> = self.flows().map(count).collect();
        Statistic::Mean.of(counts?.into_iter().map(|count| count as f64))
    }

    /// The statistic of the times of incasts or rounds, in µs.
    fn together(&self, number: fn(Class) -> Option<u64>) -> Option<f64> {
        let times = group_completion_times_ns(&self.subject.run.flows, number);
        self.statistic.of(times.map(|ns| ns as f64 / 1e3))
    }

    fn summary(&self) -> Option<&'a Summary> {
        self.subject.run.summary.as_ref()
    }
}

fn kb(bytes: u64) -> f64 {
    bytes as f64 / 1e3
}

/// The increase of a counter of backpressure.
fn count(ports: &Ports<'_>, value: fn(&Backpressure) -> u64) -> Option<f64> {
    ports.count(backpressure(|it| value(it) as f64))
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
