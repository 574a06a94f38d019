// SPDX-License-Identifier: GPL-2.0-only

//! The operations on a borrowed qdisc that depend on its kind.

use core::ptr::{addr_of, NonNull};

use kernel::prelude::*;

use super::{
    admission::{dropped, is_drop, Admission, Verdict},
    bindings::{NET_XMIT_SUCCESS, WEFT_NET_XMIT_STOLEN},
    child::Child,
    namespace::{self, hand_over, Arriving},
    private::Private,
    qdisc::Qdisc,
    scope::{Rtnl, Sch, Setup},
    skb::Skb,
    watchdog::Watchdog,
};

impl<T: Qdisc> Sch<'_, T> {
    /// The child.
    #[inline]
    pub(super) fn child(&self) -> &Child {
        const { assert!(T::CHILD, "this qdisc has no child: see Qdisc::CHILD") };
        // SAFETY: Valid and locked (invariant). The adapter wrote it before the qdisc was ready,
        // and replaces it only under the lock: not as long as `self` is borrowed.
        unsafe {
            let child = addr_of!((*Private::<T>::of(self.as_ptr())).child);
            (*child).as_ref().unwrap_unchecked()
        }
    }

    /// The shared state, locked for the length of `f`; frames that `f` leaves to send are then sent
    /// by the work.
    #[inline(always)] // once per callback of a packet
    pub fn shared<R>(&mut self, f: impl FnOnce(&mut T::Shared) -> R) -> R
    where
        T::Shared: namespace::Shared,
    {
        // SAFETY: Locked (invariant), so bottom halves are off; the adapter looked up the namespace
        // before the qdisc was ready.
        unsafe { namespace::with_bh_off(self.namespace(), f) }
    }

    /// Whether a packet was sent by the socket that [`Setup::listen`] opened in this namespace.
    pub fn is_own_datagram(&self, skb: &Skb) -> bool
    where
        T::Shared: namespace::Shared,
    {
        // SAFETY: Valid (invariant); the adapter looked up the namespace before the qdisc was
        // ready.
        unsafe { namespace::has_sent::<T::Shared>(self.namespace(), skb) }
    }

    /// Like `shared`, for a packet that arrives, about which `f` may ask.
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

    /// The address of the shared state; null for none.
    #[inline]
    pub(super) fn namespace(&self) -> *mut c_void {
        // SAFETY: Valid and locked (invariant); the adapter wrote it before the qdisc was ready.
        unsafe { addr_of!((*Private::<T>::of(self.as_ptr())).namespace).read() }
    }

    /// Has the kernel ask for packets at a time in ns, or up to `slack` ns later; replaces any
    /// earlier such time.
    #[inline]
    pub fn wake_at(&mut self, at: u64, slack: u32) {
        const { assert!(T::WATCHDOG, "this qdisc has no timer: see Qdisc::WATCHDOG") };
        self.set_timer(at, slack);
    }

    /// Like `wake_at`, but does nothing if there is no timer.
    #[inline]
    pub(super) fn set_timer(&mut self, at: u64, slack: u32) {
        if T::WATCHDOG {
            // SAFETY: Valid (invariant); the adapter initialised the timer before the qdisc was
            // ready.
            unsafe {
                let watchdog = addr_of!((*Private::<T>::of(self.as_ptr())).watchdog);
                Watchdog::schedule(watchdog.cast(), at, slack);
            }
        }
    }
}

