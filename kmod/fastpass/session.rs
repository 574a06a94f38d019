// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The arbiter's end of the control protocol: one endpoint's session.

use super::frame::{encode, encode_reset, Count, Entry, Frame, Head, Kind, Slot, MAX_SIZE, MOST};
use super::marks::Marks;
use super::{newer, FIRST, MAX_OUTSTANDING};
use crate::common::store::Store;

/// RESETs to an endpoint in the time of a timeout.
const RESETS: u32 = 4;

/// Sessions that are offered: more than RESETs, so that each is good for a timeout at least.
const OFFERS: usize = 8;

/// So many times what was not acknowledged is said again, a timeout after the other, while nothing is heard of the endpoint. Then it waits twice as
/// long each time, up to 2^[`LONGEST`] timeouts: the endpoint may be gone for good.
const PATIENCE: u32 = 8;
const LONGEST: u32 = 10;

/// Whoever allocates, as a session sees him.
pub trait Demands {
    /// The endpoint wants `slots` more timeslots, up to [`MAX_OUTSTANDING`], to `destination`. Whether it gets them some time:
    /// otherwise it will ask again.
    fn request(&mut self, destination: u16, slots: u32) -> bool;

    /// The endpoint begins again: what it has asked for is void.
    fn forget(&mut self);

    /// At `time`, in ns of its clock, this was true of another endpoint and a path, it says. There may be no such endpoint, nor path.
    fn report(&mut self, time: u64, entry: Entry);
}

/// What the arbiter knows of an endpoint.
pub struct Session<S: Store> {
    endpoint: u16,
    /// ns until what was not acknowledged is said again.
    timeout: u64,
    nonce: Option<u64>,
    /// What RESETs have said, the latest last, until the endpoint uses one. Before that the old session goes on:
    /// anybody can send what is not checked.
    offers: [Option<Offer>; OFFERS],
    /// The RESET that is to be sent.
    reset: Option<Offer>,
    /// RESETs that may be sent until then.
    resets: u32,
    resets_until: u64,
    destinations: S::Of<Destination>,
    /// Whether there was a request since the last answer to one, and of which destinations.
    is_asked: bool,
    acks: Marks<S>,
    /// Destinations of which totals are to be said, and of which the endpoint is not known to know.
    counts: Marks<S>,
    unknown: Marks<S>,
    /// When all unknown is said again.
    again: Option<u64>,
    /// How often it was since the endpoint was last heard.
    repeated: u32,
    next: Next,
}

/// Totals, modulo 2^32.
#[derive(Clone, Copy, Debug)]
struct Destination {
    /// Timeslots that the endpoint has asked for.
    asked: u32,
    /// Timeslots given.
    given: u32,
    /// Of these, those of which the endpoint has said that it knows.
    known: u32,
}

impl Destination {
    const NEW: Self = Self {
        asked: FIRST,
        given: FIRST,
        known: FIRST,
    };
}

/// A session that is offered to whoever has sent a cookie, and to nobody else: an endpoint that restarts must not
/// have the nonce of which it has already made use.
#[derive(Clone, Copy, Debug)]
struct Offer {
    cookie: u64,
    nonce: u64,
}

/// The ALLOC that is next.
#[derive(Clone, Copy)]
struct Next {
    first: u64,
    slots: [Slot; MOST],
    /// How many.
    len: usize,
    /// Which destinations its counts are.
    destinations: [u16; MOST],
    counts: usize,
}

impl Next {
    const EMPTY: Self = Self {
        first: 0,
        slots: [Slot {
            offset: 0,
            count: 0,
            path: 0,
        }; MOST],
        len: 0,
        destinations: [0; MOST],
        counts: 0,
    };

    /// Adds a timeslot, if there is room.
    fn add(&mut self, timeslot: u64, destination: u16, path: u8) -> bool {
        if self.len == 0 {
            self.first = timeslot;
        }
        let offset = u8::try_from(timeslot.wrapping_sub(self.first));
        let (Ok(offset), Some(place)) = (offset, self.slots.get_mut(self.len)) else {
            return false;
        };
        let mut known = self.destinations.iter().take(self.counts);
        let count = known.position(|known| *known == destination);
        let count = count.unwrap_or(self.counts);
        if count == self.counts {
            // There are as many places as slots.
            if let Some(place) = self.destinations.get_mut(count) {
                *place = destination;
            }
            self.counts = self.counts.wrapping_add(1);
        }
        *place = Slot {
            offset,
            count: count as u8,
            path,
        };
        self.len = self.len.wrapping_add(1);
        true
    }
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// It is no packet of the protocol, or none that an endpoint sends.
    Malformed,
    /// It is another endpoint's.
    Foreign,
    /// It is of another session, or forged.
    Unsynchronised,
    /// It was heeded; so many requests were refused.
    Heeded {
        /// How many.
        refused: u32,
    },
}

