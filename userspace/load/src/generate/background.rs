// SPDX-License-Identifier: MIT OR Apache-2.0

//! Flows outside incasts.

use chacha20::ChaCha8Rng;

use super::{Background, Class, Predecessors, Until, Workload};
use crate::arrivals::{Clock, Process};
use crate::collective::{Part, Rounds};
use crate::error::{Result, invalid};
use crate::pairs::Pairs;
use crate::random::{self, Stream};
use crate::sizes::Sizes;
use crate::strata::{Draws, Strata};
use crate::trace::TraceFlow;

#[derive(Debug)]
pub(super) struct BackgroundFlows {
    source: Source,
    /// The next flow, if it was peeked.
    ahead: Option<Next>,
    /// Flows drawn so far.
    count: u64,
    /// `None`: endless.
    until: Option<Until>,
}

/// A flow. Flows that wait for others are the first of the workload, so that their places are their
/// numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Next {
    pub(super) flow: TraceFlow,
    pub(super) after: Option<Predecessors>,
    pub(super) class: Class,
}

impl Next {
    /// A flow that has a start time.
    fn at_its_time(flow: TraceFlow) -> Self {
        Self {
            flow,
            after: None,
            class: Class::Background,
        }
    }
}

#[derive(Debug)]
enum Source {
    Open(Box<Open>),
    Closed(Box<Closed>),
    Collective(Rounds),
    Trace(Vec<TraceFlow>),
}

#[derive(Debug)]
struct Open {
    clock: Clock<Draws>,
    sizes: Sizes,
    size_rng: Draws,
    pairs: Pairs,
    pair_rng: ChaCha8Rng,
}

#[derive(Debug)]
struct Closed {
    /// Each pair has one flow at a time.
    chains: Vec<(u32, u32)>,
    sizes: Sizes,
    size_rng: ChaCha8Rng,
}

impl BackgroundFlows {
    /// `before`: number of warm-up flows, if the workload ends after a number of flows.
    pub(super) fn new(workload: &Workload, background: &Background, before: u64) -> Result<Self> {
        let rng = |stream| random::stream(workload.seed, stream);
        let source = match background {
            Background::Open {
                sizes,
                pairs,
                process,
                rate,
            } => {
                let draws = |stream| -> Result<Draws> {
                    let rng = rng(stream);
                    Ok(match process {
                        Process::Balanced => strata(workload, before, rng)?,
                        _ => Draws::Independent(rng),
                    })
                };
                Source::Open(Box::new(Open {
                    clock: Clock::new(*process, *rate, draws(Stream::Arrivals)?)?,
                    sizes: sizes.clone(),
                    size_rng: draws(Stream::Sizes)?,
                    pairs: check(pairs, workload.hosts)?.clone(),
                    pair_rng: rng(Stream::Pairs),
                }))
            }
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
            Background::Collective(collective) => {
                if !matches!(workload.until, Until::Rounds(_)) {
                    return invalid("a collective ends after a number of rounds");
                }
                if workload.incast.is_some() {
                    return invalid(
                        "a collective has no incasts on top: when it ends is not known before",
                    );
                }
                Source::Collective(Rounds::new(collective, workload.hosts, workload.seed)?)
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

    /// Removes the end, and returns true, if flows begin whether or not others have ended.
    pub(super) fn continue_load(&mut self) -> bool {
        let open = matches!(self.source, Source::Open(_));
        if open {
            self.until = None;
        }
        open
    }

    /// The next flow, without taking it.
    pub(super) fn peek(&mut self) -> Option<&Next> {
        if self.ahead.is_none() {
            let end = match (self.until, &self.source) {
                (Some(Until::Flows(n)), _) => Some(n),
                (Some(Until::Rounds(n)), Source::Collective(rounds)) => Some(n * rounds.flows()),
                _ => None,
            };
            if end.is_some_and(|end| self.count >= end) {
                return None;
            }
            self.ahead = Some(self.draw()?);
            self.count += 1;
        }
        let until = self.until;
        let within = move |next: &&Next| match until {
            Some(Until::Time(ns)) => next.flow.start_ns < ns,
            _ => true,
        };
        self.ahead.as_ref().filter(within)
    }

    fn draw(&mut self) -> Option<Next> {
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
                Next::at_its_time(flow)
            }
            Source::Closed(closed) => {
                let all = closed.chains.len() as u64;
                let (src, dst) = closed.chains[(self.count % all) as usize];
                let size = closed.sizes.sample(&mut closed.size_rng);
                let flow = from_the_beginning(src, dst, size);
                Next {
                    after: self.count.checked_sub(all).map(Predecessors::one),
                    ..Next::at_its_time(flow)
                }
            }
            Source::Collective(rounds) => {
                let Part {
                    src,
                    dst,
                    size,
                    after,
                    round,
                } = rounds.flow(self.count);
                Next {
                    flow: from_the_beginning(src, dst, size),
                    after,
                    class: Class::Round(round),
                }
            }
            Source::Trace(flows) => {
                Next::at_its_time(*flows.get(usize::try_from(self.count).ok()?)?)
            }
        })
    }
}

/// A flow without a start time.
fn from_the_beginning(src: u32, dst: u32, size: u64) -> TraceFlow {
    TraceFlow {
        start_ns: 0,
        src,
        dst,
        size,
    }
}

/// One block for the warm-up, and one for the measured flows.
fn strata(workload: &Workload, before: u64, rng: ChaCha8Rng) -> Result<Draws> {
    let block = |flows: u64| u32::try_from(flows).ok();
    let blocks = match workload.until {
        Until::Flows(n) => block(before).zip(block(n.saturating_sub(before))),
        _ => None,
    };
    match blocks {
        Some((first, later)) => Ok(Draws::Stratified(Strata::new(rng, first, later))),
        None => invalid("balanced arrivals need a number of flows, not a time"),
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
    type Item = Next;

    fn next(&mut self) -> Option<Self::Item> {
        self.peek()?;
        self.ahead.take()
    }
}
