// SPDX-License-Identifier: GPL-2.0-only

//! What a qdisc has inside the kernel's structure of it.

use core::{mem::MaybeUninit, ptr::addr_of_mut};

use kernel::prelude::*;

use super::{
    bindings,
    child::Child,
    device::{Group, Tap},
    watchdog::Watchdog,
};

/// A qdisc's state, and what the adapter has for it, inside `struct Qdisc`. The kernel zeroes it
/// before init, and calls destroy even where init failed.
///
/// From when it is `ready` all of it is initialised: the child where `Qdisc::CHILD` says so, the
/// namespace where there is something shared, the timer where `Qdisc::WATCHDOG` says so.
///
/// What each packet needs comes first, in the cache lines that follow the kernel's own part.
#[repr(C)]
pub(super) struct Private<T> {
    pub(super) child: Option<Child>,
    pub(super) namespace: *mut c_void,
    /// Of a qdisc with a child: a packet is being taken.
    pub(super) taking: bool,
    pub(super) ready: bool,
    pub(super) state: MaybeUninit<T>,
    pub(super) watchdog: MaybeUninit<Watchdog>,
    pub(super) group: Option<Group>,
    pub(super) tap: Option<Tap>,
}

impl<T> Private<T> {
    /// Where in `struct Qdisc` it is.
    ///
    /// # Safety
    ///
    /// `sch` is valid.
    #[inline]
    pub(super) unsafe fn of(sch: *mut bindings::Qdisc) -> *mut Self {
        // SAFETY: `sch` is valid, and its private area follows it.
        unsafe { addr_of_mut!((*sch).privdata).cast() }
    }
}
