// SPDX-License-Identifier: MIT OR Apache-2.0

//! The results' file: JSON Lines, one record a line, told apart by its field `record`.
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
//! last; a file without one is of a run that did not end. Times are fabric nanoseconds: those of
//! the guest divided by [`Header::dilation`]. What could not be measured is `null`.
//!
//! **What may change.** Fields and kinds of records may be added: a reader passes over what it does
//! not know. `format` counts up when something that exists changes its meaning, and a reader
//! refuses a format that is newer than itself.

mod gate;
mod port;
mod reader;
pub mod statistic;
mod sums;

pub use gate::{Gate, Limit};
pub use port::{Backpressure, Detours, PortSample};
pub use reader::{Reader, Recorded};
pub use sums::Sums;

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::generate;
use crate::statistics;

/// The format that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Record {
    /// What was run.
    Header(Box<Header>),
    /// How a flow fared.
    Flow(Flow),
    /// How a port was doing.
    Port(PortSample),
    /// Where a packet came by.
    Path(PacketPath),
    /// What it comes to.
    Summary(Summary),
    /// A kind that a newer version writes.
    #[serde(other, skip_serializing)]
    Unknown,
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORMAT`].
    pub format: u32,
    /// The version of weft.
    pub weft: String,
    /// The kernel's release, for example `7.2.12+deb14-amd64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// What the machine's clock was, where somebody said so: `virtual` (counted instructions),
    /// `model` (computing takes no time) or `real`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
    /// Of all random numbers.
    pub seed: u64,
    /// As the command line takes it, for example `fat-tree:k=4`.
    pub topology: String,
    /// For example `pfabric`.
    pub scheme: String,
    /// The scheme's parameters by name; times are the fabric's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
    /// What flows there were.
    pub workload: Workload,
    /// Times in the guest are so many times those in this file, rates so many times less; 1 is real
    /// time.
    #[serde(default = "real_time")]
    pub dilation: f64,
    /// Size buckets' upper ends in bytes; see [`statistics::Buckets::new`].
    #[serde(default)]
    pub buckets: Vec<u64>,
    /// The words of the command line that, with the scheme and the seed, run the same again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// SHA-256 of what decides the result besides: `topology` of its nodes and links, `scheme` of
    /// the commands that make the fabric, `flows` of the flows. What was run on another machine has
    /// the same.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    /// Variables (sysctls) that the fabric's nodes had from a tuned machine, and their values:
    /// those that cannot be set in a namespace. The run is not valid if there are any.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inherited: BTreeMap<String, String>,
}

fn real_time() -> f64 {
    1.0
}

/// What flows there were, in the words of the command line.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// The table's name, `fixed:…`, `uniform:…` or a file's name.
    pub sizes: String,
    /// `poisson`, `lognormal:2`, `closed:4`, `trace:FILE`.
    pub arrivals: String,
    /// Who sends to whom.
    pub pairs: String,
    /// With of what and of which bytes: `0.6 of host links (wire bytes)`. `None`: no load was
    /// asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// A collective: `ring:64000000B`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collective: Option<String>,
    /// Incasts, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast: Option<String>,
    /// Flows that were asked for one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// In how much time all others have to be done, if they have a deadline: `uniform:5ms-25ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<String>,
    /// Flows of the workload, those of the warm-up among them; what then kept up the load is not.
    pub flows: u64,
    /// The fraction of them that came first and was not measured.
    pub warm_up: f64,
    /// Whether nothing kept up the load after them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_cool_down: bool,
}

