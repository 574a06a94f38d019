// SPDX-License-Identifier: GPL-2.0-only

//! A queueing discipline as a trait; the adapter between it and the kernel's callbacks.
//!
//! ```text
//!            parse → prepare → new           parse → prepare → apply → drop what is left
//!   RTNL     ───────────────────────         ────────────────[ lock ]──────────────────
//!   add ───▶ init                    change ─▶
//!
//!   qdisc lock:  enqueue, dequeue, peek, reset;  config and stats (copied out for dumps)
//! ```
//!
//! Memory is reserved in [`Qdisc::prepare`] and returned by [`Qdisc::apply`], both outside of the
//! lock: nothing is allocated or freed under it.

use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    pin::Pin,
    ptr::{addr_of, addr_of_mut, NonNull},
};

use kernel::{
    error::{from_result, to_result},
    prelude::*,
};

use super::{
    bindings::{
        self, gnet_dump, gnet_stats_copy_app, netlink_ext_ack, nlattr, qdisc_tree_reduce_backlog,
        qdisc_walker, register_qdisc, sk_buff, tcmsg, unregister_qdisc, weft_class_stats,
        weft_class_step, weft_class_walk, weft_qdisc_dequeued, weft_qdisc_lock, weft_qdisc_mtu,
        weft_qdisc_peek_dequeued, weft_qdisc_tx_queue_len, weft_qdisc_unlock, weft_queue_stats,
        NET_XMIT_DROP, NET_XMIT_SUCCESS, TCQ_F_CAN_BYPASS,
    },
    child::Child,
    layout,
    netlink::{dump_options, Dump, ExtAck, Nest},
    skb::{Dropped, Purge, Skb, ToFree},
};
use crate::common::nla::{NoRoom, Refusal};

