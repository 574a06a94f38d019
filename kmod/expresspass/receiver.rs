// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The receiving side of a host: it sends the credits of its flows.
//!
//! ```text
//!             request                       stop, or no data for long
//!   (no flow) ───────▶ credits, one each gap ───────────────────────▶ (no flow)
//! ```

use super::flows::Flows;
use super::limiter::Limiter;
use super::message::{Flow, Kind, Message};
use super::rate::{Law, Rate};
use crate::common::deadlines::Deadlines;
use crate::common::shared::Peer;
use crate::common::store::Store;

/// Credits that are made in one call: bounds its time.
const WORK: u32 = 64;

/// A flow ends without a stop if no data has arrived for this many timeouts of a request: its
/// sender is gone.
pub const PATIENCE: u64 = 8;

/// What has happened in a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that began a flow.
    pub begun: u64,
    /// Requests for which there was no room.
    pub refused: u64,
    /// Credits that left.
    pub sent: u64,
    /// Credits dropped by this host's limit.
    pub dropped: u64,
    /// Frames that echoed a credit.
    pub echoed: u64,
    /// Credits that no frame echoed.
    pub lost: u64,
    /// Flows that ended without a stop.
    pub abandoned: u64,
}

/// Round-trip times of a flow that are measured at a time. With only one, a flow whose first credit
/// is lost would keep its initial rate until a later credit is measured.
const SAMPLES: usize = 8;

/// A flow.
#[derive(Clone, Copy)]
struct Incoming {
    /// The sender.
    peer: Peer,
    rate: Rate,
    /// The number of the next credit.
    next: u16,
    /// The number after the latest one that came back.
    expected: u16,
    /// The credits whose round-trip times are measured, and when they were made. A credit's place
    /// is its number modulo [`SAMPLES`].
    samples: [Option<(u16, u64)>; SAMPLES],
    /// When the flow began, or a frame echoed a credit.
    heard: u64,
}

const NOBODY: Peer = Peer {
    address: 0,
    port: 0,
};

/// The receiving side of a host.
pub struct Receiver<S: Store> {
    flows: Flows<S>,
    incoming: S::Of<Incoming>,
    /// When each flow's next credit is due.
    due: Deadlines<S>,
    limiter: Limiter,
    law: Law,
    timeout: u64,
    counters: Counters,
}

/// Adds one to a counter.
pub fn count(counter: &mut u64) {
    *counter = counter.wrapping_add(1);
}

