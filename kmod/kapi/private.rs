// SPDX-License-Identifier: GPL-2.0-only

//! A qdisc's private part of the kernel's structure.

use core::{mem::MaybeUninit, ptr::addr_of_mut};

use kernel::prelude::*;

use super::{
    bindings,
    child::Child,
    device::{Group, Tap},
    watchdog::Watchdog,
};

/// A qdisc's state and the adapter's data for it, inside `struct Qdisc`. The kernel zeroes it
/// before init, and calls destroy even if init failed.
///
/// Once it is `ready`, all of it is initialised: the child if `Qdisc::CHILD` is set, the namespace
/// if there is shared state, the timer if `Qdisc::WATCHDOG` is set.
///
/// The fields used for each packet come first, in the cache lines that follow the kernel's own
/// part.
#[repr(C)]
pub(super) struct Private<T> {
    pub(super) child: Option<Child>,
    pub(super) namespace: *mut c_void,
    /// For a qdisc with a child: a packet is being taken.
    pub(super) taking: bool,
    pub(super) ready: bool,
    pub(super) state: MaybeUninit<T>,
    pub(super) watchdog: MaybeUninit<Watchdog>,
    pub(super) group: Option<Group>,
    pub(super) tap: Option<Tap>,
}

impl<T> Private<T> {
    /// Its address in `struct Qdisc`.
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
