// SPDX-License-Identifier: GPL-2.0-only

//! Owned socket buffers: one owner at a time, freed exactly once.
//!
//! ```text
//!  kernel ── enqueue ──▶ Skb ──▶ a queue of the module ──▶ Skb ── dequeue ──▶ kernel
//!                         │
//!                         ├─ Admission        under the qdisc lock: freed after it is released
//!                         ├─ Purge            in reset and change: freed when RTNL is released
//!                         └─ Drop             last resort: freed on the spot
//! ```
//!
//! # The device
//!
//! A packet refers to its device without a reference: the kernel empties the qdiscs of a device
//! that is removed. A module can keep a packet where the kernel does not find it (in a static). So
//! the device is not read while Rust has the packet, and is set to the qdisc's own when the packet
//! leaves ([`Skb::leave`]).

use core::{
    marker::PhantomData,
    ptr::{addr_of, NonNull},
    sync::atomic::{AtomicU32, Ordering},
};

use kernel::prelude::*;

use super::{
    bindings::{
        rtnl_kfree_skbs, sk_buff, skb_copy_bits, weft_skb_dissected_hash, weft_skb_due,
        weft_skb_free, weft_skb_hash_bit, weft_skb_make_writable, weft_skb_sent, weft_skb_set_due,
        weft_skb_set_pacing_shift, weft_skb_set_txtime, Qdisc, WEFT_CB_DATA, WEFT_CB_DATA_SIZE,
        WEFT_CB_PKT_LEN, WEFT_CB_PKT_SEGS, WEFT_NETDEV_QUEUE_DEV, WEFT_SKB_DATA, WEFT_SKB_DATA_LEN,
        WEFT_SKB_DESTRUCTOR, WEFT_SKB_DEV, WEFT_SKB_FLAGS, WEFT_SKB_HASH, WEFT_SKB_HEAD,
        WEFT_SKB_IIF, WEFT_SKB_LEN, WEFT_SKB_NETWORK_HEADER, WEFT_SKB_NEXT, WEFT_SKB_PRIORITY,
        WEFT_SKB_PROTOCOL,
    },
    clock,
    scope::Sch,
};
use crate::common::header;

/// A packet that belongs to the holder of this value.
///
/// # Invariants
///
/// Points to a valid `struct sk_buff` on no list, whose single reference this value owns.
#[repr(transparent)]
pub struct Skb(NonNull<sk_buff>);

// SAFETY: A socket buffer is bound to no thread or CPU.
unsafe impl Send for Skb {}

/// The flag bits of a packet that give the origin of its hash: see [`learn_hash_bits`].
static HASH_OF_FLOW: AtomicU32 = AtomicU32::new(0);
static HASH_OF_SOFTWARE: AtomicU32 = AtomicU32::new(0);

/// Locates the bit-fields that the packet path reads: a call into C for each packet would cost more
/// than the rest.
///
/// # Errors
///
/// `EINVAL` if they are not in the word that is read.
pub(super) fn learn_hash_bits() -> Result {
    // SAFETY: C functions without preconditions.
    let (of_flow, of_software) = unsafe { (weft_skb_hash_bit(false), weft_skb_hash_bit(true)) };
    if of_flow == 0 || of_software == 0 {
        pr_err!("a packet's hash bits are not where they are looked for\n");
        return Err(EINVAL);
    }
    HASH_OF_FLOW.store(of_flow, Ordering::Relaxed);
    HASH_OF_SOFTWARE.store(of_software, Ordering::Relaxed);
    Ok(())
}

/// The properties of an arriving packet that a qdisc reads.
#[derive(Clone, Copy)]
pub struct Packet {
    /// `skb->priority`; weft's qdiscs use it as the packet's rank.
    pub priority: u32,
    /// Bytes at layer 2, including the headers of all segments.
    pub len: u32,
    /// Frames that the packet becomes on the wire: 1, or more for GSO.
    pub segments: u32,
}

impl Skb {
    /// Takes over a packet.
    ///
    /// # Safety
    ///
    /// `skb` is valid, on no list, and its reference passes to the caller.
    pub(super) unsafe fn from_raw(skb: NonNull<sk_buff>) -> Self {
        // INVARIANT: As the caller promises.
        Self(skb)
    }

