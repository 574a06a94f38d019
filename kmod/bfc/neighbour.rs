// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What the downstream neighbour wants paused, and whether it is the neighbour who says so.
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
//! maintained idempotently, in a manner resilient to packet loss" (§3.3). A pause is obeyed for as
//! long as its sender said with the last frame it sent, whatever that frame was about: the sender
//! repeats the whole state more often than that, so a neighbour that is silent is dead, and a dead
//! neighbour never blocks a queue for good. No frame is obeyed for longer than [`Rules::hold`].
//!
//! Whoever speaks first on a link is the neighbour, until the link goes down or its hold time has
//! passed: then it is forgotten, and with it its sequence number, so that neither one frame of
//! somebody else nor one of too high a number lasts for longer than that. What could come from
//! farther away than the link is kept out by the frame's address, which no bridge forwards.
//!
//! # Watchdog
//!
//! A neighbour that is alive may pause a queue and never resume it: it is broken, or backpressure
//! goes round in a circle. A queue that is paused for [`Rules::watchdog`] without an end is
//! **released**: its pause is obeyed no longer, and the neighbour has to resume it before it can
//! pause it again. Switches have the same for priority flow control ("PFC watchdog"). The paper has
//! none, and what a healthy neighbour may need depends on all that is downstream, so it is off
//! unless a time is set.

use super::ingress::Tell;
use super::queue_set::QueueSet;
use super::times::Times;
use crate::common::store::Store;

/// A frame that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Its sender's hardware address.
    pub from: [u8; 6],
    /// Rises with each frame of a sender, also over its restarts.
    pub sequence: u64,
    /// For how long it holds, in ns.
    pub hold: u64,
    /// What it says.
    pub tell: Tell,
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Obeyed; `changed`: what is to be paused is no longer the same.
    Taken {
        /// Whether the port has something to do.
        changed: bool,
    },
    /// Ignored: not the neighbour's.
    Foreign,
    /// Ignored: a frame of the neighbour that was received before, or was overtaken by a later one.
    Replayed,
}

/// What the neighbour may demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The longest time for which a frame is obeyed, in ns.
    pub hold: u64,
    /// ns after which a queue is released that is paused without an end; 0 for never.
    pub watchdog: u64,
}

impl Rules {
    /// All that it says.
    pub const NONE: Self = Self {
        hold: u64::MAX,
        watchdog: 0,
    };
}

/// No time.
const NEVER: u64 = u64::MAX;

/// The downstream neighbour of one port.
pub struct Neighbour<S: Store> {
    rules: Rules,
    address: Option<[u8; 6]>,
    sequence: u64,
    /// Until when it is heard of, ns; means something only where it is known.
    until: u64,
    /// What it wants paused, but for what is released.
    paused: QueueSet,
    /// What it wants paused and is not.
    released: QueueSet,
    /// When the first of the queues that are paused may have to be released, ns, or [`NEVER`].
    check: u64,
    /// When something ends by itself, ns: not before `until` or `check`; or [`NEVER`].
    next: u64,
    /// Changes with `paused`.
    version: u32,
    times: Times<S>,
    lapsed: u64,
    releases: u64,
}

impl<S: Store> Neighbour<S> {
    /// Nobody, who wants nothing paused. It is known of the queues in `times` for how long they are
    /// paused: only those are released.
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

    /// Sets what it may demand, from the next frame on; the watchdog, from now on.
    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
        self.check = self.first_check();
        self.plan();
    }

    /// Takes in a frame at `now` ns.
    pub fn hear(&mut self, heard: &Heard, now: u64) -> Verdict {
        let before = self.version;
        self.lapse(now);
        if self.address.is_some() && self.until <= now {
            self.address = None;
        }
        match self.address {
            None => self.address = Some(heard.from),
            Some(address) if address != heard.from => return Verdict::Foreign,
            Some(_) if heard.sequence <= self.sequence => return Verdict::Replayed,
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
        Verdict::Taken {
            changed: self.version != before,
        }
    }

    /// Forgets who it is and what is paused, at `now` ns: the link is down.
    pub fn forget(&mut self, now: u64) {
        self.lapse(now);
        self.address = None;
        self.released = QueueSet::EMPTY;
        self.set(QueueSet::EMPTY, now);
        self.plan();
    }

    /// Ends the pauses that were not refreshed until `now` ns, and those that last too long.
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
            // That was its end, however late it is seen.
            self.set(QueueSet::EMPTY, self.until);
        }
        self.plan();
    }

    /// Releases the queues whose time is over at `now` ns.
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

    /// When a queue that is paused is to be released, ns.
    fn end_of(&self, queue: u16) -> Option<u64> {
        let since = self.times.since(queue)?;
        let watchdog = Some(self.rules.watchdog).filter(|watchdog| *watchdog != 0)?;
        Some(since.saturating_add(watchdog))
    }

    fn first_check(&self) -> u64 {
        let ends = self.paused.iter().filter_map(|queue| self.end_of(queue));
        ends.min().unwrap_or(NEVER)
    }

    /// Makes these the queues that are paused, at `at` ns.
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

    /// The queues that are to be paused.
    #[inline]
    pub fn paused(&self) -> &QueueSet {
        &self.paused
    }

    /// Changes whenever the queues that are to be paused do.
    #[inline]
    pub fn version(&self) -> u32 {
        self.version
    }

    /// When pauses end by themselves, in ns, if there are any: when they lapse, or when one is to
    /// be released. Something else may have ended that one meanwhile.
    #[inline]
    pub fn until(&self) -> Option<u64> {
        (self.next != NEVER).then_some(self.next)
    }

    /// For how long queues are paused.
    pub fn times(&self) -> &Times<S> {
        &self.times
    }

    /// Gives the memory for times for another, which knows of no queue.
    pub fn exchange(&mut self, times: Times<S>) -> Times<S> {
        core::mem::replace(&mut self.times, times)
    }

    /// Moves to larger memory for times, which `times` is then no longer.
    pub fn grow(&mut self, times: &mut Times<S>) {
        if times.len() > self.times.len() {
            times.copy(&self.times);
            core::mem::swap(times, &mut self.times);
        }
    }

    /// A queue has come into being at `now` ns: it has been paused for no time.
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
