// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The sending side of a host: its flows, and when their packets may leave.
//!
//! ```text
//!             a packet             credit                  no packet waits
//!   (no flow) ────────▶ Requesting ──────▶ Receiving ──────────────────────▶ Stopping
//!                        │ ▲ ▲ ▲               │ no credit for a timeout        │ stop
//!                        └─┘ │ └───────────────┘                                ▼
//!                    timeout │                  a packet, or some wait       Stopped
//!                            ├───────────────────────────────────────────────┤  │ ▲
//!                            │                                      2 RTTs   │  ▼ │ credits
//!                            └────────────────────────────────────────────── Closing ──▶ (no flow)
//!                                                                                   RTT
//! ```
//!
//! The packets are the caller's: a queue for each flow. This counts their frames: a frame **waits**
//! until a credit arrives for it, and is **granted** until it leaves.

use super::flows::{Flows, MAX_FLOWS};
use super::message::{Flow, Kind, Message};
use super::receiver::count;
use crate::common::deadlines::Deadlines;
use crate::common::shared::Peer;
use crate::common::store::Store;

/// Flows that are processed in one call without a message: bounds its time.
const WORK: u32 = 64;

/// The constants of a sender; times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The UDP port of the receivers.
    pub port: u16,
    /// The most packets that wait, and the most that need no credit.
    pub limit: u32,
    /// Until a request is repeated.
    pub timeout: u64,
    /// From a flow's first packet to its request, for others of the same burst.
    pub gather: u64,
    /// For how long no packet must wait before a stop.
    pub linger: u64,
    /// Whether a flow stops early: when as many credits arrived in a round-trip time as frames
    /// wait.
    pub early: bool,
}

/// What has happened in a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests that were sent.
    pub requests: u64,
    /// Requests without a credit before the timeout.
    pub repeated: u64,
    /// Stops that were sent.
    pub stops: u64,
    /// Credits for which a frame waited.
    pub used: u64,
    /// Credits for which no frame waited.
    pub wasted: u64,
    /// Packets dropped because too many waited.
    pub full: u64,
    /// Packets dropped because there were too many flows.
    pub flowless: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// Waits for the first credit; `sent`: when the request was sent, if it was.
    Requesting {
        sent: Option<u64>,
    },
    Receiving,
    /// A stop is due.
    Stopping,
    Stopped,
    Closing,
}

/// A flow.
#[derive(Clone, Copy)]
struct Outgoing {
    state: State,
    /// Frames that wait.
    waiting: u32,
    /// Frames that may leave.
    granted: u32,
    /// The round-trip time; 0 as long as it is unknown.
    rtt: u64,
    /// The latest credit.
    heard: u64,
    /// Credits since `since`.
    credits: u32,
    since: u64,
}

impl Outgoing {
    /// A flow without packets.
    const fn new(now: u64) -> Self {
        Self {
            state: State::Closing,
            waiting: 0,
            granted: 0,
            rtt: 0,
            heard: now,
            credits: 0,
            since: now,
        }
    }
}

/// What may leave next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// The first packet that needs no credit.
    Free,
    /// The first packet of a flow, which echoes this credit.
    Granted {
        /// The flow's number.
        flow: u16,
        /// The credit's.
        credit: u16,
    },
}

/// The answer to a credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Credit {
    /// A frame may leave.
    Used,
    /// No frame waits.
    Wasted,
    /// There is no such flow.
    Unknown,
}

/// The number of no flow.
const FREE: u16 = u16::MAX;

/// The sending side of a host.
pub struct Sender<S: Store> {
    flows: Flows<S>,
    outgoing: S::Of<Outgoing>,
    due: Deadlines<S>,
    /// A ring of packets that may leave: the flow's number, and the credit's.
    departures: S::Of<(u16, u16)>,
    first: u32,
    len: u32,
    /// Frames that wait or are granted, and packets that need no credit.
    waiting: u32,
    free: u32,
    terms: Terms,
    counters: Counters,
}

