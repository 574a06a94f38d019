// SPDX-License-Identifier: MIT OR Apache-2.0

//! The writer's end of a ring, and how it wakes the reader.

use std::thread::JoinHandle;

use rtrb::Producer;

/// Wakes a reader: when it is rung, and when it is dropped.
pub(super) struct Bell(Option<Box<dyn Fn() + Send>>);

impl Bell {
    pub(super) fn new(wake: impl Fn() + Send + 'static) -> Self {
        Self(Some(Box::new(wake)))
    }

    /// The bell of a thread that parks when idle.
    pub(super) fn of(thread: &JoinHandle<()>) -> Self {
        let thread = thread.thread().clone();
        Self::new(move || thread.unpark())
    }

    pub(super) fn ring(&self) {
        if let Some(wake) = &self.0 {
            wake();
        }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        self.ring();
    }
}

/// The writer's end of a ring. When it is dropped, the reader wakes, and finds that the ring is
/// abandoned: fields are dropped in order.
pub(super) struct Sender<T> {
    ring: Producer<T>,
    bell: Bell,
}

impl<T> Sender<T> {
    /// Without a reader to wake so far.
    pub(super) fn new(ring: Producer<T>) -> Self {
        Self {
            ring,
            bell: Bell(None),
        }
    }

    pub(super) fn set_bell(&mut self, bell: Bell) {
        self.bell = bell;
    }

    /// Whether there is room for more than this many.
    pub(super) fn has_room(&self, beyond: usize) -> bool {
        // The reader's position is loaded only if the cached one does not suffice.
        self.ring.cached_slots() > beyond || self.ring.slots() > beyond
    }

    /// Writes, if there is room; returns whether there was.
    pub(super) fn push(&mut self, value: T) -> bool {
        self.ring.push(value).is_ok()
    }

    /// Wakes the reader.
    pub(super) fn ring(&self) {
        self.bell.ring();
    }
}
