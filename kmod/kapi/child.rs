// SPDX-License-Identifier: GPL-2.0-only

//! The one child of a classful qdisc.

use core::ptr::NonNull;

use kernel::prelude::*;

use super::{
    bindings::{
        noop_qdisc, qdisc_put, qdisc_reset, weft_child_create, weft_child_purge,
        weft_net_xmit_is_drop, Qdisc, NET_XMIT_SUCCESS,
    },
    qdisc::{Sch, Setup, Verdict},
    skb::{Skb, ToFree},
};

/// A child qdisc, class `:1` of its parent.
///
/// # Invariants
///
/// `qdisc` is valid and this value holds one reference to it (`noop_qdisc` counts none).
pub struct Child {
    qdisc: NonNull<Qdisc>,
    timeless: bool,
}

/// Kinds that give the same packet whenever they are asked.
const TIMELESS: [&[u8]; 4] = [b"pfifo", b"bfifo", b"pfifo_head_drop", b"pfabric"];

/// # Safety
///
/// `qdisc` is valid.
unsafe fn is_timeless(qdisc: NonNull<Qdisc>) -> bool {
    // SAFETY: As the caller promises; a qdisc has operations, whose name ends within its 16 bytes.
    let id = unsafe { (*(*qdisc.as_ptr()).ops).id };
    let name = id
        .iter()
        .map(|&byte| byte as u8)
        .take_while(|&byte| byte != 0);
    TIMELESS
        .iter()
        .any(|kind| name.clone().eq(kind.iter().copied()))
}

// SAFETY: Qdiscs are bound to no thread; access is under the qdisc lock or RTNL.
unsafe impl Send for Child {}

impl Child {
    /// The default child: a pfifo with the device's transmit queue length.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(setup: &Setup) -> Result<Self> {
        // SAFETY: `setup` is a qdisc in its init callback, under RTNL.
        let child = unsafe { weft_child_create(setup.as_ptr(), setup.extack()) };
        let qdisc = NonNull::new(child).ok_or(ENOMEM)?;
        // INVARIANT: The reference of creation is ours.
        Ok(Self {
            qdisc,
            // SAFETY: It was just created.
            timeless: unsafe { is_timeless(qdisc) },
        })
    }

    /// Whether it is of a kind that reads no clock and withholds nothing: it gives the same packet
    /// whenever it is asked.
    #[inline]
    pub fn is_timeless(&self) -> bool {
        self.timeless
    }

    /// Hands a packet to the child and accounts for it in `sch`.
    #[inline]
    pub fn enqueue(
        &mut self,
        sch: &mut Sch,
        skb: Skb,
        len: u32,
        to_free: &mut ToFree<'_>,
    ) -> Verdict {
        let child = self.qdisc.as_ptr();
        // SAFETY: `child` is valid (invariant) and `sch` proves that the qdisc lock is held.
        // Every qdisc has an enqueue function.
        let code = match unsafe { (*child).enqueue } {
            // SAFETY: As above; the packet passes to the child, or by it to `to_free`.
            Some(enqueue) => unsafe { enqueue(skb.into_raw(), child, to_free.as_ptr()) },
            None => return Verdict::from(to_free.drop(sch, skb)),
        };
        if code == NET_XMIT_SUCCESS as c_int {
            sch.queued(len);
        // SAFETY: A C function without preconditions.
        } else if unsafe { weft_net_xmit_is_drop(code) } {
            sch.count_drop();
        }
        Verdict::from_child(code)
    }

    /// Takes the child's next packet. The parent still accounts for it.
    #[inline]
    pub fn dequeue(&mut self, _sch: &mut Sch) -> Option<Skb> {
        let child = self.qdisc.as_ptr();
        // Nobody but the parent peeks, and this one never does: nothing is kept aside in gso_skb.
        // SAFETY: Valid (invariant), and `_sch` proves that the qdisc lock is held.
        let skb = NonNull::new(unsafe { (*child).dequeue?(child) })?;
        // SAFETY: A dequeued packet is on no list and the caller's.
        Some(unsafe { Skb::from_raw(skb) })
    }

    /// Packets in the child.
    #[inline]
    pub fn len(&self) -> u32 {
        // SAFETY: Valid (invariant).
        unsafe { (*self.qdisc.as_ptr()).q.qlen }
    }

    /// Empties the child; for reset.
    pub fn reset(&mut self) {
        // SAFETY: Valid (invariant), in a reset callback as the parent's.
        unsafe { qdisc_reset(self.qdisc.as_ptr()) }
    }

    /// The child's address.
    pub(super) fn as_ptr(&self) -> *mut Qdisc {
        self.qdisc.as_ptr()
    }

    /// Puts `new` (null: nothing, `noop_qdisc`) in the child's place; its packets are purged,
    /// and the parents told. Returns the old child with its reference.
    ///
    /// # Safety
    ///
    /// `new` is null or valid with a reference that passes to the child; the caller holds RTNL
    /// and the qdisc lock.
    pub(super) unsafe fn replace(&mut self, new: *mut Qdisc) -> *mut Qdisc {
        let new =
            NonNull::new(new).unwrap_or(NonNull::new(&raw mut noop_qdisc).unwrap_or(self.qdisc));
        // SAFETY: As the caller promises; noop_qdisc is static.
        self.timeless = unsafe { is_timeless(new) };
        // INVARIANT: As the caller promises; noop_qdisc is static.
        let old = core::mem::replace(&mut self.qdisc, new).as_ptr();
        // SAFETY: `old` is valid (invariant) and still hangs in the tree by its `parent`.
        unsafe { weft_child_purge(old) };
        old
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: The reference is ours (invariant); a qdisc is destroyed under RTNL.
        unsafe { qdisc_put(self.qdisc.as_ptr()) }
    }
}
