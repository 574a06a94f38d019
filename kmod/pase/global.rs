// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A host's state of the arbitrators of other links: which flows have asked, the answers, and the
//! messages to send.
//!
//! A flow begins with the verdict of its own host's arbitrator, and asks the others at the same
//! time: "after one RTT, all flows obtain their global priorities" (§4.2.2). A flow never waits for
//! an answer: if there is none when it asks again, it uses its own host's verdict alone.
//!
//! ```text
//!              ask                        answer
//!   ┌──────┐ ───────▶ ┌───────┐ ───────────────────────▶ ┌──────────┐
//!   │ none │          │ asked │ ◀──────────────────────  │ answered │
//!   └──────┘          └───────┘   its hold time is over  └──────────┘
//! ```
//!
//! # Choices that the paper leaves open
//!
//! - **A flow's place** is given by its number. If another flow that still asks occupies the place,
//!   the flow uses its own host's arbitrator alone.
//! - **At most one message of a flow waits to be sent**, the latest: it supersedes earlier ones.
//! - **Only an answer to a question counts**: it must arrive on the device by which the flow asked,
//!   with the number of an ask that was sent, later than the last answer.

use super::{
    local::FLOWS,
    message::{Message, Says, Sequence, PATH, SIZE},
    Flow, Verdict,
};
use crate::common::store::Store;

/// The path of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The device by which it leaves; 0: none.
    pub device: u32,
    /// Its receiver's address, as in messages.
    pub to: [u8; 16],
}

const NS_PER_US: u64 = 1_000;

/// A message waiting to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    Ask(Flow),
    End,
}

#[derive(Clone, Copy)]
struct Place {
    /// The flow that holds the place; 0: none.
    number: u32,
    route: Route,
    /// When it last asked, in ns.
    seen: u64,
    waits: Waits,
    /// Whether it is in the line of places with messages.
    in_line: bool,
    /// The numbers of the first and the last ask; 0: none was sent.
    first: u64,
    last: u64,
    heard: Sequence,
    verdict: Verdict,
    /// Until when that is valid, in ns.
    until: u64,
}

impl Place {
    const FREE: Self = Self {
        number: 0,
        route: Route {
            device: 0,
            to: [0; 16],
        },
        seen: 0,
        waits: Waits::Nothing,
        in_line: false,
        first: 0,
        last: 0,
        heard: Sequence::NONE,
        verdict: Verdict::FREE,
        until: 0,
    };
}

/// The state of one host.
pub struct Global<S: Store> {
    places: S::Of<Place>,
    /// Places with messages to send, in order: a ring, as long as the list of places.
    line: S::Of<u32>,
    head: u32,
    waiting: u32,
    sequence: u64,
}

impl<S: Store> Global<S> {
    /// For a host that has asked nothing. `sequence`: the time of day in ns.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(sequence: u64) -> Result<Self, S::Error> {
        Ok(Self {
            places: S::allocate(FLOWS as usize, || Place::FREE)?,
            line: S::allocate(FLOWS as usize, || 0)?,
            head: 0,
            waiting: 0,
            sequence,
        })
    }

    fn at(number: u32) -> u32 {
        number & FLOWS.wrapping_sub(1)
    }

    fn place(&mut self, number: u32) -> Option<&mut Place> {
        let place = self.places.get_mut(Self::at(number) as usize)?;
        (place.number == number).then_some(place)
    }

    /// A flow (by its number, not 0) asks for its host's verdict at the other arbitrators; returns
    /// their last answer, if it is still valid. `lifetime`: ns after which a flow that does not ask
    /// loses its place.
    pub fn ask(&mut self, flow: &Flow, route: Route, now: u64, lifetime: u64) -> Option<Verdict> {
        let number = flow.id as u32;
        let at = Self::at(number);
        let place = self.places.get_mut(at as usize)?;
        if place.number != number {
            // If the clock went back, the age is 0: another processor may have read it earlier, and
            // taken the lock later.
            if place.number != 0 && now.saturating_sub(place.seen) < lifetime {
                return None;
            }
            *place = Place {
                number,
                in_line: place.in_line,
                ..Place::FREE
            };
        }
        place.route = route;
        place.seen = now;
        place.waits = Waits::Ask(*flow);
        let answer = (place.until > now).then_some(place.verdict);
        self.line_up(at);
        answer
    }

    /// A flow no longer concerns the others: it has ended, or its own host holds it back.
    pub fn end(&mut self, number: u32) {
        let at = Self::at(number);
        let Some(place) = self.place(number) else {
            return;
        };
        place.until = 0;
        if place.last == 0 {
            // The others do not know it.
            place.waits = Waits::Nothing;
            place.number = 0;
        } else {
            place.waits = Waits::End;
            self.line_up(at);
        }
    }

    fn line_up(&mut self, at: u32) {
        let Some(place) = self.places.get_mut(at as usize) else {
            return;
        };
        // Each place is in the line once, so the line is long enough.
        if !core::mem::replace(&mut place.in_line, true) {
            let end = Self::at(self.head.wrapping_add(self.waiting));
            if let Some(last) = self.line.get_mut(end as usize) {
                *last = at;
                self.waiting = self.waiting.wrapping_add(1);
            }
        }
    }

    /// Whether there is, or was, a message to send.
    pub fn has_messages(&self) -> bool {
        self.waiting != 0
    }

    /// The next message, and the device by which it goes.
    pub fn next_message(&mut self) -> Option<(u32, [u8; SIZE])> {
        while self.waiting != 0 {
            let at = self.line.get(self.head as usize).copied()?;
            self.head = Self::at(self.head.wrapping_add(1));
            self.waiting = self.waiting.wrapping_sub(1);
            let sequence = self.sequence.saturating_add(1);
            let place = self.places.get_mut(at as usize)?;
            place.in_line = false;
            let says = match core::mem::replace(&mut place.waits, Waits::Nothing) {
                Waits::Nothing => continue,
                Waits::Ask(flow) => {
                    if place.last == 0 {
                        place.first = sequence;
                    }
                    place.last = sequence;
                    Says::Ask {
                        flow,
                        to: place.route.to,
                    }
                }
                Waits::End => {
                    let number = core::mem::take(&mut place.number);
                    Says::End(number.into())
                }
            };
            self.sequence = sequence;
            let message = Message {
                sequence,
                link: PATH,
                says,
            };
            return Some((place.route.device, message.encode()));
        }
        None
    }

    /// A message arrived on a device. Returns whether it was an answer to a flow of this host.
    pub fn receive(&mut self, device: u32, bytes: &[u8], now: u64) -> bool {
        let Ok(message) = Message::decode(bytes) else {
            return false;
        };
        let Says::Answer {
            flow,
            verdict,
            hold,
        } = message.says
        else {
            return false;
        };
        let (Ok(number), PATH) = (u32::try_from(flow), message.link) else {
            return false;
        };
        let Some(place) = self.place(number).filter(|_| number != 0) else {
            return false;
        };
        let asked = place.last != 0 && (place.first..=place.last).contains(&message.sequence);
        if place.route.device != device || !asked || !place.heard.is_news(message.sequence) {
            return false;
        }
        place.verdict = verdict;
        place.until = now.saturating_add(u64::from(hold).wrapping_mul(NS_PER_US));
        true
    }
}
