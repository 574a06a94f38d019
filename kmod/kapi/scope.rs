// SPDX-License-Identifier: GPL-2.0-only

//! The parts of a qdisc that the adapter lends it for the length of a callback, with proof of the
//! locks held. The operations that depend on the qdisc's kind are in `lent`.

use core::{
    marker::PhantomData,
    ops::{Deref, DerefMut},
    ptr::{addr_of_mut, NonNull},
};

use kernel::prelude::*;

use super::{
    bindings::{self, netlink_ext_ack, weft_dev_index, weft_qdisc_dev, weft_qdisc_mtu},
    netlink::ExtAck,
};

/// A qdisc whose lock is held, with bottom halves off.
///
/// # Invariants
///
/// Valid, of kind `T`, its init succeeded, and this thread holds the qdisc lock for all of `'a`.
/// There is one such value at a time for a qdisc, and none beside a [`Rtnl`] or [`Setup`]. The lock
/// alone does not ensure this, because a child may call its parent's enqueue; see the adapter's.
pub struct Sch<'a, T> {
    sch: NonNull<bindings::Qdisc>,
    // Invariant in 'a: the time for which this lock is held.
    _locked: PhantomData<(&'a mut T, fn(&'a ()) -> &'a ())>,
}

impl<T> Sch<'_, T> {
    /// # Safety
    ///
    /// The invariants hold for the lifetime that the caller chooses.
    #[inline]
    pub(super) unsafe fn new(sch: *mut bindings::Qdisc) -> Self {
        // INVARIANT: As the caller promises.
        Self {
            // SAFETY: A valid pointer is not null.
            sch: unsafe { NonNull::new_unchecked(sch) },
            _locked: PhantomData,
        }
    }

    #[inline]
    pub(super) fn as_ptr(&self) -> *mut bindings::Qdisc {
        self.sch.as_ptr()
    }

    /// Packets inside, the child's included.
    #[inline]
    pub fn len(&self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { (*self.as_ptr()).q.qlen }
    }

    /// Bytes inside, the child's included.
    #[inline]
    pub fn backlog(&self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { (*self.as_ptr()).qstats.backlog }
    }

    /// Counts a time when the qdisc had packets but its rate or timer held them back.
    #[inline]
    pub(super) fn overlimit(&mut self) {
        let sch = self.as_ptr();
        // SAFETY: Valid and locked (invariant). Volatile, because dumps read without the lock
        // (WRITE_ONCE in C).
        unsafe {
            let overlimits = addr_of_mut!((*sch).qstats.overlimits);
            overlimits.write_volatile((*overlimits).wrapping_add(1));
        }
    }
}

/// A qdisc with no other users: in its reset or destroy callback.
///
/// # Invariants
///
/// Valid, `namespace` is that of its device or null, and access is exclusive for all of `'a`.
pub struct Rtnl<'a, T> {
    sch: NonNull<bindings::Qdisc>,
    pub(super) namespace: *mut c_void,
    // Invariant in 'a, as in Sch.
    _exclusive: PhantomData<(&'a mut T, fn(&'a ()) -> &'a ())>,
}

impl<T> Rtnl<'_, T> {
    /// # Safety
    ///
    /// The invariants hold for the lifetime that the caller chooses.
    pub(super) unsafe fn new(sch: NonNull<bindings::Qdisc>, namespace: *mut c_void) -> Self {
        // INVARIANT: As the caller promises.
        Self {
            sch,
            namespace,
            _exclusive: PhantomData,
        }
    }
}

/// A qdisc in its init callback: under RTNL and not yet in use.
///
/// # Invariants
///
/// `extack` is null or valid as long as this value lives.
pub struct Setup<'a, T> {
    rtnl: Rtnl<'a, T>,
    extack: *mut netlink_ext_ack,
}

impl<'a, T> Setup<'a, T> {
    /// # Safety
    ///
    /// `extack` is null or valid as long as the result lives.
    pub(super) unsafe fn new(rtnl: Rtnl<'a, T>, extack: *mut netlink_ext_ack) -> Self {
        // INVARIANT: As the caller promises.
        Self { rtnl, extack }
    }
}

impl<'a, T> Deref for Setup<'a, T> {
    type Target = Rtnl<'a, T>;

    fn deref(&self) -> &Rtnl<'a, T> {
        &self.rtnl
    }
}

impl<'a, T> DerefMut for Setup<'a, T> {
    fn deref_mut(&mut self) -> &mut Rtnl<'a, T> {
        &mut self.rtnl
    }
}

impl<T> Setup<'_, T> {
    /// The longest packet of the device, in bytes, including its layer 2 header.
    pub fn mtu(&self) -> u32 {
        // SAFETY: Valid (invariant).
        unsafe { weft_qdisc_mtu(self.sch.as_ptr()) }
    }

    /// The device's index.
    pub fn device(&self) -> u32 {
        // SAFETY: Valid (invariant), and so is its device.
        unsafe { weft_dev_index(weft_qdisc_dev(self.sch.as_ptr())) }
    }

    /// Gives the user a sentence with the returned error.
    pub fn explain(&self, sentence: &'static core::ffi::CStr) {
        // SAFETY: Null or valid (invariant).
        unsafe { ExtAck::from_raw(self.extack) }.explain(sentence);
    }
}