/// A queueing discipline.
///
/// All methods with `self` run under the qdisc lock: they must not sleep, allocate, panic, or loop
/// without a bound.
#[vtable]
pub trait Qdisc: Sized + Send + 'static {
    /// The kind, as in `tc qdisc add … KIND`; at most 15 bytes. The module's alias is
    /// `net-sch-KIND`.
    const KIND: &'static str;

    /// Whether a packet may pass by an empty queue straight to an idle device.
    const CAN_BYPASS: bool;

    /// Everything the options say.
    type Config: Copy;

    /// What a configuration needs and cannot be had under the lock: memory.
    type Prepared;

    /// The statistics as they are dumped (`TCA_STATS_APP`).
    type Stats: AsRef<[u8]>;

    /// The statistics of a queue that is shown as a class; `[u8; 0]` where there are none.
    type QueueStats: AsRef<[u8]>;

    /// Reads the options of an add (`current` is `None`) or of a change.
    ///
    /// # Errors
    ///
    /// Whatever is refused, with the sentence for the user.
    fn parse(current: Option<Self::Config>, payload: &[u8]) -> Result<Self::Config, Refusal>;

    /// Reserves what `config` needs, in place of `current` for a change; may sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn prepare(current: Option<&Self::Config>, config: &Self::Config) -> Result<Self::Prepared>;

    /// A new, empty qdisc.
    fn new(
        config: Self::Config,
        prepared: Self::Prepared,
        setup: &Setup,
    ) -> impl PinInit<Self, Error>;

    /// Puts a new configuration in force; returns what is no longer needed, to be freed outside
    /// of the lock.
    fn apply(
        self: Pin<&mut Self>,
        sch: &mut Sch,
        config: Self::Config,
        prepared: Self::Prepared,
        purge: &mut Purge,
    ) -> Self::Prepared;

    /// The configuration in force.
    fn config(&self) -> Self::Config;

    /// Writes all options of a configuration.
    ///
    /// # Errors
    ///
    /// Where the message has no more room.
    fn dump(config: &Self::Config, dump: &mut Dump) -> Result<(), NoRoom>;

    /// The statistics now.
    fn stats(self: Pin<&mut Self>, sch: &mut Sch) -> Self::Stats;

    /// A packet arrives.
    fn enqueue(self: Pin<&mut Self>, sch: &mut Sch, skb: Skb, to_free: &mut ToFree<'_>) -> Verdict;

    /// The device, or the parent, asks for a packet.
    fn dequeue(self: Pin<&mut Self>, sch: &mut Sch) -> Option<Skb>;

    /// The packet that dequeue would return now. Where a qdisc cannot tell without dequeuing,
    /// leave it out: the packet is then dequeued and kept for the dequeue to come.
    fn peek(&self) -> Option<&Skb> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// Back to empty. The counters of packets and bytes inside are the adapter's.
    fn reset(self: Pin<&mut Self>, purge: &mut Purge);

    /// How many queues there are that are shown as classes (`tc class show`), if the qdisc has such.
    /// It has no child then.
    fn queues(&self) -> u32 {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// One of them; `None` for one that is of no interest now.
    fn queue(&self, _queue: u32) -> Option<QueueView<Self::QueueStats>> {
        build_error!(VTABLE_DEFAULT_ERROR)
    }

    /// The child, if the qdisc has one.
    fn child(self: Pin<&mut Self>) -> &mut Child {
        build_error!(VTABLE_DEFAULT_ERROR)
    }
}

use kernel::error::VTABLE_DEFAULT_ERROR;

/// A queue that is shown as a class.
pub struct QueueView<S> {
    /// The minor number of the class, 1 to 65,535.
    pub minor: u16,
    /// Packets inside.
    pub packets: u32,
    /// Bytes inside.
    pub bytes: u32,
    /// Packets sent.
    pub sent: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// What else there is to tell of it (`TCA_STATS_APP`).
    pub stats: S,
}

/// What became of a packet at enqueue.
pub struct Verdict(c_int);

impl Verdict {
    /// The packet is in the qdisc; [`Sch::queued`] has been told.
    pub const QUEUED: Self = Self(NET_XMIT_SUCCESS as c_int);

    /// What the child said.
    pub(super) fn from_child(code: c_int) -> Self {
        Self(code)
    }
}

impl From<Dropped> for Verdict {
    /// The arriving packet was dropped.
    fn from(_: Dropped) -> Self {
        Self(NET_XMIT_DROP as c_int)
    }
}

/// A qdisc whose lock is held: its counters.
///
/// # Invariants
///
/// Valid, and the qdisc lock is held as long as this value lives.
pub struct Sch(NonNull<bindings::Qdisc>);

impl Sch {
    pub(super) fn as_ptr(&mut self) -> *mut bindings::Qdisc {
        self.0.as_ptr()
    }

    /// Packets inside, the child's included.
    #[inline]
    pub fn len(&self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { (*self.0.as_ptr()).q.qlen }
    }

    /// Accounts for one packet more, of `bytes`.
    #[inline]
    pub fn queued(&mut self, bytes: u32) {
        let sch = self.0.as_ptr();
        // SAFETY: Valid and locked (invariant). Volatile, as dumps read without the lock
        // (WRITE_ONCE in C). Counters wrap as in C.
        unsafe {
            let qlen = addr_of_mut!((*sch).q.qlen);
            qlen.write_volatile((*qlen).wrapping_add(1));
            let backlog = addr_of_mut!((*sch).qstats.backlog);
            backlog.write_volatile((*backlog).wrapping_add(bytes));
        }
    }

    /// Accounts for a packet that leaves by dequeue: one less inside, one more sent.
    #[inline]
    pub fn dequeued(&mut self, skb: &Skb) {
        // SAFETY: Both valid, the lock is held (invariants).
        unsafe { weft_qdisc_dequeued(self.0.as_ptr(), skb.as_ptr()) }
    }

    /// Accounts for packets dropped from inside, after they were accepted, also in all parents.
    ///
    /// To be called after the arriving packet was accounted for, if there is one: a qdisc that
    /// seems empty here tells its parents to stop asking it.
    pub fn evicted(&mut self, packets: u32, bytes: u32) {
        if packets == 0 {
            return;
        }
        let sch = self.0.as_ptr();
        // SAFETY: As in `queued`. The parents are of the same tree, hence under the same lock.
        unsafe {
            let qlen = addr_of_mut!((*sch).q.qlen);
            qlen.write_volatile((*qlen).wrapping_sub(packets));
            let backlog = addr_of_mut!((*sch).qstats.backlog);
            backlog.write_volatile((*backlog).wrapping_sub(bytes));
            qdisc_tree_reduce_backlog(sch, packets as c_int, bytes as c_int);
        }
    }

    /// Counts a packet that this qdisc, or its child on arrival, dropped.
    pub(super) fn count_drop(&mut self) {
        let sch = self.0.as_ptr();
        // SAFETY: As in `queued`.
        unsafe {
            let drops = addr_of_mut!((*sch).qstats.drops);
            drops.write_volatile((*drops).wrapping_add(1));
        }
    }

    /// Counts a time when the qdisc had packets but the rate or a timer held them back.
    #[inline]
    pub fn overlimit(&mut self) {
        let sch = self.0.as_ptr();
        // SAFETY: As in `queued`.
        unsafe {
            let overlimits = addr_of_mut!((*sch).qstats.overlimits);
            overlimits.write_volatile((*overlimits).wrapping_add(1));
        }
    }
}

/// A qdisc in its init callback: under RTNL and not yet in use.
///
/// # Invariants
///
/// Valid, and `extack` null or valid, as long as this value lives.
pub struct Setup {
    sch: NonNull<bindings::Qdisc>,
    extack: *mut netlink_ext_ack,
}

impl Setup {
    pub(super) fn as_ptr(&self) -> *mut bindings::Qdisc {
        self.sch.as_ptr()
    }

    pub(super) fn extack(&self) -> *mut netlink_ext_ack {
        self.extack
    }

    /// The longest packet of the device, in bytes, its layer 2 header included.
    pub fn mtu(&self) -> u32 {
        // SAFETY: Valid (invariant).
        unsafe { weft_qdisc_mtu(self.sch.as_ptr()) }
    }

    /// Gives the user a sentence to read with the error that is returned.
    pub fn explain(&self, sentence: &'static core::ffi::CStr) {
        // SAFETY: Null or valid (invariant).
        unsafe { ExtAck::from_raw(self.extack) }.explain(sentence);
    }

    /// The device's transmit queue length, in packets.
    pub fn tx_queue_len(&self) -> u32 {
        // SAFETY: Valid (invariant).
        unsafe { weft_qdisc_tx_queue_len(self.sch.as_ptr()) }
    }
}

/// A module's state inside `struct Qdisc`. The kernel zeroes it before init, and calls destroy
/// even where init failed.
struct Private<T> {
    ready: bool,
    data: MaybeUninit<T>,
}

/// The kernel's callbacks for a [`Qdisc`].
///
/// # Safety
///
/// All `unsafe extern` functions in here are to be called by the kernel only, through the tables
/// below: their pointers are valid, of a qdisc of this kind, and the locks of the module's head
/// are held.
struct Adapter<T: Qdisc>(PhantomData<T>);

impl<T: Qdisc> Adapter<T> {
    /// `privdata` is aligned to a cache line, and its size is an `int`.
    const PRIVATE_FITS: () =
        assert!(align_of::<Private<T>>() <= 64 && size_of::<Private<T>>() <= 1 << 20);

    const CLASS_OPS: &'static bindings::Qdisc_class_ops = &bindings::Qdisc_class_ops {
        graft: Some(Self::graft),
        leaf: Some(Self::leaf),
        qlen_notify: Some(Self::qlen_notify),
        find: Some(Self::find),
        walk: Some(Self::walk),
        dump: Some(Self::dump_class),
        dump_stats: Some(Self::dump_class_stats),
        // SAFETY: All other fields are optional pointers or integers, for which zero is valid.
        ..unsafe { MaybeUninit::zeroed().assume_init() }
    };

    /// Queues as classes: there is nothing but to look at them.
    const QUEUE_OPS: &'static bindings::Qdisc_class_ops = &bindings::Qdisc_class_ops {
        leaf: Some(Self::no_leaf),
        find: Some(Self::no_class),
        walk: Some(Self::walk_queues),
        dump: Some(Self::dump_queue),
        dump_stats: Some(Self::dump_queue_stats),
        // SAFETY: All other fields are optional pointers or integers, for which zero is valid.
        ..unsafe { MaybeUninit::zeroed().assume_init() }
    };

    fn ops(module: &'static ThisModule) -> bindings::Qdisc_ops {
        let () = Self::PRIVATE_FITS;
        bindings::Qdisc_ops {
            cl_ops: if T::HAS_CHILD {
                Self::CLASS_OPS
            } else if T::HAS_QUEUES {
                Self::QUEUE_OPS
            } else {
                core::ptr::null()
            },
            id: id(T::KIND),
            priv_size: size_of::<Private<T>>() as c_int,
            enqueue: Some(Self::enqueue),
            dequeue: Some(Self::dequeue),
            peek: Some(if T::HAS_PEEK {
                Self::peek
            } else {
                weft_qdisc_peek_dequeued
            }),
            init: Some(Self::init),
            reset: Some(Self::reset),
            destroy: Some(Self::destroy),
            change: Some(Self::change),
            dump: Some(Self::dump),
            dump_stats: Some(Self::dump_stats),
            owner: module.as_ptr().cast(),
            // SAFETY: All other fields are optional pointers or integers, for which zero is valid.
            ..unsafe { MaybeUninit::zeroed().assume_init() }
        }
    }

    /// Where in `struct Qdisc` the state is.
    ///
    /// # Safety
    ///
    /// `sch` is valid.
    #[inline]
    unsafe fn private(sch: *mut bindings::Qdisc) -> *mut Private<T> {
        // SAFETY: `sch` is valid, and its private area follows it.
        unsafe { addr_of_mut!((*sch).privdata).cast() }
    }

    /// The module's state.
    ///
    /// # Safety
    ///
    /// `sch` is valid and of this kind, its init succeeded, and the caller has exclusive access
    /// (qdisc lock, or init/destroy) for the lifetime it chooses.
    #[inline]
    unsafe fn state<'a>(sch: *mut bindings::Qdisc) -> Pin<&'a mut T> {
        // SAFETY: The private area holds a `Private<T>` (priv_size) that init filled; it never
        // moves.
        unsafe {
            let private = Self::private(sch);
            Pin::new_unchecked((*private).data.assume_init_mut())
        }
    }

    /// Runs `f` with the qdisc lock held.
    ///
    /// # Safety
    ///
    /// `sch` is valid and of this kind, its init succeeded, RTNL is held and the lock is not.
    unsafe fn locked<R>(
        sch: *mut bindings::Qdisc,
        f: impl FnOnce(Pin<&mut T>, &mut Sch) -> R,
    ) -> R {
        // SAFETY: As the caller promises; the lock gives exclusive access to the state.
        unsafe {
            weft_qdisc_lock(sch);
            // INVARIANT: Locked until after the last use.
            let result = f(Self::state(sch), &mut Sch(NonNull::new_unchecked(sch)));
            weft_qdisc_unlock(sch);
            result
        }
    }

    unsafe extern "C" fn init(
        sch: *mut bindings::Qdisc,
        opt: *mut nlattr,
        extack: *mut netlink_ext_ack,
    ) -> c_int {
        from_result(|| {
            // SAFETY: The kernel's arguments are valid for the call.
            let (nest, mut ack) = unsafe { (Nest::from_raw(opt), ExtAck::from_raw(extack)) };
            let config = T::parse(None, nest.payload()).map_err(|r| ack.refuse(&r, &nest))?;
            let prepared = T::prepare(None, &config)?;
            let setup = Setup {
                sch: NonNull::new(sch).ok_or(EINVAL)?,
                extack: ack.as_ptr(),
            };
            let init = T::new(config, prepared, &setup);
            // SAFETY: The private area has room for `Private<T>` and is zeroed, so `ready` reads
            // as false. Nobody else knows the qdisc, and the state stays where it is until
            // destroy: the reference is to memory that outlives it.
            unsafe {
                let private = Self::private(sch);
                let slot: &'static mut MaybeUninit<T> = &mut (*private).data;
                slot.write_pin_init(init)?;
                addr_of_mut!((*private).ready).write(true);
                if T::CAN_BYPASS {
                    (*sch).flags |= TCQ_F_CAN_BYPASS;
                }
            }
            Ok(0)
        })
    }

    unsafe extern "C" fn destroy(sch: *mut bindings::Qdisc) {
        // SAFETY: The last callback: exclusive access. `ready` tells whether init succeeded.
        unsafe {
            let private = Self::private(sch);
            if addr_of!((*private).ready).read() {
                addr_of_mut!((*private).ready).write(false);
                core::ptr::drop_in_place(addr_of_mut!((*private).data).cast::<T>());
            }
        }
    }

    unsafe extern "C" fn change(
        sch: *mut bindings::Qdisc,
        opt: *mut nlattr,
        extack: *mut netlink_ext_ack,
    ) -> c_int {
        from_result(|| {
            // SAFETY: The kernel's arguments are valid for the call.
            let (nest, mut ack) = unsafe { (Nest::from_raw(opt), ExtAck::from_raw(extack)) };
            // SAFETY: change is called under RTNL, so nobody else changes the configuration
            // between here and `apply`.
            let current = unsafe { Self::locked(sch, |state, _| state.config()) };
            let config =
                T::parse(Some(current), nest.payload()).map_err(|r| ack.refuse(&r, &nest))?;
            let prepared = T::prepare(Some(&current), &config)?;
            // SAFETY: As above.
            let retired = unsafe {
                Self::locked(sch, |state, sch| {
                    state.apply(sch, config, prepared, &mut Purge::new())
                })
            };
            drop(retired);
            Ok(0)
        })
    }

    unsafe extern "C" fn enqueue(
        skb: *mut sk_buff,
        sch: *mut bindings::Qdisc,
        to_free: *mut *mut sk_buff,
    ) -> c_int {
        // SAFETY: Under the qdisc lock; the packet passes to us, on no list.
        unsafe {
            let verdict = Self::state(sch).enqueue(
                &mut Sch(NonNull::new_unchecked(sch)),
                Skb::from_raw(NonNull::new_unchecked(skb)),
                &mut ToFree::from_raw(to_free),
            );
            verdict.0
        }
    }

    unsafe extern "C" fn dequeue(sch: *mut bindings::Qdisc) -> *mut sk_buff {
        // SAFETY: Under the qdisc lock.
        let skb = unsafe { Self::state(sch).dequeue(&mut Sch(NonNull::new_unchecked(sch))) };
        skb.map_or(core::ptr::null_mut(), Skb::into_raw)
    }

    unsafe extern "C" fn peek(sch: *mut bindings::Qdisc) -> *mut sk_buff {
        // SAFETY: Under the qdisc lock.
        let state = unsafe { Self::state(sch) };
        state.peek().map_or(core::ptr::null_mut(), Skb::as_ptr)
    }

    unsafe extern "C" fn reset(sch: *mut bindings::Qdisc) {
        // SAFETY: Under RTNL, and under the qdisc lock or after the qdisc left the tree. A default
        // qdisc (`net.core.default_qdisc`) whose init failed is reset, too.
        unsafe {
            if (*Self::private(sch)).ready {
                Self::state(sch).reset(&mut Purge::new());
            }
        }
    }

    unsafe extern "C" fn dump(sch: *mut bindings::Qdisc, skb: *mut sk_buff) -> c_int {
        // SAFETY: Under RTNL, without the qdisc lock.
        let config = unsafe { Self::locked(sch, |state, _| state.config()) };
        // SAFETY: `skb` is the dump's message.
        unsafe { dump_options(skb, |dump| T::dump(&config, dump)) }
    }

    unsafe extern "C" fn dump_stats(sch: *mut bindings::Qdisc, d: *mut gnet_dump) -> c_int {
        // SAFETY: Under RTNL, without the qdisc lock.
        let stats = unsafe { Self::locked(sch, |state, sch| state.stats(sch)) };
        let bytes = stats.as_ref();
        // SAFETY: `d` is the dump's; gnet_stats_copy_app() copies and does not write to its
        // source, `void *` though it takes.
        unsafe { gnet_stats_copy_app(d, bytes.as_ptr().cast_mut().cast(), bytes.len() as c_int) }
    }

    unsafe extern "C" fn graft(
        sch: *mut bindings::Qdisc,
        _class: c_ulong,
        new: *mut bindings::Qdisc,
        old: *mut *mut bindings::Qdisc,
        _extack: *mut netlink_ext_ack,
    ) -> c_int {
        // SAFETY: Under RTNL, without the qdisc lock; `new` comes with its reference, and the old
        // child's passes to the caller through `old`.
        unsafe { *old = Self::locked(sch, |state, _| state.child().replace(new)) };
        0
    }

    unsafe extern "C" fn leaf(sch: *mut bindings::Qdisc, _class: c_ulong) -> *mut bindings::Qdisc {
        // SAFETY: Under RTNL, without the qdisc lock.
        unsafe { Self::locked(sch, |state, _| state.child().as_ptr()) }
    }

    /// The child tells that it became empty without being asked for a packet. Its backlog is
    /// looked at whenever it is asked, so there is nothing to put right.
    unsafe extern "C" fn qlen_notify(_sch: *mut bindings::Qdisc, _class: c_ulong) {}

    unsafe extern "C" fn find(_sch: *mut bindings::Qdisc, _classid: u32) -> c_ulong {
        1
    }

    unsafe extern "C" fn walk(sch: *mut bindings::Qdisc, walker: *mut qdisc_walker) {
        // SAFETY: The kernel's arguments.
        unsafe { weft_class_walk(sch, walker) }
    }

    unsafe extern "C" fn dump_class(
        sch: *mut bindings::Qdisc,
        _class: c_ulong,
        _skb: *mut sk_buff,
        tcm: *mut tcmsg,
    ) -> c_int {
        // SAFETY: Under RTNL, without the qdisc lock; `tcm` is the message's head.
        unsafe {
            (*tcm).tcm_handle |= 1;
            (*tcm).tcm_info = Self::locked(sch, |state, _| (*state.child().as_ptr()).handle);
        }
        0
    }

    unsafe extern "C" fn dump_class_stats(
        sch: *mut bindings::Qdisc,
        _class: c_ulong,
        d: *mut gnet_dump,
    ) -> c_int {
        // SAFETY: Under RTNL, which keeps the child alive.
        unsafe {
            let child = Self::locked(sch, |state, _| state.child().as_ptr());
            weft_class_stats(d, child)
        }
    }
}

