// SPDX-License-Identifier: MIT OR Apache-2.0

//! The flows that are no incast.

use chacha20::ChaCha8Rng;

use super::{Background, Until, Workload};
use crate::arrivals::Clock;
use crate::error::{Result, invalid};
use crate::pairs::Pairs;
use crate::random::{self, Stream};
use crate::sizes::Sizes;
use crate::trace::TraceFlow;

#[derive(Debug)]
pub(super) struct BackgroundFlows {
    source: Source,
    /// The next, if it was looked at.
    ahead: Option<Waiting>,
    /// Drawn so far.
    count: u64,
    /// `None`: without an end.
    until: Option<Until>,
}

/// A flow, and how many flows before it the one is whose end it waits for.
pub(super) type Waiting = (TraceFlow, Option<u64>);

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

impl BackgroundFlows {
    pub(super) fn new(workload: &Workload, background: &Background) -> Result<Self> {
        let rng = |stream| random::stream(workload.seed, stream);
        let source = match background {
            Background::Open {
                sizes,
                pairs,
                process,
                rate,
            } => Source::Open(Box::new(Open {
                clock: Clock::new(*process, *rate, rng(Stream::Arrivals))?,
                sizes: sizes.clone(),
                size_rng: rng(Stream::Sizes),
                pairs: check(pairs, workload.hosts)?.clone(),
                pair_rng: rng(Stream::Pairs),
            })),
            Background::Closed {
                sizes,
                pairs,
                outstanding,
            } => {
                if !matches!(workload.until, Until::Flows(_)) {
                    return invalid("a closed loop ends after a number of flows, not after a time");
                }
                if workload.incast.is_some() {
                    return invalid(
                        "a closed loop has no incasts on top: when it ends is not known before",
                    );
                }
                let pairs = check(pairs, workload.hosts)?.all();
                let each = std::iter::repeat_n(pairs, outstanding.get() as usize);
                Source::Closed(Box::new(Closed {
                    chains: each.flatten().map(|(pair, _)| pair).collect(),
                    sizes: sizes.clone(),
                    size_rng: rng(Stream::Sizes),
                }))
            }
            Background::Trace(trace) => {
                let flows = trace.flows();
                let last = flows.iter().map(|flow| flow.src.max(flow.dst)).max();
                if let Some(host) = last.filter(|host| *host >= workload.hosts) {
                    return invalid(format!(
                        "the trace has a host h{host}, the fabric has {} hosts",
                        workload.hosts
                    ));
                }
                Source::Trace(flows.to_vec())
            }
        };
        Ok(Self {
            source,
            ahead: None,
            count: 0,
            until: Some(workload.until),
        })
    }

    /// From now on there is no end, if flows begin whether or not others are done: true.
    pub(super) fn go_on(&mut self) -> bool {
        let open = matches!(self.source, Source::Open(_));
        if open {
            self.until = None;
        }
        open
    }

    /// The next, which is still to come.
    pub(super) fn peek(&mut self) -> Option<&Waiting> {
        if self.ahead.is_none() {
            if matches!(self.until, Some(Until::Flows(n)) if self.count >= n) {
                return None;
            }
            self.ahead = Some(self.draw()?);
            self.count += 1;
        }
        let until = self.until;
        let within = move |(flow, _): &&Waiting| match until {
            Some(Until::Time(ns)) => flow.start_ns < ns,
            _ => true,
        };
        self.ahead.as_ref().filter(within)
    }

    fn draw(&mut self) -> Option<Waiting> {
        Some(match &mut self.source {
            Source::Open(open) => {
                let (src, dst) = open.pairs.sample(&mut open.pair_rng);
                let size = open.sizes.sample(&mut open.size_rng);
                let start_ns = open.clock.next_ns();
                let flow = TraceFlow {
                    start_ns,
                    src,
                    dst,
                    size,
                };
                (flow, None)
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
        })
    }
}

fn check(pairs: &Pairs, hosts: u32) -> Result<&Pairs> {
    if pairs.hosts() == hosts {
        return Ok(pairs);
    }
    invalid(format!(
        "the pairs are of {} hosts, the fabric has {hosts}",
        pairs.hosts()
    ))
}

impl Iterator for BackgroundFlows {
    type Item = Waiting;

    fn next(&mut self) -> Option<Self::Item> {
        self.peek()?;
        self.ahead.take()
    }
}
