// SPDX-License-Identifier: GPL-2.0-only

//! What becomes of an arriving packet, and the counters that follow from it.
//!
//! A parent trusts its child's counters and its answers: a packet too many in `qlen`, or an answer
//! that does not fit it, has been a use after free in hfsc, drr and qfq more than once. So a module
//! says what happens to packets, and what is counted follows from that in here.
//!
//! # Eviction
//!
//! Parents count an arriving packet when its enqueue has returned, some of them much later: tbf,
//! which cuts a packet into segments, counts these once all are inside. If the packets that were
//! evicted for it were taken off their counts first, a parent could count nothing while a packet is
//! inside. hfsc stops a class that counts nothing, and starts it again only for a packet that finds
//! it empty.
//!
//! So the arriving packet is counted at the parents here, before the evicted ones are taken off,
//! and the answer is `NET_XMIT_SUCCESS | __NET_XMIT_STOLEN`: they count nothing then. A qdisc with
//! an eviction was not empty, and neither were its parents, so their classes are active already. No
//! count falls below 1: of packets that a parent has not counted yet, the segments of one packet,
//! none is evicted for another, as they have one rank.

use core::{marker::PhantomData, ptr::addr_of_mut};

use kernel::prelude::*;

use super::{
    bindings::{
        self, qdisc_tree_reduce_backlog, sk_buff, weft_qdisc_drop, NET_XMIT_DROP, NET_XMIT_SUCCESS,
        WEFT_NET_XMIT_STOLEN,
    },
    clock::now,
    scope::Sch,
    skb::Skb,
};
use crate::common::discipline::{Discipline, Fate};

/// The arrival of one packet: what becomes of it is said once, by what gives the [`Verdict`]; and
/// where packets go that are dropped meanwhile, for the kernel to free them when it has released
/// the qdisc lock.
pub struct Admission<'a> {
    to_free: *mut *mut sk_buff,
    /// Bytes of the arriving packet.
    len: u32,
    evicted: u32,
    evicted_bytes: u32,
    _scope: PhantomData<&'a mut *mut sk_buff>,
}

/// What a qdisc answers for an arriving packet. There is one for each [`Admission`].
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

    /// The packet is dropped for want of room.
    #[inline]
    pub fn refuse<T>(mut self, sch: &mut Sch<'_, T>, skb: Skb) -> Verdict<'a> {
        self.drop(sch, skb);
        self.answer(sch, NET_XMIT_DROP as c_int)
    }

    /// What a discipline says is done, with the packets that it gives back.
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

    /// Tells the parents of the arriving packet, if that is inside, and of those that were evicted,
    /// in this order. Returns the answer after which they do not count the arriving packet again.
    #[cold]
    fn evicted<T>(&self, sch: &mut Sch<'_, T>, code: c_int) -> c_int {
        let is_inside = code == NET_XMIT_SUCCESS as c_int;
        // SAFETY: Valid and locked (invariant of Sch). The parents are of the same tree, hence
        // under the same lock.
        unsafe {
            if is_inside {
                // A negative number of packets, and of bytes, is added.
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

impl Verdict<'_> {
    #[inline]
    pub(super) fn code(&self) -> c_int {
        self.code
    }
}

/// One packet more.
///
/// # Safety
///
/// `sch` is valid and locked.
#[inline]
unsafe fn queued(sch: *mut bindings::Qdisc, bytes: u32) {
    // SAFETY: As the caller promises. Volatile, as dumps read without the lock (WRITE_ONCE in C).
    // Bytes wrap as in C.
    unsafe {
        let qlen = addr_of_mut!((*sch).q.qlen);
        qlen.write_volatile((*qlen).wrapping_add(1));
        let backlog = addr_of_mut!((*sch).qstats.backlog);
        backlog.write_volatile((*backlog).wrapping_add(bytes));
    }
}

/// A packet leaves by dequeue: one less inside, one more sent. As `qdisc_update_stats_at_dequeue()`
/// for a qdisc without counters for each CPU, in the place of a call.
///
/// # Safety
///
/// `sch` is valid, locked, `has_child` says whether it has a child, and it has counted a packet since the lock was taken.
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
        // A qdisc that counts no packet is not asked for one. While it is, a child may drop some.
        qlen.write_volatile(match has_child {
            true => (*qlen).saturating_sub(1),
            false => (*qlen).wrapping_sub(1),
        });
    }
}

/// Packets were dropped from inside, after they were accepted: all parents are told.
///
/// # Safety
///
/// As for `queued`.
#[cold]
pub(super) unsafe fn evicted(sch: *mut bindings::Qdisc, packets: u32, bytes: u32) {
    // SAFETY: As above. The parents are of the same tree, hence under the same lock.
    unsafe {
        let qlen = addr_of_mut!((*sch).q.qlen);
        // No more than are inside, whatever the module says.
        let packets = packets.min(*qlen);
        qlen.write_volatile((*qlen).wrapping_sub(packets));
        let backlog = addr_of_mut!((*sch).qstats.backlog);
        backlog.write_volatile((*backlog).wrapping_sub(bytes));
        qdisc_tree_reduce_backlog(sch, packets as c_int, bytes as c_int);
    }
}

/// Packets were dropped, on arrival or later.
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