/// Queues as classes. A class is the queue's number and 1: 0 is none.
impl<T: Qdisc> Adapter<T> {
    unsafe extern "C" fn no_leaf(
        _sch: *mut bindings::Qdisc,
        _class: c_ulong,
    ) -> *mut bindings::Qdisc {
        core::ptr::null_mut()
    }

    unsafe extern "C" fn no_class(_sch: *mut bindings::Qdisc, _classid: u32) -> c_ulong {
        0
    }

    /// One queue.
    ///
    /// # Safety
    ///
    /// As [`locked`](Self::locked).
    unsafe fn view(sch: *mut bindings::Qdisc, class: c_ulong) -> Option<QueueView<T::QueueStats>> {
        let queue = class.checked_sub(1)? as u32;
        // SAFETY: As the caller promises.
        unsafe { Self::locked(sch, |state, _| state.queue(queue)) }
    }

    unsafe extern "C" fn walk_queues(sch: *mut bindings::Qdisc, walker: *mut qdisc_walker) {
        // SAFETY: Under RTNL, without the qdisc lock.
        let queues = unsafe { Self::locked(sch, |state, _| state.queues()) };
        for class in 1..=queues as c_ulong {
            // SAFETY: As above; the kernel's arguments.
            unsafe {
                if (*walker).stop != 0 {
                    return;
                }
                if Self::view(sch, class).is_none() {
                    (*walker).count = (*walker).count.wrapping_add(1);
                } else if !weft_class_step(sch, class, walker) {
                    return;
                }
            }
        }
    }

