// SPDX-License-Identifier: MIT OR Apache-2.0

//! The flows of a workload, in order: a function of the description and its seed.
//!
//! Sizes, times, pairs, deadlines, priorities, and the times, hosts, deadlines and priorities of
//! incasts are drawn from separate streams of the seed, in the order of the flows. So another load
//! does not change the sizes and pairs, other sizes do not change the times (at the same rate), and
//! incasts, deadlines and priorities change nothing else.
//!
//! ```
//! use weft_load::arrivals::Process;
//! use weft_load::framing::Framing;
//! use weft_load::generate::{Background, Until, Workload};
//! use weft_load::load::{Counted, Load, LoadOf};
//! use weft_load::pairs::Pairs;
//! use weft_load::sizes::Sizes;
//!
//! # fn main() -> weft_load::Result<()> {
//! let sizes: Sizes = "web-search".parse()?;
//! let pairs = Pairs::uniform(16)?;
//! let framing = Framing::ethernet_tcp(1500, true).expect("the MTU holds headers");
//! let load = Load {
//!     fraction: 0.6,
//!     of: LoadOf::Host { rate: 10e9, share: pairs.busiest_share() },
//!     counted: Counted::Wire,
//! };
//! let rate = load.per_second(load.counted.mean_bits(&sizes, &framing))?;
//! let workload = Workload {
//!     hosts: 16,
//!     background: Some(Background::Open { sizes, pairs, process: Process::Poisson, rate }),
//!     incast: None,
//!     added: Vec::new(),
//!     until: Until::Flows(600),
//!     warm_up: 0.1,
//!     deadlines: None,
//!     priorities: None,
//!     seed: 1,
//! };
//! let flows: Vec<_> = workload.flows()?.collect();
//! assert_eq!(flows.len(), 600);
//! assert!(flows.iter().all(|flow| flow.src != flow.dst && flow.size >= 1));
//! # Ok(())
//! # }
//! ```

mod background;

use std::collections::VecDeque;
use std::iter::Peekable;
use std::num::{NonZeroU8, NonZeroU32};

use chacha20::ChaCha8Rng;
use weft_ebpf_common::sockopt::MAX_FLOW_SIZE;

use crate::arrivals::Process;
use crate::collective::{Collective, Rounds};
use crate::deadlines::Deadlines;
use crate::error::{Result, invalid};
use crate::incast::{Events, Incast};
use crate::pairs::Pairs;
pub use crate::predecessors::Predecessors;
use crate::random::{self, Stream};
use crate::sizes::Sizes;
use crate::trace::{Trace, TraceFlow};

use background::{BackgroundFlows, Next};

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Hosts of the fabric.
    pub hosts: u32,
    /// Flows outside incasts.
    pub background: Option<Background>,
    /// Incasts, in addition to the background or alone.
    pub incast: Option<Incast>,
    /// Single flows, in addition to the rest or alone. All of them run, wherever the rest ends, and
    /// none of them counts as warm-up.
    pub added: Vec<TraceFlow>,
    /// Where it ends.
    pub until: Until,
    /// The fraction of `until` that is warm-up, at least 0 and below 1.
    pub warm_up: f64,
    /// Deadlines of all flows except the added ones; `None`: no deadlines.
    pub deadlines: Option<Deadlines>,
    /// Number of priorities, 2 to [`MAX_PRIORITIES`]: all flows except the added ones have one,
    /// drawn uniformly (BFC, NSDI 2022, Appendix A.3). `None`: no priorities.
    pub priorities: Option<NonZeroU8>,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Maximum number of priorities: there are as many class selectors (RFC 2474, §4.2.2).
pub const MAX_PRIORITIES: u8 = 8;

/// Approximate maximum of flows per run: a few GB of memory.
const MOST_FLOWS: f64 = 1e7;
/// Maximum duration of a run in s.
const LONGEST_S: f64 = 1e5;

