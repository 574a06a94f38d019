// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The arbiter's end of the control protocol: one endpoint's session.
//!
//! # How a session begins
//!
//! The arbiter keeps no state for a packet that it cannot authenticate. The nonce that a RESET
//! offers is a keyed hash, under the arbiter's [`Secret`], of the endpoint, of the cookie in the
//! packet that it answers, and of the number of sessions that the endpoint has begun so far. An
//! endpoint that accepts the RESET adds 1 to its cookie, so that the arbiter can compute the same
//! nonce from the endpoint's next packet. A valid packet under that nonce begins the session, and
//! the number of sessions goes up: all other nonces that were offered before are void, and an old
//! packet cannot begin an old session again.
//!
//! # What a packet costs
//!
//! A packet that is not genuine costs at most two proofs and one nonce, [`FORGED_COST`] hashed
//! bytes, whatever its length. A RESET costs [`RESET_COST`] more; how often one is sent is the
//! caller's decision.

use super::frame::{
    encode, encode_reset, Count, Entry, Frame, Head, Header, Kind, Proved, Run, Slot, ACK,
    MAX_SIZE, MOST, MOST_TIMESLOTS, PROOF_COST, TIMESLOTS,
};
use super::marks::Marks;
use super::siphash;
use super::{newer, FIRST, MAX_OUTSTANDING};
use crate::common::store::Store;

/// Bytes that are hashed to compute an offered nonce.
const NONCE_COST: usize = 18;

/// Most bytes that are hashed to find that a packet is not genuine.
pub const FORGED_COST: usize = 2 * PROOF_COST + NONCE_COST;

/// Bytes that are hashed to write a RESET.
pub const RESET_COST: usize = NONCE_COST + PROOF_COST + 8;

/// A key that only the arbiter knows. Each arbiter that starts without sessions needs a new one.
#[derive(Clone, Copy)]
pub struct Secret(pub [u64; 2]);

impl Secret {
    /// The nonce offered to an endpoint with this cookie that has begun this many sessions.
    fn nonce(&self, endpoint: u16, cookie: u64, begun: u64) -> u64 {
        let mut bytes = [0; NONCE_COST];
        let fields = endpoint.to_be_bytes().into_iter();
        let fields = fields
            .chain(cookie.to_be_bytes())
            .chain(begun.to_be_bytes());
        for (place, byte) in bytes.iter_mut().zip(fields) {
            *place = byte;
        }
        siphash::hash(self.0, &bytes)
    }
}

/// How many times an unacknowledged message is repeated, one timeout apart, while the endpoint is
/// silent. After that the wait doubles each time, up to 2^[`LONGEST`] timeouts: the endpoint may be
/// gone for good.
const PATIENCE: u32 = 8;
const LONGEST: u32 = 10;

/// The allocator, as a session sees it.
pub trait Demands {
    /// The endpoint requests `slots` more timeslots, up to [`MAX_OUTSTANDING`], to `destination`,
    /// besides what it already has. Returns whether it will eventually get them: otherwise it asks
    /// again.
    fn request(&mut self, destination: u16, slots: u32, has: Has) -> bool;

    /// The endpoint begins a new session: its earlier requests are void.
    fn forget(&mut self);

    /// The endpoint's report on another endpoint and a path at `time`, in ns of its clock. The
    /// other endpoint or the path may not exist.
    fn report(&mut self, time: u64, entry: Entry);
}

/// What the sender of a request already has of a destination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Has {
    /// Timeslots requested earlier, and not given yet.
    pub owed: u32,
    /// The last timeslot given, 0: none.
    pub until: u64,
}

/// The arbiter's state of an endpoint.
pub struct Session<S: Store> {
    endpoint: u16,
    /// ns until an unacknowledged message is repeated.
    timeout: u64,
    nonce: Option<u64>,
    /// Sessions that the endpoint has begun.
    begun: u64,
    /// Bytes hashed to authenticate its packets.
    hashed: u64,
    destinations: S::Of<Destination>,
    /// Whether there was a request since the last answer, and its destinations.
    is_asked: bool,
    /// Until when an answer waits for an ALLOC that carries it.
    answer_at: u64,
    acks: Marks<S>,
    /// Destinations whose totals must be sent, and those whose totals the endpoint has not
    /// acknowledged.
    counts: Marks<S>,
    unknown: Marks<S>,
    /// When all unacknowledged totals are repeated.
    again: Option<u64>,
    /// How often they were repeated since the endpoint was last heard.
    repeated: u32,
    next: Next,
}

