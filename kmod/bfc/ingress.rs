// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The pause counters of one ingress port, and the messages to its upstream neighbour (§3.3.2).
//!
//! "We monitor this using a Pause Counter, an array indexed by the ingress port and the `upstreamQ`
//! of a packet. The upstream queue is paused if and only if its Pause Counter at the downstream
//! switch is non-zero."
//!
//! ```text
//!  counter    0 ──▶ 1   pause       told at once; a queue that is paused and resumed before
//!             1 ──▶ 0   resume      anybody was told changes nothing, and nothing is said
//!
//!  every refresh        the bitmap of what is to be paused, as long as something is, and
//!                       [`QUIET`] times after that
//! ```
//!
//! # Invariant
//!
//! A counter is the number of packets inside the switch that arrived on this port from that queue
//! and found their own queue above the threshold: it is zero iff there is none.

use super::queue_set::{QueueSet, MAX_QUEUES};
use crate::common::store::Store;

/// Bitmaps sent after the last resume: even if the resume and all but one of these are lost, the
/// upstream neighbour learns of it.
pub const QUIET: u8 = 4;

/// A pause that is not refreshed lapses after this many of its sender's intervals: three
/// consecutive bitmaps may be lost.
pub const HOLD: u64 = 4;

/// A message to the upstream neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tell {
    /// Pause this queue.
    Pause(u16),
    /// Resume this queue.
    Resume(u16),
    /// Pause these queues and resume all others.
    State(QueueSet),
}

/// The counters of one port.
pub struct Ingress<S: Store> {
    /// One for each upstream queue.
    counters: Counters<S>,
    /// The queues whose counter is not 0.
    paused: QueueSet,
    /// The queues whose state the neighbour has not been sent.
    news: QueueSet,
    /// The sum of all counters.
    inside: u32,
    /// ns between two bitmaps.
    refresh: u64,
    /// When the next bitmap is due, ns; [`NEVER`] if none is.
    next_refresh: u64,
    /// The remaining bitmaps to send although nothing is paused.
    quiet: u8,
    /// ns after which the next bitmap makes up for the last frame, which could not be sent; 0 if it
    /// was sent.
    wait: u64,
    /// The same for the previous frame.
    waited: u64,
}

/// Memory for the counters of one port: 4 bytes for each of [`MAX_QUEUES`] queues.
pub struct Counters<S: Store>(Option<S::Of<u32>>);

impl<S: Store> Counters<S> {
    /// All counters are 0.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new() -> Result<Self, S::Error> {
        S::allocate(MAX_QUEUES.into(), || 0).map(Some).map(Self)
    }

    /// No counters, which take no memory: nothing can be counted.
    pub const fn none() -> Self {
        Self(None)
    }

    #[inline(always)]
    fn get_mut(&mut self, upstream_queue: u16) -> Option<&mut u32> {
        self.0.as_deref_mut()?.get_mut(usize::from(upstream_queue))
    }
}

/// No deadline.
pub(super) const NEVER: u64 = u64::MAX;

impl<S: Store> Ingress<S> {
    /// No packets counted, nothing to send.
    pub fn new(counters: Counters<S>) -> Self {
        Self {
            counters,
            paused: QueueSet::EMPTY,
            news: QueueSet::EMPTY,
            inside: 0,
            refresh: 0,
            next_refresh: NEVER,
            quiet: 0,
            wait: 0,
            waited: 0,
        }
    }

    /// Sets the time between two bitmaps, in ns.
    pub fn set_refresh(&mut self, refresh: u64) {
        self.refresh = refresh;
    }

    /// The time for which a pause must be obeyed, in ns.
    pub fn hold(&self) -> u64 {
        self.refresh.saturating_mul(HOLD)
    }

    /// Exchanges the memory of the counters: for a port that is removed.
    pub fn exchange(&mut self, counters: Counters<S>) -> Counters<S> {
        core::mem::replace(&mut self.counters, counters)
    }

