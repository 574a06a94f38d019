// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! An endpoint's end of the control protocol: the timeslots requested and received.

use super::frame::{encode, encode_report, Count, Entry, Frame, Head, Kind, ACK, MAX_SIZE, MOST};
use super::marks::Marks;
use super::{newer, FIRST, MAX_OUTSTANDING};
use crate::common::store::Store;

/// How many timeouts acknowledgements are put off at most, while allocations follow each other. The
/// arbiter repeats the totals meanwhile, in the allocations.
const LONGEST: u64 = 4;

/// The state of an endpoint.
pub struct Endpoint<S: Store> {
    id: u16,
    /// ns until an unacknowledged message is repeated.
    timeout: u64,
    /// A request for more timeslots to a destination waits while this many that were requested are
    /// outstanding.
    plenty: u32,
    /// The cookie that the next RESET must repeat.
    cookie: u64,
    nonce: Option<u64>,
    destinations: S::Of<Destination>,
    /// Destinations for which a request must be sent, and destinations whose totals the arbiter has
    /// not acknowledged.
    requests: Marks<S>,
    unknown: Marks<S>,
    /// Destinations for which allocations must be acknowledged.
    acks: Marks<S>,
    /// Whether the arbiter has not yet confirmed the endpoint's use of its nonce.
    is_unconfirmed: bool,
    /// Whether to send a request even if it requests nothing.
    speak: bool,
    /// When all unacknowledged totals are repeated.
    again: Option<u64>,
    /// Until when acknowledgements wait for a request that carries them; `None`: not decided.
    acks_at: Option<u64>,
    /// Until when they wait at most, however many allocations follow; `None`: not decided.
    acks_by: Option<u64>,
}

/// Totals, modulo 2^32.
#[derive(Clone, Copy, Debug)]
struct Destination {
    /// Timeslots requested.
    asked: u32,
    /// Of these, timeslots that a request has named.
    said: u32,
    /// Of these, timeslots that the arbiter has acknowledged.
    known: u32,
    /// Timeslots given, whether they arrived or were lost.
    given: u32,
}

impl Destination {
    const NEW: Self = Self {
        asked: FIRST,
        said: FIRST,
        known: FIRST,
        given: FIRST,
    };

    /// Timeslots that the arbiter owes.
    fn outstanding(self) -> u32 {
        self.asked.wrapping_sub(self.given)
    }

    /// Whether this many timeslots that a request has named are outstanding. If the request was
    /// lost, it is repeated after the timeout like any other.
    fn is_supplied(self, plenty: u32) -> bool {
        newer(self.said, self.given) && self.said.wrapping_sub(self.given) >= plenty
    }
}

/// A timeslot given to this endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// Its number.
    pub timeslot: u64,
    /// The destination.
    pub destination: u16,
    /// The path.
    pub path: u8,
}

/// The treatment of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Not a valid packet of the protocol, or of a kind that no arbiter sends.
    Malformed,
    /// Another endpoint's, another session's, or forged.
    Foreign,
    /// Accepted. The number of timeslots now known to be lost since the last packet; they are
    /// requested again.
    Heeded {
        /// The number of lost timeslots.
        lost: u32,
    },
    /// The arbiter begins a new session.
    Reset,
}