    /// Sets the packet's device to that of a qdisc, by which it leaves or which is used to query
    /// it.
    ///
    /// # Safety
    ///
    /// `sch` is valid.
    #[inline]
    pub(super) unsafe fn leave(&self, sch: *mut Qdisc) {
        // SAFETY: As the caller promises: a qdisc has a queue, which has a device. The packet is
        // valid (invariant), and nothing else reads its device while it is ours.
        unsafe {
            let queue = addr_of!((*sch).dev_queue).read();
            let device = queue
                .wrapping_byte_add(WEFT_NETDEV_QUEUE_DEV as usize)
                .cast::<*mut c_void>()
                .read();
            field::<*mut c_void>(self.0, WEFT_SKB_DEV).write(device);
        }
    }

    /// Hands the packet on; the receiver must free it.
    #[inline]
    pub(super) fn into_raw(self) -> *mut sk_buff {
        let skb = self.0.as_ptr();
        core::mem::forget(self);
        skb
    }

    /// The packet's address, still owned by `self`.
    pub(super) fn as_ptr(&self) -> *mut sk_buff {
        self.0.as_ptr()
    }

    /// Priority, length and segments.
    #[inline]
    pub fn packet(&self) -> Packet {
        // SAFETY: The packet is valid (invariant), and the fields have the offsets that layout.rs
        // checked. Nothing else writes them while the packet is ours.
        unsafe {
            Packet {
                priority: field::<u32>(self.0, WEFT_SKB_PRIORITY).read(),
                len: field::<u32>(self.0, WEFT_CB_PKT_LEN).read(),
                segments: field::<u16>(self.0, WEFT_CB_PKT_SEGS).read().into(),
            }
        }
    }

    /// Bytes at layer 2 that the packet takes of a link: the larger of the kernel's record and its
    /// length now.
    ///
    /// The kernel records a packet's length before a program at the device's egress sees the
    /// packet, and a tag added by such a program makes the packet longer. A packet that has yet to
    /// be segmented counts with the recorded length.
    #[inline]
    pub fn wire_len(&self) -> u32 {
        // SAFETY: As in `packet`.
        let bytes = unsafe { field::<u32>(self.0, WEFT_SKB_LEN).read() };
        self.packet().len.max(bytes)
    }

    /// The flow hash that the packet's socket or its device gave it; `None` if neither did, even if
    /// another hash was computed since.
    #[inline]
    pub fn hash(&self) -> Option<u32> {
        let of_flow = HASH_OF_FLOW.load(Ordering::Relaxed);
        let either = of_flow | HASH_OF_SOFTWARE.load(Ordering::Relaxed);
        // SAFETY: As in `packet`. The word begins with bit-fields, so its alignment is unknown.
        unsafe {
            let flags = field::<u32>(self.0, WEFT_SKB_FLAGS).read_unaligned();
            (flags & either == of_flow).then(|| field::<u32>(self.0, WEFT_SKB_HASH).read())
        }
    }

    /// The flow hash, by the flow dissector if the packet has none. The packet then keeps that
    /// hash.
    pub fn dissected_hash<T>(&mut self, sch: &mut Sch<'_, T>) -> u32 {
        // SAFETY: The packet is valid (invariant), and `&mut` makes this the only user. The
        // dissector asks the device's namespace for programs; a qdisc's device is alive.
        unsafe {
            self.leave(sch.as_ptr());
            weft_skb_dissected_hash(self.0.as_ptr())
        }
    }

    /// The index of the device by which the packet entered this namespace; 0 if it originated here.
    #[inline]
    pub fn ingress(&self) -> u32 {
        // SAFETY: As in `packet`. An index is never negative.
        unsafe { field::<c_int>(self.0, WEFT_SKB_IIF).read() as u32 }
    }

    /// The EtherType of the packet's payload.
    #[inline]
    pub fn protocol(&self) -> u16 {
        // SAFETY: As in `packet`.
        u16::from_be(unsafe { field::<u16>(self.0, WEFT_SKB_PROTOCOL).read() })
    }

    /// The packet from its network header on, as far as it is in one piece. For a complete packet
    /// this includes at least its headers, as its sender or forwarder has read them there. Empty if
    /// the header's offset is outside of the packet.
    #[inline]
    pub fn network_header(&self) -> &[u8] {
        // SAFETY: As in `packet`. `data` to `data + len - data_len` is part of one allocation that
        // the packet owns or shares. The packet's creator wrote it, and nobody writes to it while
        // others can see it. Bytes before it, which may never have been written, and bytes after it
        // are not read.
        unsafe {
            let head: *const u8 = field::<*const u8>(self.0, WEFT_SKB_HEAD).read();
            let data: *const u8 = field::<*const u8>(self.0, WEFT_SKB_DATA).read();
            let len = field::<u32>(self.0, WEFT_SKB_LEN).read();
            let linear = len.wrapping_sub(field::<u32>(self.0, WEFT_SKB_DATA_LEN).read());
            let header = usize::from(field::<u16>(self.0, WEFT_SKB_NETWORK_HEADER).read());
            let room = (data as usize).wrapping_sub(head as usize);
            match header::linear_from(room, header, linear as usize) {
                Some(bytes) => {
                    core::slice::from_raw_parts(data.wrapping_add(bytes.start), bytes.len())
                }
                None => &[],
            }
        }
    }

