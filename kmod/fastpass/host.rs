// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! A host's packet handling: it requests timeslots, and sends in the timeslots that it is given
//! (§6.1, §6.3).
//!
//! # How many timeslots
//!
//! The number of timeslots for the packets of a stream is known when they arrive
//! ([`queues`](super::queues)). Requested timeslots that have not arrived, plus given timeslots
//! that have not been used, always equal that number or are about to: every timeslot that is lost,
//! missed or could not be kept is requested again.
//!
//! # When
//!
//! Timeslot `t` begins at `t` times its length. A packet may begin to leave later, up to a limit;
//! after that the timeslot is missed. The rest of a timeslot remains unused if nothing else waits
//! for its destination.
//!
//! # When a host asks
//!
//! TCP hands over a burst packet by packet, and the work that sends a request runs after the first
//! one. A request that left then would request one timeslot, and the rest of the burst would wait
//! for the whole interval. So a request waits for `gather` after the packet that caused it, and
//! covers all packets that arrived meanwhile.
//!
//! Messages to the arbiter come in rounds, at least an interval apart, so that each of its
//! datagrams carries as much as possible. Only the request for the first packet of a burst need
//! not wait that long: its stream has no timeslots, neither requested nor given, so a short flow
//! would wait for nothing else. It leaves a quarter of the interval after the last round, and
//! requests for more of the same join it.
//!
//! A request for more timeslots to a destination waits while as many are outstanding as the arbiter
//! gives in two intervals. A long flow then sends one request for many batches.
//!
//! # Clocks
//!
//! Hosts' clocks are not the same to the nanosecond (§6.3). A host's own clock can be set back to
//! show the effect: in this module it affects only when a timeslot begins.

use super::calendar::{Calendar, Entry};
use super::control_paths::ControlPaths;
use super::endpoint::{Endpoint, Granted, Received};
use super::frame::{Entry as Line, ENTRIES, MAX_SIZE, MOST};
use super::ledger::Ledger;
use super::marks::Marks;
use super::queues::{Arrived, Begun, Head, Order, Queues};
use crate::common::store::Store;

/// The part of the interval that the request for the first packet of a burst waits.
const FIRST_WAIT: u64 = 4;

/// The parameters of a host. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Length of a timeslot, not 0.
    pub timeslot: u64,
    /// Bytes that the link sends in one.
    pub capacity: u32,
    /// Packets that may wait in a stream.
    pub limit: u32,
    /// How late sending in a timeslot may begin.
    pub late: u64,
    /// How long a request waits for other packets of its burst.
    pub gather: u64,
    /// How long a pure acknowledgement waits for others, to share a timeslot with them; 0: it does
    /// not wait.
    pub hold: u64,
    /// The shortest time between two rounds of messages to the arbiter; a quarter of it if the
    /// second one requests timeslots for the first packet of a burst. It is never shorter than a
    /// round takes.
    pub interval: u64,
    /// How long to wait for an acknowledgement before a message is repeated.
    pub timeout: u64,
    /// How far the host's clock is behind.
    pub skew: u64,
    /// The time between two reports on the paths.
    pub report: u64,
}

impl Terms {
    /// The most timeslots that the arbiter gives in two intervals. A request need not name more
    /// than this yet.
    fn plenty(&self) -> u32 {
        let slots = self.interval.saturating_mul(2).checked_div(self.timeslot);
        let slots = slots.unwrap_or(0).max(MOST as u64 / 2);
        slots.try_into().unwrap_or(u32::MAX)
    }
}

/// The identity of a host, and how it divides its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its endpoint number.
    pub id: u16,
    /// The number of endpoints.
    pub endpoints: u16,
    /// The number of paths whose packets are counted; 0: none.
    pub paths: u16,
    /// Classes of urgency, 1 or more.
    pub classes: u16,
    /// The order in which flows to a destination are served.
    pub order: Order,
}