/// Flows outside incasts, and when they begin.
#[derive(Clone, Debug, PartialEq)]
pub enum Background {
    /// Flows begin whether or not others have ended: one process for the whole fabric.
    Open {
        /// Distribution of sizes.
        sizes: Sizes,
        /// Distribution of pairs.
        pairs: Pairs,
        /// Process of arrivals.
        process: Process,
        /// Flows per second, above 0; see [`crate::load`].
        rate: f64,
    },
    /// The end of a flow starts the next flow of its pair.
    Closed {
        /// Distribution of sizes.
        sizes: Sizes,
        /// All pairs that occur ([`Pairs::all`]) have flows, in turn.
        pairs: Pairs,
        /// Flows at a time per pair.
        outstanding: NonZeroU32,
    },
    /// Rounds of a collective.
    Collective(Collective),
    /// The flows of a file.
    Trace(Trace),
}

/// Where a workload ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After this many background flows. Incasts come on top, up to the start of the last
    /// background flow. Without background: after the incast that brings this many flows.
    Flows(u64),
    /// Before this many ns: no flow starts later.
    Time(u64),
    /// After this many rounds of a collective.
    Rounds(u64),
    /// At the end of the trace.
    TraceEnd,
}

/// The part of the workload that a flow belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The background.
    Background,
    /// The incast with this number, from 0.
    Incast(u64),
    /// The round of a collective with this number, from 0; for replication, the block.
    Round(u64),
    /// A flow that was added by itself.
    Added,
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its place in the order, from 0.
    pub id: u64,
    /// ns since the run began, if it does not wait for another flow.
    pub start_ns: u64,
    /// In a closed loop and a collective, the flows whose ends start this one, always with smaller
    /// ids.
    pub after: Option<Predecessors>,
    /// Sender.
    pub src: u32,
    /// Receiver, another host.
    pub dst: u32,
    /// Bytes of payload, 1 to 2^40.
    pub size: u64,
    /// Its part of the workload.
    pub class: Class,
    /// Its deadline in ns, from the start of its time.
    pub deadline_ns: Option<u64>,
    /// Its priority, if it has one: less than [`Workload::priorities`], 0 is the highest.
    pub priority: Option<u8>,
    /// Whether statistics exclude it: it is part of the warm-up, or only keeps up the load for
    /// earlier flows ([`Flows::continue_load`]).
    pub warm_up: bool,
}

impl Flow {
    /// Without a number, waiting for no flow, measured.
    fn of(flow: TraceFlow, class: Class) -> Self {
        let TraceFlow {
            start_ns,
            src,
            dst,
            size,
        } = flow;
        Self {
            id: 0,
            start_ns,
            after: None,
            src,
            dst,
            size,
            class,
            deadline_ns: None,
            priority: None,
            warm_up: false,
        }
    }
}