/// Totals, modulo 2^32.
#[derive(Clone, Copy, Debug)]
struct Destination {
    /// Timeslots that the endpoint has requested.
    asked: u32,
    /// Timeslots given.
    given: u32,
    /// Of these, timeslots that were sent to the endpoint, and those that it has acknowledged.
    told: u32,
    known: u32,
    /// The last timeslot given, 0: none.
    until: u64,
}

impl Destination {
    const NEW: Self = Self {
        asked: FIRST,
        given: FIRST,
        told: FIRST,
        known: FIRST,
        until: 0,
    };
}

/// The next ALLOC.
#[derive(Clone, Copy)]
struct Next {
    first: u64,
    runs: [Run; MOST],
    /// The number of runs, their bytes, and the number of timeslots.
    len: usize,
    size: usize,
    timeslots: usize,
    /// The destinations of its counts.
    destinations: [u16; MOST],
    counts: usize,
}

impl Next {
    const EMPTY: Self = Self {
        first: 0,
        runs: [Run {
            first: Slot {
                offset: 0,
                count: 0,
                path: 0,
            },
            step: 0,
            further: 0,
        }; MOST],
        len: 0,
        size: 0,
        timeslots: 0,
        destinations: [0; MOST],
        counts: 0,
    };

    /// Adds a timeslot, if there is room.
    fn add(&mut self, timeslot: u64, destination: u16, path: u8) -> bool {
        if self.len == 0 {
            self.first = timeslot;
        }
        let Ok(offset) = u8::try_from(timeslot.wrapping_sub(self.first)) else {
            return false;
        };
        if self.timeslots >= MOST_TIMESLOTS {
            return false;
        }
        let mut known = self.destinations.iter().take(self.counts);
        let count = known.position(|known| *known == destination);
        let is_known = count.is_some();
        let count = count.unwrap_or(self.counts);
        let slot = Slot {
            offset,
            count: count as u8,
            path,
        };
        let mut runs = self.runs.iter_mut().take(self.len).rev();
        let extended = match is_known {
            true => runs.find_map(|run| run.extended(slot).map(|longer| (run, longer))),
            false => None,
        };
        let (before, place, after) = match extended {
            Some((run, longer)) => (run.size(), Some(run), longer),
            None => (0, self.runs.get_mut(self.len), Run::from(slot)),
        };
        let size = self.size.wrapping_sub(before).wrapping_add(after.size());
        let (Some(place), true) = (place, size <= TIMESLOTS) else {
            return false;
        };
        *place = after;
        self.size = size;
        self.len = self.len.wrapping_add(usize::from(before == 0));
        if !is_known {
            // There are as many places as runs.
            if let Some(place) = self.destinations.get_mut(count) {
                *place = destination;
            }
            self.counts = self.counts.wrapping_add(1);
        }
        self.timeslots = self.timeslots.wrapping_add(1);
        true
    }
}

/// The treatment of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A packet of a kind that no endpoint sends.
    Malformed,
    /// Another endpoint's packet.
    Foreign,
    /// A forged packet, or one of another session.
    Unsynchronised {
        /// The cookie that a RESET must repeat.
        cookie: u64,
    },
    /// A genuine packet.
    Heeded {
        /// Requests that were refused.
        refused: u32,
        /// Whether the packet began a session.
        is_first: bool,
    },
}