/// A timeslot in which packets are being sent.
#[derive(Clone, Copy, Debug)]
struct Open {
    entry: Entry,
    /// The bin whose packets are sent.
    bin: u32,
    /// Bytes that are left.
    room: u32,
    /// Packets not sent by then have missed it.
    until: u64,
}

/// The next packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The first packet of this stream and this bin, by this path.
    Send(Entry, u32),
    /// Nothing before this time.
    Wait(u64),
    /// Nothing before a timeslot is given.
    Nothing,
}

/// The events at a host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    /// Packets sent.
    pub scheduled: u64,
    /// Packets for which there was no room.
    pub full: u64,
    /// Timeslots used.
    pub used: u64,
    /// Timeslots for which there was no packet.
    pub wasted: u64,
    /// Timeslots that were over before they were used.
    pub missed: u64,
    /// Timeslots that could not be kept.
    pub unkept: u64,
    /// Timeslots that never arrived.
    pub lost: u64,
    /// The total lateness of used timeslots, in ns.
    pub late_sum: u64,
    /// The greatest lateness of one.
    pub late_max: u64,
    /// Packets sent to the arbiter.
    pub said: u64,
    /// Packets accepted from the arbiter.
    pub heard: u64,
    /// Sessions begun.
    pub resets: u64,
    /// Packets that were not the arbiter's.
    pub foreign: u64,
    /// Packets that were not valid in the protocol.
    pub malformed: u64,
    /// Reports sent.
    pub reports: u64,
}

/// A host, without its packets.
pub struct Host<S: Store> {
    terms: Terms,
    endpoint: Endpoint<S>,
    queues: Queues<S>,
    classes: u16,
    /// Streams whose acknowledgements are held, and the earliest time at which one is released.
    held: Marks<S>,
    held_at: Option<u64>,
    calendar: Calendar<S>,
    open: Option<Open>,
    /// The earliest time for the next message to the arbiter, and for one with the request for the
    /// first packet of a burst.
    speak_at: u64,
    speak_first_at: u64,
    /// Whether such a request waits.
    has_first: bool,
    /// Whether a message has been sent in the current round.
    is_speaking: bool,
    /// When that round began.
    round: u64,
    /// Whether the pause after a round may still be in progress.
    is_pausing: bool,
    /// Until when a request waits for other packets of its burst.
    gather_until: Option<u64>,
    /// Whether the caller's timer has yet to be set for that time.
    is_timer_stale: bool,
    /// When a message was last sent to the arbiter, or received from it.
    quiet_since: u64,
    packets: u32,
    ledger: Ledger<S>,
    control_paths: ControlPaths<S>,
    counters: Counters,
}