impl Workload {
    /// The flows by start. Among flows that start together, background comes first, then the added
    /// ones. The iterator always ends.
    ///
    /// # Errors
    ///
    /// If a number is out of range, hosts do not fit, there is no flow at all, a trace has fewer
    /// flows, or the end fits none of them. A closed loop ends after a number of flows, and a
    /// collective after a number of rounds; when that is, is not known in advance, so neither can
    /// have incasts. Only a trace has an end of its own.
    pub fn flows(&self) -> Result<Flows> {
        if !(0.0..1.0).contains(&self.warm_up) {
            return invalid(format!(
                "warm-up {}: expected a fraction from 0 to below 1",
                self.warm_up
            ));
        }
        if matches!(
            self.until,
            Until::Flows(0) | Until::Time(0) | Until::Rounds(0)
        ) {
            return invalid("a workload needs at least one flow, or some time");
        }
        if let Some(n) = self.priorities
            && !(2..=MAX_PRIORITIES).contains(&n.get())
        {
            return invalid(format!("{n} priorities: expected 2 to {MAX_PRIORITIES}"));
        }
        self.check_extent()?;
        let trace = match &self.background {
            Some(Background::Trace(trace)) => Some(trace.flows().len() as u64),
            _ => None,
        };
        let (background, incast) = (self.background.as_ref(), self.incast.as_ref());
        if background.is_none() && incast.is_none() && self.added.is_empty() {
            return invalid("a workload needs background flows, incasts, or flows that are added");
        }
        let mut added = self.added.clone();
        for flow in &added {
            self.check_added(flow)?;
        }
        added.sort_by_key(|flow| flow.start_ns);
        let share = |fraction: f64, of: u64| (fraction * of as f64).ceil() as u64;
        // A number of flows, divided by the total and multiplied by it again, may be one or two
        // roundings above itself. For a time the difference is 1 ns; it stays, because kept results
        // have it.
        let count = |fraction: f64, of: u64| share(fraction * (1.0 - 2.0 * f64::EPSILON), of);
        let warm_up = match (self.until, trace) {
            (Until::Time(ns), _) => WarmUp::Time(share(self.warm_up, ns)),
            (Until::Flows(n), Some(flows)) if n > flows => {
                return invalid(format!("{n} flows: the trace has {flows}"));
            }
            (Until::Flows(n), _) | (Until::TraceEnd, Some(n)) => {
                WarmUp::Flows(count(self.warm_up, n))
            }
            (Until::Rounds(n), _) => WarmUp::Flows(count(self.warm_up, n) * self.round()?),
            (Until::TraceEnd, None) => {
                return invalid("without a trace, say a number of flows or a time");
            }
        };
        let before = match warm_up {
            WarmUp::Flows(flows) => flows,
            WarmUp::Time(_) => 0,
        };
        let flows = background.map(|background| BackgroundFlows::new(self, background, before));
        let incasts = incast.map(|incast| incast.events(self.hosts, self.seed));
        Ok(Flows {
            warm_up,
            background: flows.transpose()?,
            incasts: incasts.transpose()?.map(Iterator::peekable),
            added: added.into(),
            until: self.until,
            pending: Vec::new(),
            next_id: 0,
            events: 0,
            counted: 0,
            last_start: 0,
            goes_on: false,
            deadlines: self.deadlines.clone().map(|times| {
                let streams = [Stream::Deadlines, Stream::IncastDeadlines];
                (times, Streams::new(self.seed, streams))
            }),
            priorities: self.priorities.map(|count| {
                let streams = [Stream::Priorities, Stream::IncastPriorities];
                (count, Streams::new(self.seed, streams))
            }),
        })
    }

    /// Flows per round of its collective.
    fn round(&self) -> Result<u64> {
        match &self.background {
            Some(Background::Collective(it)) => Ok(Rounds::new(it, self.hosts, self.seed)?.flows()),
            _ => invalid("only a collective has rounds"),
        }
    }

    /// Refuses more flows than memory holds, and more time than a clock counts.
    fn check_extent(&self) -> Result<()> {
        let too_many = |flows: f64| {
            invalid(format!(
                "about {flows:.3e} flows: a run has at most {MOST_FLOWS:.0e}"
            ))
        };
        let too_long = |seconds: f64| {
            invalid(format!(
                "about {seconds:.3e} s until the last flow: a run has at most {LONGEST_S:.0e} s of the fabric"
            ))
        };
        let rate = match &self.background {
            Some(Background::Open { rate, .. }) => Some(*rate),
            Some(Background::Closed {
                pairs, outstanding, ..
            }) => {
                let at_once = f64::from(outstanding.get()) * pairs.all().len() as f64;
                if at_once > MOST_FLOWS {
                    return too_many(at_once);
                }
                None
            }
            _ => None,
        };
        let incast = self.incast.as_ref();
        let (flows, seconds) = match (self.until, rate, incast) {
            (Until::Time(ns), ..) => (
                rate.map_or(0.0, |rate| rate * ns as f64 / 1e9),
                ns as f64 / 1e9,
            ),
            (Until::Flows(n), Some(rate), _) => (n as f64, n as f64 / rate),
            (Until::Flows(n), None, Some(incast)) if self.background.is_none() => {
                let events = (n as f64 / f64::from(incast.fan_in.get())).ceil();
                (n as f64, events / incast.rate)
            }
            (Until::Flows(n), ..) => (n as f64, 0.0),
            (Until::Rounds(n), ..) => (n as f64 * self.round()? as f64, 0.0),
            (Until::TraceEnd, ..) => (0.0, 0.0),
        };
        let on_top = match (&self.background, incast) {
            (None, Some(incast)) if matches!(self.until, Until::Time(_)) => Some(incast),
            (Some(_), incast) => incast,
            _ => None,
        };
        let on_top = on_top.map_or(0.0, |it| it.rate * seconds * f64::from(it.fan_in.get()));
        // Invalid rates are reported where they are used.
        if !seconds.is_finite() || seconds < 0.0 {
            return Ok(());
        }
        if flows + on_top > MOST_FLOWS {
            too_many(flows + on_top)
        } else if seconds > LONGEST_S {
            too_long(seconds)
        } else {
            Ok(())
        }
    }

