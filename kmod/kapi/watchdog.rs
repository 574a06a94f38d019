// SPDX-License-Identifier: GPL-2.0-only

//! The timer that makes the kernel ask a qdisc for packets again.

use core::pin::Pin;

use kernel::{prelude::*, types::Opaque};

use super::{
    bindings::{
        qdisc_watchdog, qdisc_watchdog_cancel, qdisc_watchdog_init,
        qdisc_watchdog_schedule_range_ns,
    },
    qdisc::Setup,
};

/// A timer on `CLOCK_MONOTONIC`; when it fires the root qdisc is run, which calls dequeue.
///
/// # Invariants
///
/// Initialised for the qdisc whose private data it is part of, and pinned there.
#[pin_data(PinnedDrop)]
pub struct Watchdog {
    #[pin]
    inner: Opaque<qdisc_watchdog>,
}

// SAFETY: A hrtimer may be started and cancelled from any thread.
unsafe impl Send for Watchdog {}

impl Watchdog {
    /// A timer that is not set.
    pub fn new(setup: &Setup) -> impl PinInit<Self> {
        let sch = setup.as_ptr();
        pin_init!(Self {
            // SAFETY: `sch` is valid and the slot is part of its private data, so the timer lives
            // no longer than what it points to.
            inner <- Opaque::ffi_init(move |slot| unsafe { qdisc_watchdog_init(slot, sch) }),
        })
    }

    /// Sets the timer to a time in ns, in place of the time it was set to. It fires up to `slack` ns
    /// later, together with another timer that fires then.
    #[inline]
    pub fn schedule(self: Pin<&mut Self>, at: u64, slack: u32) {
        // SAFETY: Initialised (invariant).
        unsafe { qdisc_watchdog_schedule_range_ns(self.inner.get(), at, slack.into()) }
    }

    /// Stops the timer, waiting for a callback that is under way.
    pub fn cancel(self: Pin<&mut Self>) {
        // SAFETY: Initialised (invariant). The callback takes no qdisc lock, so this cannot
        // deadlock under one.
        unsafe { qdisc_watchdog_cancel(self.inner.get()) }
    }
}

#[pinned_drop]
impl PinnedDrop for Watchdog {
    fn drop(self: Pin<&mut Self>) {
        self.cancel();
    }
}
