// SPDX-License-Identifier: GPL-2.0-only

//! The timer that makes the kernel ask a qdisc for packets again.

use kernel::types::Opaque;

use super::bindings::{
    qdisc_watchdog, qdisc_watchdog_cancel, qdisc_watchdog_init, qdisc_watchdog_schedule_range_ns,
    Qdisc,
};

/// A timer on `CLOCK_MONOTONIC`; when it fires the root qdisc is run, which calls dequeue.
///
/// The adapter owns it: it is initialised when the qdisc is, stays where it is, and is stopped
/// before the qdisc goes.
pub(super) struct Watchdog(Opaque<qdisc_watchdog>);

impl Watchdog {
    /// Makes a timer that is not set.
    ///
    /// # Safety
    ///
    /// `slot` is valid for writes and stays where it is for as long as the timer may be set; `sch`
    /// is valid for at least as long.
    pub(super) unsafe fn init(slot: *mut Self, sch: *mut Qdisc) {
        // SAFETY: As the caller promises.
        unsafe { qdisc_watchdog_init(Opaque::cast_into(&raw const (*slot).0), sch) }
    }

    /// Sets the timer to a time in ns, in place of the time it was set to. It fires up to `slack`
    /// ns later, together with another timer that fires then.
    ///
    /// # Safety
    ///
    /// It was initialised.
    #[inline]
    pub(super) unsafe fn schedule(this: *const Self, at: u64, slack: u32) {
        // SAFETY: As the caller promises.
        unsafe {
            qdisc_watchdog_schedule_range_ns(
                Opaque::cast_into(&raw const (*this).0),
                at,
                slack.into(),
            )
        }
    }

    /// Stops the timer, waiting for a callback that is under way.
    ///
    /// # Safety
    ///
    /// It was initialised.
    pub(super) unsafe fn cancel(this: *const Self) {
        // SAFETY: As the caller promises. The callback takes no qdisc lock, so this cannot deadlock
        // under one.
        unsafe { qdisc_watchdog_cancel(Opaque::cast_into(&raw const (*this).0)) }
    }
}