impl<S: Store> Session<S> {
    /// For `endpoint`, one of `count`. `timeout` in ns.
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
            begun: 0,
            hashed: 0,
            destinations: S::allocate(count, || Destination::NEW)?,
            is_asked: false,
            answer_at: 0,
            acks: Marks::new(count)?,
            counts: Marks::new(count)?,
            unknown: Marks::new(count)?,
            again: None,
            repeated: 0,
            next: Next::EMPTY,
        })
    }

    /// Processes a packet.
    pub fn receive(
        &mut self,
        now: u64,
        header: Header<'_>,
        secret: &Secret,
        demands: &mut impl Demands,
    ) -> Received {
        let Head {
            kind,
            endpoint,
            word,
        } = header.head;
        if !matches!(kind, Kind::Request | Kind::AckAlloc | Kind::Report) {
            return Received::Malformed;
        }
        if endpoint != self.endpoint {
            return Received::Foreign;
        }
        let forged = Received::Unsynchronised { cookie: word };
        let current = self.nonce.and_then(|nonce| self.prove(&header, nonce));
        let (proved, offered) = match current {
            Some(proved) => (proved, None),
            None => {
                self.count(NONCE_COST);
                let nonce = secret.nonce(endpoint, word.wrapping_sub(1), self.begun);
                let Some(proved) = self.prove(&header, nonce) else {
                    return forged;
                };
                (proved, Some(nonce))
            }
        };
        let Ok(frame) = header.decode() else {
            return Received::Malformed;
        };
        self.count(header.check_cost());
        if !header.is_checked(proved) {
            return forged;
        }
        if let Some(nonce) = offered {
            self.begin_again(nonce);
            demands.forget();
        }
        let refused = self.heed(now, &frame, demands);
        Received::Heeded {
            refused,
            is_first: offered.is_some(),
        }
    }

    fn prove(&mut self, header: &Header<'_>, nonce: u64) -> Option<Proved> {
        self.count(PROOF_COST);
        header.prove(nonce)
    }

    fn count(&mut self, bytes: usize) {
        self.hashed = self.hashed.wrapping_add(bytes as u64);
    }

    /// Bytes hashed so far to authenticate packets and to write RESETs.
    pub fn hashed(&self) -> u64 {
        self.hashed
    }

    /// Processes a genuine packet; returns the number of requests that were refused.
    fn heed(&mut self, now: u64, frame: &Frame<'_>, demands: &mut impl Demands) -> u32 {
        // An endpoint that returns after a long time gets an answer at once.
        if self.repeated > PATIENCE && self.again.is_some() {
            self.again = Some(now);
        }
        self.repeated = 0;
        // A report is also answered, so that the endpoint knows that its path works.
        self.ask(now, frame);
        for entry in frame.entries() {
            demands.report(frame.time(), entry);
        }
        let mut refused = 0_u32;
        for count in frame.counts() {
            match frame.head.kind {
                Kind::Request if count.destination & ACK != 0 => self.acknowledged(count),
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
        refused
    }

    /// Writes a RESET for an endpoint that has sent this cookie; returns its length.
    pub fn reset(&mut self, secret: &Secret, cookie: u64, bytes: &mut [u8; MAX_SIZE]) -> usize {
        self.count(RESET_COST);
        let nonce = secret.nonce(self.endpoint, cookie, self.begun);
        encode_reset(bytes, self.endpoint, cookie, nonce)
    }

    /// The endpoint has accepted the nonce offered to it.
    fn begin_again(&mut self, nonce: u64) {
        self.nonce = Some(nonce);
        self.begun = self.begun.wrapping_add(1);
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
            if outstanding > MAX_OUTSTANDING {
                return false;
            }
            let owed = outstanding.wrapping_sub(more);
            let until = state.until;
            if !demands.request(count.destination, more, Has { owed, until }) {
                return false;
            }
            state.asked = count.total;
        }
        self.acks.set(count.destination);
        true
    }

    /// Notes that a packet must be answered, if it requires an answer.
    fn ask(&mut self, now: u64, frame: &Frame<'_>) {
        let is_request = frame.head.kind == Kind::Request;
        let is_silent = is_request && frame.counts().next().is_none();
        let asks = frame.counts().any(|it| it.destination & ACK == 0);
        // An endpoint that queries the arbiter, or reports, gets its answer at once. For other
        // requests the answer may wait, because the endpoint repeats them only after a timeout.
        let is_prompt = is_silent || frame.head.kind == Kind::Report;
        if !(is_prompt || is_request && asks) {
            return;
        }
        let patience = match is_prompt {
            true => 0,
            false => self.timeout / 4,
        };
        let at = now.saturating_add(patience);
        self.answer_at = match self.is_asked {
            true => self.answer_at.min(at),
            false => at,
        };
        self.is_asked = true;
    }

    fn acknowledged(&mut self, count: Count) {
        let count = Count {
            destination: count.destination & !ACK,
            ..count
        };
        let Some(state) = self.destinations.get_mut(usize::from(count.destination)) else {
            return;
        };
        if newer(count.total, state.known) && !newer(count.total, state.told) {
            state.known = count.total;
        }
        if state.known == state.told {
            self.unknown.clear(count.destination);
            self.counts.clear(count.destination);
        }
    }

    /// Records a timeslot given to the endpoint, for the next ALLOC. False if nothing was recorded:
    /// either the ALLOC is full or this timeslot too far from its first one, so it has to be sent
    /// before; or nobody requested the timeslot.
    pub fn give(&mut self, timeslot: u64, destination: u16, path: u8) -> bool {
        let state = self.destinations.get_mut(usize::from(destination));
        let Some(state) = state.filter(|state| newer(state.asked, state.given)) else {
            return false;
        };
        if !self.next.add(timeslot, destination, path) {
            return false;
        }
        state.given = state.given.wrapping_add(1);
        state.until = state.until.max(timeslot);
        true
    }

    /// Whether timeslots wait to be sent.
    pub fn has_timeslots(&self) -> bool {
        self.next.len > 0
    }

    /// Timeslots of a destination that were requested and not given.
    pub fn owed(&self, destination: u16) -> u32 {
        let state = self.destinations.get(usize::from(destination));
        state.map_or(0, |state| state.asked.wrapping_sub(state.given))
    }

    /// When [`poll`](Self::poll) has something to send, if nothing happens until then and nothing
    /// is held.
    pub fn next_poll(&self, now: u64) -> Option<u64> {
        if self.next.len > 0 || !self.counts.is_empty() {
            return Some(now);
        }
        let answer_at = self.is_asked.then_some(self.answer_at);
        self.again.into_iter().chain(answer_at).min()
    }

    /// Writes the next packet to send, and returns its length; call it until there is none. With
    /// `holds`, timeslots wait for others that share their packet, unless one has to be sent.
    pub fn poll(&mut self, now: u64, holds: bool, bytes: &mut [u8; MAX_SIZE]) -> Option<usize> {
        let nonce = self.nonce?;
        let has_timeslots = self.next.len > 0 && !holds;
        // An ALLOC with timeslots carries totals that are about to be repeated.
        let early = match has_timeslots {
            true => self.timeout / 4,
            false => 0,
        };
        if self
            .again
            .is_some_and(|again| again <= now.saturating_add(early))
        {
            self.counts.add(&self.unknown);
            self.again = None;
            self.repeated = self.repeated.saturating_add(1);
        }
        // A total includes the timeslots that wait, so they go with it.
        let (kind, word) = if has_timeslots || !self.counts.is_empty() {
            (Kind::Alloc, self.next.first)
        } else if self.is_asked && self.answer_at <= now {
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
        let Self {
            destinations,
            acks,
            counts,
            unknown,
            next,
            ..
        } = self;
        let next = match kind {
            Kind::Alloc => core::mem::replace(next, Next::EMPTY),
            _ => Next::EMPTY,
        };
        let own = next.destinations.get(..next.counts).unwrap_or_default();
        let mut own = own.iter().copied();
        own.clone()
            .for_each(|destination| counts.clear(destination));
        // An ALLOC carries answers after its own counts, and flagged.
        let mut is_alloc = kind == Kind::Alloc;
        let flag = match kind {
            Kind::Alloc => ACK,
            _ => 0,
        };
        let all = core::iter::from_fn(|| {
            if is_alloc {
                if let Some(destination) = own.next().or_else(|| counts.take()) {
                    let state = destinations.get_mut(usize::from(destination))?;
                    let total = state.given;
                    state.told = total;
                    unknown.set(destination);
                    return Some(Count { destination, total });
                }
                is_alloc = false;
            }
            let destination = acks.take()?;
            let total = destinations.get(usize::from(destination))?.asked;
            let destination = destination | flag;
            Some(Count { destination, total })
        });
        let runs = next.runs.get(..next.len).unwrap_or_default();
        let size = encode(bytes, head, nonce, all.take(MOST), runs);
        self.is_asked &= !self.acks.is_empty();
        Some(size)
    }
}
