// SPDX-License-Identifier: MIT OR Apache-2.0

//! The flows of a workload, in order: a function of the description and its seed.
//!
//! Sizes, times, pairs, the times of incasts and their hosts are drawn from separate streams of the
//! seed, in the order of the flows: another load leaves the sizes and the pairs, other sizes leave
//! the times (given the same rate), and incasts leave everything else as it was.

use std::iter::Peekable;
use std::num::NonZeroU32;

use chacha20::ChaCha8Rng;

use crate::arrivals::{Clock, Process};
use crate::error::{Result, invalid};
use crate::incast::{Events, Incast};
use crate::pairs::Pairs;
use crate::random::{self, Stream};
use crate::sizes::Sizes;
use crate::trace::{Trace, TraceFlow};

/// A workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Hosts of the fabric.
    pub hosts: u32,
    /// Flows that are no incast.
    pub background: Option<Background>,
    /// Incasts, on top or alone.
    pub incast: Option<Incast>,
    /// How much of it.
    pub until: Until,
    /// The fraction of `until` that is not measured, 0 to below 1.
    pub warm_up: f64,
    /// Of all random numbers.
    pub seed: u64,
}

/// Flows that are no incast, and what decides when they begin.
#[derive(Clone, Debug, PartialEq)]
pub enum Background {
    /// Flows begin whether or not others are done: one process for the whole fabric.
    Open {
        /// How large.
        sizes: Sizes,
        /// From where to where.
        pairs: Pairs,
        /// The times between them.
        process: Process,
        /// Flows per second, above 0; see [`crate::load`].
        rate: f64,
    },
    /// The end of a flow begins the next of its pair.
    Closed {
        /// How large.
        sizes: Sizes,
        /// All pairs that occur ([`Pairs::all`]) have flows, in turn.
        pairs: Pairs,
        /// Flows at a time per pair.
        outstanding: NonZeroU32,
    },
    /// All as a file says.
    Trace(Trace),
}

/// Where a workload ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// With so many background flows; incasts come on top, up to the last background flow's start.
    /// Without background: with the incast that brings so many flows.
    Flows(u64),
    /// Flows start before this many ns.
    Time(u64),
    /// With the trace.
    TraceEnd,
}

/// What a flow belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Not to an incast.
    Background,
    /// To the incast of this number, from 0.
    Incast(u64),
}

/// A flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its place in the order, from 0.
    pub id: u64,
    /// ns since the beginning, if it does not wait for another.
    pub start_ns: u64,
    /// In a closed loop, the flow whose end begins this one: always one with a smaller id.
    pub after: Option<u64>,
    /// Sender.
    pub src: u32,
    /// Receiver, another host.
    pub dst: u32,
    /// Bytes of payload, 1 to 2^40.
    pub size: u64,
    /// What it belongs to.
    pub class: Class,
    /// Whether it is not to be measured.
    pub warm_up: bool,
}

impl Workload {
    /// The flows, by start; of those that start together, background first. Never endless.
    ///
    /// # Errors
    ///
    /// If a number is out of range, hosts do not fit, there is neither background nor incast, or
    /// the end fits none of them: a closed loop ends after a number of flows (when they end is not
    /// known before), and has no incasts for the same reason; only a trace has an end of its own.
    pub fn flows(&self) -> Result<Flows> {
        if !(0.0..1.0).contains(&self.warm_up) {
            return invalid(format!(
                "warm-up {}: expected a fraction from 0 to below 1",
                self.warm_up
            ));
        }
        if matches!(self.until, Until::Flows(0) | Until::Time(0)) {
            return invalid("a workload needs at least one flow, or some time");
        }
        let background = self.background.as_ref();
        let source = background
            .map(|background| self.source(background))
            .transpose()?;
        let incast = self.incast.as_ref();
        let incasts = incast
            .map(|incast| incast.events(self.hosts, self.seed))
            .transpose()?;
        if source.is_none() && incasts.is_none() {
            return invalid("a workload needs background flows or incasts");
        }
        if source.is_none() && self.until == Until::TraceEnd {
            return invalid("without a trace, say a number of flows or a time");
        }
        Ok(Flows {
            warm_up: match self.until {
                Until::Flows(n) => WarmUp::Flows(fraction(self.warm_up, n)),
                Until::Time(ns) => WarmUp::Time(fraction(self.warm_up, ns)),
                Until::TraceEnd => WarmUp::Flows(match &source {
                    Some(Source::Trace(flows)) => fraction(self.warm_up, flows.len() as u64),
                    _ => 0,
                }),
            },
            background: source.map(|source| {
                BackgroundFlows {
                    source,
                    count: 0,
                    until: self.until,
                }
                .peekable()
            }),
            incasts: incasts.map(Iterator::peekable),
            until: self.until,
            pending: Vec::new(),
            next_id: 0,
            events: 0,
            counted: 0,
            last_start: 0,
        })
    }

