// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What a host does with its packets: it asks for timeslots, and sends in those that it is given
//! (§6.1, §6.3).
//!
//! # How many timeslots
//!
//! Packets to a destination wait in the order in which they came. In a timeslot the first of them
//! are sent, as many as fit: "it greedily sends packets while their total transmission time is less
//! than the timeslot length". So how many timeslots they take is known when they come: a packet
//! either fits into what is left of the last one, or begins another. What was asked for and has not
//! come, and what was given and has not been used, is always as many as that, or on its way to be:
//! whatever is lost, missed or could not be kept is asked for again.
//!
//! A packet longer than a timeslot saves up as many as it needs, and is sent in the last of them.
//!
//! # When
//!
//! Timeslot `t` begins at `t` times its length. A packet may begin to leave later, up to a limit:
//! then the timeslot is missed. What is left of a timeslot when nothing more waits for its
//! destination is left unused.
//!
//! # When a host asks
//!
//! TCP hands over a burst packet by packet, and the work that sends a request runs after the first
//! one. A request that left then would ask for one timeslot, and the rest of the burst would wait
//! for the whole interval. So a request waits for `gather` after the packet that caused it, and
//! asks for all that came meanwhile.
//!
//! # Clocks
//!
//! Hosts' clocks are not the same to the nanosecond (§6.3). A host's own can be set back, so that
//! what comes of that can be seen: of all that is here it goes only into when a timeslot begins.

use super::calendar::{Calendar, Entry};
use super::endpoint::{Endpoint, Granted, Received};
use super::frame::{Entry as Line, ENTRIES, MAX_SIZE, MOST};
use super::ledger::Ledger;
use super::ways::Ways;
use crate::common::store::Store;

/// What a host goes by. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Length of a timeslot, not 0.
    pub timeslot: u64,
    /// Bytes that the link sends in one.
    pub capacity: u32,
    /// Packets that may wait for a destination.
    pub limit: u32,
    /// How late a timeslot may be begun.
    pub late: u64,
    /// How long a request waits for other packets of its burst.
    pub gather: u64,
    /// The least time between two rounds of what is said to the arbiter. It is at least as long as
    /// a round takes, too.
    pub interval: u64,
    /// Until what was not acknowledged is said again.
    pub timeout: u64,
    /// How far the host's clock is behind.
    pub skew: u64,
    /// The time between two reports of what goes by each path.
    pub report: u64,
}

/// The packets to a destination; others hold them.
#[derive(Clone, Copy, Debug)]
struct Queue {
    packets: u32,
    /// Timeslots that they take.
    needed: u32,
    /// What the last of these has left, in bytes.
    room: u32,
    /// Timeslots that are kept for it.
    kept: u32,
    /// Timeslots that its first packet, which is longer than one, has saved up.
    saved: u32,
}

impl Queue {
    const EMPTY: Self = Self {
        packets: 0,
        needed: 0,
        room: 0,
        kept: 0,
        saved: 0,
    };
}

/// A timeslot in which packets are being sent.
#[derive(Clone, Copy, Debug)]
struct Open {
    entry: Entry,
    /// Bytes that are left.
    room: u32,
    /// What has not been sent until then has missed it.
    until: u64,
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The first packet that waits for this destination, by this path.
    Send(Entry),
    /// Nothing before this time.
    Wait(u64),
    /// Nothing before a timeslot is given.
    Nothing,
}

/// What is counted.
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
    /// Timeslots that were over.
    pub missed: u64,
    /// Timeslots that could not be kept.
    pub unkept: u64,
    /// Timeslots that never came.
    pub lost: u64,
    /// How late those were that were used, in all, in ns.
    pub late_sum: u64,
    /// The latest of them.
    pub late_max: u64,
    /// Packets to the arbiter.
    pub said: u64,
    /// Packets of the arbiter.
    pub heard: u64,
    /// Sessions begun.
    pub resets: u64,
    /// Packets that were not the arbiter's.
    pub foreign: u64,
    /// Packets that were nobody's.
    pub malformed: u64,
    /// Reports sent.
    pub reports: u64,
}

