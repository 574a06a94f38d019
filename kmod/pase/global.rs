// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What the arbitrators of other links say to a host's flows: which flow has asked, what was
//! answered, and what is to be told them.
//!
//! A flow begins with what its own host's arbitrator says, and asks the others at the same time:
//! "after one RTT, all flows obtain their global priorities" (§4.2.2). Nobody waits for an answer:
//! it is there when the flow asks again, or it is not, and then the host's own counts alone.
//!
//! ```text
//!              ask                        answer
//!   ┌──────┐ ───────▶ ┌───────┐ ───────────────────────▶ ┌──────────┐
//!   │ none │          │ asked │ ◀──────────────────────  │ answered │
//!   └──────┘          └───────┘   its hold time is over  └──────────┘
//! ```
//!
//! # What was filled in
//!
//! - **A flow's place** is by its number. One that finds its place taken, by a flow that still
//!   asks, goes by its own host's arbitrator alone.
//! - **At most one message of a flow waits to be sent**, the latest: more would say less.
//! - **Only an answer to what was asked counts**: by the device by which it was asked, with the
//!   number of an ask that was sent, later than the last answer.

use super::{
    local::FLOWS,
    message::{Message, Says, Sequence, PATH, SIZE},
    Flow, Verdict,
};
use crate::common::store::Store;

/// Where a flow goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Way {
    /// The device by which it leaves; 0: none.
    pub device: u32,
    /// Its receiver's address, as in messages.
    pub to: [u8; 16],
}

const NS_PER_US: u64 = 1_000;

/// A message that waits to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waits {
    Nothing,
    Ask(Flow),
    End,
}

#[derive(Clone, Copy)]
struct Place {
    /// Whose it is; 0: nobody's.
    number: u32,
    way: Way,
    /// When it asked last, in ns.
    seen: u64,
    waits: Waits,
    /// Whether it is in the line.
    in_line: bool,
    /// The first ask's number, and the last one's; 0: none was sent.
    first: u64,
    last: u64,
    heard: Sequence,
    verdict: Verdict,
    /// Until when that counts, in ns.
    until: u64,
}

impl Place {
    const FREE: Self = Self {
        number: 0,
        way: Way {
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

/// Of one host.
pub struct Global<S: Store> {
    places: S::Of<Place>,
    /// Places that have something to be sent, in order: a ring, as long as there are places.
    line: S::Of<u32>,
    head: u32,
    waiting: u32,
    sequence: u64,
}

impl<S: Store> Global<S> {
    /// Of a host that has asked nothing. `sequence`: the time of day in ns.
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

    /// A flow (by its number, not 0) asks what its host's arbitrator gave it; what the others said,
    /// if that still counts. `lifetime`: after how many ns a flow that does not ask has no place
    /// any more.
    pub fn ask(&mut self, flow: &Flow, way: Way, now: u64, lifetime: u64) -> Option<Verdict> {
        let number = flow.id as u32;
        let at = Self::at(number);
        let place = self.places.get_mut(at as usize)?;
        if place.number != number {
            // A clock that went back is no age: another processor may have read it before, and
            // taken the lock after.
            if place.number != 0 && now.saturating_sub(place.seen) < lifetime {
                return None;
            }
            *place = Place {
                number,
                in_line: place.in_line,
                ..Place::FREE
            };
        }
        place.way = way;
        place.seen = now;
        place.waits = Waits::Ask(*flow);
        let answer = (place.until > now).then_some(place.verdict);
        self.line_up(at);
        answer
    }

    /// A flow no longer concerns the others: it has ended, or is held back by its own host.
    pub fn end(&mut self, number: u32) {
        let at = Self::at(number);
        let Some(place) = self.place(number) else {
            return;
        };
        place.until = 0;
        if place.last == 0 {
            // Nobody knows of it.
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
        // Each place is in line once, so that the line is long enough.
        if !core::mem::replace(&mut place.in_line, true) {
            let end = Self::at(self.head.wrapping_add(self.waiting));
            if let Some(last) = self.line.get_mut(end as usize) {
                *last = at;
                self.waiting = self.waiting.wrapping_add(1);
            }
        }
    }

    /// Whether there is something to be sent, or was.
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
                        to: place.way.to,
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
            return Some((place.way.device, message.encode()));
        }
        None
    }

    /// A message came in by a device. Whether it was an answer to a flow of this host.
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
        if place.way.device != device || !asked || !place.heard.is_news(message.sequence) {
            return false;
        }
        place.verdict = verdict;
        place.until = now.saturating_add(u64::from(hold).wrapping_mul(NS_PER_US));
        true
    }
}