    /// A packet from `upstream_queue` is enqueued above the threshold.
    ///
    /// Returns whether it counts: an impossible queue number does not.
    #[inline]
    pub fn count(&mut self, upstream_queue: u16) -> bool {
        let Some(counter) = self.counters.get_mut(upstream_queue) else {
            return false;
        };
        *counter = counter.wrapping_add(1);
        if *counter == 1 {
            self.paused.insert(upstream_queue);
            self.news.toggle(upstream_queue);
        }
        self.inside = self.inside.wrapping_add(1);
        true
    }

    /// A counted packet has left.
    #[inline]
    pub fn uncount(&mut self, upstream_queue: u16) {
        let Some(counter) = self.counters.get_mut(upstream_queue) else {
            return;
        };
        if *counter == 0 {
            return;
        }
        *counter = counter.wrapping_sub(1);
        if *counter == 0 {
            self.paused.remove(upstream_queue);
            self.news.toggle(upstream_queue);
        }
        self.inside = self.inside.wrapping_sub(1);
    }

    /// The counter of one upstream queue.
    pub fn counter(&self, upstream_queue: u16) -> u32 {
        let counters = self.counters.0.as_deref();
        let counter = counters.and_then(|counters| counters.get(usize::from(upstream_queue)));
        counter.copied().unwrap_or(0)
    }

    /// The upstream queues to pause.
    pub fn paused(&self) -> &QueueSet {
        &self.paused
    }

    /// Counted packets inside.
    pub fn inside(&self) -> u32 {
        self.inside
    }

    /// Whether there is a message to send at once.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// When the next bitmap is due, in ns.
    pub fn next_refresh(&self) -> Option<u64> {
        (self.next_refresh != NEVER).then_some(self.next_refresh)
    }

    /// The message to send at `now` ns, if any: one change, or the bitmap if there are several
    /// changes or a bitmap is due.
    pub fn tell(&mut self, now: u64) -> Option<Tell> {
        let due = self.next_refresh <= now;
        let change = self.news.first();
        let one = change.filter(|queue| self.news.next_from(queue.wrapping_add(1)).is_none());
        if change.is_none() && !due {
            return None;
        }
        let tell = match one {
            Some(queue) if !due => {
                if self.paused.contains(queue) {
                    Tell::Pause(queue)
                } else {
                    Tell::Resume(queue)
                }
            }
            _ => Tell::State(self.paused),
        };
        self.news = QueueSet::EMPTY;
        self.waited = core::mem::replace(&mut self.wait, 0);
        if !self.paused.is_empty() || change.is_some() {
            self.quiet = QUIET;
        } else {
            self.quiet = self.quiet.saturating_sub(1);
        }
        if self.quiet == 0 {
            self.next_refresh = NEVER;
        } else if self.next_refresh == NEVER || matches!(tell, Tell::State(_)) {
            self.next_refresh = self.after(now);
        }
        Some(tell)
    }

    /// The last message, at `now` ns, could not be sent.
    ///
    /// It is not queued again: without a pause the remaining bitmaps make up for it, and if they
    /// are lost too, the neighbour's pauses lapse. So a port that is down soon causes no more work.
    /// While something is paused, it retries as often as a pause would lapse, not at every refresh.
    /// The first retry comes sooner, because the first failure may be the only one.
    pub fn unsent(&mut self, now: u64) {
        let twice = self.waited.saturating_mul(2);
        self.wait = twice.min(self.hold()).max(self.refresh);
        if self.next_refresh != NEVER {
            self.next_refresh = now.saturating_add(self.wait);
        }
    }

    /// The neighbour has lost its state: a bitmap is due at `at` ns.
    pub fn tell_again(&mut self, at: u64) {
        self.quiet = QUIET;
        self.next_refresh = at;
    }

    /// When the next bitmap is due after one at `now` ns.
    pub fn after(&self, now: u64) -> u64 {
        now.saturating_add(self.refresh)
    }
}
