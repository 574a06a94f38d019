// SPDX-License-Identifier: MIT OR Apache-2.0

//! The results' file: JSON Lines, one record per line. The field `record` names its kind.
//!
//! ```json
//! {"record":"header","format":1,"weft":"0.1.0","seed":1,…}
//! {"record":"flow","id":0,"src":3,"dst":12,"class":"background","start_ns":17,"size":1460,…}
//! {"record":"port","time_ns":1000000,"node":"edge0","port":"h0","backlog_packets":3,…}
//! {"record":"path","to":"h0","packets":840,"detoured":31,"hops":[…],…}
//! {"record":"summary","valid":true,"gates":[…],…}
//! ```
//!
//! The header comes first, then flows, port samples and at most one path in any order, the summary
//! last. A file without a summary is from a run that did not end. Times are fabric nanoseconds:
//! those of the guest divided by [`Header::dilation`]. A value that could not be measured is
//! `null`.
//!
//! **Compatibility.** Fields and kinds of records may be added: a reader skips those that it does
//! not know. `format` increases when something that exists changes its meaning, and a reader
//! refuses a newer format than its own.

mod gate;
mod port;
mod reader;
pub mod statistic;
mod sums;

pub use gate::{Gate, Limit};
pub use port::{Backpressure, Detours, PortSample};
pub use reader::{LINE, RESULTS, Reader, Recorded};
pub use sums::Sums;

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::generate;
use crate::statistics;

/// The format that this version writes, and the newest one that it reads.
pub const FORMAT: u32 = 1;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// The description of the run.
    Header(Box<Header>),
    /// The result of a flow.
    Flow(Flow),
    /// A sample of a port.
    Port(PortSample),
    /// The path of a packet.
    Path(PacketPath),
    /// The results of the run.
    Summary(Summary),
    /// A record of a newer version.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// The description of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of weft.
    pub weft: String,
    /// The kernel's release, for example `7.2.12+deb14-amd64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The machine's clock, if known: `virtual` (counted instructions), `model` (computation takes
    /// no time) or `real`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// As the command line takes it, for example `fat-tree:k=4`.
    pub topology: String,
    /// For example `pfabric`.
    pub scheme: String,
    /// The scheme's parameters by name; times are the fabric's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// The workload.
    pub workload: Workload,
    /// Times in the guest are this factor times those in this file, and rates are divided by it; 1
    /// is real time.
    #[serde(default = "real_time")]
    pub dilation: f64,
    /// Upper ends of size buckets in bytes; see [`statistics::Buckets::new`].
    #[serde(default)]
    pub buckets: Vec<u64>,
    /// The words of the command line that, with the scheme and the seed, repeat the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// SHA-256 of the other inputs that decide the result: `topology` for nodes and links, `scheme`
    /// for the commands that build the fabric, `flows` for the flows. A repetition on another
    /// machine has the same.
    /// the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Sysctls, and parameters of congestion controls, that the fabric's nodes inherited from a
    /// tuned machine, and their values: those that cannot be set in a namespace. If there are any,
    /// the run is not valid.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inherited: BTreeMap<String, String>,
}

fn real_time() -> f64 {
    1.0
}

/// The workload in the words of the command line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The table's name, `fixed:…`, `uniform:…` or a file's name.
    pub sizes: String,
    /// `poisson`, `lognormal:2`, `closed:4`, `trace:FILE`.
    pub arrivals: String,
    /// Pairs of sender and receiver.
    pub pairs: String,
    /// The load with its links and bytes: `0.6 of host links (wire bytes)`. `None`: no load was
    /// requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// A collective: `ring:64000000B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<String>,
    /// Incasts, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast: Option<String>,
    /// Flows that were added one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// Deadlines of all other flows, if they have any: `uniform:5ms-25ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// Number of priorities that all other flows have, if they have any: 2 to 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priorities: Option<u8>,
    /// Flows of the workload, including the warm-up, excluding flows that kept up the load
    /// afterwards.
    pub flows: u64,
    /// The fraction of them that came first as the warm-up and was not measured.
    pub warm_up: f64,
    /// Whether no flows kept up the load after them (no cool-down).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_cool_down: bool,
}