impl<S: Store> Sender<S> {
    /// Without flows. `terms.limit` is at least 1 and never grows.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(flows: u32, terms: Terms) -> Result<Self, S::Error> {
        let flows = flows.clamp(1, MAX_FLOWS);
        let departures = terms.limit.clamp(1, u32::MAX / 2).wrapping_mul(2);
        Ok(Self {
            flows: Flows::new(flows)?,
            outgoing: S::allocate(flows as usize, || Outgoing::new(0))?,
            due: Deadlines::new(flows as u16)?,
            departures: S::allocate(departures as usize, || (FREE, 0))?,
            first: 0,
            len: 0,
            waiting: 0,
            free: 0,
            terms,
            counters: Counters::default(),
        })
    }

    /// Changes the constants, except the limit.
    pub fn set(&mut self, terms: Terms) {
        let limit = self.terms.limit;
        self.terms = Terms { limit, ..terms };
    }

    /// A packet of a flow arrives, which becomes `frames` frames. Returns the flow's number; `None`
    /// if there is no room.
    pub fn arrive(&mut self, now: u64, flow: Flow, frames: u32) -> Option<u16> {
        let frames = frames.max(1);
        if frames > self.terms.limit.saturating_sub(self.waiting) {
            count(&mut self.counters.full);
            return None;
        }
        let number = match self.flows.find(&flow) {
            Some(number) => number,
            None => {
                let Some(number) = self.flows.add(flow) else {
                    count(&mut self.counters.flowless);
                    return None;
                };
                if let Some(outgoing) = self.outgoing.get_mut(usize::from(number)) {
                    *outgoing = Outgoing::new(now);
                }
                number
            }
        };
        let Some(outgoing) = self.outgoing.get_mut(usize::from(number)) else {
            invariant!("a flow has no state");
            return None;
        };
        let was_waiting = outgoing.waiting != 0;
        outgoing.waiting = outgoing.waiting.wrapping_add(frames);
        self.waiting = self.waiting.wrapping_add(frames);
        let due = match outgoing.state {
            State::Closing => Some(now.saturating_add(self.terms.gather)),
            // After an early stop the round-trip time is awaited.
            State::Stopped if !was_waiting => Some(now.saturating_add(self.terms.gather)),
            // The stop is not sent. Credits still arrive.
            State::Stopping => {
                outgoing.state = State::Receiving;
                outgoing.heard = now;
                None
            }
            State::Receiving if !was_waiting => {
                // Credits arrive; the time of the latest one is as good as now.
                outgoing.heard = now;
                None
            }
            State::Stopped | State::Requesting { .. } | State::Receiving => return Some(number),
        };
        let at = match due {
            Some(at) => {
                outgoing.state = State::Requesting { sent: None };
                at
            }
            None => now.saturating_add(self.terms.timeout),
        };
        self.due.set(number, Some(at));
        Some(number)
    }

    /// A packet arrives that needs no credit. Returns whether there is room for it.
    #[inline]
    pub fn arrive_free(&mut self) -> bool {
        if self.free >= self.terms.limit {
            return false;
        }
        self.free = self.free.wrapping_add(1);
        self.depart(FREE, 0);
        true
    }

    fn depart(&mut self, flow: u16, credit: u16) {
        // As many places as free packets and granted frames, together.
        let places = self.departures.len() as u32;
        let place = self.first.wrapping_add(self.len);
        let place = place.checked_rem(places).unwrap_or(0);
        if let Some(place) = self.departures.get_mut(place as usize) {
            *place = (flow, credit);
        }
        self.len = self.len.wrapping_add(1);
    }

    /// The next packet that may leave: each is returned once.
    #[inline]
    pub fn pop(&mut self) -> Option<Departure> {
        if self.len == 0 {
            return None;
        }
        let &(flow, credit) = self.departures.get(self.first as usize)?;
        let places = self.departures.len() as u32;
        self.first = self.first.wrapping_add(1).checked_rem(places).unwrap_or(0);
        self.len = self.len.wrapping_sub(1);
        if flow == FREE {
            self.free = self.free.wrapping_sub(1);
            return Some(Departure::Free);
        }
        self.waiting = self.waiting.wrapping_sub(1);
        if let Some(outgoing) = self.outgoing.get_mut(usize::from(flow)) {
            outgoing.granted = outgoing.granted.wrapping_sub(1);
        }
        Some(Departure::Granted { flow, credit })
    }

    /// A credit arrived.
    pub fn credit(&mut self, now: u64, flow: &Flow, credit: u16) -> Credit {
        let number = match self.flows.is_empty() {
            true => None,
            false => self.flows.find(flow),
        };
        let Some(number) = number else {
            return Credit::Unknown;
        };
        let terms = self.terms;
        let Some(outgoing) = self.outgoing.get_mut(usize::from(number)) else {
            return Credit::Unknown;
        };
        outgoing.heard = now;
        outgoing.credits = outgoing.credits.saturating_add(1);
        if let State::Requesting { sent } = outgoing.state {
            if let Some(sent) = sent {
                outgoing.rtt = now.saturating_sub(sent).max(1);
            }
            outgoing.state = State::Receiving;
            (outgoing.credits, outgoing.since) = (1, now);
            self.due
                .set(number, Some(now.saturating_add(terms.timeout)));
        }
        if outgoing.waiting == 0 {
            count(&mut self.counters.wasted);
            return Credit::Wasted;
        }
        outgoing.waiting = outgoing.waiting.wrapping_sub(1);
        outgoing.granted = outgoing.granted.wrapping_add(1);
        count(&mut self.counters.used);
        if outgoing.state == State::Receiving {
            if outgoing.waiting == 0 {
                self.due.set(number, Some(now.saturating_add(terms.linger)));
            } else if now.saturating_sub(outgoing.since) >= outgoing.rtt {
                if terms.early && outgoing.rtt != 0 && outgoing.credits >= outgoing.waiting {
                    outgoing.state = State::Stopping;
                    self.due.set(number, Some(now));
                }
                (outgoing.credits, outgoing.since) = (0, now);
            }
        }
        self.depart(number, credit);
        Credit::Used
    }

    /// When [`poll`](Self::poll) next has something to do, if ever.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        self.due.first().map(|(at, _)| at)
    }

    /// The next message that is due.
    pub fn poll(&mut self, now: u64) -> Option<(Peer, Message)> {
        for _ in 0..WORK {
            let (_, number) = self.due.first().filter(|&(at, _)| at <= now)?;
            let message = self.fire(now, number);
            if message.is_some() {
                return message;
            }
        }
        None
    }

    /// A flow's time has come.
    fn fire(&mut self, now: u64, number: u16) -> Option<(Peer, Message)> {
        let terms = self.terms;
        let outgoing = self.outgoing.get_mut(usize::from(number));
        let (Some(flow), Some(outgoing)) = (self.flows.flow(number), outgoing) else {
            invariant!("a time has come for no flow");
            self.due.set(number, None);
            return None;
        };
        // Before the first round-trip time is known, the timeout stands for it.
        let rtt = match outgoing.rtt {
            0 => terms.timeout,
            rtt => rtt,
        };
        let is_waiting = outgoing.waiting != 0;
        let (state, at, kind) = match outgoing.state {
            State::Receiving
                if is_waiting && outgoing.heard.saturating_add(terms.timeout) > now =>
            {
                let at = outgoing.heard.saturating_add(terms.timeout);
                (State::Receiving, at, None)
            }
            State::Requesting { .. } | State::Receiving | State::Stopped if is_waiting => {
                match outgoing.state {
                    State::Requesting { sent: Some(_) } | State::Receiving => {
                        count(&mut self.counters.repeated);
                    }
                    _ => {}
                }
                let waiting = u16::try_from(outgoing.waiting).unwrap_or(u16::MAX);
                let at = now.saturating_add(terms.timeout);
                let kind = Kind::Request { waiting };
                (State::Requesting { sent: Some(now) }, at, Some(kind))
            }
            State::Requesting { .. } | State::Receiving | State::Stopping => {
                let at = now.saturating_add(rtt.saturating_mul(2));
                (State::Stopped, at, Some(Kind::Stop))
            }
            State::Stopped => {
                outgoing.credits = 0;
                (State::Closing, now.saturating_add(rtt), None)
            }
            State::Closing if outgoing.credits != 0 => {
                let at = now.saturating_add(rtt.saturating_mul(2));
                (State::Stopped, at, Some(Kind::Stop))
            }
            State::Closing if outgoing.granted != 0 || is_waiting => {
                // The device is slow, or the packet has yet to be taken.
                (State::Closing, now.saturating_add(rtt), None)
            }
            State::Closing => {
                self.due.set(number, None);
                self.flows.remove(number);
                return None;
            }
        };
        outgoing.state = state;
        self.due.set(number, Some(at.max(now.saturating_add(1))));
        let kind = kind?;
        count(match kind {
            Kind::Request { .. } => &mut self.counters.requests,
            _ => &mut self.counters.stops,
        });
        let peer = Peer {
            address: flow.destination,
            port: terms.port,
        };
        Some((peer, Message { flow, kind }))
    }

    /// Forgets all flows and packets.
    pub fn clear(&mut self) {
        while let Some((_, number)) = self.due.first() {
            self.due.set(number, None);
            self.flows.remove(number);
        }
        (self.first, self.len) = (0, 0);
        (self.waiting, self.free) = (0, 0);
    }

    /// Active flows.
    pub fn flows(&self) -> u32 {
        self.flows.len()
    }

    /// Frames that wait for credits or have one, and packets that need none.
    pub fn packets(&self) -> u32 {
        self.waiting.wrapping_add(self.free)
    }

    /// Frames of a flow that wait for credits, and that have one. For tests.
    #[doc(hidden)]
    pub fn frames(&self, number: u16) -> (u32, u32) {
        let outgoing = self.outgoing.get(usize::from(number));
        outgoing.map_or((0, 0), |it| (it.waiting, it.granted))
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }
}