    /// Copies the packet from its network header on into `to`, as far as there is room, even if it
    /// is not in one piece; returns the copied bytes.
    pub fn copy_network_header<'a>(&self, to: &'a mut [u8]) -> &'a [u8] {
        // SAFETY: As in `packet`.
        let (room, header, len) = unsafe {
            let head: *const u8 = field::<*const u8>(self.0, WEFT_SKB_HEAD).read();
            let data: *const u8 = field::<*const u8>(self.0, WEFT_SKB_DATA).read();
            let header = usize::from(field::<u16>(self.0, WEFT_SKB_NETWORK_HEADER).read());
            let len = field::<u32>(self.0, WEFT_SKB_LEN).read() as usize;
            ((data as usize).wrapping_sub(head as usize), header, len)
        };
        let bytes = header.checked_sub(room).and_then(|offset| {
            let count = len.checked_sub(offset)?.min(to.len());
            let (at, to) = (c_int::try_from(offset).ok()?, to.get_mut(..count)?);
            let size = c_int::try_from(count).ok()?;
            // SAFETY: The packet is valid (invariant), `to` has `size` bytes, and the packet as
            // many from `at` on. skb_copy_bits() fails if it cannot read them.
            let result =
                unsafe { skb_copy_bits(self.0.as_ptr(), at, to.as_mut_ptr().cast(), size) };
            (result == 0).then_some(count)
        });
        to.get(..bytes.unwrap_or(0)).unwrap_or_default()
    }

    /// Makes `len` bytes of the network header exclusive to this packet, so that they can be
    /// written.
    ///
    /// # Errors
    ///
    /// The packet, if there is no memory for a copy or the packet is shorter.
    #[inline]
    pub fn with_header(self, len: u32) -> Result<WithHeader, Self> {
        // SAFETY: As in `packet`.
        let bytes = unsafe {
            let head: *const u8 = field::<*const u8>(self.0, WEFT_SKB_HEAD).read();
            let data: *const u8 = field::<*const u8>(self.0, WEFT_SKB_DATA).read();
            let header = usize::from(field::<u16>(self.0, WEFT_SKB_NETWORK_HEADER).read());
            let room = (data as usize).wrapping_sub(head as usize);
            let packet = field::<u32>(self.0, WEFT_SKB_LEN).read();
            header::within(room, header, len, packet)
        };
        let Some(bytes) = bytes else {
            return Err(self);
        };
        // SAFETY: The packet is valid (invariant), and owning it makes this the only user. It may
        // get other memory, but the header's distance from its first byte does not change.
        let header = unsafe {
            if !weft_skb_make_writable(self.0.as_ptr(), bytes.end) {
                return Err(self);
            }
            let data: *mut u8 = field::<*mut u8>(self.0, WEFT_SKB_DATA).read();
            data.wrapping_add(bytes.start as usize)
        };
        match NonNull::new(header) {
            // INVARIANT: `len` bytes from `header` on are in one piece and exclusive.
            Some(header) => Ok(WithHeader {
                skb: self,
                header,
                len,
            }),
            None => Err(self),
        }
    }

    /// Sets `skb->priority`.
    pub fn set_priority(&mut self, priority: u32) {
        // SAFETY: The packet is valid (invariant), and `&mut` makes this the only user. The field
        // has the offset that layout.rs checked.
        unsafe { field::<u32>(self.0, WEFT_SKB_PRIORITY).write(priority) }
    }

    /// Sets the packet's transmit time (`CLOCK_TAI`, as `SO_TXTIME` does) to `ns` from now.
    pub fn set_txtime(&mut self, ns: u64) {
        // SAFETY: The packet is valid (invariant) and `&mut` makes this the only user.
        unsafe { weft_skb_set_txtime(self.0.as_ptr(), clock::tai().wrapping_add(ns)) }
    }

    /// The time at which the packet was due to get here, in ns of `CLOCK_MONOTONIC`: the last
    /// [`Skb::set_due`], or the departure time from the host's TCP. Forwarding keeps it, delivery
    /// to a host clears it. `None` if it has none, or one of another clock.
    #[inline]
    pub fn due(&self) -> Option<u64> {
        // SAFETY: The packet is valid (invariant).
        let due = unsafe { weft_skb_due(self.0.as_ptr()) };
        (due != u64::MAX).then_some(due)
    }

    /// Sets the time at which the packet was due at its next stop, in ns of `CLOCK_MONOTONIC`.
    #[inline]
    pub fn set_due(&mut self, ns: u64) {
        // SAFETY: The packet is valid (invariant) and `&mut` makes this the only user.
        unsafe { weft_skb_set_due(self.0.as_ptr(), ns) }
    }

    /// Allows the packet's socket up to 2^-`shift` seconds of its pacing rate in queues (TCP small
    /// queues), if a socket accounts for the packet.
    #[inline]
    pub fn set_pacing_shift(&mut self, shift: u32) {
        // SAFETY: The packet is valid (invariant) and `&mut` makes this the only user. A socket
        // that accounts for it lives as long as the packet.
        unsafe {
            if has_owner(self.0) {
                weft_skb_set_pacing_shift(self.0.as_ptr(), shift);
            }
        }
    }

    /// The latest stamp; meaningless before [`Skb::set_stamp`] and after the packet left the qdisc
    /// that set it.
    #[inline]
    pub fn stamp(&self) -> u64 {
        // SAFETY: The packet is valid (invariant); STAMP_FITS ensures that the word is inside the
        // qdisc's part of `cb`; any bits make a u64.
        unsafe { field::<u64>(self.0, WEFT_CB_DATA).read() }
    }

    /// Stores 64 bits in the packet while this qdisc has it.
    #[inline]
    fn set_stamp(&mut self, stamp: u64) {
        // SAFETY: As above, and `&mut` makes this the only user.
        unsafe { field::<u64>(self.0, WEFT_CB_DATA).write(stamp) }
    }
}