impl<S: Store> Host<S> {
    /// A host of this shape; `seed` is unpredictable.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(shape: Shape, seed: u64, terms: Terms) -> Result<Self, S::Error> {
        let Shape {
            id,
            endpoints,
            paths,
            classes,
            order,
        } = shape;
        let known = match paths {
            0 => 0,
            _ => usize::from(endpoints),
        };
        let classes = classes.max(1);
        let streams = endpoints.saturating_mul(classes);
        let mut endpoint = Endpoint::new(id, streams, seed, terms.timeout)?;
        endpoint.set_plenty(terms.plenty());
        Ok(Self {
            terms,
            endpoint,
            queues: Queues::new(streams.into(), order)?,
            classes,
            held: Marks::new(streams.into())?,
            held_at: None,
            calendar: Calendar::new()?,
            open: None,
            speak_at: 0,
            speak_first_at: 0,
            has_first: false,
            is_speaking: false,
            round: 0,
            is_pausing: false,
            gather_until: None,
            is_timer_stale: false,
            quiet_since: 0,
            packets: 0,
            ledger: Ledger::new(endpoints, paths)?,
            control_paths: ControlPaths::new(known)?,
            counters: Counters::default(),
        })
    }

    /// Changes the terms: limit, late, gather, hold, interval, timeout, skew and report. Packets
    /// inside stay.
    pub fn set_terms(&mut self, terms: Terms) {
        self.terms = Terms {
            timeslot: self.terms.timeslot,
            capacity: self.terms.capacity,
            ..terms
        };
        self.endpoint.set_timeout(terms.timeout);
        self.endpoint.set_plenty(self.terms.plenty());
    }

    /// A packet arrives for a bin of a stream, and takes `cost` bytes of the link. Returns whether
    /// there is room for it.
    #[inline]
    pub fn arrive(&mut self, now: u64, stream: u16, bin: u32, cost: u32) -> bool {
        let Terms {
            limit,
            capacity,
            hold,
            ..
        } = self.terms;
        let place = (stream, bin);
        let is_first = self.endpoint.outstanding(stream) == 0 && !self.queues.has_kept(stream);
        let arrived = self
            .queues
            .arrive(now, place, cost, (capacity, limit, hold));
        match arrived {
            Arrived::Full => {
                self.counters.full = self.counters.full.wrapping_add(1);
                return false;
            }
            Arrived::Shares => {}
            Arrived::Needs | Arrived::Held(_) => {
                if self.ask(stream) && self.endpoint.is_asking() {
                    self.gather(now, is_first && arrived == Arrived::Needs);
                }
            }
        }
        if let Arrived::Held(until) = arrived {
            self.held.set(stream);
            if self.held_at.is_none() {
                self.held_at = Some(until);
                self.is_timer_stale |= !self.is_pausing;
            }
        }
        self.packets = self.packets.wrapping_add(1);
        true
    }

    /// Requests the timeslots of acknowledgements that have been held until now. Those that have
    /// been held for half of that time join them, so that one datagram does for all.
    fn release(&mut self, now: u64) {
        let now = now.saturating_add(self.terms.hold / 2);
        let Self {
            held,
            queues,
            endpoint,
            ..
        } = self;
        let mut next = None;
        held.retain(|stream| {
            let until = queues.release(now, stream);
            if until.is_none() {
                ask(endpoint, queues, stream);
            }
            next = next.into_iter().chain(until).min();
            until.is_some()
        });
        self.held_at = next;
    }

    /// A packet needs a timeslot: its request waits for other packets of the burst, unless a
    /// request already waits. The first packet of a burst may end the pause.
    #[inline]
    fn gather(&mut self, now: u64, is_first: bool) {
        let is_news = is_first && !self.has_first;
        if self.is_speaking || self.gather_until.is_some() && !is_news {
            return;
        }
        self.has_first |= is_first;
        self.gather_until = Some(now.saturating_add(self.terms.gather));
        // During a pause the timer is set for its end, and is then set again.
        self.is_timer_stale |= is_news || !self.is_pausing;
    }

    /// Requests the timeslots that are needed and not yet requested. Returns whether there were
    /// any.
    fn ask(&mut self, stream: u16) -> bool {
        ask(&mut self.endpoint, &self.queues, stream)
    }

    /// The next packet to send at `now`. `first` is the first packet of a stream and a bin.
    #[inline]
    pub fn next(&mut self, now: u64, first: impl Fn(u16, u32) -> Option<Head>) -> Next {
        let now = now.saturating_sub(self.terms.skew);
        // Each iteration sends, waits, or removes a timeslot from the calendar.
        loop {
            if let Some(next) = self.fill(now, &first) {
                return next;
            }
            let Some(timeslot) = self.calendar.first() else {
                return Next::Nothing;
            };
            let begin = timeslot.saturating_mul(self.terms.timeslot);
            let Some(late) = now.checked_sub(begin) else {
                return Next::Wait(begin.saturating_add(self.terms.skew));
            };
            if let Some((_, entry)) = self.calendar.pop() {
                self.begin(now, entry, late, &first);
            }
        }
    }

    /// The next packet of the open timeslot, if there is one that fits. Otherwise the timeslot is
    /// closed.
    #[inline]
    fn fill(&mut self, now: u64, first: &impl Fn(u16, u32) -> Option<Head>) -> Option<Next> {
        let mut open = self.open.take()?;
        let (stream, bin) = (open.entry.destination, open.bin);
        let room = open.room.checked_sub(first(stream, bin)?.cost)?;
        if now > open.until {
            // The caller was delayed. The remaining packets need another timeslot.
            self.counters.missed = self.counters.missed.wrapping_add(1);
            self.queues.miss(stream, bin);
            self.ask(stream);
            return None;
        }
        self.packets = self.packets.saturating_sub(1);
        self.counters.scheduled = self.counters.scheduled.wrapping_add(1);
        let entry = open.entry;
        if self.queues.sent(stream, bin) {
            open.room = room;
            self.open = Some(open);
        }
        Some(Next::Send(entry, bin))
    }

    /// A timeslot began `late` ns ago.
    fn begin(
        &mut self,
        now: u64,
        entry: Entry,
        late: u64,
        first: &impl Fn(u16, u32) -> Option<Head>,
    ) {
        let stream = entry.destination;
        let Terms {
            timeslot, capacity, ..
        } = self.terms;
        self.queues.unkeep(stream);
        let counters = &mut self.counters;
        if late > self.terms.late {
            counters.missed = counters.missed.wrapping_add(1);
        } else {
            let begun = self.queues.begin(stream, capacity, first);
            if begun == Begun::Wasted {
                counters.wasted = counters.wasted.wrapping_add(1);
            } else {
                counters.used = counters.used.wrapping_add(1);
                counters.late_sum = counters.late_sum.saturating_add(late);
                counters.late_max = counters.late_max.max(late);
            }
            if let Begun::Open(bin, room) = begun {
                let longest = timeslot.saturating_add(self.terms.late);
                let until = now.saturating_sub(late).saturating_add(longest);
                self.open = Some(Open {
                    entry,
                    bin,
                    room,
                    until,
                });
            }
        }
        // This also covers the part that exceeded the limit on outstanding requests.
        self.ask(stream);
    }

    /// Processes a packet from the arbiter. Returns whether there may be something to send sooner
    /// than before.
    pub fn receive(&mut self, now: u64, bytes: &[u8]) -> Option<bool> {
        let Self {
            terms,
            endpoint,
            queues,
            calendar,
            counters,
            ..
        } = self;
        let clock = now.saturating_sub(terms.skew);
        let current = clock.checked_div(terms.timeslot).unwrap_or(0);
        let oldest = clock.saturating_sub(terms.late);
        let oldest = oldest.checked_div(terms.timeslot).unwrap_or(0);
        let mut news = false;
        // The timeslots of a slot or a run follow each other, so there is room for all.
        let mut unkept = [None; MOST];
        let mut places = unkept.iter_mut();
        let mut last = None;
        let mut ask = |destination| {
            if last == Some(destination) {
                return;
            }
            last = Some(destination);
            if let Some(place) = places.next() {
                *place = last;
            }
        };
        let received = endpoint.receive(bytes, |granted| {
            let Granted {
                timeslot,
                destination,
                path,
            } = granted;
            if timeslot < oldest {
                counters.missed = counters.missed.wrapping_add(1);
                ask(destination);
                return;
            }
            let entry = Entry { destination, path };
            let is_near = timeslot.saturating_sub(current) < super::calendar::HORIZON;
            if is_near && calendar.insert(oldest, timeslot, entry) {
                queues.keep(destination);
                news = true;
            } else {
                counters.unkept = counters.unkept.wrapping_add(1);
                ask(destination);
            }
        });
        let count = |counter: &mut u64| *counter = counter.wrapping_add(1);
        match received {
            Received::Malformed => count(&mut counters.malformed),
            Received::Foreign => {
                count(&mut counters.foreign);
                return None;
            }
            Received::Heeded { lost } => {
                count(&mut counters.heard);
                self.quiet_since = now;
                counters.lost = counters.lost.wrapping_add(lost.into());
            }
            Received::Reset => {
                count(&mut counters.heard);
                count(&mut counters.resets);
                // The new session takes one round trip.
                self.speak_at = now;
            }
        }
        for destination in unkept.into_iter().flatten() {
            self.ask(destination);
        }
        Some(news)
    }

    /// Writes the next message to the arbiter, and returns its length; call it until there is none.
    pub fn poll(&mut self, now: u64, bytes: &mut [u8; MAX_SIZE]) -> Option<usize> {
        // The caller asks for the next time afterwards.
        self.is_timer_stale = false;
        if self.held_at.is_some_and(|at| at <= now) {
            self.release(now);
        }
        if now < self.may_speak_at() {
            return None;
        }
        // Messages that become due during a round wait for the next one, so a round ends, however
        // long it takes.
        if !self.is_speaking {
            self.round = now;
        }
        self.gather_until = None;
        if self.enquire_at().is_some_and(|at| at <= self.round) {
            match self.calendar.is_empty() {
                true => self.endpoint.enquire(),
                // It need not say more while it has given timeslots.
                false => self.quiet_since = self.round,
            }
        }
        let mut size = self.endpoint.poll(self.round, bytes);
        if size.is_some() {
            self.quiet_since = now;
        } else {
            size = self.report(now, bytes);
        }
        match size {
            Some(_) => {
                self.counters.said = self.counters.said.wrapping_add(1);
                self.is_speaking = true;
            }
            None if self.is_speaking => {
                self.is_speaking = false;
                self.is_pausing = true;
                // Rounds take at most half of the time, whatever the interval. Otherwise many
                // unanswered requests, or a slow machine, would keep a processor busy.
                let length = now.saturating_sub(self.round);
                let interval = self.terms.interval;
                let first = interval.checked_div(FIRST_WAIT).unwrap_or(0);
                self.speak_at = now.saturating_add(interval.max(length));
                self.speak_first_at = now.saturating_add(first.max(length));
                self.has_first = false;
            }
            None => {
                self.is_pausing = false;
                self.has_first = false;
            }
        }
        size
    }

    /// Writes the report, if one is due.
    fn report(&mut self, now: u64, bytes: &mut [u8; MAX_SIZE]) -> Option<usize> {
        if self.report_at()? > self.round {
            return None;
        }
        let mut entries = [Line::default(); ENTRIES];
        let next = self.next_report(now);
        let filled = self.ledger.report(next, &mut entries);
        let entries = entries.get(..filled)?;
        self.counters.reports = self.counters.reports.wrapping_add(1);
        let clock = now.saturating_sub(self.terms.skew);
        self.endpoint.report(clock, entries, bytes)
    }

    /// When the next report is due. Each endpoint has its own part of the time between two reports;
    /// otherwise the reports of all endpoints would reach the arbiter's link together, and delay
    /// the packets that have timeslots there.
    fn next_report(&self, now: u64) -> u64 {
        let report = self.terms.report.max(1);
        let endpoints = self.endpoint.count().checked_div(self.classes);
        let part = report
            .checked_div(endpoints.unwrap_or(1).into())
            .unwrap_or(0);
        let phase = part.saturating_mul(self.endpoint.id().into());
        // At least half of the report time is between two reports.
        let earliest = now.saturating_add(report / 2);
        let past = earliest
            .saturating_sub(phase)
            .checked_rem(report)
            .unwrap_or(0);
        earliest.saturating_add(report.saturating_sub(past))
    }

    /// When the next report is due. There are none before the arbiter has identified itself.
    #[inline]
    fn report_at(&self) -> Option<u64> {
        let due = self.ledger.due()?;
        self.endpoint.is_synchronised().then_some(due)
    }

    /// Whether packets are counted by path.
    #[inline]
    pub fn counts_paths(&self) -> bool {
        self.ledger.paths() > 0
    }

    /// A packet with a timeslot leaves by a path; returns the sequence number that it must carry,
    /// `None` if packets have none.
    #[inline]
    pub fn sent(&mut self, now: u64, entry: Entry) -> Option<u16> {
        let to = entry.destination.checked_div(self.classes)?;
        self.ledger.send(now, to, entry.path.into())
    }

    /// A packet has arrived from another endpoint, by a path; `number` is its sequence number,
    /// `None` for a control packet.
    #[inline]
    pub fn arrived(&mut self, now: u64, from: u16, path: u16, number: Option<u16>) {
        if path >= self.ledger.paths() {
            return;
        }
        match number {
            Some(number) => self.ledger.arrive(now, from, path, number),
            None => self.control_paths.heard(from, path as u8),
        }
    }

    /// The path of a control packet to an endpoint, if it needs one.
    #[inline]
    pub fn control_path(&mut self, now: u64, to: u16, random: u32) -> Option<u8> {
        let (paths, patience) = (self.ledger.paths(), self.terms.timeout);
        self.control_paths.choose(now, to, paths, patience, random)
    }

    /// Packets from other endpoints that did not arrive.
    pub fn lost_packets(&self) -> u64 {
        self.ledger.lost()
    }

    /// When to call [`poll`](Self::poll), whatever happens until then. The time changes after each
    /// `poll` that had nothing, and becomes earlier only after [`receive`](Self::receive) and
    /// [`arrive`](Self::arrive). Then it is 0 once, so that the caller sets its timer.
    #[inline]
    pub fn next_poll(&self) -> Option<u64> {
        if self.is_timer_stale {
            return Some(0);
        }
        let earliest = self.may_speak_at();
        if self.is_pausing {
            return Some(earliest);
        }
        let due = self.endpoint.next_poll(0).into_iter();
        let due = due.chain(self.enquire_at()).chain(self.report_at());
        let due = due.chain(self.held_at).min();
        due.map(|at| at.max(earliest))
    }

    /// The time before which no message is sent to the arbiter.
    #[inline]
    fn may_speak_at(&self) -> u64 {
        let earliest = match self.has_first {
            true => self.speak_at.min(self.speak_first_at),
            false => self.speak_at,
        };
        earliest.max(self.gather_until.unwrap_or(0))
    }

    /// When to query the arbiter: while packets wait for timeslots that it should know of, it is
    /// silent, and no timeslots are left. It may have restarted, or another one may have taken
    /// over, without any state.
    fn enquire_at(&self) -> Option<u64> {
        let at = self.quiet_since.saturating_add(self.terms.timeout);
        (self.packets > 0).then_some(at)
    }

    /// All packets are gone. Requested timeslots still arrive, and remain unused.
    pub fn clear(&mut self) {
        self.open = None;
        self.packets = 0;
        self.queues.clear();
        self.held.clear_all();
        self.held_at = None;
    }

    /// Returns the stream for a packet of this class to a destination, and records its flow there.
    /// A flow's packets keep their order: while others of it wait in a less urgent class, the
    /// packet joins them.
    #[inline]
    pub fn stream(&mut self, destination: u16, class: u16, bin: u32, flow: u32) -> u16 {
        let base = destination.wrapping_mul(self.classes);
        let class = class.min(self.classes.wrapping_sub(1));
        let class = self.queues.in_order(base, self.classes, class, (bin, flow));
        base.wrapping_add(class)
    }

    /// Waiting packets.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Timeslots in the calendar.
    pub fn ahead(&self) -> u32 {
        self.calendar.len()
    }

    /// Timeslots that were requested and not given.
    pub fn outstanding(&self) -> u32 {
        let all = 0..self.queues.len();
        all.map(|destination| self.endpoint.outstanding(destination as u16))
            .fold(0, u32::saturating_add)
    }

    /// Whether the arbiter has identified itself.
    pub fn is_synchronised(&self) -> bool {
        self.endpoint.is_synchronised()
    }

    /// The events so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Requests the timeslots that a stream needs and that are not yet requested. Returns whether there
/// were any.
fn ask<S: Store>(endpoint: &mut Endpoint<S>, queues: &Queues<S>, stream: u16) -> bool {
    let missing = queues.missing(stream);
    let more = missing.saturating_sub(endpoint.outstanding(stream));
    more > 0 && endpoint.ask(stream, more) > 0
}