/// How a flow fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// Its number.
    pub id: u64,
    /// Sender.
    pub src: u32,
    /// Receiver.
    pub dst: u32,
    /// What it belongs to.
    #[serde(flatten)]
    pub class: Class,
    /// Whether it is outside of all statistics: it is of the warm-up, or only kept up the load
    /// until the measured ones before it had ended.
    #[serde(default)]
    pub warm_up: bool,
    /// When its first byte was handed to the kernel, ns since the run began.
    pub start_ns: u64,
    /// Bytes of payload.
    pub size: u64,
    /// From then to when its last byte was read. `None`: it did not end.
    pub fct_ns: Option<u64>,
    /// How many ns after its start it had to end, if it had a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// That time, divided by the best possible.
    pub slowdown: Option<f64>,
    /// Segments sent again.
    #[serde(default)]
    pub retransmissions: u64,
    /// Of these, segments that the receiver said it had already (D-SACK, RFC 2883): a lower bound.
    /// `None`: its connection has no selective acknowledgements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spurious: Option<u64>,
    /// Times that the retransmission timer expired. `None`: the kernel does not tell (before Linux
    /// 6.7).
    #[serde(default)]
    pub timeouts: Option<u64>,
    /// How far its packets went, if they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hops: Option<Hops>,
    /// How far it came, if it did not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial: Option<Partial>,
}

/// The packets of a flow that came to its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hops {
    /// How many: segments, and what opens and closes a connection.
    pub packets: u64,
    /// Of these, how many took more hops than a shortest path has.
    pub detoured: u64,
}

impl Flow {
    /// Whether it ended by its deadline; one that did not end at all missed it. `None`: it had
    /// none.
    #[must_use]
    pub fn in_time(&self) -> Option<bool> {
        let deadline_ns = self.deadline_ns?;
        Some(self.fct_ns.is_some_and(|ns| ns <= deadline_ns))
    }
}

/// How far a flow came that did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partial {
    /// Bytes of payload that were there,
    pub bytes: u64,
    /// ns after its start, when the run ended.
    pub ns: u64,
}

/// What a flow belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "class", rename_all = "snake_case")]
pub enum Class {
    /// Not to an incast or a round.
    Background,
    /// To an incast.
    Incast {
        /// Which.
        event: u64,
    },
    /// To a round of a collective.
    Round {
        /// Which.
        round: u64,
    },
    /// To neither: it was asked for by itself.
    Added,
}

impl Class {
    /// The number of its incast, if it is of one.
    #[must_use]
    pub fn incast(self) -> Option<u64> {
        match self {
            Self::Incast { event } => Some(event),
            _ => None,
        }
    }

    /// The number of its round, if it is of one.
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

/// Of the packets to a host that were followed, the first of those that took the most hops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketPath {
    /// The host.
    pub to: String,
    /// How many packets came to it, acknowledgements among them.
    pub packets: u64,
    /// Of these, how many took more hops than a shortest path has.
    pub detoured: u64,
    /// How many were missed at a node, as more came at a time than were kept: 0, or the path may be
    /// cut short.
    pub missed: u64,
    /// The nodes that it came by, from its ends at the bottom: hosts, their switches, and so on.
    pub layers: Vec<Vec<String>>,
    /// From its sender to the host.
    pub hops: Vec<PathHop>,
}

/// From a node to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathHop {
    /// When it came to `to`, ns after it came to the first switch.
    pub after_ns: u64,
    /// From this node,
    pub from: String,
    /// to this one.
    pub to: String,
    /// Whether it was no nearer to the host then.
    pub detour: bool,
}

