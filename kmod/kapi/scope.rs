// SPDX-License-Identifier: GPL-2.0-only

//! What the adapter lends to a qdisc for the length of a callback, and what that proves.

use core::{
    marker::PhantomData,
    ops::{Deref, DerefMut},
    ptr::{addr_of, addr_of_mut, NonNull},
};

use kernel::prelude::*;

use super::{
    adapter::Adapter,
    bindings::{
        self, netlink_ext_ack, weft_dev_index, weft_qdisc_dev, weft_qdisc_mtu,
        weft_qdisc_tx_queue_len,
    },
    child::Child,
    namespace::{self, Arriving},
    netlink::ExtAck,
    qdisc::Qdisc,
    skb::Skb,
    watchdog::Watchdog,
};

/// A qdisc whose lock is held, with bottom halves off.
///
/// # Invariants
///
/// Valid, of kind `T`, its init succeeded, and the qdisc lock is held by this thread for as long as
/// `'a`. There is one such value at a time for a qdisc (which the lock alone does not make true: a
/// child may call its parent's enqueue, see the adapter's), and none beside a [`Rtnl`] or
/// [`Setup`].
pub struct Sch<'a, T: Qdisc> {
    sch: NonNull<bindings::Qdisc>,
    // Invariant in 'a: the time in which this lock is held.
    _locked: PhantomData<(&'a mut T, fn(&'a ()) -> &'a ())>,
}

impl<T: Qdisc> Sch<'_, T> {
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

    /// The child.
    #[inline]
    pub(super) fn child(&self) -> &Child {
        const { assert!(T::CHILD, "this qdisc has no child: see Qdisc::CHILD") };
        // SAFETY: Valid and locked (invariant). The adapter wrote it before it was ready, and
        // replaces it under the lock only: not as long as `self` is borrowed.
        unsafe {
            let child = addr_of!((*Adapter::<T>::private(self.as_ptr())).child);
            (*child).as_ref().unwrap_unchecked()
        }
    }

    /// What is shared, locked for the length of `f`; frames that are to be sent then are seen to.
    #[inline(always)] // once per callback of a packet
    pub fn shared<R>(&mut self, f: impl FnOnce(&mut T::Shared) -> R) -> R
    where
        T::Shared: namespace::Shared,
    {
        // SAFETY: Locked (invariant), so bottom halves are off; the adapter has found the namespace
        // before it was ready.
        unsafe { namespace::with_bh_off(self.namespace(), f) }
    }

    /// Whether a packet was sent by the socket that [`Setup::listen`] has opened in this namespace.
    pub fn is_own_datagram(&self, skb: &Skb) -> bool
    where
        T::Shared: namespace::Shared,
    {
        // SAFETY: Valid (invariant); the adapter has found the namespace before it was ready.
        unsafe { namespace::has_sent::<T::Shared>(self.namespace(), skb) }
    }

    /// The same for a packet that arrives, about which `f` may ask.
    #[inline(always)] // once per packet
    pub fn arriving<R>(
        &mut self,
        skb: &Skb,
        f: impl FnOnce(&mut T::Shared, &Arriving<'_>) -> R,
    ) -> R
    where
        T::Shared: namespace::Shared,
    {
        // SAFETY: As in `shared`.
        unsafe { namespace::with_arrival(self.namespace(), self.as_ptr(), skb, f) }
    }

    /// Where what is shared is; null for nothing.
    #[inline]
    pub(super) fn namespace(&self) -> *mut c_void {
        // SAFETY: Valid and locked (invariant); the adapter wrote it before it was ready.
        unsafe { addr_of!((*Adapter::<T>::private(self.as_ptr())).namespace).read() }
    }

    /// Asks for packets at a time in ns, or up to `slack` ns later; in place of the last such time.
    #[inline]
    pub fn wake_at(&mut self, at: u64, slack: u32) {
        const { assert!(T::WATCHDOG, "this qdisc has no timer: see Qdisc::WATCHDOG") };
        self.set_timer(at, slack);
    }

    /// The same; nothing where there is no timer.
    #[inline]
    pub(super) fn set_timer(&mut self, at: u64, slack: u32) {
        if T::WATCHDOG {
            // SAFETY: Valid (invariant); the adapter has initialised the timer before it was ready.
            unsafe {
                let watchdog = addr_of!((*Adapter::<T>::private(self.as_ptr())).watchdog);
                Watchdog::schedule(watchdog.cast(), at, slack);
            }
        }
    }

    /// Counts a time when the qdisc had packets but the rate or a timer held them back.
    #[inline]
    pub(super) fn overlimit(&mut self) {
        let sch = self.as_ptr();
        // SAFETY: Valid and locked (invariant). Volatile, as dumps read without the lock
        // (WRITE_ONCE in C).
        unsafe {
            let overlimits = addr_of_mut!((*sch).qstats.overlimits);
            overlimits.write_volatile((*overlimits).wrapping_add(1));
        }
    }
}

