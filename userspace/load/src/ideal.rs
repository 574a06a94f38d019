// SPDX-License-Identifier: MIT OR Apache-2.0

//! The ideal that pFabric is measured against: shortest remaining flow first, on a fabric whose
//! core never limits and whose switches know everything at once.
//!
//! Alizadeh et al., pFabric, SIGCOMM 2013, §3, Algorithm 1, run each time a flow arrives or
//! departs:
//!
//! ```text
//! busy ← {}
//! for each flow, in increasing order of remaining size:
//!     if neither its source's link nor its destination's is busy:
//!         serve it at line rate; both links are busy
//! ```
//!
//! Between two runs of it nothing would change: a flow that is served only becomes shorter than
//! those that it keeps waiting. It is a greedy matching, at most twice as slow as the best schedule
//! there is, on average over flows, and that one is NP-hard to find; on one link it is the best.
//!
//! Flows are a fluid here: a packet that is being sent is interrupted. Everything else that takes
//! time on an idle fabric, the way through it and store and forward, is in
//! [`crate::slowdown::IdlePath::best_ns`]: a flow's ideal completion time is that and what it
//! waits.

/// A flow, as the ideal fabric sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// When it arrives, in ps.
    pub start_ps: u64,
    /// Sender.
    pub src: u32,
    /// Receiver.
    pub dst: u32,
    /// How long its links are busy with it, in ps: its bytes on the wire at the slower one's rate.
    pub service_ps: u64,
}

struct Active {
    index: usize,
    remaining_ps: u64,
    served: bool,
}

/// How much longer than alone each flow takes, in ps, in the order of `flows`.
///
/// Of flows with equally much left, that which is first in `flows` goes first.
///
/// ```
/// use weft_load::ideal::{Demand, waits_ps};
///
/// // To one receiver: the short flow interrupts the long one.
/// let long = Demand { start_ps: 0, src: 0, dst: 2, service_ps: 100 };
/// let short = Demand { start_ps: 10, src: 1, dst: 2, service_ps: 5 };
/// assert_eq!(waits_ps(&[long, short]), [5, 0]);
/// ```
#[must_use]
pub fn waits_ps(flows: &[Demand]) -> Vec<u64> {
    let mut arrivals: Vec<usize> = (0..flows.len()).collect();
    arrivals.sort_by_key(|&index| flows[index].start_ps);
    let mut arrivals = arrivals.into_iter().peekable();
    let links = |host: fn(&Demand) -> u32| flows.iter().map(host).max().map_or(0, |max| max + 1);
    let mut senders = Busy::new(links(|flow| flow.src));
    let mut receivers = Busy::new(links(|flow| flow.dst));
    let mut waits = vec![0; flows.len()];
    let mut active: Vec<Active> = Vec::new();
    let mut now = 0;
    loop {
        while let Some(index) = arrivals.next_if(|&index| flows[index].start_ps <= now) {
            active.push(Active {
                index,
                remaining_ps: flows[index].service_ps,
                served: false,
            });
        }
        active.sort_unstable_by_key(|flow| (flow.remaining_ps, flow.index));
        senders.clear();
        receivers.clear();
        for flow in &mut active {
            let Demand { src, dst, .. } = flows[flow.index];
            flow.served = !senders.is(src) && !receivers.is(dst);
            if flow.served {
                senders.set(src);
                receivers.set(dst);
            }
        }
        let served = active.iter().filter(|flow| flow.served);
        let departure = served
            .map(|flow| now.saturating_add(flow.remaining_ps))
            .min();
        let arrival = arrivals.peek().map(|&index| flows[index].start_ps);
        let Some(next) = departure.into_iter().chain(arrival).min() else {
            return waits;
        };
        for flow in active.iter_mut().filter(|flow| flow.served) {
            flow.remaining_ps -= next - now;
        }
        now = next;
        active.retain(|flow| {
            let done = flow.served && flow.remaining_ps == 0;
            if done {
                let Demand {
                    start_ps,
                    service_ps,
                    ..
                } = flows[flow.index];
                waits[flow.index] = now - start_ps - service_ps;
            }
            !done
        });
    }
}

/// Which hosts' links are taken.
struct Busy(Vec<bool>);

impl Busy {
    fn new(hosts: u32) -> Self {
        Self(vec![false; hosts as usize])
    }

    fn clear(&mut self) {
        self.0.fill(false);
    }

    fn is(&self, host: u32) -> bool {
        self.0[host as usize]
    }

    fn set(&mut self, host: u32) {
        self.0[host as usize] = true;
    }
}