    fn source(&self, background: &Background) -> Result<Source> {
        let is_trace = matches!(background, Background::Trace(_));
        if !is_trace && self.until == Until::TraceEnd {
            return invalid("without a trace, say a number of flows or a time");
        }
        match background {
            Background::Open {
                sizes,
                pairs,
                process,
                rate,
            } => {
                let rng = |stream| random::stream(self.seed, stream);
                Ok(Source::Open(Box::new(Open {
                    clock: Clock::new(*process, *rate, rng(Stream::Arrivals))?,
                    sizes: sizes.clone(),
                    size_rng: rng(Stream::Sizes),
                    pairs: self.check(pairs)?.clone(),
                    pair_rng: rng(Stream::Pairs),
                })))
            }
            Background::Closed {
                sizes,
                pairs,
                outstanding,
            } => {
                if !matches!(self.until, Until::Flows(_)) {
                    return invalid("a closed loop ends after a number of flows, not after a time");
                }
                if self.incast.is_some() {
                    return invalid(
                        "a closed loop has no incasts on top: when it ends is not known before",
                    );
                }
                let pairs = self.check(pairs)?.all();
                let each = std::iter::repeat_n(pairs, outstanding.get() as usize);
                Ok(Source::Closed(Box::new(Closed {
                    chains: each.flatten().map(|(pair, _)| pair).collect(),
                    sizes: sizes.clone(),
                    size_rng: random::stream(self.seed, Stream::Sizes),
                })))
            }
            Background::Trace(trace) => {
                let flows = trace.flows();
                let last = flows.iter().map(|flow| flow.src.max(flow.dst)).max();
                match last.filter(|host| *host >= self.hosts) {
                    Some(host) => invalid(format!(
                        "the trace has a host h{host}, the fabric has {} hosts",
                        self.hosts
                    )),
                    None => Ok(Source::Trace(flows.to_vec())),
                }
            }
        }
    }

    fn check<'a>(&self, pairs: &'a Pairs) -> Result<&'a Pairs> {
        if pairs.hosts() == self.hosts {
            return Ok(pairs);
        }
        invalid(format!(
            "the pairs are of {} hosts, the fabric has {}",
            pairs.hosts(),
            self.hosts
        ))
    }
}

fn fraction(fraction: f64, of: u64) -> u64 {
    (fraction * of as f64).ceil() as u64
}

#[derive(Debug)]
enum Source {
    Open(Box<Open>),
    Closed(Box<Closed>),
    Trace(Vec<TraceFlow>),
}

#[derive(Debug)]
struct Open {
    clock: Clock<ChaCha8Rng>,
    sizes: Sizes,
    size_rng: ChaCha8Rng,
    pairs: Pairs,
    pair_rng: ChaCha8Rng,
}

#[derive(Debug)]
struct Closed {
    /// Each has one flow at a time.
    chains: Vec<(u32, u32)>,
    sizes: Sizes,
    size_rng: ChaCha8Rng,
}

#[derive(Debug)]
struct BackgroundFlows {
    source: Source,
    count: u64,
    until: Until,
}

/// A background flow, and how many flows before it the one is whose end it waits for.
type Waiting = (TraceFlow, Option<u64>);

impl Iterator for BackgroundFlows {
    type Item = Waiting;

