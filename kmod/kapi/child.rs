// SPDX-License-Identifier: GPL-2.0-only

//! The one child of a classful qdisc.

use core::ptr::NonNull;

use kernel::prelude::*;

use super::bindings::{
    netlink_ext_ack, noop_qdisc, pfifo_qdisc_ops, qdisc_create_dflt, qdisc_hash_add, qdisc_put,
    qdisc_reset, weft_qdisc_purge, Qdisc,
};

/// A child qdisc, class `:1` of its parent. The adapter owns it and lends it together with the
/// qdisc lock: see [`Sch`].
///
/// # Invariants
///
/// `qdisc` is valid, and this value holds one reference to it (`noop_qdisc` is not counted).
pub(super) struct Child {
    qdisc: NonNull<Qdisc>,
    pub(super) timeless: bool,
}

/// Stock kinds whose next packet does not depend on the time of the call.
const STOCK_TIMELESS: [&[u8]; 3] = [b"pfifo", b"bfifo", b"pfifo_head_drop"];

/// The bit of a qdisc's flags that says so for one of ours. The kernel uses the low ones.
pub(super) const FLAG_TIMELESS: u32 = 1 << 31;

/// # Safety
///
/// `qdisc` is valid.
unsafe fn is_timeless(qdisc: NonNull<Qdisc>) -> bool {
    // SAFETY: As the caller promises; a qdisc has operations, whose name ends within its 16 bytes.
    let (flags, id) = unsafe {
        let qdisc = qdisc.as_ptr();
        ((*qdisc).flags, (*(*qdisc).ops).id)
    };
    let name = id
        .iter()
        .map(|&byte| byte as u8)
        .take_while(|&byte| byte != 0);
    flags & FLAG_TIMELESS != 0
        || STOCK_TIMELESS
            .iter()
            .any(|kind| name.clone().eq(kind.iter().copied()))
}

impl Child {
    /// The default child: a pfifo with the device's transmit queue length.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    ///
    /// # Safety
    ///
    /// `sch` is a valid qdisc in its init callback, under RTNL; `extack` is null or valid.
    pub(super) unsafe fn new(sch: *mut Qdisc, extack: *mut netlink_ext_ack) -> Result<Self> {
        // SAFETY: As the caller promises; a qdisc has a queue. The class is `:1` of its number.
        let child = unsafe {
            let class = ((*sch).handle & 0xffff_0000) | 1;
            let queue = (*sch).dev_queue;
            let child = qdisc_create_dflt(queue, &raw const pfifo_qdisc_ops, class, extack);
            NonNull::new(child).ok_or(ENOMEM)?
        };
        // SAFETY: It was just created, under RTNL.
        unsafe { qdisc_hash_add(child.as_ptr(), true) };
        // INVARIANT: The reference of creation is ours.
        Ok(Self {
            qdisc: child,
            // SAFETY: As above.
            timeless: unsafe { is_timeless(child) },
        })
    }

    /// Empties the child; for reset.
    ///
    /// # Safety
    ///
    /// In the parent's reset callback.
    pub(super) unsafe fn reset(&mut self) {
        // SAFETY: Valid (invariant), in a reset callback as the parent's.
        unsafe { qdisc_reset(self.qdisc.as_ptr()) }
    }

    /// The child's address.
    #[inline]
    pub(super) fn as_ptr(&self) -> *mut Qdisc {
        self.qdisc.as_ptr()
    }

    /// Puts `new` in the child's place (null stands for `noop_qdisc`). The old child's packets are
    /// purged, and the parents' counts adjusted. Returns the old child with its reference.
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
        unsafe { weft_qdisc_purge(old) };
        old
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: The reference is ours (invariant); a qdisc is destroyed under RTNL.
        unsafe { qdisc_put(self.qdisc.as_ptr()) }
    }
}