    /// The size in bytes of the largest possible flow.
    #[must_use]
    pub fn largest(&self) -> u64 {
        let background = self.background.as_ref().map(|background| match background {
            Background::Open { sizes, .. } | Background::Closed { sizes, .. } => {
                sizes.max().ceil() as u64
            }
            Background::Collective(it) => {
                Rounds::new(it, self.hosts, self.seed).map_or(1, |it| it.largest())
            }
            Background::Trace(trace) => trace.flows().iter().map(|it| it.size).max().unwrap_or(0),
        });
        let incast = self.incast.as_ref().map(|incast| incast.size(0));
        let added = self.added.iter().map(|flow| flow.size).max();
        background
            .into_iter()
            .chain(incast)
            .chain(added)
            .max()
            .unwrap_or(1)
    }

    fn check_added(&self, flow: &TraceFlow) -> Result<()> {
        if let Some(host) = [flow.src, flow.dst]
            .iter()
            .find(|host| **host >= self.hosts)
        {
            return invalid(format!(
                "there is no host h{host}: the fabric has {}",
                self.hosts
            ));
        }
        if flow.src == flow.dst {
            return invalid(format!("a flow from h{0} to h{0} goes nowhere", flow.src));
        }
        if !(1..=MAX_FLOW_SIZE).contains(&flow.size) {
            return invalid(format!(
                "a flow of {} bytes: expected 1 byte to 1 TiB",
                flow.size
            ));
        }
        Ok(())
    }
}

#[derive(Debug)]
enum WarmUp {
    /// This many flows that count towards the end, and all that start between them.
    Flows(u64),
    /// All flows that start before this many ns.
    Time(u64),
}

/// Random numbers for a property of flows that added flows do not have.
#[derive(Debug)]
struct Streams {
    background: ChaCha8Rng,
    incasts: ChaCha8Rng,
}

impl Streams {
    /// The first stream is for flows outside incasts, the second for flows of incasts.
    fn new(seed: u64, [background, incasts]: [Stream; 2]) -> Self {
        Self {
            background: random::stream(seed, background),
            incasts: random::stream(seed, incasts),
        }
    }

    /// The stream for a flow; `None` for an added one.
    fn of(&mut self, class: Class) -> Option<&mut ChaCha8Rng> {
        match class {
            Class::Background | Class::Round(_) => Some(&mut self.background),
            Class::Incast(_) => Some(&mut self.incasts),
            Class::Added => None,
        }
    }
}

/// The flows of a [`Workload`].
#[derive(Debug)]
pub struct Flows {
    background: Option<BackgroundFlows>,
    incasts: Option<Peekable<Events>>,
    /// Added flows that are still to come, by start.
    added: VecDeque<TraceFlow>,
    until: Until,
    warm_up: WarmUp,
    /// The rest of the current incast, last sender first.
    pending: Vec<Flow>,
    next_id: u64,
    events: u64,
    /// Flows so far that count towards `until`.
    counted: u64,
    /// The start of the last background flow so far.
    last_start: u64,
    /// Whether the workload's own flows are over and others keep up the load.
    goes_on: bool,
    deadlines: Option<(Deadlines, Streams)>,
    priorities: Option<(NonZeroU8, Streams)>,
}

