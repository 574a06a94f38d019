// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The naive arbitrator, a list that is sorted each time; and the result of strict priority over a
//! whole fabric, computed with global knowledge.
//!
//! A scenario of the arbitrator is made by a property test, or from a fuzzer's bytes
//! ([`Scenario::decode`]).
#![allow(dead_code, reason = "tests, fuzz targets and examples each use a part")]

use weft_mechanisms::heap::Heap;
use weft_mechanisms::pase::arbiter::{Arbiter, Link, EXPIRED_AT_ONCE};
use weft_mechanisms::pase::{Flow, Verdict, MAX_RATE};

/// The numbers of a scenario's flows are below this.
pub(crate) const FLOWS: u64 = 200;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Update(Flow),
    Remove(u64),
    Expire(u32),
    /// Time passes, in ns.
    Time(u64),
    Rate(u64),
}

/// A sequence of operations on an arbitrator.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) capacity: usize,
    pub(crate) queues: u8,
    pub(crate) operations: Vec<Operation>,
}

/// The link of a scenario, except for its queues.
pub(crate) const LINK: Link = Link {
    rate: 100,
    queues: 8,
    lifetime: 1_000,
};

impl Scenario {
    /// Every sequence of bytes is a scenario.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut rest = bytes.iter().copied();
        let mut next = || rest.next();
        let mut scenario = Self {
            capacity: usize::from(next().unwrap_or(7)) % 150 + 1,
            queues: next().unwrap_or(7) % 9 + 1,
            operations: Vec::new(),
        };
        while let Some(code) = next() {
            let mut next = || u64::from(next().unwrap_or(0));
            // Mostly the same few flows.
            let id = |byte: u64| if byte < 128 { byte % 12 } else { byte % FLOWS };
            scenario.operations.push(match code {
                0..=139 => Operation::Update(Flow {
                    id: id(next()),
                    urgency: match next() {
                        255 => u64::MAX,
                        byte @ 128.. => byte * 8,
                        byte => byte % 6,
                    },
                    demand: match next() {
                        255 => MAX_RATE,
                        byte @ 240.. => (byte % 2) * 100,
                        byte => byte,
                    },
                }),
                140..=179 => Operation::Remove(id(next())),
                180..=189 => Operation::Expire(next() as u32 % 9),
                190..=244 => Operation::Time(match next() {
                    255 => 100_000,
                    254 => 999,
                    253 => 1_000,
                    byte => byte,
                }),
                245..=255 => Operation::Rate(match next() {
                    byte @ 250.. => byte % 2 * 100,
                    byte => byte * 4,
                }),
            });
        }
        scenario
    }

    /// Runs the scenario on the arbitrator and on the list.
    ///
    /// # Panics
    ///
    /// If they differ, or if an invariant of the arbitrator is violated.
    pub(crate) fn run(&self) {
        let link = Link {
            queues: self.queues,
            ..LINK
        };
        let Ok(mut tree) = Arbiter::<Heap>::new(self.capacity as u32, link, 7);
        let mut list = Naive::new(self.capacity, link);
        let mut now = 0;
        for operation in &self.operations {
            match *operation {
                Operation::Update(flow) => {
                    assert_eq!(tree.update(&flow, now), list.update(flow, now));
                }
                Operation::Remove(id) => assert_eq!(tree.remove(id), list.remove(id)),
                Operation::Expire(most) => {
                    assert_eq!(tree.expire(now, most), list.expire(now, most));
                }
                Operation::Time(passes) => now += passes,
                Operation::Rate(rate) => {
                    tree.set_rate(rate);
                    list.link.rate = rate;
                }
            }
            assert_eq!(
                (tree.len() as usize, tree.demand()),
                (list.len(), list.demand())
            );
            assert!(tree.check().is_ok(), "{:?}", tree.check());
        }
        for id in 0..FLOWS {
            assert_eq!(tree.verdict(id), list.verdict(id), "of {id}");
        }
    }
}

/// Algorithm 1 as printed, except if ADH is a multiple of C (see `pase`), in the order of the last
/// updates.
pub(crate) struct Naive {
    pub(crate) link: Link,
    pub(crate) capacity: usize,
    flows: Vec<(Flow, u64)>,
}

impl Naive {
    pub(crate) fn new(capacity: usize, link: Link) -> Self {
        Self {
            link,
            capacity,
            flows: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(crate) fn demand(&self) -> u64 {
        self.flows.iter().map(|(flow, _)| flow.demand).sum()
    }

    pub(crate) fn update(&mut self, flow: Flow, now: u64) -> Verdict {
        self.expire(now, EXPIRED_AT_ONCE);
        self.remove(flow.id);
        self.flows.push((flow, now));
        let verdict = self.of(&flow);
        if self.flows.len() > self.capacity {
            let key = |(flow, _): &(Flow, u64)| (flow.urgency, flow.id);
            let last = self.flows.iter().map(key).max().expect("there is one");
            self.flows.retain(|flow| key(flow) != last);
        }
        verdict
    }

    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let before = self.flows.len();
        self.flows.retain(|(flow, _)| flow.id != id);
        self.flows.len() < before
    }

    pub(crate) fn expire(&mut self, now: u64, most: u32) -> u32 {
        let late = |(_, seen): &(Flow, u64)| now.saturating_sub(*seen) >= self.link.lifetime;
        let late = self.flows.iter().take_while(|flow| late(flow)).count();
        let gone = late.min(most as usize);
        self.flows.drain(..gone);
        gone as u32
    }

    pub(crate) fn verdict(&self, id: u64) -> Option<Verdict> {
        let (flow, _) = self.flows.iter().find(|(flow, _)| flow.id == id)?;
        Some(self.of(flow))
    }

    fn of(&self, flow: &Flow) -> Verdict {
        let mut sorted: Vec<Flow> = self.flows.iter().map(|(flow, _)| *flow).collect();
        sorted.sort_by_key(|flow| (flow.urgency, flow.id));
        let higher = sorted.iter().take_while(|other| other.id != flow.id);
        let adh: u64 = higher.map(|flow| flow.demand).sum();
        let (c, lowest) = (self.link.rate, u64::from(self.link.queues));
        let rate = if adh < c { flow.demand.min(c - adh) } else { 0 };
        // ⌊ADH / C⌋ + 1 without a division.
        let mut queue = 0;
        while queue < lowest && queue * c <= adh {
            queue += 1;
        }
        let queue = if c == 0 { lowest } else { queue.max(1) };
        Verdict {
            queue: queue as u8,
            rate,
        }
    }
}

/// The rate of each flow if the most urgent takes all it can of its links, then the next, and so
/// on.
pub(crate) fn strict_priority(rates: &[u64], flows: &[(Flow, Vec<usize>)]) -> Vec<u64> {
    let mut left = rates.to_vec();
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|&at| (flows[at].0.urgency, flows[at].0.id));
    let mut given = vec![0; flows.len()];
    for at in order {
        let (flow, links) = &flows[at];
        let room = links.iter().map(|&link| left[link]).min();
        given[at] = flow.demand.min(room.unwrap_or(u64::MAX));
        links.iter().for_each(|&link| left[link] -= given[at]);
    }
    given
}
