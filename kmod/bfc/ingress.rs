// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The pause counters of one ingress port, and what its upstream neighbour is to be told (§3.3.2).
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
//! A counter is the number of packets inside the switch that came by this port from that queue and
//! found their own queue above the threshold: it is zero iff there is none.

use super::queue_set::{QueueSet, MAX_QUEUES};
use crate::common::store::Store;

/// Bitmaps sent after the last resume: should that have been lost, and all but one of these, the
/// upstream neighbour hears it all the same.
pub const QUIET: u8 = 4;

/// A pause that is not refreshed lapses after this many intervals of its sender: three bitmaps in a
/// row may be lost.
pub const HOLD: u64 = 4;

/// What the upstream neighbour is told.
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
    /// Those that are not 0.
    paused: QueueSet,
    /// Those about which the neighbour was told something else.
    news: QueueSet,
    /// The sum of all counters.
    inside: u32,
    /// ns between two bitmaps.
    refresh: u64,
    /// When the next bitmap is due, ns; [`NEVER`] where none is.
    next_refresh: u64,
    /// Bitmaps to be sent although nothing is paused.
    quiet: u8,
    /// After how many ns what could not be sent last is made up for; 0 where that was sent.
    wait: u64,
    /// The same of the frame before that.
    waited: u64,
}

/// Memory for the counters of one port: 4 bytes for each of [`MAX_QUEUES`] queues.
pub struct Counters<S: Store>(Option<S::Of<u32>>);

impl<S: Store> Counters<S> {
    /// All of them 0.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new() -> Result<Self, S::Error> {
        S::allocate(MAX_QUEUES.into(), || 0).map(Some).map(Self)
    }

    /// None, which takes no memory: nothing can be counted.
    pub const fn none() -> Self {
        Self(None)
    }

    #[inline(always)]
    fn get_mut(&mut self, upstream_queue: u16) -> Option<&mut u32> {
        self.0.as_deref_mut()?.get_mut(usize::from(upstream_queue))
    }
}

/// No time.
pub(super) const NEVER: u64 = u64::MAX;

impl<S: Store> Ingress<S> {
    /// Nothing counted, nothing to tell.
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

    /// For how long a pause is to be obeyed, in ns.
    pub fn hold(&self) -> u64 {
        self.refresh.saturating_mul(HOLD)
    }

    /// Gives the memory of the counters for another: for a port that goes away.
    pub fn exchange(&mut self, counters: Counters<S>) -> Counters<S> {
        core::mem::replace(&mut self.counters, counters)
    }

    /// A packet from `upstream_queue` is enqueued above the threshold.
    ///
    /// Whether it counts: a queue number that cannot be does not.
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

    /// A packet that counted has left.
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

    /// The upstream queues that are to be paused.
    pub fn paused(&self) -> &QueueSet {
        &self.paused
    }

    /// Packets inside that count.
    pub fn inside(&self) -> u32 {
        self.inside
    }

    /// Whether there is something to tell at once.
    #[inline]
    pub fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// When there is something to tell again, in ns.
    pub fn next_refresh(&self) -> Option<u64> {
        (self.next_refresh != NEVER).then_some(self.next_refresh)
    }

    /// What to tell at `now` ns, if anything: one change, or the bitmap where there are several or
    /// it is time for it.
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

    /// What was told last, at `now` ns, could not be sent.
    ///
    /// Nothing is added to what is to be told: without a pause the bitmaps that are left make up
    /// for it, and should they be lost too, the neighbour's pauses lapse. So a port that is down is
    /// left alone soon. While something is paused, it tries as often as a pause would lapse, not at
    /// every refresh; but soon after the first failure, which may be the only one.
    pub fn unsent(&mut self, now: u64) {
        let twice = self.waited.saturating_mul(2);
        self.wait = twice.min(self.hold()).max(self.refresh);
        if self.next_refresh != NEVER {
            self.next_refresh = now.saturating_add(self.wait);
        }
    }

    /// The neighbour does not know what it was told: a bitmap is due at `at` ns.
    pub fn tell_again(&mut self, at: u64) {
        self.quiet = QUIET;
        self.next_refresh = at;
    }

    /// When the next bitmap is due after one at `now` ns.
    pub fn after(&self, now: u64) -> u64 {
        now.saturating_add(self.refresh)
    }
}