    unsafe extern "C" fn dump_queue(
        sch: *mut bindings::Qdisc,
        class: c_ulong,
        _skb: *mut sk_buff,
        tcm: *mut tcmsg,
    ) -> c_int {
        // SAFETY: Under RTNL, without the qdisc lock; `tcm` is the message's head. What was of
        // interest when the walk met it is shown, if only as its number.
        unsafe {
            let minor = Self::view(sch, class).map_or(0, |queue| queue.minor);
            (*tcm).tcm_handle |= u32::from(minor);
        }
        0
    }

    unsafe extern "C" fn dump_queue_stats(
        sch: *mut bindings::Qdisc,
        class: c_ulong,
        d: *mut gnet_dump,
    ) -> c_int {
        // SAFETY: Under RTNL, without the qdisc lock; `d` is the dump's, and what is copied to it is
        // not written to.
        unsafe {
            let Some(queue) = Self::view(sch, class) else {
                return 0;
            };
            let stats = queue.stats.as_ref();
            let QueueView {
                sent_bytes,
                sent,
                bytes,
                packets,
                ..
            } = queue;
            if weft_queue_stats(d, sent_bytes, sent, bytes, packets) < 0 {
                return -1;
            }
            gnet_stats_copy_app(d, stats.as_ptr().cast_mut().cast(), stats.len() as c_int)
        }
    }
}