/// The result of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Its number.
    pub id: u64,
    /// Sender.
    pub src: u32,
    /// Receiver.
    pub dst: u32,
    /// Its part of the workload.
    #[serde(flatten)]
    pub class: Class,
    /// Whether statistics exclude it: it is part of the warm-up, or only kept up the load until the
    /// earlier, measured flows had ended.
    #[serde(default)]
    pub warm_up: bool,
    /// When its first byte was handed to the kernel, ns since the run began.
    pub start_ns: u64,
    /// Bytes of payload.
    pub size: u64,
    /// From then until its last byte was read. `None`: it did not end.
    pub fct_ns: Option<u64>,
    /// Its deadline in ns after its start, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// Its priority, if it had one: 0, the highest, to 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The completion time divided by the best possible one.
    pub slowdown: Option<f64>,
    /// Retransmitted segments.
    #[serde(default)]
    pub retransmissions: u64,
    /// Of these, segments that the receiver reported as duplicates (D-SACK, RFC 2883): a lower
    /// bound. `None`: its connection has no selective acknowledgements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spurious: Option<u64>,
    /// Expirations of the retransmission timer. `None`: the kernel does not report them (before
    /// Linux 6.7).
    #[serde(default)]
    pub timeouts: Option<u64>,
    /// The hops of its packets, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<Hops>,
    /// Its progress, if it did not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
}

/// The packets of a flow that reached its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hops {
    /// Their number: segments, and the packets that open and close a connection.
    pub packets: u64,
    /// Of these, packets that took more hops than a shortest path has.
    pub detoured: u64,
}

impl Flow {
    /// Whether it met its deadline; a flow that did not end missed it. `None`: it had no deadline.
    #[must_use]
    pub fn in_time(&self) -> Option<bool> {
        let deadline_ns = self.deadline_ns?;
        Some(self.fct_ns.is_some_and(|ns| ns <= deadline_ns))
    }
}

/// The progress of a flow that did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// Bytes of payload that had arrived,
    pub bytes: u64,
    /// ns after its start, at the end of the run.
    pub ns: u64,
}

/// The part of the workload that a flow belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "snake_case")]
pub enum Class {
    /// The background.
    Background,
    /// An incast.
    Incast {
        /// Its number.
        event: u64,
    },
    /// A round of a collective.
    Round {
        /// Its number.
        round: u64,
    },
    /// A flow that was added by itself.
    Added,
}

impl Class {
    /// The number of its incast, if it belongs to one.
    #[must_use]
    pub fn incast(self) -> Option<u64> {
        match self {
            Self::Incast { event } => Some(event),
            _ => None,
        }
    }

    /// The number of its round, if it belongs to one.
    #[must_use]
    pub fn round(self) -> Option<u64> {
        match self {
            Self::Round { round } => Some(round),
            _ => None,
        }
    }
}

impl From<generate::Class> for Class {
    fn from(class: generate::Class) -> Self {
        match class {
            generate::Class::Background => Self::Background,
            generate::Class::Incast(event) => Self::Incast { event },
            generate::Class::Round(round) => Self::Round { round },
            generate::Class::Added => Self::Added,
        }
    }
}

/// The path of the packet with the most hops, the first one if several have as many, among the
/// traced packets to a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketPath {
    /// The host.
    pub to: String,
    /// Packets that reached it, including acknowledgements.
    pub packets: u64,
    /// Of these, packets that took more hops than a shortest path has.
    pub detoured: u64,
    /// Records of packets that a node lost, because more came at a time than it keeps. If it is not
    /// 0, the path may be incomplete.
    pub missed: u64,
    /// The nodes of the path in layers, from its ends at the bottom: hosts, their switches, and so
    /// on.
    pub layers: Vec<Vec<String>>,
    /// From the sender to the host.
    pub hops: Vec<PathHop>,
}

