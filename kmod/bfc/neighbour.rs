// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The pauses of the downstream neighbour, and the check that a frame is the neighbour's.
//!
//! ```text
//!  unknown ── any frame ──▶ known: its address, its last sequence number, what it wants paused
//!     ▲                        │  another address: foreign, ignored
//!     │                        │  a sequence number no higher than the last: replayed, ignored
//!     ├── the link goes down ──┤
//!     └── nothing heard of it for the hold time: all pauses lapse
//! ```
//!
//! "Because fiber packets can be corrupted in flight, BFC ensures that pause and resume state is
//! maintained idempotently, in a manner resilient to packet loss" (§3.3). A pause is obeyed for the
//! hold time of the sender's latest frame, whatever that frame was about. The sender repeats its
//! whole state more often than that, so a silent neighbour is dead, and a dead neighbour never
//! blocks a queue for good. No frame is obeyed for longer than [`Rules::hold`].
//!
//! The first sender on a link is the neighbour, until the link goes down or its hold time has
//! passed. Then it is forgotten, and with it its sequence number, so neither a stranger's frame nor
//! one with too high a number has an effect for longer than that. Frames from beyond the link
//! cannot arrive, because no bridge forwards their address.
//!
//! # Watchdog
//!
//! A live neighbour may pause a queue and never resume it, because it is broken or backpressure
//! forms a cycle. A queue that has been paused for [`Rules::watchdog`] without interruption is
//! **released**: its pause is no longer obeyed, and the neighbour has to resume it before it can
//! pause it again. Switches have the same for priority flow control ("PFC watchdog"). The paper has
//! no watchdog, and the time that a healthy neighbour may need depends on everything downstream, so
//! it is off unless a time is set.

use super::ingress::Tell;
use super::queue_set::QueueSet;
use super::times::Times;
use crate::common::store::Store;

/// A frame that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its sender's hardware address.
    pub from: [u8; 6],
    /// Rises with each frame of a sender, also across its restarts.
    pub sequence: u64,
    /// The time for which it is obeyed, in ns.
    pub hold: u64,
    /// Its message.
    pub tell: Tell,
}

/// The treatment of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// Obeyed; `changed`: the set of paused queues has changed.
    Taken {
        /// Whether the port has something to do.
        changed: bool,
    },
    /// Ignored: not the neighbour's.
    Foreign,
    /// Ignored: a frame of the neighbour that was received before, or was overtaken by a later one.
    Replayed,
}

/// The limits on the neighbour's pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The longest time for which a frame is obeyed, in ns.
    pub hold: u64,
    /// ns of uninterrupted pause after which a queue is released; 0 for never.
    pub watchdog: u64,
}

impl Rules {
    /// No limits.
    pub const NONE: Self = Self {
        hold: u64::MAX,
        watchdog: 0,
    };
}

/// No deadline.
const NEVER: u64 = u64::MAX;

/// The downstream neighbour of one port.
pub struct Neighbour<S: Store> {
    rules: Rules,
    address: Option<[u8; 6]>,
    sequence: u64,
    /// When the neighbour's hold time ends, ns; meaningful only if the neighbour is known.
    until: u64,
    /// The queues that it pauses, except released ones.
    paused: QueueSet,
    /// The queues that it pauses, but that are released.
    released: QueueSet,
    /// When the first paused queue may have to be released, ns, or [`NEVER`].
    check: u64,
    /// When something ends by itself, ns: the earlier of `until` and `check`; or [`NEVER`].
    next: u64,
    /// Changes with `paused`.
    version: u32,
    times: Times<S>,
    lapsed: u64,
    releases: u64,
}

impl<S: Store> Neighbour<S> {
    /// No neighbour, and no pauses. `times` covers the queues whose paused time is recorded: only
    /// these are released.
    pub const fn new(times: Times<S>) -> Self {
        Self {
            rules: Rules::NONE,
            address: None,
            sequence: 0,
            until: 0,
            paused: QueueSet::EMPTY,
            released: QueueSet::EMPTY,
            check: NEVER,
            next: NEVER,
            version: 0,
            times,
            lapsed: 0,
            releases: 0,
        }
    }