/// A kind as the kernel wants it: 16 bytes, zero-terminated.
pub(super) const fn id(kind: &str) -> [c_char; 16] {
    let mut id = [0; 16];
    let mut rest = kind.as_bytes();
    let mut i = 0;
    while let [first, tail @ ..] = rest {
        // The last byte stays zero. A longer kind would not be found by its name.
        if i < 15 {
            id[i] = *first as c_char;
        }
        i += 1;
        rest = tail;
    }
    id
}

/// A registered kind of qdisc; dropping it takes the kind away. The kernel keeps the module
/// loaded as long as a qdisc of the kind exists.
///
/// # Invariants
///
/// `ops` is registered and stays where it is.
pub struct Registration<T: Qdisc> {
    ops: KBox<bindings::Qdisc_ops>,
    _kind: PhantomData<T>,
}

// SAFETY: Taking the kind away is possible from any thread.
unsafe impl<T: Qdisc> Send for Registration<T> {}
// SAFETY: There is nothing to do with a shared registration.
unsafe impl<T: Qdisc> Sync for Registration<T> {}

impl<T: Qdisc> Registration<T> {
    /// Makes the kind known.
    ///
    /// # Errors
    ///
    /// `EEXIST` where there is such a kind, `EINVAL` where Rust and C disagree on a layout (see
    /// the kernel log), `ENOMEM`.
    pub fn register(module: &'static ThisModule) -> Result<Self> {
        layout::check()?;
        let mut ops = KBox::new(Adapter::<T>::ops(module), GFP_KERNEL)?;
        // SAFETY: The table is complete and, in its box, stays where it is until drop.
        to_result(unsafe { register_qdisc(&raw mut *ops) })?;
        // INVARIANT: Registered just now.
        Ok(Self {
            ops,
            _kind: PhantomData,
        })
    }
}

impl<T: Qdisc> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: Registered (invariant).
        unsafe { unregister_qdisc(&raw mut *self.ops) }
    }
}
