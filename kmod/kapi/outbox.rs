// SPDX-License-Identifier: GPL-2.0-only

//! Copies of packets, packets and messages that leave later, and what a child drops.
//!
//! A qdisc cannot send under its lock: two devices whose qdiscs send by each other would deadlock.
//! So a packet waits in a list of its processor, and a work in softirq sends it as soon as the lock
//! section is over: a copy through all qdiscs of its device, a message by the routes of its
//! namespace. It waits with a reference to its device, and through it to the namespace.
//!
//! # Allocation under the qdisc lock
//!
//! A copy is the kernel's clone of a packet, and a message is a new packet. Both are allocated
//! where the packet is seen, under a lock and without waiting (`GFP_ATOMIC`), like the copies of
//! headers that [`Skb::with_header`] makes: the kernel has no way to reserve a clone. If there is
//! no memory there is no copy, which the caller counts. The caller bounds its copies, and the list
//! its packets.
//!
//! # Lifetime
//!
//! The work is the module's code. So a module whose qdisc sends later is a [`Sending`], not a
//! [`Registration`]: it waits for the work when no qdisc is left. Without it nothing is sent.

use core::{
    marker::PhantomPinned,
    mem::ManuallyDrop,
    ptr::{self, addr_of, NonNull},
    sync::atomic::{AtomicBool, Ordering},
};

use kernel::{prelude::*, InPlaceModule};

use super::{
    admission::{Admission, Verdict},
    bindings::{
        net_device, sk_buff, weft_dev_hold, weft_dev_put, weft_outbox_carries, weft_outbox_flush,
        weft_outbox_init, weft_outbox_notify, weft_outbox_send, weft_qdisc_dev, weft_skb_consume,
        weft_skb_copy_of, WEFT_SKB_NEXT,
    },
    qdisc::Qdisc,
    registration::Registration,
    scope::Sch,
    skb::Skb,
};

/// Packets dropped by a child in one call that are shown to the caller: bounds the time. A child
/// drops at most 64 packets at once (fq_codel).
const SHOWN: usize = 64;

/// Whether this module has an [`Outbox`].
static OPEN: AtomicBool = AtomicBool::new(false);

/// The lists of this module's packets, and the work that sends them.
struct Outbox;

impl Outbox {
    fn open() -> Result<Self> {
        if OPEN.load(Ordering::Acquire) {
            return Err(EBUSY);
        }
        // SAFETY: Nothing is added before the flag is set below, and the module's initialisation
        // runs once.
        unsafe { weft_outbox_init() };
        OPEN.store(true, Ordering::Release);
        Ok(Self)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        OPEN.store(false, Ordering::Release);
        // SAFETY: Initialised in `open`. The module is being unloaded, in a context that may sleep.
        unsafe { weft_outbox_flush() }
    }
}

/// The module of a qdisc that sends later.
#[pin_data]
pub struct Sending<T: Qdisc> {
    /// Dropped first, so nothing is added when the outbox is dropped.
    #[pin]
    _registration: Registration<T>,
    _outbox: Outbox,
    #[pin]
    _pinned: PhantomPinned,
}

impl<T: Qdisc> InPlaceModule for Sending<T> {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _outbox: Outbox::open()?,
            _registration <- Registration::new(module),
            _pinned: PhantomPinned,
        }? Error)
    }
}

/// A device by which packets and messages leave later.
///
/// # Invariants
///
/// Points to a valid device. This value owns a reference to it, so the kernel frees neither the
/// device nor its namespace.
pub struct Outlet(NonNull<net_device>);

// SAFETY: A reference to a device is bound to no thread.
unsafe impl Send for Outlet {}

impl Outlet {
    /// The device of a qdisc.
    pub fn of<T: Qdisc>(sch: &Sch<'_, T>) -> Self {
        // SAFETY: Valid (invariant of Sch), and so is its device, which is not null.
        let device = unsafe { NonNull::new_unchecked(weft_qdisc_dev(sch.as_ptr())) };
        // SAFETY: As above.
        unsafe { weft_dev_hold(device.as_ptr()) };
        // INVARIANT: The reference was taken just now.
        Self(device)
    }

    /// Sends a packet that begins with its link's header through the device's qdiscs, as soon as
    /// all locks are released. Returns whether it will be sent; otherwise it is freed. For callers
    /// that have bottom halves off, as all callbacks of packets.
    pub fn send(&self, skb: Skb) -> bool {
        if !OPEN.load(Ordering::Acquire) {
            return false;
        }
        // SAFETY: The packet is ours and on no list (invariant of Skb), and passes to the list. The
        // device is valid (invariant).
        unsafe { weft_outbox_send(skb.into_raw(), self.0.as_ptr()) }
    }

