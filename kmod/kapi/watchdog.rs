// SPDX-License-Identifier: GPL-2.0-only

//! The timer that makes the kernel ask a qdisc for packets again.

use kernel::types::Opaque;

use super::bindings::{
    qdisc_watchdog, qdisc_watchdog_cancel, qdisc_watchdog_init, qdisc_watchdog_schedule_range_ns,
    Qdisc,
};

/// A timer on `CLOCK_MONOTONIC`; when it fires, the root qdisc is run, which calls dequeue.
///
/// The adapter owns it: it is initialised with the qdisc, does not move, and is stopped before the
/// qdisc is freed.
pub(super) struct Watchdog(Opaque<qdisc_watchdog>);

impl Watchdog {
    /// Makes a timer that is not set.
    ///
    /// # Safety
    ///
    /// `slot` is valid for writes and does not move for as long as the timer may be set; `sch` is
    /// valid for at least as long.
    pub(super) unsafe fn init(slot: *mut Self, sch: *mut Qdisc) {
        // SAFETY: As the caller promises.
        unsafe { qdisc_watchdog_init(Opaque::cast_into(&raw const (*slot).0), sch) }
    }

    /// Sets the timer to a time in ns, in place of any earlier time. It fires up to `slack` ns
    /// later, to share an interrupt with another timer.
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

    /// Stops the timer, and waits for a running callback.
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
