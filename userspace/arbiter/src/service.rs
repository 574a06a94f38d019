// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arbiter's processing of endpoints' messages, without sockets and clock.
//!
//! Timeslot `t` begins at `t` times its length. A batch is allocated some time before it begins,
//! its **lead**, which must be at least as long as the allocation may be under way (65 µs in the
//! paper). Nothing is allocated while there is no demand; the next batch after that begins with the
//! first timeslot that is the lead away. A request is served in the next batch, or at once from
//! timeslots before it that are [left over](crate::leftovers).
//!
//! # Its own host
//!
//! The arbiter's own packets wait for no timeslot. If it is on the host of an endpoint, it keeps as
//! many timeslots of that endpoint's link free in each batch as its own packets took since the last
//! one.
//!
//! # What a hostile sender can do
//!
//! A packet is an endpoint's if it comes from that endpoint's address and carries a valid check
//! under its session's nonce. All other packets change nothing. The cost of each is bounded, and so
//! is the number of answers (see [`sessions`](crate::sessions)).
//!
//! An endpoint's requests for itself, for an unknown endpoint, or for more than it may have
//! outstanding are refused and counted. An endpoint that requests all timeslots gets its fair
//! share.

use std::net::SocketAddrV4;

pub use weft_mechanisms::fastpass::session::Secret;

use crate::Invalid;
use crate::faults::Fault;
pub use crate::sessions::Counters;
use crate::sessions::Sessions;
pub use crate::settings::{Policy, Settings, UNPRIVILEGED};
use crate::stages::{OneThread, Stages};

/// An arbiter.
pub struct Service {
    sessions: Sessions,
    stages: Box<dyn Stages>,
}

impl Service {
    /// A service that does all work in the caller's thread. The secret must be random, and
    /// different for each service.
    ///
    /// # Errors
    ///
    /// If the settings are invalid.
    pub fn new(settings: Settings, secret: Secret) -> Result<Self, Invalid> {
        let stages = Box::new(OneThread::new(&settings)?);
        Ok(Self::with_stages(settings, secret, stages))
    }

    /// A service whose other stages are elsewhere, for example in a [`pipeline`](crate::pipeline);
    /// they must have the same settings.
    pub fn with_stages(settings: Settings, secret: Secret, stages: Box<dyn Stages>) -> Self {
        Self {
            sessions: Sessions::new(settings, secret),
            stages,
        }
    }

    /// The counters.
    pub fn counters(&self) -> Counters {
        let counters = self.sessions.counters();
        Counters {
            late_batches: counters.late_batches + self.stages.late(),
            crowded: self.stages.crowded(),
            ..counters
        }
    }

    /// The faults found and not cleared.
    pub fn faults(&self) -> &[Fault] {
        self.sessions.faults()
    }

    /// Begins with the faults that another service of the same fabric has found, because faults
    /// outlive sessions.
    pub fn keep_faults(&mut self, found: &[Fault]) {
        self.stages.avoid(self.sessions.keep_faults(found));
    }

    /// All faults are declared repaired.
    pub fn clear_faults(&mut self) {
        self.sessions.clear_faults();
        self.stages.avoid(&[]);
    }

    /// Processes a datagram.
    pub fn receive(&mut self, now: u64, from: SocketAddrV4, bytes: &[u8]) {
        self.sessions.receive(now, from, bytes, &mut *self.stages);
    }

    /// When to call [`tick`](Self::tick), whatever arrives until then.
    pub fn next_event(&self) -> u64 {
        let batch_at = self.sessions.batch_at();
        let batch_at = batch_at.filter(|_| self.stages.is_ready());
        let due = batch_at.unwrap_or(u64::MAX);
        due.min(self.sessions.next_event())
    }

    /// Allocates due batches, and schedules repeated messages, which [`poll`](Self::poll) then
    /// sends.
    pub fn tick(&mut self, now: u64, mut send: impl FnMut(SocketAddrV4, &[u8])) {
        if let Some(avoided) = self.sessions.judge(now) {
            self.stages.avoid(avoided);
        }
        // They come before the next batch's.
        self.sessions.give_late(now, &mut send);
        // Earlier orders may have come back.
        self.collect(now, &mut send);
        while self.sessions.batch_at().is_some_and(|at| at <= now) && self.stages.is_ready() {
            let is_due = self.sessions.due_at().is_some_and(|at| at <= now);
            self.stages.order(self.sessions.order(now));
            self.collect(now, &mut send);
            // What is not due leaves time for what arrives.
            if !is_due {
                break;
            }
        }
        self.sessions.sweep(now);
        self.poll(now, send);
    }

    /// Whether there will be no more allocations, because a required thread has ended.
    pub fn has_failed(&self) -> bool {
        self.stages.has_failed()
    }

    fn collect(&mut self, now: u64, send: &mut impl FnMut(SocketAddrV4, &[u8])) {
        let Self { sessions, stages } = self;
        stages.collect(now, &mut |timeslot| sessions.give(now, timeslot, send));
    }

    /// Whether there are messages that [`poll`](Self::poll) should send soon, because they give
    /// timeslots that begin before the next batch.
    pub fn is_hurried(&self) -> bool {
        self.sessions.has_late()
    }

    /// Sends all messages.
    pub fn poll(&mut self, now: u64, send: impl FnMut(SocketAddrV4, &[u8])) {
        self.sessions.poll(now, send);
    }
}