impl Flows {
    /// Continues after the workload's own flows, so that the load on the unfinished ones stays the
    /// same: from now on there is always another flow, and none of them is measured. Returns when
    /// the first of them begins, in ns. `None`: only flows that begin whether or not others have
    /// ended can continue.
    pub fn continue_load(&mut self) -> Option<u64> {
        let background = self.background.as_mut()?;
        self.goes_on = background.continue_load();
        let next = background.peek().filter(|_| self.goes_on);
        next.map(|next| next.flow.start_ns)
    }

    fn number(&mut self, flow: Flow) -> Flow {
        let id = self.next_id;
        self.next_id += 1;
        let deadline_ns = self.deadlines.as_mut().and_then(|(times, streams)| {
            let rng = streams.of(flow.class)?;
            Some(times.sample(rng))
        });
        let priority = self.priorities.as_mut().and_then(|(count, streams)| {
            let rng = streams.of(flow.class)?;
            Some(random::below(rng, NonZeroU32::from(*count)) as u8)
        });
        Flow {
            id,
            deadline_ns,
            priority,
            ..flow
        }
    }

    fn is_outside(&self, start_ns: u64) -> bool {
        if self.goes_on {
            return true;
        }
        match self.warm_up {
            WarmUp::Flows(n) => self.counted < n,
            WarmUp::Time(ns) => start_ns < ns,
        }
    }

    /// Whether an incast at `start_ns` still belongs to the workload, if no background flow comes
    /// before it.
    fn has_incast_at(&self, start_ns: u64) -> bool {
        match self.until {
            Until::Time(ns) => start_ns < ns,
            Until::Flows(n) if self.background.is_none() => self.counted < n,
            Until::Flows(_) | Until::Rounds(_) | Until::TraceEnd => start_ns <= self.last_start,
        }
    }

    fn begin_incast(&mut self) -> Option<Flow> {
        let event = self.incasts.as_mut()?.next()?;
        let warm_up = self.is_outside(event.start_ns);
        let flows = event.senders.iter().rev().map(|&(src, size)| Flow {
            id: 0,
            start_ns: event.start_ns,
            after: None,
            src,
            dst: event.receiver,
            size,
            class: Class::Incast(self.events),
            deadline_ns: None,
            priority: None,
            warm_up,
        });
        self.pending.extend(flows);
        self.events += 1;
        if self.background.is_none() {
            self.counted += event.senders.len() as u64;
        }
        self.pending.pop()
    }
}

impl Iterator for Flows {
    type Item = Flow;

    fn next(&mut self) -> Option<Flow> {
        if let Some(flow) = self.pending.pop() {
            return Some(self.number(flow));
        }
        let incast_ns = self
            .incasts
            .as_mut()
            .and_then(|events| events.peek().map(|event| event.start_ns));
        let background_ns = self
            .background
            .as_mut()
            .and_then(|flows| flows.peek().map(|next| next.flow.start_ns));
        let incast_ns = incast_ns.filter(|&ns| background_ns.is_some() || self.has_incast_at(ns));
        let added_ns = self.added.front().map(|flow| flow.start_ns);
        // The first one of those that start together.
        let starts = [background_ns, added_ns, incast_ns];
        let first = starts.into_iter().flatten().min()?;
        let flow = match starts.iter().position(|start| *start == Some(first))? {
            0 => {
                let Next { flow, after, class } = self.background.as_mut()?.next()?;
                let warm_up = self.is_outside(flow.start_ns);
                self.counted += 1;
                self.last_start = flow.start_ns;
                Flow {
                    after,
                    warm_up,
                    ..Flow::of(flow, class)
                }
            }
            1 => Flow::of(self.added.pop_front()?, Class::Added),
            _ => self.begin_incast()?,
        };
        Some(self.number(flow))
    }
}
