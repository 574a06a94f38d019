// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The time for which each queue of a port has been paused, by its number on the wire.
//!
//! A pause begins when its frame arrives. It ends with the frame that resumes the queue, or when it
//! lapses. The times do not depend on the port's dequeues: a port without packets is not dequeued,
//! and would notice the end of a pause much later.

use crate::common::store::Store;

/// Not paused.
const NEVER: u64 = u64::MAX;

/// One queue's pauses, in ns.
#[derive(Clone, Copy, Debug)]
struct Time {
    /// When the current pause began, or [`NEVER`].
    since: u64,
    /// The total length of ended pauses.
    ended: u64,
}

const NO_TIME: Time = Time {
    since: NEVER,
    ended: 0,
};

/// The pauses of a port's queues.
pub struct Times<S: Store>(Option<S::Of<Time>>);

impl<S: Store> Times<S> {
    /// For the queues below `numbers`: 16 bytes for each.
    ///
    /// # Errors
    ///
    /// No memory.
    pub fn new(numbers: u16) -> Result<Self, S::Error> {
        S::allocate(numbers.into(), || NO_TIME).map(Some).map(Self)
    }

    /// For no queues, which takes no memory.
    pub const fn none() -> Self {
        Self(None)
    }

    fn all(&self) -> &[Time] {
        self.0.as_deref().unwrap_or_default()
    }

    fn all_mut(&mut self) -> &mut [Time] {
        self.0.as_deref_mut().unwrap_or_default()
    }

    /// The number of queues.
    pub fn len(&self) -> usize {
        self.all().len()
    }

    /// Whether there are no queues.
    pub fn is_empty(&self) -> bool {
        self.all().is_empty()
    }

    /// Copies the times of another.
    pub fn copy(&mut self, other: &Self) {
        for (to, from) in self.all_mut().iter_mut().zip(other.all()) {
            *to = *from;
        }
    }

    /// Resets a queue, which is paused since `since`, or not paused.
    pub fn restart(&mut self, queue: u16, since: Option<u64>) {
        if let Some(time) = self.all_mut().get_mut(usize::from(queue)) {
            *time = Time {
                since: since.unwrap_or(NEVER),
                ended: 0,
            };
        }
    }

    /// Resets all queues; none is paused.
    pub fn clear(&mut self) {
        self.all_mut().fill(NO_TIME);
    }

    /// A pause of a queue begins at `at` ns.
    #[inline]
    pub fn begin(&mut self, queue: u16, at: u64) {
        if let Some(time) = self.all_mut().get_mut(usize::from(queue)) {
            time.since = at;
        }
    }

    /// A queue's pause ends at `at` ns.
    #[inline]
    pub fn end(&mut self, queue: u16, at: u64) {
        if let Some(time) = self.all_mut().get_mut(usize::from(queue)) {
            time.ended = time.so_far(at);
            time.since = NEVER;
        }
    }

    /// When a queue's current pause began, in ns.
    pub fn since(&self, queue: u16) -> Option<u64> {
        let time = self.all().get(usize::from(queue))?;
        (time.since != NEVER).then_some(time.since)
    }

    /// Total ns for which a queue has been paused until `now`.
    pub fn so_far(&self, queue: u16, now: u64) -> u64 {
        let time = self.all().get(usize::from(queue));
        time.map_or(0, |time| time.so_far(now))
    }
}

impl Time {
    fn so_far(&self, now: u64) -> u64 {
        // Zero if `since` is NEVER.
        self.ended.saturating_add(now.saturating_sub(self.since))
    }
}