impl<S: Store> Endpoint<S> {
    /// Number `id` of `count` endpoints. `seed` is unpredictable. `timeout` in ns.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(id: u16, count: u16, seed: u64, timeout: u64) -> Result<Self, S::Error> {
        let count = usize::from(count);
        Ok(Self {
            id,
            timeout,
            plenty: u32::MAX,
            cookie: seed,
            nonce: None,
            destinations: S::allocate(count, || Destination::NEW)?,
            requests: Marks::new(count)?,
            unknown: Marks::new(count)?,
            acks: Marks::new(count)?,
            is_unconfirmed: false,
            speak: false,
            again: None,
            acks_at: None,
            acks_by: None,
        })
    }

    /// Messages from now on are repeated after another time, in ns.
    pub fn set_timeout(&mut self, timeout: u64) {
        self.timeout = timeout;
    }

    /// A request for more timeslots to a destination waits while `plenty` that were requested are
    /// outstanding: the arbiter cannot give more before the request arrives.
    pub fn set_plenty(&mut self, plenty: u32) {
        self.plenty = plenty;
    }

    /// The number of this endpoint.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// The number of endpoints.
    pub fn count(&self) -> u16 {
        self.destinations.len() as u16
    }

    /// Sends a request, even if it requests nothing: an arbiter without a session answers with a
    /// RESET, any other with an acknowledgement.
    pub fn enquire(&mut self) {
        self.speak = true;
    }

    /// Requests `slots` more timeslots to `destination`, including replacements for late ones.
    /// Returns how many were added: at most [`MAX_OUTSTANDING`] may be outstanding, and none are
    /// added for an unknown destination.
    pub fn ask(&mut self, destination: u16, slots: u32) -> u32 {
        let Some(state) = self.destinations.get_mut(usize::from(destination)) else {
            return 0;
        };
        let room = MAX_OUTSTANDING.saturating_sub(state.outstanding());
        let slots = slots.min(room);
        if slots > 0 {
            state.asked = state.asked.wrapping_add(slots);
            if !state.is_supplied(self.plenty) {
                self.requests.set(destination);
            }
        }
        slots
    }

    /// Whether there is a request to send.
    #[inline]
    pub fn is_asking(&self) -> bool {
        !self.requests.is_empty()
    }

    /// Timeslots to `destination` that the arbiter owes.
    pub fn outstanding(&self, destination: u16) -> u32 {
        let state = self.destinations.get(usize::from(destination));
        state.map_or(0, |state| state.outstanding())
    }

    /// Whether the arbiter has identified itself.
    pub fn is_synchronised(&self) -> bool {
        self.nonce.is_some()
    }

    /// When [`poll`](Self::poll) has something to send, if nothing happens until then.
    pub fn next_poll(&self, now: u64) -> Option<u64> {
        if self.speak || !self.requests.is_empty() {
            return Some(now);
        }
        let has_acks = self.nonce.is_some() && !self.acks.is_empty();
        let acks_at = has_acks.then(|| self.acks_at.unwrap_or(now));
        self.again.into_iter().chain(acks_at).min()
    }

    /// Writes the next packet to send, and returns its length; call it until there is none.
    pub fn poll(&mut self, now: u64, bytes: &mut [u8; MAX_SIZE]) -> Option<usize> {
        if self.again.is_some_and(|again| again <= now) {
            self.requests.add(&self.unknown);
            self.speak |= self.is_unconfirmed;
            self.again = None;
        }
        let has_acks = self.nonce.is_some() && !self.acks.is_empty();
        let kind = if self.speak || !self.requests.is_empty() {
            self.speak = false;
            self.again.get_or_insert(now.saturating_add(self.timeout));
            Kind::Request
        } else if has_acks {
            // The arbiter repeats unacknowledged totals after a timeout.
            let patience = self.timeout / 2;
            let by = now.saturating_add(self.timeout.saturating_mul(LONGEST));
            let by = *self.acks_by.get_or_insert(by);
            let at = now.saturating_add(patience).min(by);
            let at = *self.acks_at.get_or_insert(at);
            if at > now {
                return None;
            }
            Kind::AckAlloc
        } else {
            return None;
        };
        let head = Head {
            kind,
            endpoint: self.id,
            word: self.cookie,
        };
        // A nonce of no session, so that the arbiter answers with its own.
        let nonce = self.nonce.unwrap_or(!self.cookie);
        let Self {
            destinations,
            requests,
            unknown,
            acks,
            ..
        } = self;
        let mut is_request = kind == Kind::Request;
        let counts = core::iter::from_fn(|| {
            if is_request {
                if let Some(destination) = requests.take() {
                    let state = destinations.get_mut(usize::from(destination))?;
                    let total = state.asked;
                    state.said = total;
                    unknown.set(destination);
                    return Some(Count { destination, total });
                }
                is_request = false;
            }
            if !has_acks {
                return None;
            }
            let destination = acks.take()?;
            let total = destinations.get(usize::from(destination))?.given;
            let flag = match kind {
                Kind::Request => ACK,
                _ => 0,
            };
            let destination = destination | flag;
            Some(Count { destination, total })
        });
        let size = encode(bytes, head, nonce, counts.take(MOST), &[]);
        if self.acks.is_empty() {
            self.acks_at = None;
            self.acks_by = None;
        }
        Some(size)
    }

    /// Writes a report of the state at `time`, and returns its length. `None` before the arbiter
    /// has identified itself.
    pub fn report(
        &self,
        time: u64,
        entries: &[Entry],
        bytes: &mut [u8; MAX_SIZE],
    ) -> Option<usize> {
        let head = Head {
            kind: Kind::Report,
            endpoint: self.id,
            word: self.cookie,
        };
        Some(encode_report(bytes, head, self.nonce?, time, entries))
    }

    /// Processes a packet; `granted` is called with each timeslot in it, including timeslots that
    /// are over.
    pub fn receive(&mut self, bytes: &[u8], granted: impl FnMut(Granted)) -> Received {
        let Ok(frame) = Frame::decode(bytes) else {
            return Received::Malformed;
        };
        if frame.head.endpoint != self.id {
            return Received::Foreign;
        }
        let is_ours = self.nonce.is_some_and(|nonce| frame.is_under(nonce));
        match frame.head.kind {
            // It may be a packet of our own that was sent back.
            Kind::Request | Kind::AckAlloc | Kind::Report => Received::Malformed,
            Kind::Reset => {
                if frame.head.word != self.cookie || !frame.is_under(self.cookie) {
                    return Received::Foreign;
                }
                self.begin_again(frame.nonce());
                Received::Reset
            }
            _ if !is_ours => Received::Foreign,
            Kind::Alloc => {
                self.is_unconfirmed = false;
                let lost = self.allocated(&frame, granted);
                self.all_acknowledged(&frame, ACK);
                Received::Heeded { lost }
            }
            Kind::AckRequest => {
                self.is_unconfirmed = false;
                self.all_acknowledged(&frame, 0);
                Received::Heeded { lost: 0 }
            }
        }
    }

    /// Requests outstanding timeslots again, with the initial totals.
    fn begin_again(&mut self, nonce: u64) {
        self.nonce = Some(nonce);
        // The arbiter computes the nonce from this cookie less 1, and a repeated RESET is void.
        self.cookie = self.cookie.wrapping_add(1);
        self.acks.clear_all();
        self.acks_at = None;
        self.acks_by = None;
        self.requests.clear_all();
        self.unknown.clear_all();
        self.again = None;
        // The arbiter's new session begins when it hears of the nonce, even if there is nothing to
        // request.
        self.is_unconfirmed = true;
        self.speak = true;
        for destination in 0..self.destinations.len() {
            let Some(state) = self.destinations.get_mut(destination) else {
                continue;
            };
            let destination = destination as u16;
            let outstanding = state.outstanding();
            *state = Destination {
                asked: FIRST.wrapping_add(outstanding),
                ..Destination::NEW
            };
            if outstanding > 0 {
                self.requests.set(destination);
            }
        }
    }

    /// The arbiter acknowledges the counts of a packet that have this flag.
    fn all_acknowledged(&mut self, frame: &Frame<'_>, flag: u16) {
        let counts = frame.counts().filter(|it| it.destination & ACK == flag);
        counts.for_each(|it| self.acknowledged(it));
        if self.unknown.is_empty() {
            self.again = None;
        }
    }

    fn acknowledged(&mut self, count: Count) {
        let count = Count {
            destination: count.destination & !ACK,
            ..count
        };
        let Some(state) = self.destinations.get_mut(usize::from(count.destination)) else {
            return;
        };
        if newer(count.total, state.known) && !newer(count.total, state.asked) {
            state.known = count.total;
        }
        if state.known == state.said {
            self.unknown.clear(count.destination);
        }
        if state.known == state.asked {
            self.requests.clear(count.destination);
        }
    }

    /// Takes the timeslots of a packet, unless it is late: then they have already been counted as
    /// lost. Returns how many earlier timeslots are lost.
    fn allocated(&mut self, frame: &Frame<'_>, mut granted: impl FnMut(Granted)) -> u32 {
        if frame.slots().next().is_some() {
            // Others follow, and one acknowledgement does for all.
            self.acks_at = None;
        }
        let mut brought = [0_u32; MOST];
        for slot in frame.slots() {
            if let Some(brought) = brought.get_mut(usize::from(slot.count)) {
                *brought = brought.wrapping_add(1);
            }
        }
        let mut destinations = [None; MOST];
        let mut all_lost = 0_u32;
        for ((count, brought), place) in frame.counts().zip(brought).zip(&mut destinations) {
            let Some(state) = self.destinations.get_mut(usize::from(count.destination)) else {
                continue;
            };
            self.acks.set(count.destination);
            let new = count.total.wrapping_sub(state.given);
            // Nothing new, or more than was requested, which weft's arbiter never sends.
            if !newer(count.total, state.given) || new > state.outstanding() {
                continue;
            }
            // weft's arbiter never sends part of the difference, so all of it counts as lost.
            let lost = new.checked_sub(brought).unwrap_or(new);
            if brought <= new {
                *place = Some(count.destination);
            }
            state.given = count.total;
            state.asked = state.asked.wrapping_add(lost);
            all_lost = all_lost.saturating_add(lost);
            // A request that waited while enough timeslots were outstanding. The arbiter may
            // allocate farther ahead than two intervals: the next packet may bring as many.
            let plenty = self.plenty.max(brought.saturating_mul(2));
            let is_due = state.asked != state.said && !state.is_supplied(plenty);
            if lost > 0 || is_due {
                self.requests.set(count.destination);
            }
        }
        for slot in frame.slots() {
            if let Some(&Some(destination)) = destinations.get(usize::from(slot.count)) {
                granted(Granted {
                    timeslot: frame.head.word.wrapping_add(slot.offset.into()),
                    destination,
                    path: slot.path,
                });
            }
        }
        all_lost
    }
}