impl<S: Store> Session<S> {
    /// Of `endpoint`, one of `count`. `timeout` in ns.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(endpoint: u16, count: u16, timeout: u64) -> Result<Self, S::Error> {
        let count = usize::from(count);
        Ok(Self {
            endpoint,
            timeout,
            nonce: None,
            offers: [None; OFFERS],
            reset: None,
            resets: 0,
            resets_until: 0,
            destinations: S::allocate(count, || Destination::NEW)?,
            is_asked: false,
            acks: Marks::new(count)?,
            counts: Marks::new(count)?,
            unknown: Marks::new(count)?,
            again: None,
            repeated: 0,
            next: Next::EMPTY,
        })
    }

    /// Heeds a packet. `random` is a number that nobody can guess, another one each time.
    pub fn receive(
        &mut self,
        now: u64,
        bytes: &[u8],
        random: u64,
        demands: &mut impl Demands,
    ) -> Received {
        let Ok(frame) = Frame::decode(bytes) else {
            return Received::Malformed;
        };
        if !matches!(
            frame.head.kind,
            Kind::Request | Kind::AckAlloc | Kind::Report
        ) {
            return Received::Malformed;
        }
        if frame.head.endpoint != self.endpoint {
            return Received::Foreign;
        }
        if !self.nonce.is_some_and(|nonce| frame.is_under(nonce)) {
            let Some(nonce) = self.take_up(|offer| frame.is_under(offer.nonce)) else {
                self.offer(now, frame.head.word, random);
                return Received::Unsynchronised;
            };
            self.begin_again(nonce);
            demands.forget();
        }
        // Who is back after a long time is not to wait for as long.
        if self.repeated > PATIENCE && self.again.is_some() {
            self.again = Some(now);
        }
        self.repeated = 0;
        // A report is answered as well, so that the endpoint knows of its way that it is good.
        self.is_asked |= matches!(frame.head.kind, Kind::Request | Kind::Report);
        for entry in frame.entries() {
            demands.report(frame.time(), entry);
        }
        let mut refused = 0_u32;
        for count in frame.counts() {
            match frame.head.kind {
                Kind::Request => {
                    let heeded = self.requested(count, demands);
                    refused = refused.saturating_add(u32::from(!heeded));
                }
                _ => self.acknowledged(count),
            }
        }
        if self.unknown.is_empty() {
            self.again = None;
        }
        Received::Heeded { refused }
    }

    /// Offers a session to whoever has this cookie, unless that was done too often of late.
    fn offer(&mut self, now: u64, cookie: u64, random: u64) {
        if self.resets_until <= now {
            self.resets_until = now.saturating_add(self.timeout);
            self.resets = RESETS;
        }
        let Some(left) = self.resets.checked_sub(1) else {
            return;
        };
        self.resets = left;
        let mut offers = self.offers.iter().flatten();
        self.reset = offers.find(|offer| offer.cookie == cookie).copied();
        if self.reset.is_none() {
            let offer = Offer {
                cookie,
                nonce: random,
            };
            self.offers.rotate_left(1);
            if let Some(last) = self.offers.last_mut() {
                *last = Some(offer);
            }
            self.reset = Some(offer);
        }
    }

    /// The nonce of an offer that somebody makes use of. It and earlier ones are offered no more.
    fn take_up(&mut self, is_used: impl Fn(Offer) -> bool) -> Option<u64> {
        let used = |offer: &Option<Offer>| offer.is_some_and(&is_used);
        let index = self.offers.iter().position(used)?;
        let offers = self.offers.iter_mut().take(index.wrapping_add(1));
        let taken = offers.map(Option::take).last().flatten();
        taken.map(|offer| offer.nonce)
    }

    /// The endpoint has taken up what was offered.
    fn begin_again(&mut self, nonce: u64) {
        self.nonce = Some(nonce);
        self.is_asked = false;
        self.acks.clear_all();
        self.counts.clear_all();
        self.unknown.clear_all();
        self.again = None;
        self.next = Next::EMPTY;
        let destinations = self.destinations.iter_mut();
        destinations.for_each(|state| *state = Destination::NEW);
    }

    fn requested(&mut self, count: Count, demands: &mut impl Demands) -> bool {
        let Some(state) = self.destinations.get_mut(usize::from(count.destination)) else {
            return false;
        };
        if newer(count.total, state.asked) {
            let outstanding = count.total.wrapping_sub(state.given);
            let more = count.total.wrapping_sub(state.asked);
            if outstanding > MAX_OUTSTANDING || !demands.request(count.destination, more) {
                return false;
            }
            state.asked = count.total;
        }
        self.acks.set(count.destination);
        true
    }

    fn acknowledged(&mut self, count: Count) {
        let Some(state) = self.destinations.get_mut(usize::from(count.destination)) else {
            return;
        };
        if newer(count.total, state.known) && !newer(count.total, state.given) {
            state.known = count.total;
        }
        if state.known == state.given {
            self.unknown.clear(count.destination);
            self.counts.clear(count.destination);
        }
    }

    /// Notes that the endpoint is given a timeslot, for the next ALLOC. False if nothing was noted: the ALLOC is full, or
    /// this timeslot too far from its first one, and has to be sent before; or nobody asked for it.
    pub fn give(&mut self, timeslot: u64, destination: u16, path: u8) -> bool {
        let state = self.destinations.get_mut(usize::from(destination));
        let Some(state) = state.filter(|state| newer(state.asked, state.given)) else {
            return false;
        };
        if !self.next.add(timeslot, destination, path) {
            return false;
        }
        state.given = state.given.wrapping_add(1);
        self.unknown.set(destination);
        true
    }

    /// When [`poll`](Self::poll) has something to send, if nothing happens until then.
    pub fn next_poll(&self, now: u64) -> Option<u64> {
        let is_due =
            self.reset.is_some() || self.next.len > 0 || !self.counts.is_empty() || self.is_asked;
        if is_due {
            return Some(now);
        }
        self.again
    }

    /// Writes what is to be sent, and says how many bytes it takes; to be called until there is nothing.
    pub fn poll(&mut self, now: u64, bytes: &mut [u8; MAX_SIZE]) -> Option<usize> {
        if let Some(Offer { cookie, nonce }) = self.reset.take() {
            return Some(encode_reset(bytes, self.endpoint, cookie, nonce));
        }
        let nonce = self.nonce?;
        if self.again.is_some_and(|again| again <= now) {
            self.counts.add(&self.unknown);
            self.again = None;
            self.repeated = self.repeated.saturating_add(1);
        }
        let (kind, word) = if self.next.len > 0 {
            (Kind::Alloc, self.next.first)
        } else if !self.counts.is_empty() {
            (Kind::Alloc, 0)
        } else if self.is_asked {
            (Kind::AckRequest, 0)
        } else {
            return None;
        };
        if kind == Kind::Alloc {
            let doubled = self.repeated.saturating_sub(PATIENCE).min(LONGEST);
            let wait = self.timeout.saturating_mul(1 << doubled);
            self.again.get_or_insert(now.saturating_add(wait));
        }
        let head = Head {
            kind,
            endpoint: self.endpoint,
            word,
        };
        let destinations = &self.destinations;
        let total = |destination: u16| {
            let state = destinations.get(usize::from(destination))?;
            let total = match kind {
                Kind::Alloc => state.given,
                _ => state.asked,
            };
            Some(Count { destination, total })
        };
        if self.next.len > 0 {
            let next = core::mem::replace(&mut self.next, Next::EMPTY);
            let counts = next.destinations.iter().take(next.counts);
            let slots = next.slots.get(..next.len).unwrap_or_default();
            let counts = counts.filter_map(|destination| total(*destination));
            return Some(encode(bytes, head, nonce, counts, slots));
        }
        let marks = match kind {
            Kind::Alloc => &mut self.counts,
            _ => &mut self.acks,
        };
        let counts = core::iter::from_fn(|| total(marks.take()?));
        let size = encode(bytes, head, nonce, counts.take(MOST), &[]);
        self.is_asked &= kind != Kind::AckRequest || !self.acks.is_empty();
        Some(size)
    }
}