    /// Sets the limits, from the next frame on; the watchdog's, from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
        self.check = self.first_check();
        self.plan();
    }

    /// Processes a frame at `now` ns.
    pub fn hear(&mut self, heard: &Heard, now: u64) -> Treatment {
        let before = self.version;
        self.lapse(now);
        if self.address.is_some() && self.until <= now {
            self.address = None;
        }
        match self.address {
            None => self.address = Some(heard.from),
            Some(address) if address != heard.from => return Treatment::Foreign,
            Some(_) if heard.sequence <= self.sequence => return Treatment::Replayed,
            Some(_) => {}
        }
        self.sequence = heard.sequence;
        self.until = now.saturating_add(heard.hold.min(self.rules.hold));
        match heard.tell {
            Tell::Pause(queue) => {
                if !self.paused.contains(queue) && !self.released.contains(queue) {
                    self.begin(queue, now);
                    self.changed();
                }
            }
            Tell::Resume(queue) => {
                self.released.remove(queue);
                if self.paused.contains(queue) {
                    self.end(queue, now);
                    self.changed();
                }
            }
            Tell::State(state) => {
                self.released = self.released.intersection(&state);
                self.set(state.difference(&self.released), now);
            }
        }
        self.plan();
        Treatment::Taken {
            changed: self.version != before,
        }
    }

    /// Forgets the neighbour and its pauses, at `now` ns: the link is down.
    pub fn forget(&mut self, now: u64) {
        self.lapse(now);
        self.address = None;
        self.released = QueueSet::EMPTY;
        self.set(QueueSet::EMPTY, now);
        self.plan();
    }

    /// Ends the pauses that were not refreshed by `now` ns, and those that last too long.
    #[inline]
    pub fn lapse(&mut self, now: u64) {
        if self.next <= now {
            self.expire(now);
        }
    }

    #[cold]
    fn expire(&mut self, now: u64) {
        self.release(now.min(self.until));
        if self.until <= now {
            self.lapsed = self.lapsed.wrapping_add(self.paused.count().into());
            self.released = QueueSet::EMPTY;
            // The pauses ended at that time, however late this runs.
            self.set(QueueSet::EMPTY, self.until);
        }
        self.plan();
    }

    /// Releases the queues whose pause has lasted too long at `now` ns.
    fn release(&mut self, now: u64) {
        if self.check > now {
            return;
        }
        let paused = self.paused;
        for queue in paused.iter() {
            if let Some(end) = self.end_of(queue).filter(|end| *end <= now) {
                self.end(queue, end);
                self.released.insert(queue);
                self.releases = self.releases.wrapping_add(1);
            }
        }
        if paused != self.paused {
            self.changed();
        }
        self.check = self.first_check();
    }

    /// When to release a paused queue, ns.
    fn end_of(&self, queue: u16) -> Option<u64> {
        let since = self.times.since(queue)?;
        let watchdog = Some(self.rules.watchdog).filter(|watchdog| *watchdog != 0)?;
        Some(since.saturating_add(watchdog))
    }

    fn first_check(&self) -> u64 {
        let ends = self.paused.iter().filter_map(|queue| self.end_of(queue));
        ends.min().unwrap_or(NEVER)
    }

    /// Replaces the set of paused queues, at `at` ns.
    fn set(&mut self, paused: QueueSet, at: u64) {
        let difference = paused.difference(&self.paused);
        if difference.is_empty() {
            return;
        }
        for queue in difference.iter() {
            if paused.contains(queue) {
                self.begin(queue, at);
            } else {
                self.end(queue, at);
            }
        }
        self.changed();
    }

    fn begin(&mut self, queue: u16, at: u64) {
        self.paused.insert(queue);
        self.times.begin(queue, at);
        self.check = self.check.min(self.end_of(queue).unwrap_or(NEVER));
    }

    fn end(&mut self, queue: u16, at: u64) {
        self.paused.remove(queue);
        self.times.end(queue, at);
    }

    fn changed(&mut self) {
        self.version = self.version.wrapping_add(1);
    }

    fn plan(&mut self) {
        if self.paused.is_empty() {
            self.check = NEVER;
        }
        self.next = if self.paused.is_empty() && self.released.is_empty() {
            NEVER
        } else {
            self.until.min(self.check)
        };
    }

    /// The paused queues.
    #[inline]
    pub fn paused(&self) -> &QueueSet {
        &self.paused
    }

    /// Changes whenever the set of paused queues does.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// When pauses end by themselves, in ns, if there are any: when they lapse, or when one is
    /// released. That one may have ended for another reason meanwhile.
    #[inline]
    pub fn until(&self) -> Option<u64> {
        (self.next != NEVER).then_some(self.next)
    }

    /// How long queues have been paused.
    pub fn times(&self) -> &Times<S> {
        &self.times
    }

    /// Exchanges the memory for times for another, which has no queues recorded.
    pub fn exchange(&mut self, times: Times<S>) -> Times<S> {
        core::mem::replace(&mut self.times, times)
    }

    /// Moves to larger memory for times; `times` then holds the old memory.
    pub fn grow(&mut self, times: &mut Times<S>) {
        if times.len() > self.times.len() {
            times.copy(&self.times);
            core::mem::swap(times, &mut self.times);
        }
    }

    /// A queue was created at `now` ns, with no paused time so far.
    pub fn renew(&mut self, queue: u16, now: u64) {
        let since = self.paused.contains(queue).then_some(now);
        self.times.restart(queue, since);
    }

    /// Pauses that have lapsed so far.
    pub fn lapsed(&self) -> u64 {
        self.lapsed
    }

    /// Queues that the watchdog has released so far.
    pub fn releases(&self) -> u64 {
        self.releases
    }
}
