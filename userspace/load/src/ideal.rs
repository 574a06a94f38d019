// SPDX-License-Identifier: MIT OR Apache-2.0

//! The ideal that pFabric is compared with: the flow with the shortest remaining size first, on a
//! fabric whose core is never a bottleneck and whose switches have complete and instant knowledge.
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
//! Between two runs of the algorithm its result would not change: a flow that is served only
//! becomes shorter than the flows that wait for it. It is a greedy matching, at most twice as slow
//! as the optimal schedule, on average over flows, and the optimal one is NP-hard to find. On one
//! link it is optimal.
//!
//! Flows are a fluid here: a packet in transmission can be interrupted. All other time on an idle
//! fabric, propagation and store-and-forward, is in [`crate::slowdown::IdlePath::best_ns`]. A
//! flow's ideal completion time is the sum of that and its wait.

/// A flow on the ideal fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Demand {
    /// When it arrives, in ps.
    pub start_ps: u64,
    /// Sender.
    pub src: u32,
    /// Receiver.
    pub dst: u32,
    /// How long it occupies its links, in ps: its bytes on the wire at the rate of the slower link.
    pub service_ps: u64,
}

struct Active {
    index: usize,
    remaining_ps: u64,
    served: bool,
}

/// How much longer each flow takes than alone, in ps, in the order of `flows`.
///
/// Among flows with equal remaining size, the first one in `flows` goes first.
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

/// The hosts whose links are busy.
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