/// What a run comes to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Whether every gate is passed and nothing failed: otherwise the numbers are not the fabric's.
    pub valid: bool,
    /// What was asked of the run to be believed.
    pub gates: Vec<Gate>,
    /// What else keeps it from being believed: sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// ns from the first start to the last end.
    pub duration_ns: u64,
    /// Flows that began, outside of the warm-up.
    pub flows: u64,
    /// Of these, flows that did not end.
    pub unfinished: u64,
    /// In bit/s: where there is a load, the payload of flows that ended while those that are
    /// measured began, per that time; else the payload of measured flows that ended, per
    /// `duration_ns`.
    pub goodput: Option<f64>,
    /// The load that the measured flows were, beside that which was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<OfferedLoad>,
    /// Mean slowdowns of the first and of the second half of the measured flows. `None`: they are
    /// too few.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halves: Option<statistics::Halves>,
    /// The share of packets that were dropped somewhere, 0 to 1.
    pub loss: Option<f64>,
    /// The same of bytes, where all that dropped something say how much.
    #[serde(default)]
    pub loss_of_bytes: Option<f64>,
    /// Counters, each summed over all ports that have it: `marks` (packets that ports marked with
    /// congestion; one that several mark counts each time), `detours` (packets that ports
    /// detoured, each time that one was).
    #[serde(flatten)]
    pub sums: Sums,
    /// Of the measured flows with a deadline, the share that met it, 0 to 1. `None`: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadlines_met: Option<f64>,
    /// By size, all last; buckets without a flow are left out.
    pub buckets: Vec<BucketSummary>,
}

/// A load, as it was to be and as chance had it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct OfferedLoad {
    /// What was asked for, above 0 to 1.
    pub asked: f64,
    /// Of the measured flows in the time in which they arrived.
    pub offered: f64,
}

/// What the flows of some sizes come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BucketSummary {
    /// For example `0-100 kB`, or `all`.
    pub bucket: String,
    /// Sizes are above so many bytes,
    pub above: u64,
    /// and at most so many, or however large.
    pub up_to: Option<u64>,
    /// Of slowdowns.
    pub slowdown: statistics::Summary,
    /// Of flow completion times in ns.
    pub fct_ns: statistics::Summary,
}

impl Summary {
    /// From a run's flows and gates. Flows of the warm-up do not count, and those that did not end
    /// only as unfinished: where there are any, a gate should say so.
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

    /// Says what load the measured flows were, and takes the goodput of all flows over the time
    /// from `begin_ns` to before `end_ns` in which they began.
    pub fn under_load(&mut self, load: OfferedLoad, flows: &[Flow], begin_ns: u64, end_ns: u64) {
        self.load = Some(load);
        let ended = flows.iter().filter(|flow| {
            let end = flow.fct_ns.map(|ns| flow.start_ns.saturating_add(ns));
            end.is_some_and(|end| (begin_ns..end_ns).contains(&end))
        });
        let bytes = ended.map(|flow| flow.size).sum();
        self.goodput = statistics::goodput(bytes, end_ns.saturating_sub(begin_ns));
    }

    /// Says that the run is not to be believed, and why: sentences.
    pub fn fail(&mut self, failures: Vec<String>) {
        self.valid &= failures.is_empty();
        self.failures.extend(failures);
    }

    /// One sentence for each gate that is not passed and each failure; none if the run is valid.
    pub fn reasons(&self) -> impl Iterator<Item = String> {
        let failed = self.gates.iter().filter(|gate| !gate.ok);
        let failures = self.failures.iter().cloned();
        failed.map(Gate::to_string).chain(failures)
    }
}

/// The flows that statistics are of: not those of a warm-up.
pub fn measured(flows: &[Flow]) -> impl Iterator<Item = &Flow> {
    flows.iter().filter(|flow| !flow.warm_up)
}

/// The times, in ns from the first start to the last end, of those incasts or rounds
/// ([`Class::incast`], [`Class::round`]) of which all flows ended and none is outside of
/// statistics.
pub fn together_ns(flows: &[Flow], number: fn(Class) -> Option<u64>) -> impl Iterator<Item = u64> {
    // Start and end of each; without an end, one of its flows has none.
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

/// Of flows with a deadline, the share that met it. `None`: there is none.
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

/// Writes a record and the end of its line.
///
/// # Errors
///
/// What writing gives. A number that is not finite is written as `null`.
pub fn write(to: &mut impl io::Write, record: &Record) -> Result<()> {
    serde_json::to_writer(&mut *to, record).map_err(io::Error::from)?;
    Ok(to.write_all(b"\n")?)
}