/// A packet with a writable network header.
///
/// # Invariants
///
/// `header` points to `len` bytes that belong to `skb` alone.
pub struct WithHeader {
    skb: Skb,
    header: NonNull<u8>,
    len: u32,
}

impl WithHeader {
    /// The header.
    #[inline]
    pub fn header(&mut self) -> &mut [u8] {
        // SAFETY: Exclusive to the packet (invariant), and `&mut` makes this the only reference.
        unsafe { core::slice::from_raw_parts_mut(self.header.as_ptr(), self.len as usize) }
    }

    /// The packet.
    #[inline]
    pub fn into_skb(self) -> Skb {
        self.skb
    }
}

/// A stamp fits into the qdisc's part of `skb->cb`, and is aligned as the packet is.
const STAMP_FITS: () = assert!(
    WEFT_CB_DATA_SIZE as usize >= size_of::<u64>()
        && (WEFT_CB_DATA as usize).is_multiple_of(align_of::<u64>())
);

/// The field of a packet at an offset from `bindings.h`.
#[inline]
fn field<T>(skb: NonNull<sk_buff>, offset: c_uint) -> *mut T {
    let () = STAMP_FITS;
    skb.as_ptr().wrapping_byte_add(offset as usize).cast()
}

/// Whether a socket accounts for the packet.
///
/// # Safety
///
/// The packet is valid.
#[inline]
unsafe fn has_owner(skb: NonNull<sk_buff>) -> bool {
    // SAFETY: A function pointer, null for none, at the offset that layout.rs checked.
    unsafe {
        !field::<*const c_void>(skb, WEFT_SKB_DESTRUCTOR)
            .read()
            .is_null()
    }
}

impl Drop for Skb {
    /// The last resort, so that no path can leak a packet.
    fn drop(&mut self) {
        // SAFETY: The reference is ours (invariant) and gone after this.
        unsafe { weft_skb_free(self.0.as_ptr()) }
    }
}

/// Collects packets when a qdisc is reset or changed under RTNL; they are freed when RTNL is
/// released. In a change they count as dropped.
pub struct Purge<'a> {
    pub(super) packets: u32,
    pub(super) bytes: u32,
    // RTNL belongs to this thread.
    _rtnl: PhantomData<&'a mut *mut Qdisc>,
}

impl Purge<'_> {
    /// # Safety
    ///
    /// Make it only in a reset or change callback, that is under RTNL, which the value does not
    /// outlive.
    pub(super) unsafe fn new() -> Self {
        Self {
            packets: 0,
            bytes: 0,
            _rtnl: PhantomData,
        }
    }

    /// Takes one packet.
    pub fn free(&mut self, skb: Skb) {
        self.packets = self.packets.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(skb.packet().len);
        let skb = skb.into_raw();
        // SAFETY: The packet was ours and on no list, RTNL is held (new).
        unsafe {
            next(skb).write(core::ptr::null_mut());
            rtnl_kfree_skbs(skb, skb);
        }
    }

    /// Takes all packets of a list.
    pub fn empty(&mut self, list: &mut Fifo) {
        while let Some(skb) = list.pop() {
            self.free(skb);
        }
    }
}