/// A hop between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathHop {
    /// When the packet reached `to`, in ns after it reached the first switch.
    pub after_ns: u64,
    /// From this node,
    pub from: String,
    /// to this one.
    pub to: String,
    /// Whether the hop brought it no nearer to the host.
    pub detour: bool,
}

/// The results of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Whether every gate passed and nothing failed. Otherwise the numbers do not describe the
    /// fabric.
    pub valid: bool,
    /// The validity gates.
    pub gates: Vec<Gate>,
    /// Other reasons why the run is not valid: sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// ns from the first start to the last end.
    pub duration_ns: u64,
    /// Measured flows that began.
    pub flows: u64,
    /// Of these, flows that did not end.
    pub unfinished: u64,
    /// In bit/s. With a load: the payload of flows that ended while the measured flows began,
    /// divided by that time. Otherwise: the payload of measured flows that ended, divided by
    /// `duration_ns`.
    pub goodput: Option<f64>,
    /// The achieved load of the measured flows, and the requested load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<OfferedLoad>,
    /// Mean slowdowns of the first and of the second half of the measured flows. `None`: there are
    /// too few flows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halves: Option<statistics::Halves>,
    /// The share of packets that were dropped, 0 to 1.
    pub loss: Option<f64>,
    /// The share of bytes that were dropped, if all nodes that dropped packets report it.
    #[serde(default)]
    pub loss_of_bytes: Option<f64>,
    /// Counters, each summed over all ports that have it: `marks` (packets that ports marked,
    /// counted at each port) and `detours` (packets that ports detoured, counted each time).
    #[serde(flatten)]
    pub sums: Sums,
    /// The share of measured flows with a deadline that met it, 0 to 1. `None`: no flow had a
    /// deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines_met: Option<f64>,
    /// By size, all sizes last; empty buckets are left out.
    pub buckets: Vec<BucketSummary>,
}

/// The requested and the achieved load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfferedLoad {
    /// The requested load, above 0 and at most 1.
    pub asked: f64,
    /// The load of the measured flows, over the time in which they arrived.
    pub offered: f64,
}

/// The results of flows in a range of sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BucketSummary {
    /// For example `0-100 kB`, or `all`.
    pub bucket: String,
    /// Sizes are above this many bytes,
    pub above: u64,
    /// and at most this many; `None`: no limit.
    pub up_to: Option<u64>,
    /// Slowdowns.
    pub slowdown: statistics::Summary,
    /// Flow completion times in ns.
    pub fct_ns: statistics::Summary,
}

impl Summary {
    /// Computes the summary from a run's flows and gates. It excludes the warm-up, and counts flows
    /// that did not end only as unfinished: if there are any, a gate should fail.
    #[must_use]
    pub fn new(
        flows: &[Flow],
        buckets: &statistics::Buckets,
        gates: Vec<Gate>,
        loss: Option<f64>,
    ) -> Self {
        let measured: Vec<_> = measured(flows).collect();
        // Size, time, slowdown.
        let done: Vec<_> = measured
            .iter()
            .filter_map(|flow| Some((flow.size, flow.fct_ns?, flow.slowdown?)))
            .collect();
        let begin = measured.iter().map(|flow| flow.start_ns).min().unwrap_or(0);
        let ends = measured
            .iter()
            .filter_map(|flow| flow.start_ns.checked_add(flow.fct_ns?));
        let duration_ns = ends.max().unwrap_or(begin).saturating_sub(begin);
        let summarize = |bucket: &statistics::Bucket| {
            let here = || done.iter().filter(|(size, ..)| bucket.contains(*size));
            Some(BucketSummary {
                bucket: bucket.to_string(),
                above: bucket.above,
                up_to: bucket.up_to,
                slowdown: statistics::Sorted::new(here().map(|(_, _, slowdown)| *slowdown))
                    .summary()?,
                fct_ns: statistics::Sorted::new(here().map(|(_, fct, _)| *fct as f64)).summary()?,
            })
        };
        Self {
            valid: gates.iter().all(|gate| gate.ok),
            gates,
            failures: Vec::new(),
            duration_ns,
            load: None,
            halves: halves(&measured),
            flows: measured.len() as u64,
            unfinished: (measured.len() - done.len()) as u64,
            goodput: statistics::goodput(done.iter().map(|(size, ..)| size).sum(), duration_ns),
            loss,
            loss_of_bytes: None,
            sums: Sums::default(),
            deadlines_met: in_time(measured.iter().copied()),
            buckets: buckets.iter().filter_map(summarize).collect(),
        }
    }