/// The child of a qdisc that has one ([`Qdisc::CHILD`]).
impl<T: Qdisc> Sch<'_, T> {
    /// Whether the child is of a kind that reads no clock and withholds nothing, so its next packet
    /// does not depend on the time of the call.
    #[inline]
    pub fn child_is_timeless(&self) -> bool {
        self.child().timeless
    }

    /// Packets in the child.
    #[inline]
    pub fn child_len(&self) -> u32 {
        // SAFETY: Valid (invariant of Child).
        unsafe { (*self.child().as_ptr()).q.qlen }
    }

    /// Hands the arriving packet to the child, whose return code becomes that of its parent.
    #[inline]
    pub fn child_enqueue<'a>(&mut self, skb: Skb, mut admission: Admission<'a>) -> Verdict<'a> {
        let child = self.child().as_ptr();
        // SAFETY: `child` is valid (invariant of Child), and `self` proves that the qdisc lock is
        // held. Every qdisc has an enqueue function; the kernel's own parents rely on that. The
        // packet, which has the device of the tree from now on, passes to the child, or through the
        // child to `to_free`.
        let code = unsafe {
            let enqueue = (*child).enqueue.unwrap_unchecked();
            skb.leave(self.as_ptr());
            enqueue(skb.into_raw(), child, admission.to_free())
        };
        if is_drop(code) {
            // SAFETY: The qdisc is valid and locked (invariant).
            unsafe { dropped(self.as_ptr(), 1) };
        }
        admission.answer(self, code)
    }

    /// Takes the child's next packet, which counts as inside this qdisc until it leaves it.
    #[inline]
    pub fn child_dequeue(&mut self) -> Option<Skb> {
        let child = self.child().as_ptr();
        // Only a parent peeks, and this one never does, so no packet is kept aside in gso_skb.
        // SAFETY: Valid (invariant of Child), and `self` proves that the qdisc lock is held. Every
        // qdisc has a dequeue function, as above.
        let skb = NonNull::new(unsafe { (*child).dequeue.unwrap_unchecked()(child) })?;
        // SAFETY: A dequeued packet is on no list and the caller's.
        Some(unsafe { Skb::from_raw(skb) })
    }
}

impl<'a> Admission<'a> {
    /// The packet goes by another port, that of the given number. The shared state chooses its
    /// device when it is about to go ([`embark`](crate::common::shared::Shared::embark)). It is not
    /// counted here, and the sender sees no loss.
    #[inline]
    pub fn detour<T: Qdisc>(self, sch: &mut Sch<'_, T>, skb: Skb, port: u16) -> Verdict<'a>
    where
        T::Shared: namespace::Shared,
    {
        // SAFETY: Locked (invariant of Sch), so bottom halves are off; the namespace was looked up
        // for the type that T shares.
        unsafe { hand_over(sch.namespace(), sch.as_ptr(), skb, port) };
        self.answer(sch, (NET_XMIT_SUCCESS | WEFT_NET_XMIT_STOLEN) as c_int)
    }
}

impl<T: Qdisc> Rtnl<'_, T> {
    /// The shared state, locked for the length of `f`; frames that `f` leaves to send are then sent
    /// by the work. Like [`Sch::shared`], it takes `&mut self`, because otherwise `f` could call it
    /// again. It would then wait for its own lock for ever or, on a kernel without SMP, where there
    /// is no lock, borrow the state twice.
    pub fn shared<R>(&mut self, f: impl FnOnce(&mut T::Shared) -> R) -> R
    where
        T::Shared: namespace::Shared,
    {
        // SAFETY: If T shares something, the namespace was looked up before there was a `Rtnl`
        // (invariant). Its lock is not held: no callback of a qdisc runs inside such an `f`, and
        // `f` cannot come back here, because `self`, the only one of a callback, is borrowed for
        // it.
        unsafe { namespace::with(self.namespace, f) }
    }
}

impl<T: Qdisc> Setup<'_, T> {
    /// Enables the shared state to send and receive datagrams.
    ///
    /// # Errors
    ///
    /// Errors that the kernel returns.
    pub fn listen(&self) -> Result
    where
        T::Shared: namespace::Shared,
    {
        // SAFETY: Under RTNL (invariant). The namespace was looked up for the type that T shares.
        unsafe { namespace::listen::<T::Shared>(self.namespace) }
    }
}