/// The link field of a packet.
#[inline]
fn next(skb: *mut sk_buff) -> *mut *mut sk_buff {
    skb.wrapping_byte_add(WEFT_SKB_NEXT as usize).cast()
}

/// A first-in-first-out list of packets, each with a stamp of 64 bits (a time, in ns).
///
/// The list is linked through the packets themselves, so it needs no memory and has no limit.
///
/// # Invariants
///
/// `head` and `tail` are both null (empty) or the ends of a null-terminated list of `len` packets
/// that the list owns.
pub struct Fifo {
    head: *mut sk_buff,
    tail: *mut sk_buff,
    len: u32,
}

// SAFETY: The packets are owned and bound to no thread.
unsafe impl Send for Fifo {}

impl Fifo {
    /// An empty list.
    pub const fn new() -> Self {
        // INVARIANT: Empty.
        Self {
            head: core::ptr::null_mut(),
            tail: core::ptr::null_mut(),
            len: 0,
        }
    }

    /// Packets in the list.
    #[inline]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Appends a packet and its stamp.
    #[inline]
    pub fn push(&mut self, mut skb: Skb, stamp: u64) {
        skb.set_stamp(stamp);
        let skb = skb.into_raw();
        // SAFETY: The packet was ours and on no list; `tail` is null or ours (invariant).
        unsafe {
            next(skb).write(core::ptr::null_mut());
            if self.tail.is_null() {
                self.head = skb;
            } else {
                next(self.tail).write(skb);
            }
        }
        // INVARIANT: `skb` is the new end and null-terminated.
        self.tail = skb;
        self.len = self.len.wrapping_add(1);
    }

    /// The stamp of the first packet.
    #[inline]
    pub fn first_stamp(&self) -> Option<u64> {
        self.first(Skb::stamp)
    }

    /// Priority, length and segments of the first packet.
    #[inline]
    pub fn first_packet(&self) -> Option<Packet> {
        self.first(Skb::packet)
    }

    /// The first packet.
    #[inline]
    pub fn first_skb(&self) -> Option<&Skb> {
        if self.head.is_null() {
            return None;
        }
        // SAFETY: `Skb` is a non-null pointer, as `head` is here, to a packet that the list owns
        // (invariant); neither changes while `self` is borrowed. A shared reference cannot take the
        // packet from the list.
        Some(unsafe { &*(&raw const self.head).cast::<Skb>() })
    }

    #[inline]
    fn first<R>(&self, f: impl FnOnce(&Skb) -> R) -> Option<R> {
        let head = NonNull::new(self.head)?;
        // `Skb` only for its accessors: the list stays the owner.
        // SAFETY: The list owns a valid packet (invariant).
        let head = core::mem::ManuallyDrop::new(unsafe { Skb::from_raw(head) });
        Some(f(&head))
    }

    /// Whether a socket still accounts for the last packet.
    #[inline]
    pub fn last_has_owner(&self) -> bool {
        // SAFETY: `tail` is null or a valid packet that the list owns (invariant).
        NonNull::new(self.tail).is_some_and(|tail| unsafe { has_owner(tail) })
    }

    /// Ends the socket's accounting for the last packet, which may wake its sender. The packet
    /// keeps its socket if a layer below may need it.
    #[inline]
    pub fn end_accounting_of_last(&mut self) {
        if let Some(tail) = NonNull::new(self.tail) {
            // SAFETY: A valid packet that the list owns (invariant); `&mut` makes this the only
            // user.
            unsafe {
                if has_owner(tail) {
                    weft_skb_sent(tail.as_ptr());
                }
            }
        }
    }

    /// Takes the first packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Skb> {
        let head = NonNull::new(self.head)?;
        // SAFETY: The list owns a valid packet (invariant).
        self.head = unsafe { next(head.as_ptr()).read() };
        if self.head.is_null() {
            self.tail = core::ptr::null_mut();
        }
        self.len = self.len.wrapping_sub(1);
        // SAFETY: Unlinked above, so it is on no list; its reference was the list's.
        let skb = unsafe {
            next(head.as_ptr()).write(core::ptr::null_mut());
            Skb::from_raw(head)
        };
        Some(skb)
    }
}

impl Drop for Fifo {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