    fn next(&mut self) -> Option<Waiting> {
        if matches!(self.until, Until::Flows(n) if self.count >= n) {
            return None;
        }
        let waiting = match &mut self.source {
            Source::Open(open) => {
                let (src, dst) = open.pairs.sample(&mut open.pair_rng);
                let size = open.sizes.sample(&mut open.size_rng);
                let start_ns = open.clock.next_ns();
                (
                    TraceFlow {
                        start_ns,
                        src,
                        dst,
                        size,
                    },
                    None,
                )
            }
            Source::Closed(closed) => {
                let all = closed.chains.len() as u64;
                let (src, dst) = closed.chains[(self.count % all) as usize];
                let size = closed.sizes.sample(&mut closed.size_rng);
                let flow = TraceFlow {
                    start_ns: 0,
                    src,
                    dst,
                    size,
                };
                (flow, (self.count >= all).then_some(all))
            }
            Source::Trace(flows) => (*flows.get(usize::try_from(self.count).ok()?)?, None),
        };
        if matches!(self.until, Until::Time(ns) if waiting.0.start_ns >= ns) {
            return None;
        }
        self.count += 1;
        Some(waiting)
    }
}

#[derive(Debug)]
enum WarmUp {
    /// The first so many flows that count towards the end, and what starts between them.
    Flows(u64),
    /// What starts before so many ns.
    Time(u64),
}

/// The flows of a [`Workload`].
#[derive(Debug)]
pub struct Flows {
    background: Option<Peekable<BackgroundFlows>>,
    incasts: Option<Peekable<Events>>,
    until: Until,
    warm_up: WarmUp,
    /// The rest of the incast that is under way, last sender first.
    pending: Vec<Flow>,
    next_id: u64,
    events: u64,
    /// Flows so far that count towards `until`.
    counted: u64,
    /// Of the last background flow so far.
    last_start: u64,
}

impl Flows {
    fn number(&mut self, flow: Flow) -> Flow {
        let id = self.next_id;
        self.next_id += 1;
        let after = flow.after.and_then(|back| id.checked_sub(back));
        Flow { id, after, ..flow }
    }

    fn is_warm_up(&self, start_ns: u64) -> bool {
        match self.warm_up {
            WarmUp::Flows(n) => self.counted < n,
            WarmUp::Time(ns) => start_ns < ns,
        }
    }

    /// Whether an incast at `start_ns` still belongs to the workload, once no background flow is
    /// left to come before it.
    fn has_incast_at(&self, start_ns: u64) -> bool {
        match self.until {
            Until::Time(ns) => start_ns < ns,
            Until::Flows(n) if self.background.is_none() => self.counted < n,
            Until::Flows(_) | Until::TraceEnd => start_ns <= self.last_start,
        }
    }

    fn begin_incast(&mut self) -> Option<Flow> {
        let event = self.incasts.as_mut()?.next()?;
        let warm_up = self.is_warm_up(event.start_ns);
        let flows = event.senders.iter().rev().map(|&(src, size)| Flow {
            id: 0,
            start_ns: event.start_ns,
            after: None,
            src,
            dst: event.receiver,
            size,
            class: Class::Incast(self.events),
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
            .and_then(|flows| flows.peek().map(|(flow, _)| flow.start_ns));
        let flow = match (background_ns, incast_ns) {
            (Some(background), incast) if incast.is_none_or(|incast| background <= incast) => {
                let (flow, after) = self.background.as_mut()?.next()?;
                let warm_up = self.is_warm_up(flow.start_ns);
                self.counted += 1;
                self.last_start = flow.start_ns;
                let TraceFlow {
                    start_ns,
                    src,
                    dst,
                    size,
                } = flow;
                Flow {
                    id: 0,
                    start_ns,
                    after,
                    src,
                    dst,
                    size,
                    class: Class::Background,
                    warm_up,
                }
            }
            (Some(_), _) => self.begin_incast()?,
            (None, Some(incast)) if self.has_incast_at(incast) => self.begin_incast()?,
            (None, _) => return None,
        };
        Some(self.number(flow))
    }
}