impl<S: Store> Receiver<S> {
    /// Without flows.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(flows: u32, credits: u32, law: Law, timeout: u64) -> Result<Self, S::Error> {
        let flows = flows.clamp(1, super::flows::MAX_FLOWS);
        let nothing = Incoming {
            peer: NOBODY,
            rate: Rate::default(),
            next: 0,
            expected: 0,
            samples: [None; SAMPLES],
            heard: 0,
        };
        Ok(Self {
            flows: Flows::new(flows)?,
            incoming: S::allocate(flows as usize, || nothing)?,
            due: Deadlines::new(flows as u16)?,
            limiter: Limiter::new(credits, law.gap),
            law,
            timeout,
            counters: Counters::default(),
        })
    }

    /// Changes the law, the limit of waiting credits and the timeout.
    pub fn set(&mut self, credits: u32, law: Law, timeout: u64) {
        self.limiter.set(credits, law.gap);
        self.law = law;
        self.timeout = timeout;
    }

    /// Whether there is such a flow.
    pub fn has(&self, flow: &Flow) -> bool {
        self.flows.find(flow).is_some()
    }

    /// A request arrived. Its flow begins, unless it has begun. Returns whether there is such a
    /// flow now.
    pub fn request(&mut self, now: u64, from: Peer, flow: Flow, waiting: u16, random: u32) -> bool {
        if self.has(&flow) {
            return true;
        }
        let Some(number) = self.flows.add(flow) else {
            count(&mut self.counters.refused);
            return false;
        };
        count(&mut self.counters.begun);
        if let Some(incoming) = self.incoming.get_mut(usize::from(number)) {
            // Numbers begin at random: a frame that echoes a credit of an earlier time of the same
            // flow is then mostly not taken for a new one.
            let first = random as u16;
            *incoming = Incoming {
                peer: from,
                rate: Rate::new(&self.law, waiting, now),
                next: first,
                expected: first,
                samples: [None; SAMPLES],
                heard: now,
            };
        }
        self.due.set(number, Some(now));
        true
    }

    /// A stop arrived. Returns whether there was such a flow.
    pub fn stop(&mut self, flow: &Flow) -> bool {
        match self.flows.find(flow) {
            Some(number) => {
                self.end(number);
                true
            }
            None => false,
        }
    }

    /// A frame arrived that echoes a credit. Returns whether there is such a flow.
    #[inline]
    pub fn data(&mut self, now: u64, flow: &Flow, echoed: u16) -> bool {
        if self.flows.is_empty() {
            return false;
        }
        let Some(number) = self.flows.find(flow) else {
            return false;
        };
        let Some(incoming) = self.incoming.get_mut(usize::from(number)) else {
            return false;
        };
        // Half of the numbers are of credits that were made, half of future ones.
        let age = incoming.next.wrapping_sub(1).wrapping_sub(echoed);
        if age >= 1 << 15 {
            return true;
        }
        incoming.heard = now;
        count(&mut self.counters.echoed);
        let gap = echoed.wrapping_sub(incoming.expected);
        if gap < 1 << 15 {
            incoming.rate.came_back(gap);
            incoming.expected = echoed.wrapping_add(1);
            let lost = self.counters.lost;
            self.counters.lost = lost.wrapping_add(gap.into());
        } else {
            // An earlier frame overtook it.
            incoming.rate.was_not_lost();
        }
        let sample = incoming.samples.get_mut(usize::from(echoed) % SAMPLES);
        if let Some(sample) = sample {
            if let Some((_, at)) = sample.take_if(|(number, _)| *number == echoed) {
                incoming.rate.measured(now.saturating_sub(at));
            }
        }
        true
    }

    /// When [`poll`](Self::poll) next has something to do, if ever.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        let due = self.due.first().map(|(at, _)| at);
        [due, self.limiter.next()].into_iter().flatten().min()
    }

    /// The next credit that leaves now. `random` draws 32 random bits.
    pub fn poll(&mut self, now: u64, mut random: impl FnMut() -> u32) -> Option<(Peer, Message)> {
        let mut credit = self.limiter.pop(now);
        for _ in 0..WORK {
            if credit.is_some() {
                break;
            }
            let (at, number) = self.due.first().filter(|&(at, _)| at <= now)?;
            self.make(now, at, number, random());
            credit = self.limiter.pop(now);
        }
        if credit.is_some() {
            count(&mut self.counters.sent);
        }
        credit
    }

    /// Makes a flow's credit that was due at `at`, or ends the flow.
    fn make(&mut self, now: u64, at: u64, number: u16, random: u32) {
        let flow = self.flows.flow(number);
        let incoming = self.incoming.get_mut(usize::from(number));
        let (Some(flow), Some(incoming)) = (flow, incoming) else {
            invariant!("a credit is due for no flow");
            self.due.set(number, None);
            return;
        };
        let patience = self.timeout.saturating_mul(PATIENCE);
        if now.saturating_sub(incoming.heard) > patience {
            count(&mut self.counters.abandoned);
            self.end(number);
            return;
        }
        // The order of the authors' simulator: first the feedback, then the credit, then the gap.
        incoming.rate.update(&self.law, now);
        let kind = Kind::Credit {
            number: incoming.next,
        };
        if self.limiter.push(incoming.peer, Message { flow, kind }) {
            let (number, expected) = (incoming.next, incoming.expected);
            if let Some(sample) = incoming.samples.get_mut(usize::from(number) % SAMPLES) {
                // The sampled credit was lost if a later one came back.
                let awaits = sample.is_some_and(|(of, _)| of.wrapping_sub(expected) < 1 << 15);
                if !awaits {
                    *sample = Some((number, now));
                }
            }
        } else {
            count(&mut self.counters.dropped);
        }
        incoming.next = incoming.next.wrapping_add(1);
        let gap = incoming.rate.gap(&self.law, random).max(1);
        // A late timer delays no later credit, unless it is late by more than a gap.
        let next = at.saturating_add(gap);
        let next = match next > now {
            true => next,
            false => now.saturating_add(gap),
        };
        self.due.set(number, Some(next));
    }

    /// Ends a flow.
    fn end(&mut self, number: u16) {
        self.due.set(number, None);
        if let Some(flow) = self.flows.flow(number) {
            self.limiter.forget(&flow);
        }
        self.flows.remove(number);
    }

    /// Ends all flows.
    pub fn clear(&mut self) {
        while let Some((_, number)) = self.due.first() {
            self.end(number);
        }
        self.limiter.clear();
    }

    /// Flows that get credits.
    pub fn flows(&self) -> u32 {
        self.flows.len()
    }

    /// Credits that wait for this host's limit.
    pub fn credits(&self) -> u32 {
        self.limiter.len()
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// A flow's rate, for tests.
    #[doc(hidden)]
    pub fn rate(&self, flow: &Flow) -> Option<Rate> {
        let number = self.flows.find(flow)?;
        self.incoming
            .get(usize::from(number))
            .map(|incoming| incoming.rate)
    }
}