/// A qdisc that nobody else uses: in its reset or destroy callback.
///
/// # Invariants
///
/// Valid, `namespace` is that of its device or null, and access is exclusive for as long as `'a`.
pub struct Rtnl<'a, T: Qdisc> {
    sch: NonNull<bindings::Qdisc>,
    namespace: *mut c_void,
    // Invariant in 'a, as in Sch.
    _exclusive: PhantomData<(&'a mut T, fn(&'a ()) -> &'a ())>,
}

impl<T: Qdisc> Rtnl<'_, T> {
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

    /// What is shared, locked for the length of `f`; frames that are to be sent then are seen to.
    /// It takes `&mut self`, as [`Sch::shared`]: else `f` could call it again, wait for its own
    /// lock for ever, and on a kernel without SMP, where there is no lock, have the state twice.
    pub fn shared<R>(&mut self, f: impl FnOnce(&mut T::Shared) -> R) -> R
    where
        T::Shared: namespace::Shared,
    {
        // SAFETY: Where T shares something, the namespace was found before there was a `Rtnl`
        // (invariant). Its lock is not held: no callback of a qdisc runs inside of `f`s, and `f`
        // cannot come back here, as `self`, the only one of a callback, is borrowed for it.
        unsafe { namespace::with(self.namespace, f) }
    }
}

/// A qdisc in its init callback: under RTNL and not yet in use.
///
/// # Invariants
///
/// `extack` is null or valid as long as this value lives.
pub struct Setup<'a, T: Qdisc> {
    rtnl: Rtnl<'a, T>,
    extack: *mut netlink_ext_ack,
}

impl<'a, T: Qdisc> Setup<'a, T> {
    /// # Safety
    ///
    /// `extack` is null or valid as long as the result lives.
    pub(super) unsafe fn new(rtnl: Rtnl<'a, T>, extack: *mut netlink_ext_ack) -> Self {
        // INVARIANT: As the caller promises.
        Self { rtnl, extack }
    }
}

impl<'a, T: Qdisc> Deref for Setup<'a, T> {
    type Target = Rtnl<'a, T>;

    fn deref(&self) -> &Rtnl<'a, T> {
        &self.rtnl
    }
}

impl<'a, T: Qdisc> DerefMut for Setup<'a, T> {
    fn deref_mut(&mut self) -> &mut Rtnl<'a, T> {
        &mut self.rtnl
    }
}

impl<T: Qdisc> Setup<'_, T> {
    /// The longest packet of the device, in bytes, its layer 2 header included.
    pub fn mtu(&self) -> u32 {
        // SAFETY: Valid (invariant).
        unsafe { weft_qdisc_mtu(self.sch.as_ptr()) }
    }

    /// The device's index.
    pub fn device(&self) -> u32 {
        // SAFETY: Valid (invariant), and so is its device.
        unsafe { weft_dev_index(weft_qdisc_dev(self.sch.as_ptr())) }
    }

    /// Gives the user a sentence to read with the error that is returned.
    pub fn explain(&self, sentence: &'static core::ffi::CStr) {
        // SAFETY: Null or valid (invariant).
        unsafe { ExtAck::from_raw(self.extack) }.explain(sentence);
    }

    /// Sees to it that what is shared can send and receive datagrams.
    ///
    /// # Errors
    ///
    /// What the kernel refuses.
    pub fn listen(&self) -> Result
    where
        T::Shared: namespace::Shared,
    {
        // SAFETY: Under RTNL (invariant). The namespace was found for what T shares.
        unsafe { namespace::listen::<T::Shared>(self.namespace) }
    }

    /// The device's transmit queue length, in packets.
    pub fn tx_queue_len(&self) -> u32 {
        // SAFETY: Valid (invariant).
        unsafe { weft_qdisc_tx_queue_len(self.sch.as_ptr()) }
    }
}
