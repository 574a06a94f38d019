// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The naive arbitrator, a list that is sorted each time; and what strict priority over a whole fabric
//! gives, by one who knows all of it.

use weft_mechanisms::pase::arbiter::{Link, EXPIRED_AT_ONCE};
use weft_mechanisms::pase::{Flow, Verdict};

/// Algorithm 1 as it is printed, but for ADH that is a multiple of C (see `pase`), in the order of its last updates.
pub(super) struct Naive {
    pub(super) link: Link,
    pub(super) capacity: usize,
    flows: Vec<(Flow, u64)>,
}

impl Naive {
    pub(super) fn new(capacity: usize, link: Link) -> Self {
        Self {
            link,
            capacity,
            flows: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn demand(&self) -> u64 {
        self.flows.iter().map(|(flow, _)| flow.demand).sum()
    }

    pub(super) fn update(&mut self, flow: Flow, now: u64) -> Verdict {
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

    pub(super) fn remove(&mut self, id: u64) -> bool {
        let before = self.flows.len();
        self.flows.retain(|(flow, _)| flow.id != id);
        self.flows.len() < before
    }

    pub(super) fn expire(&mut self, now: u64, most: u32) -> u32 {
        let late = |(_, seen): &(Flow, u64)| now.saturating_sub(*seen) >= self.link.lifetime;
        let late = self.flows.iter().take_while(|flow| late(flow)).count();
        let gone = late.min(most as usize);
        self.flows.drain(..gone);
        gone as u32
    }

    pub(super) fn verdict(&self, id: u64) -> Option<Verdict> {
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

/// What each flow may send if the most urgent takes all it can of its links, then the next, and so on.
pub(super) fn strict_priority(rates: &[u64], flows: &[(Flow, Vec<usize>)]) -> Vec<u64> {
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