/// A host, without its packets.
pub struct Host<S: Store> {
    terms: Terms,
    endpoint: Endpoint<S>,
    queues: S::Of<Queue>,
    calendar: Calendar<S>,
    open: Option<Open>,
    /// When something may be said to the arbiter again.
    speak_at: u64,
    /// Whether something has been said in the round that is under way.
    is_speaking: bool,
    /// When that round began.
    round: u64,
    /// Whether the time after a round has not been seen to be over.
    is_pausing: bool,
    /// Until when a request waits for other packets of its burst.
    gather_until: Option<u64>,
    /// Whether the caller's timer is not set for that yet.
    is_timer_stale: bool,
    /// When something was last said to the arbiter, or heard of it.
    quiet_since: u64,
    packets: u32,
    ledger: Ledger<S>,
    ways: Ways<S>,
    counters: Counters,
}

impl<S: Store> Host<S> {
    /// Endpoint `id` of `count`; `seed` is a number that nobody can guess. Of `paths` paths, if not
    /// of none, it knows what goes by them.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(id: u16, count: u16, paths: u16, seed: u64, terms: Terms) -> Result<Self, S::Error> {
        let known = match paths {
            0 => 0,
            _ => usize::from(count),
        };
        Ok(Self {
            terms,
            endpoint: Endpoint::new(id, count, seed, terms.timeout)?,
            queues: S::allocate(count.into(), || Queue::EMPTY)?,
            calendar: Calendar::new()?,
            open: None,
            speak_at: 0,
            is_speaking: false,
            round: 0,
            is_pausing: false,
            gather_until: None,
            is_timer_stale: false,
            quiet_since: 0,
            packets: 0,
            ledger: Ledger::new(count, paths)?,
            ways: Ways::new(known)?,
            counters: Counters::default(),
        })
    }

    /// Goes by other terms from now on: limit, late, gather, interval, timeout, skew and report.
    /// Packets inside stay.
    pub fn set_terms(&mut self, terms: Terms) {
        self.terms = Terms {
            timeslot: self.terms.timeslot,
            capacity: self.terms.capacity,
            ..terms
        };
        self.endpoint.set_timeout(terms.timeout);
    }

    /// A packet to `destination` arrives that takes `cost` bytes of the link. Whether there is room
    /// for it.
    #[inline]
    pub fn arrive(&mut self, now: u64, destination: u16, cost: u32) -> bool {
        let (limit, capacity) = (self.terms.limit, self.terms.capacity);
        let queue = self.queues.get_mut(usize::from(destination));
        let Some(queue) = queue.filter(|queue| queue.packets < limit) else {
            self.counters.full = self.counters.full.wrapping_add(1);
            return false;
        };
        queue.packets = queue.packets.wrapping_add(1);
        self.packets = self.packets.wrapping_add(1);
        if cost <= queue.room {
            queue.room = queue.room.wrapping_sub(cost);
            return true;
        }
        let slots = slots(cost, capacity);
        queue.needed = queue.needed.saturating_add(slots);
        // What is left of several is nobody else's.
        queue.room = match slots {
            1 => capacity.saturating_sub(cost),
            _ => 0,
        };
        if self.ask(destination) {
            self.gather(now);
        }
        true
    }

    /// A packet needs a timeslot: its request waits for other packets of the burst, unless one
    /// waits already.
    #[inline]
    fn gather(&mut self, now: u64) {
        if self.gather_until.is_some() || self.is_speaking {
            return;
        }
        self.gather_until = Some(now.saturating_add(self.terms.gather));
        // In a pause the timer is set for its end, and then set anew.
        self.is_timer_stale = !self.is_pausing;
    }

    /// Asks for what is needed and not asked for yet. Whether there was any of that.
    fn ask(&mut self, destination: u16) -> bool {
        let Some(queue) = self.queues.get(usize::from(destination)) else {
            return false;
        };
        let coming = self.endpoint.outstanding(destination);
        let coming = coming.saturating_add(queue.kept);
        let more = queue.needed.saturating_sub(coming);
        more > 0 && self.endpoint.ask(destination, more) > 0
    }

    /// What is to be sent at `now`. `first` is what the first packet that waits for a destination
    /// takes of the link, in bytes.
    #[inline]
    pub fn next(&mut self, now: u64, first: impl Fn(u16) -> Option<u32>) -> Next {
        let now = now.saturating_sub(self.terms.skew);
        // Each turn sends, waits, or takes a timeslot out of the calendar.
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

    /// The next packet of the timeslot that is open, if there is one that fits. It is closed
    /// otherwise.
    #[inline]
    fn fill(&mut self, now: u64, first: &impl Fn(u16) -> Option<u32>) -> Option<Next> {
        let mut open = self.open.take()?;
        let destination = open.entry.destination;
        let room = open.room.checked_sub(first(destination)?)?;
        let queue = self.queues.get_mut(usize::from(destination))?;
        if now > open.until {
            // Whoever asks for packets was kept. What is left of them needs another one.
            self.counters.missed = self.counters.missed.wrapping_add(1);
            queue.needed = queue.needed.saturating_add(queue.saved).saturating_add(1);
            queue.saved = 0;
            self.ask(destination);
            return None;
        }
        queue.packets = queue.packets.saturating_sub(1);
        self.packets = self.packets.saturating_sub(1);
        if queue.packets == 0 {
            // What comes next begins another timeslot.
            queue.needed = 0;
            queue.room = 0;
        } else if queue.saved == 0 {
            open.room = room;
            self.open = Some(open);
        }
        queue.saved = 0;
        self.counters.scheduled = self.counters.scheduled.wrapping_add(1);
        Some(Next::Send(open.entry))
    }

    /// A timeslot has come, `late` ns ago.
    fn begin(&mut self, now: u64, entry: Entry, late: u64, first: &impl Fn(u16) -> Option<u32>) {
        let Some(queue) = self.queues.get_mut(usize::from(entry.destination)) else {
            return;
        };
        queue.kept = queue.kept.saturating_sub(1);
        let counters = &mut self.counters;
        if late > self.terms.late {
            counters.missed = counters.missed.wrapping_add(1);
        } else if let Some(cost) = first(entry.destination) {
            counters.used = counters.used.wrapping_add(1);
            counters.late_sum = counters.late_sum.saturating_add(late);
            counters.late_max = counters.late_max.max(late);
            queue.needed = queue.needed.saturating_sub(1);
            let slots = queue.saved.saturating_add(1);
            let room = slots.saturating_mul(self.terms.capacity);
            if cost <= room {
                let longest = self.terms.timeslot.saturating_add(self.terms.late);
                let until = now.saturating_sub(late).saturating_add(longest);
                self.open = Some(Open { entry, room, until });
            } else {
                queue.saved = slots;
            }
        } else {
            counters.wasted = counters.wasted.wrapping_add(1);
        }
        // Also for what was beyond the most that can be asked for at a time.
        self.ask(entry.destination);
    }

    /// Heeds a packet of the arbiter. Whether there may be something to send sooner than before.
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
        let mut unkept = [None; MOST];
        let mut places = unkept.iter_mut();
        let mut ask = |destination| {
            if let Some(place) = places.next() {
                *place = Some(destination);
            }
        };
        let received = endpoint.receive(bytes, |granted| {
            let Granted {
                timeslot,
                destination,
                path,
            } = granted;
            let Some(queue) = queues.get_mut(usize::from(destination)) else {
                return;
            };
            if timeslot < oldest {
                counters.missed = counters.missed.wrapping_add(1);
                ask(destination);
                return;
            }
            let entry = Entry { destination, path };
            let is_near = timeslot.saturating_sub(current) < super::calendar::HORIZON;
            if is_near && calendar.insert(oldest, timeslot, entry) {
                queue.kept = queue.kept.saturating_add(1);
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
                // It takes one round trip.
                self.speak_at = now;
            }
        }
        for destination in unkept.into_iter().flatten() {
            self.ask(destination);
        }
        Some(news)
    }

    /// Writes what is to be said to the arbiter, and says how many bytes it takes; to be called
    /// until there is nothing.
    pub fn poll(&mut self, now: u64, bytes: &mut [u8; MAX_SIZE]) -> Option<usize> {
        // Whoever calls this asks for the next time afterwards.
        self.is_timer_stale = false;
        if now < self.may_speak_at() {
            return None;
        }
        // What becomes due while it speaks waits for the next round: this one ends, however long it
        // takes to say it.
        if !self.is_speaking {
            self.round = now;
        }
        self.gather_until = None;
        if self.enquire_at().is_some_and(|at| at <= self.round) {
            self.endpoint.enquire();
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
                // At most half of the time is spoken, whatever the interval: many requests that
                // nobody answers, or a slow machine, would keep a processor busy else.
                let length = now.saturating_sub(self.round);
                self.speak_at = now.saturating_add(self.terms.interval.max(length));
            }
            None => self.is_pausing = false,
        }
        size
    }

    /// Writes the report that is due, if one is.
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

    /// When a report after this one is due. Each endpoint has its own part of the time between two
    /// of them, lest those of all are at the arbiter's link together, and what has a timeslot there
    /// waits for them.
    fn next_report(&self, now: u64) -> u64 {
        let report = self.terms.report.max(1);
        let part = report
            .checked_div(self.endpoint.count().into())
            .unwrap_or(0);
        let phase = part.saturating_mul(self.endpoint.id().into());
        // At least half of the time is between two.
        let earliest = now.saturating_add(report / 2);
        let past = earliest
            .saturating_sub(phase)
            .checked_rem(report)
            .unwrap_or(0);
        earliest.saturating_add(report.saturating_sub(past))
    }

    /// When the next report is due. Nobody is told before the arbiter has said who it is.
    #[inline]
    fn report_at(&self) -> Option<u64> {
        let due = self.ledger.due()?;
        self.endpoint.is_synchronised().then_some(due)
    }

    /// Whether it knows what goes by each path.
    #[inline]
    pub fn counts_paths(&self) -> bool {
        self.ledger.paths() > 0
    }

    /// A packet with a timeslot leaves by a path; the number that it is to carry, `None` if packets
    /// have none.
    #[inline]
    pub fn sent(&mut self, now: u64, entry: Entry) -> Option<u16> {
        self.ledger.send(now, entry.destination, entry.path.into())
    }

    /// A packet has come from another endpoint, by a path; `number`: that which it carries, `None`
    /// for one of the control protocol.
    #[inline]
    pub fn arrived(&mut self, now: u64, from: u16, path: u16, number: Option<u16>) {
        if path >= self.ledger.paths() {
            return;
        }
        match number {
            Some(number) => self.ledger.arrive(now, from, path, number),
            None => self.ways.heard(from, path as u8),
        }
    }

    /// The path of a control packet to an endpoint, if it is to have one.
    #[inline]
    pub fn control_path(&mut self, now: u64, to: u16, random: u32) -> Option<u8> {
        let (paths, patience) = (self.ledger.paths(), self.terms.timeout);
        self.ways.choose(now, to, paths, patience, random)
    }

    /// Packets of others that have not come.
    pub fn lost_packets(&self) -> u64 {
        self.ledger.lost()
    }

    /// When to call [`poll`](Self::poll), whatever happens until then. The time changes after each
    /// `poll` that had nothing, and gets sooner only after [`receive`](Self::receive) and
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
        let due = due.chain(self.enquire_at()).chain(self.report_at()).min();
        due.map(|at| at.max(earliest))
    }

    /// Before this time nothing is said to the arbiter.
    #[inline]
    fn may_speak_at(&self) -> u64 {
        self.speak_at.max(self.gather_until.unwrap_or(0))
    }

    /// When the arbiter is to be asked whether it is still there: while packets wait for what it
    /// has heard of, and it says nothing. It may have begun anew, or another one have taken its
    /// place, and know of nothing.
    fn enquire_at(&self) -> Option<u64> {
        let at = self.quiet_since.saturating_add(self.terms.timeout);
        (self.packets > 0).then_some(at)
    }

    /// All packets are gone. What was asked for comes all the same, and is left unused.
    pub fn clear(&mut self) {
        self.open = None;
        self.packets = 0;
        for queue in self.queues.iter_mut() {
            *queue = Queue {
                kept: queue.kept,
                ..Queue::EMPTY
            };
        }
    }

    /// Packets that wait.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Timeslots that are kept.
    pub fn ahead(&self) -> u32 {
        self.calendar.len()
    }

    /// Timeslots that were asked for and not given.
    pub fn outstanding(&self) -> u32 {
        let all = 0..self.queues.len();
        all.map(|destination| self.endpoint.outstanding(destination as u16))
            .fold(0, u32::saturating_add)
    }

    /// Whether the arbiter has said who it is.
    pub fn is_synchronised(&self) -> bool {
        self.endpoint.is_synchronised()
    }

    /// What is counted.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Timeslots that a packet takes which has none to itself yet.
fn slots(cost: u32, capacity: u32) -> u32 {
    let rounded_up = cost.saturating_add(capacity.saturating_sub(1));
    rounded_up.checked_div(capacity).unwrap_or(1).max(1)
}
