// SPDX-License-Identifier: GPL-2.0-only

//! The fate of an arriving packet, and the counters that follow from it.
//!
//! A parent trusts its child's counters and return codes. A packet too many in `qlen`, or a return
//! code that does not match, has caused a use after free in hfsc, drr and qfq more than once. So a
//! module states what happens to packets, and this file derives the counters from that.
//!
//! # Eviction
//!
//! A parent counts an arriving packet when its enqueue has returned. Some do so much later: tbf,
//! which cuts a packet into segments, counts the segments once all are inside. If the packets
//! evicted for the arriving one were subtracted first, a parent could count zero while a packet is
//! inside. hfsc stops a class whose count is zero, and restarts it only for a packet that finds it
//! empty.
//!
//! So the arriving packet is added to the parents' counts here, before the evicted ones are
//! subtracted, and the return code is `NET_XMIT_SUCCESS | __NET_XMIT_STOLEN`, for which parents
//! count nothing. A qdisc that evicts was not empty, and neither were its parents, so their classes
//! are already active. No count falls below 1: the packets that a parent has not counted yet are
//! segments of one packet, and no segment is evicted for another, as they have the same rank.

use core::{marker::PhantomData, ptr::addr_of_mut};

use kernel::prelude::*;

use super::{
    bindings::{
        self, qdisc_tree_reduce_backlog, sk_buff, weft_net_xmit_is_drop, weft_qdisc_drop,
        NET_XMIT_DROP, NET_XMIT_SUCCESS, WEFT_NET_XMIT_STOLEN,
    },
    clock::now,
    scope::Sch,
    skb::Skb,
};
use crate::common::discipline::{Discipline, Fate};

/// The arrival of one packet. Its fate is stated once, by the method that returns the [`Verdict`].
/// Packets dropped meanwhile are collected here; the kernel frees them when it has released the
/// qdisc lock.
pub struct Admission<'a> {
    to_free: *mut *mut sk_buff,
    /// Bytes of the arriving packet.
    len: u32,
    evicted: u32,
    evicted_bytes: u32,
    _scope: PhantomData<&'a mut *mut sk_buff>,
}

/// A qdisc's return code for an arriving packet. There is one for each [`Admission`].
#[must_use]
pub struct Verdict<'a> {
    code: c_int,
    _admission: PhantomData<&'a mut *mut sk_buff>,
}

impl<'a> Admission<'a> {
    /// # Safety
    ///
    /// `to_free` is the argument of a running enqueue callback, which the value does not outlive,
    /// and `skb` the packet that arrives.
    #[inline]
    pub(super) unsafe fn new(to_free: *mut *mut sk_buff, skb: &Skb) -> Self {
        Self {
            to_free,
            len: skb.packet().len,
            evicted: 0,
            evicted_bytes: 0,
            _scope: PhantomData,
        }
    }

    #[inline]
    pub(super) fn to_free(&mut self) -> *mut *mut sk_buff {
        self.to_free
    }