    /// Sends a complete ICMP message from the device's namespace to an IPv4 address, likewise.
    /// Returns `false` if there is no memory or too many wait.
    pub fn notify(&self, address: u32, message: &[u8]) -> bool {
        let Ok(len) = u32::try_from(message.len()) else {
            return false;
        };
        // SAFETY: The device is valid (invariant), and the message has `len` bytes.
        OPEN.load(Ordering::Acquire)
            && unsafe { weft_outbox_notify(self.0.as_ptr(), address, message.as_ptr(), len) }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        // SAFETY: The reference is ours (invariant), and gone after this.
        unsafe { weft_dev_put(self.0.as_ptr()) }
    }
}

/// Whether a packet that arrives at a qdisc comes from [`Outlet::send`]. `false` also if another
/// processor enqueues it, as it may for several processors at once.
#[inline]
pub fn is_sent_later(skb: &Skb) -> bool {
    // SAFETY: The packet's address is only compared.
    unsafe { weft_outbox_carries(skb.as_ptr()) }
}

/// A copy of a packet. It shares the packet's bytes, which nobody writes to as long as it exists.
pub struct Copied(ManuallyDrop<Skb>);

impl Copied {
    /// Copies a packet. `None` if there is no memory, or for a packet that has yet to be segmented
    /// or encrypted, or whose sender waits for its memory.
    pub fn of(skb: &Skb) -> Option<Self> {
        // SAFETY: The packet is valid (invariant of Skb). Its owner lends it, so nothing else uses
        // it meanwhile.
        let copy = NonNull::new(unsafe { weft_skb_copy_of(skb.as_ptr()) })?;
        // SAFETY: A new packet, on no list, whose reference is ours.
        Some(Self(ManuallyDrop::new(unsafe { Skb::from_raw(copy) })))
    }

    /// A copy of this copy, as a packet to send.
    pub fn packet(&self) -> Option<Skb> {
        Self::of(&self.0).map(Self::into_skb)
    }

    /// The packet.
    pub fn into_skb(self) -> Skb {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: Taken once, because `this` is not dropped.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl Drop for Copied {
    /// The packet itself was sent, so this is no drop.
    fn drop(&mut self) {
        // SAFETY: Taken once, because this is the drop.
        let skb = unsafe { ManuallyDrop::take(&mut self.0) };
        // SAFETY: The reference is ours (invariant of Skb), and gone after this.
        unsafe { weft_skb_consume(skb.into_raw()) }
    }
}

/// Like [`Sch::child_enqueue`]. `dropped` is then called with each packet that the child dropped
/// meanwhile, the arriving one or others, up to a number.
///
/// The kernel frees these packets when it has released the lock; until then they are in its list.
/// A child that drops a packet puts it at the beginning of the list (`__qdisc_drop`,
/// `__qdisc_drop_all`).
#[inline]
pub fn child_enqueue<'a, T: Qdisc>(
    sch: &mut Sch<'_, T>,
    skb: Skb,
    mut admission: Admission<'a>,
    dropped: impl FnMut(&Skb),
) -> Verdict<'a> {
    let list: *const *mut sk_buff = admission.to_free();
    // SAFETY: The kernel's list, valid for 'a (Admission::new).
    let before = unsafe { list.read() };
    let verdict = sch.child_enqueue(skb, admission);
    // SAFETY: As above, since the verdict lives as long as 'a.
    let first = unsafe { list.read() };
    if !ptr::eq(first, before) {
        // SAFETY: The kernel's list from `first` on. Nothing takes packets from it as long as the
        // qdisc lock is held, which `sch` proves.
        unsafe { show(first, before, dropped) };
    }
    verdict
}

/// Calls `dropped` with the packets of a list, up to `end`.
///
/// # Safety
///
/// `first` is null or the beginning of a null-terminated list of valid packets, which nothing else
/// changes during the call.
#[cold]
unsafe fn show(first: *mut sk_buff, end: *mut sk_buff, mut dropped: impl FnMut(&Skb)) {
    let mut at = first;
    for _ in 0..SHOWN {
        let Some(packet) = NonNull::new(at).filter(|_| !ptr::eq(at, end)) else {
            return;
        };
        // `Skb` only for its accessors: the list stays the owner, and gets no new link, because a
        // shared reference cannot take or change the packet.
        // SAFETY: A valid packet, as the caller promises.
        let skb = ManuallyDrop::new(unsafe { Skb::from_raw(packet) });
        dropped(&skb);
        // SAFETY: As above: the link of a valid packet, at the offset that layout.rs checked.
        at = unsafe {
            addr_of!(*at)
                .wrapping_byte_add(WEFT_SKB_NEXT as usize)
                .cast::<*mut sk_buff>()
                .read()
        };
    }
}