    /// Sets the achieved load, and computes the goodput of all flows over the time from `begin_ns`
    /// to before `end_ns`, in which the measured flows began.
    pub fn under_load(&mut self, load: OfferedLoad, flows: &[Flow], begin_ns: u64, end_ns: u64) {
        self.load = Some(load);
        let ended = flows.iter().filter(|flow| {
            let end = flow.fct_ns.map(|ns| flow.start_ns.saturating_add(ns));
            end.is_some_and(|end| (begin_ns..end_ns).contains(&end))
        });
        let bytes = ended.map(|flow| flow.size).sum();
        self.goodput = statistics::goodput(bytes, end_ns.saturating_sub(begin_ns));
    }

    /// Marks the run as not valid, with the reasons: sentences.
    pub fn fail(&mut self, failures: Vec<String>) {
        self.valid &= failures.is_empty();
        self.failures.extend(failures);
    }

    /// One sentence for each gate and each check that failed; none if the run is valid.
    pub fn reasons(&self) -> impl Iterator<Item = String> {
        let failed = self.gates.iter().filter(|gate| !gate.ok);
        let failures = self.failures.iter().cloned();
        failed.map(Gate::to_string).chain(failures)
    }
}

/// The flows that statistics include: all except the warm-up and the cool-down.
pub fn measured(flows: &[Flow]) -> impl Iterator<Item = &Flow> {
    flows.iter().filter(|flow| !flow.warm_up)
}

/// The times, in ns from the first start to the last end, of incasts or rounds ([`Class::incast`],
/// [`Class::round`]). Only those whose flows all ended and are all measured.
pub fn group_completion_times_ns(
    flows: &[Flow],
    number: fn(Class) -> Option<u64>,
) -> impl Iterator<Item = u64> {
    // Start and end of each; the end is `None` if one of its flows has none.
    let mut all: BTreeMap<u64, (u64, Option<u64>)> = BTreeMap::new();
    for flow in measured(flows) {
        let Some(number) = number(flow.class) else {
            continue;
        };
        let end = flow.fct_ns.map(|ns| flow.start_ns + ns);
        let entry = all.entry(number).or_insert((flow.start_ns, Some(0)));
        entry.0 = entry.0.min(flow.start_ns);
        entry.1 = entry.1.zip(end).map(|(a, b)| a.max(b));
    }
    all.into_values()
        .filter_map(|(start, end)| Some(end? - start))
}

/// The share of flows with a deadline that met it. `None`: no flow has a deadline.
pub fn in_time<'a>(flows: impl IntoIterator<Item = &'a Flow>) -> Option<f64> {
    let (mut all, mut met) = (0_u64, 0_u64);
    for in_time in flows.into_iter().filter_map(Flow::in_time) {
        all += 1;
        met += u64::from(in_time);
    }
    (all > 0).then(|| met as f64 / all as f64)
}

fn halves(measured: &[&Flow]) -> Option<statistics::Halves> {
    let mut flows: Vec<_> = measured
        .iter()
        .filter_map(|flow| Some((flow.start_ns, flow.id, flow.slowdown?)))
        .collect();
    flows.sort_unstable_by_key(|(start, id, _)| (*start, *id));
    let slowdowns: Vec<f64> = flows.into_iter().map(|(.., slowdown)| slowdown).collect();
    statistics::Halves::new(&slowdowns)
}

/// Writes a record as a line.
///
/// # Errors
///
/// Errors of the writer. A number that is not finite is written as `null`.
pub fn write(to: &mut impl io::Write, record: &Record) -> Result<()> {
    serde_json::to_writer(&mut *to, record).map_err(io::Error::from)?;
    Ok(to.write_all(b"\n")?)
}