    /// The packet is inside.
    #[inline]
    pub fn queued<T>(self, sch: &mut Sch<'_, T>) -> Verdict<'a> {
        self.answer(sch, NET_XMIT_SUCCESS as c_int)
    }

    /// The packet is dropped for lack of room.
    #[inline]
    pub fn refuse<T>(mut self, sch: &mut Sch<'_, T>, skb: Skb) -> Verdict<'a> {
        self.drop(sch, skb);
        self.answer(sch, NET_XMIT_DROP as c_int)
    }

    /// Carries out a discipline's decision, with the packets that it returns.
    #[inline(always)] // into the module's enqueue
    pub fn by<T, D>(
        mut self,
        sch: &mut Sch<'_, T>,
        discipline: &mut D,
        skb: Skb,
        arrival: &D::Arrival,
    ) -> Verdict<'a>
    where
        D: Discipline<Packet = Skb, Shared = ()>,
    {
        match discipline.enqueue(&mut (), skb, arrival, now, |skb| self.evict(sch, skb)) {
            Fate::Queued => self.queued(sch),
            Fate::Refused(skb) => self.refuse(sch, skb),
        }
    }

    /// A packet that was inside is dropped to make room.
    pub fn evict<T>(&mut self, sch: &mut Sch<'_, T>, skb: Skb) {
        self.evicted = self.evicted.wrapping_add(1);
        self.evicted_bytes = self.evicted_bytes.wrapping_add(skb.packet().len);
        self.drop(sch, skb);
    }

    /// Counts in `dropped`.
    #[inline]
    fn drop<T>(&mut self, sch: &mut Sch<'_, T>, skb: Skb) {
        // SAFETY: The packet is ours and on no list (Skb's invariant), `to_free` is the kernel's
        // (new), and `sch` proves that the qdisc lock is held.
        unsafe { weft_qdisc_drop(skb.into_raw(), sch.as_ptr(), self.to_free) };
    }

    /// Counts what happened. Packets are evicted only for one that is then queued.
    #[inline]
    pub(super) fn answer<T>(self, sch: &mut Sch<'_, T>, mut code: c_int) -> Verdict<'a> {
        if code == NET_XMIT_SUCCESS as c_int {
            // SAFETY: Valid and locked (invariant of Sch).
            unsafe { queued(sch.as_ptr(), self.len) };
        }
        if self.evicted != 0 {
            code = self.evicted(sch, code);
        }
        Verdict {
            code,
            _admission: PhantomData,
        }
    }

    /// Adds the arriving packet, if it is inside, to the parents' counts, and then subtracts the
    /// evicted ones. Returns the code after which the parents do not count the arriving packet a
    /// second time.
    #[cold]
    fn evicted<T>(&self, sch: &mut Sch<'_, T>, code: c_int) -> c_int {
        let is_inside = code == NET_XMIT_SUCCESS as c_int;
        // SAFETY: Valid and locked (invariant of Sch). The parents are of the same tree, hence
        // under the same lock.
        unsafe {
            if is_inside {
                // Adds to the counts, because both numbers are negative.
                let bytes = (self.len as c_int).wrapping_neg();
                qdisc_tree_reduce_backlog(sch.as_ptr(), -1, bytes);
            }
            evicted(sch.as_ptr(), self.evicted, self.evicted_bytes);
        }
        match is_inside {
            true => (NET_XMIT_SUCCESS | WEFT_NET_XMIT_STOLEN) as c_int,
            false => code,
        }
    }
}

/// Whether the return code of an enqueue is that of a drop.
#[inline]
pub(super) fn is_drop(code: c_int) -> bool {
    // SAFETY: A C function without preconditions.
    code != NET_XMIT_SUCCESS as c_int && unsafe { weft_net_xmit_is_drop(code) }
}

impl Verdict<'_> {
    /// Whether the packet was dropped, or another one of its flow in its place.
    #[inline]
    pub fn is_drop(&self) -> bool {
        is_drop(self.code)
    }

    #[inline]
    pub(super) fn code(&self) -> c_int {
        self.code
    }
}

/// Counts one packet more.
///
/// # Safety
///
/// `sch` is valid and locked.
#[inline]
unsafe fn queued(sch: *mut bindings::Qdisc, bytes: u32) {
    // SAFETY: As the caller promises. Volatile, because dumps read without the lock (WRITE_ONCE in
    // C). Bytes wrap as in C.
    unsafe {
        let qlen = addr_of_mut!((*sch).q.qlen);
        qlen.write_volatile((*qlen).wrapping_add(1));
        let backlog = addr_of_mut!((*sch).qstats.backlog);
        backlog.write_volatile((*backlog).wrapping_add(bytes));
    }
}

/// Counts a packet that leaves by dequeue: one less inside, one more sent. Like
/// `qdisc_update_stats_at_dequeue()` for a qdisc without per-CPU counters, but without a call into
/// C.
///
/// # Safety
///
/// `sch` is valid and locked, `has_child` says whether it has a child, and it has counted a packet
/// since the lock was taken.
#[inline]
pub(super) unsafe fn dequeued(sch: *mut bindings::Qdisc, skb: &Skb, has_child: bool) {
    const { assert!(usize::BITS == 64, "u64_stats_t has a sequence number") };
    let packet = skb.packet();
    // SAFETY: As above. u64_stats_t is one word, which dumps read without the lock.
    unsafe {
        let backlog = addr_of_mut!((*sch).qstats.backlog);
        backlog.write_volatile((*backlog).wrapping_sub(packet.len));
        let bytes = addr_of_mut!((*sch).bstats.bytes).cast::<u64>();
        bytes.write_volatile((*bytes).wrapping_add(packet.len.into()));
        let packets = addr_of_mut!((*sch).bstats.packets).cast::<u64>();
        packets.write_volatile((*packets).wrapping_add(packet.segments.into()));
        let qlen = addr_of_mut!((*sch).q.qlen);
        // A qdisc that counts no packet is not asked for one. During a dequeue a child may drop
        // some.
        qlen.write_volatile(match has_child {
            true => (*qlen).saturating_sub(1),
            false => (*qlen).wrapping_sub(1),
        });
    }
}

/// Packets were dropped from inside, after they were accepted: adjusts all parents.
///
/// # Safety
///
/// As for `queued`.
#[cold]
pub(super) unsafe fn evicted(sch: *mut bindings::Qdisc, packets: u32, bytes: u32) {
    // SAFETY: As above. The parents are of the same tree, hence under the same lock.
    unsafe {
        let qlen = addr_of_mut!((*sch).q.qlen);
        // Never more than are inside, whatever the module reports.
        let packets = packets.min(*qlen);
        qlen.write_volatile((*qlen).wrapping_sub(packets));
        let backlog = addr_of_mut!((*sch).qstats.backlog);
        backlog.write_volatile((*backlog).wrapping_sub(bytes));
        qdisc_tree_reduce_backlog(sch, packets as c_int, bytes as c_int);
    }
}

/// Counts packets as dropped, on arrival or later.
///
/// # Safety
///
/// As for `queued`.
pub(super) unsafe fn dropped(sch: *mut bindings::Qdisc, packets: u32) {
    // SAFETY: As above.
    unsafe {
        let drops = addr_of_mut!((*sch).qstats.drops);
        drops.write_volatile((*drops).wrapping_add(packets));
    }
}
