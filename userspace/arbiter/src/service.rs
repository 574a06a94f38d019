// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arbiter: what it does with what endpoints say, without sockets and clock.
//!
//! Timeslot `t` begins at `t` times its length. A batch is allocated some time before it begins,
//! its **lead**: so long at least what says so may be under way (65 µs in the paper). Nothing is
//! allocated while nobody wants anything; the next batch after that begins with the first timeslot
//! that is the lead away. Who asks has his turn in the next batch.
//!
//! # Its own host
//!
//! What it says and hears waits for no timeslot. If it is on the host of an endpoint, that one's
//! link is given away but for as many timeslots of a batch as its own packets took since the last
//! one.
//!
//! # What a hostile sender can do
//!
//! A packet is an endpoint's if it comes from that endpoint's address and carries a valid check
//! under its session's nonce. All other packets change nothing. What one of them costs is bounded,
//! and so is how many are answered (see [`sessions`](crate::sessions)).
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
    /// One that does all in the caller's thread. The secret must be random, and another one for
    /// each service.
    ///
    /// # Errors
    ///
    /// If there can be none like that.
    pub fn new(settings: Settings, secret: Secret) -> Result<Self, Invalid> {
        let stages = Box::new(OneThread::new(&settings)?);
        Ok(Self::with_stages(settings, secret, stages))
    }

    /// One whose other stages are elsewhere, in a [`pipeline`](crate::pipeline) for example; they
    /// are of the same settings.
    pub fn with_stages(settings: Settings, secret: Secret, stages: Box<dyn Stages>) -> Self {
        Self {
            sessions: Sessions::new(settings, secret),
            stages,
        }
    }

    /// What is counted.
    pub fn counters(&self) -> Counters {
        let counters = self.sessions.counters();
        Counters {
            late_batches: counters.late_batches + self.stages.late(),
            crowded: self.stages.crowded(),
            ..counters
        }
    }

    /// What was found to be faulty, and has not been cleared.
    pub fn faults(&self) -> &[Fault] {
        self.sessions.faults()
    }

    /// It begins with what another one of the same fabric has found: that is no session's.
    pub fn keep_faults(&mut self, found: &[Fault]) {
        self.stages.avoid(self.sessions.keep_faults(found));
    }

    /// All that was faulty is repaired, somebody says.
    pub fn clear_faults(&mut self) {
        self.sessions.clear_faults();
        self.stages.avoid(&[]);
    }

    /// Processes a datagram.
    pub fn receive(&mut self, now: u64, from: SocketAddrV4, bytes: &[u8]) {
        self.sessions.receive(now, from, bytes, &mut *self.stages);
    }

    /// When [`tick`](Self::tick) is to be called, whatever comes until then.
    pub fn next_event(&self) -> u64 {
        let batch_at = self.sessions.batch_at();
        let batch_at = batch_at.filter(|_| self.stages.is_ready());
        let due = batch_at.unwrap_or(u64::MAX);
        due.min(self.sessions.next_event())
    }

    /// Allocates what is due, and sees to what is to be said again. What there is to say then,
    /// [`poll`](Self::poll) says.
    pub fn tick(&mut self, now: u64, mut send: impl FnMut(SocketAddrV4, &[u8])) {
        if let Some(avoided) = self.sessions.judge(now) {
            self.stages.avoid(avoided);
        }
        // What was ordered before may have come back.
        self.collect(now, &mut send);
        while self.sessions.batch_at().is_some_and(|at| at <= now) && self.stages.is_ready() {
            self.stages.order(self.sessions.order(now));
            self.collect(now, &mut send);
        }
        self.sessions.sweep(now);
        self.poll(now, send);
    }

    /// Whether there will be no more allocations, as a thread that is needed for them has ended.
    pub fn has_failed(&self) -> bool {
        self.stages.has_failed()
    }

    fn collect(&mut self, now: u64, send: &mut impl FnMut(SocketAddrV4, &[u8])) {
        let Self { sessions, stages } = self;
        stages.collect(now, &mut |timeslot| sessions.give(now, timeslot, send));
    }

    /// Says what there is to say.
    pub fn poll(&mut self, now: u64, send: impl FnMut(SocketAddrV4, &[u8])) {
        self.sessions.poll(now, send);
    }
}
