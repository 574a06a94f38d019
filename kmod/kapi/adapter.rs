// SPDX-License-Identifier: GPL-2.0-only

//! The kernel's callbacks for a qdisc, and everything that a qdisc has besides its own state.

use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::{addr_of, addr_of_mut, null_mut, NonNull},
};

use kernel::{error::from_result, prelude::*};

use super::{
    admission::{self, Admission},
    bindings::{
        self, gnet_dump, gnet_stats_copy_app, gnet_stats_copy_basic, gnet_stats_copy_queue,
        gnet_stats_queue, netlink_ext_ack, nlattr, qdisc_walker, sk_buff, tcmsg, weft_basic_stats,
        weft_class_step, weft_qdisc_copy_queue_stats, weft_qdisc_lock, weft_qdisc_peek_dequeued,
        weft_qdisc_unlock, TCQ_F_CAN_BYPASS,
    },
    child::{Child, FLAG_TIMELESS},
    device::{Group, Tap},
    namespace::private::Sharing as _,
    netlink::{dump_options, ExtAck, Nest},
    private::Private,
    qdisc::{id, Qdisc, QueueView},
    scope::{Rtnl, Sch, Setup},
    skb::{Purge, Skb},
    watchdog::Watchdog,
};
use crate::common::discipline::Next;
use crate::common::options::Configuration as _;

/// The kernel's callbacks for a [`Qdisc`].
///
/// # Safety
///
/// Only the kernel may call the `unsafe extern` functions here, through the tables below. Their
/// pointers are then valid and of a qdisc of this kind, and the locks listed at the head of
/// `super::qdisc` are held.
pub(super) struct Adapter<T: Qdisc>(PhantomData<T>);

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

    /// Queues as classes: they can only be inspected.
    const QUEUE_OPS: &'static bindings::Qdisc_class_ops = &bindings::Qdisc_class_ops {
        leaf: Some(Self::no_leaf),
        find: Some(Self::no_class),
        walk: Some(Self::walk_queues),
        dump: Some(Self::dump_queue),
        dump_stats: Some(Self::dump_queue_stats),
        // SAFETY: All other fields are optional pointers or integers, for which zero is valid.
        ..unsafe { MaybeUninit::zeroed().assume_init() }
    };

    pub(super) fn ops(module: &'static ThisModule) -> bindings::Qdisc_ops {
        let () = Self::PRIVATE_FITS;
        bindings::Qdisc_ops {
            cl_ops: if T::CHILD {
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

    /// The module's state.
    ///
    /// # Safety
    ///
    /// `sch` is valid and of this kind, its init succeeded, and the caller has exclusive access
    /// (qdisc lock, or init/destroy) for the lifetime that it chooses.
    #[inline]
    unsafe fn state<'a>(sch: *mut bindings::Qdisc) -> &'a mut T {
        // SAFETY: The private area holds a `Private<T>` (priv_size), which init filled. Its other
        // parts are borrowed separately.
        unsafe { &mut *addr_of_mut!((*Private::<T>::of(sch)).state).cast::<T>() }
    }

    /// A qdisc in its reset or destroy callback.
    ///
    /// # Safety
    ///
    /// As for `state`.
    unsafe fn rtnl<'a>(sch: *mut bindings::Qdisc) -> Rtnl<'a, T> {
        // SAFETY: As the caller promises, valid and ready.
        unsafe {
            let namespace = addr_of!((*Private::<T>::of(sch)).namespace).read();
            Rtnl::new(NonNull::new_unchecked(sch), namespace)
        }
    }

    /// Runs `f` with the qdisc lock held.
    ///
    /// # Safety
    ///
    /// `sch` is valid and of this kind, its init succeeded, RTNL is held and the lock is not.
    unsafe fn locked<R>(
        sch: *mut bindings::Qdisc,
        f: impl FnOnce(&mut T, &mut Sch<'_, T>) -> R,
    ) -> R {
        // SAFETY: As the caller promises; the lock gives exclusive access to the state.
        unsafe {
            weft_qdisc_lock(sch);
            // INVARIANT: Locked until after the last use.
            let result = f(Self::state(sch), &mut Sch::new(sch));
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
            let config = T::Config::requested(None, nest.payload());
            let config = config.map_err(|r| ack.refuse(&r, &nest))?;
            let prepared = T::prepare(None, &config)?;
            // SAFETY: The qdisc is in its init callback, under RTNL, and nothing else knows it yet.
            // Child, group and tap are dropped here or in its destroy callback. The namespace of
            // its device lives as long as its devices do. Its state, which the tap's handler looks
            // up, exists: `Registration` registers that first.
            let (child, group, tap, namespace, mut setup) = unsafe {
                let child = T::CHILD
                    .then(|| Child::new(sch, ack.as_ptr()))
                    .transpose()?;
                let group = T::Shared::GROUP
                    .map(|group| Group::join(sch, group))
                    .transpose()?;
                let tap = T::Shared::TAP
                    .filter(|_| T::sees_arrivals(&config))
                    .map(|handler| Tap::new(sch, handler))
                    .transpose()?;
                let namespace = T::Shared::find(sch);
                let rtnl = Rtnl::new(NonNull::new_unchecked(sch), namespace);
                let setup = Setup::new(rtnl, ack.as_ptr());
                (child, group, tap, namespace, setup)
            };
            let state = T::new(config, prepared, &mut setup)?;
            // SAFETY: The private area has room for `Private<T>`, belongs to this qdisc alone, and
            // stays in place until the qdisc is freed, after destroy. The overwritten bytes are
            // zero.
            unsafe {
                let private = Private::<T>::of(sch);
                if T::WATCHDOG {
                    Watchdog::init(addr_of_mut!((*private).watchdog).cast(), sch);
                }
                addr_of_mut!((*private).child).write(child);
                addr_of_mut!((*private).group).write(group);
                addr_of_mut!((*private).tap).write(tap);
                addr_of_mut!((*private).namespace).write(namespace);
                addr_of_mut!((*private).state).cast::<T>().write(state);
                addr_of_mut!((*private).ready).write(true);
                if T::CAN_BYPASS {
                    (*sch).flags |= TCQ_F_CAN_BYPASS;
                }
                if T::TIMELESS {
                    (*sch).flags |= FLAG_TIMELESS;
                }
            }
            Ok(0)
        })
    }

    unsafe extern "C" fn destroy(sch: *mut bindings::Qdisc) {
        // SAFETY: The last callback: access is exclusive, and `ready` tells whether init succeeded.
        // The timer is stopped, and nothing sets it again, before anything is freed.
        unsafe {
            let private = Private::<T>::of(sch);
            if !addr_of!((*private).ready).read() {
                return;
            }
            addr_of_mut!((*private).ready).write(false);
            Self::cancel(sch);
            core::ptr::drop_in_place(addr_of_mut!((*private).tap));
            if T::HAS_DESTROY {
                Self::state(sch).destroy(&mut Self::rtnl(sch));
            }
            core::ptr::drop_in_place(addr_of_mut!((*private).state).cast::<T>());
            core::ptr::drop_in_place(addr_of_mut!((*private).group));
            core::ptr::drop_in_place(addr_of_mut!((*private).child));
        }
    }

    /// Stops the timer, if there is one.
    ///
    /// # Safety
    ///
    /// `sch` is valid, and of this kind; its init succeeded.
    unsafe fn cancel(sch: *mut bindings::Qdisc) {
        if T::WATCHDOG {
            // SAFETY: As the caller promises, it was initialised.
            unsafe { Watchdog::cancel(addr_of!((*Private::<T>::of(sch)).watchdog).cast()) }
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
            // SAFETY: change is called under RTNL, so nothing else changes the configuration
            // between here and `apply`.
            let current = unsafe { Self::locked(sch, |state, _| state.config()) };
            let config = T::Config::requested(Some(current), nest.payload());
            let config = config.map_err(|r| ack.refuse(&r, &nest))?;
            let prepared = T::prepare(Some(&current), &config)?;
            // SAFETY: As above.
            let retired = unsafe {
                Self::locked(sch, |state, sch| {
                    let mut purge = Purge::new();
                    let retired = state.apply(sch, config, prepared, &mut purge);
                    if purge.packets != 0 {
                        admission::dropped(sch.as_ptr(), purge.packets);
                        admission::evicted(sch.as_ptr(), purge.packets, purge.bytes);
                    }
                    retired
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
        // SAFETY: Under the qdisc lock; this callback owns the packet, which is on no list.
        unsafe {
            // The lock does not keep its holder from entering again: netem enqueues each duplicate
            // at the tree's root, which is this qdisc or has it below, while this qdisc hands netem
            // the packet. Neither the state nor a `Sch` may be borrowed twice, so that packet is
            // dropped before either is.
            let taking = addr_of_mut!((*Private::<T>::of(sch)).taking);
            if T::CHILD {
                if *taking {
                    bindings::weft_qdisc_drop(skb, sch, to_free);
                    return bindings::NET_XMIT_DROP as c_int;
                }
                *taking = true;
            }
            let skb = Skb::from_raw(NonNull::new_unchecked(skb));
            let admission = Admission::new(to_free, &skb);
            let verdict = Self::state(sch).enqueue(&mut Sch::new(sch), skb, admission);
            if T::CHILD {
                *taking = false;
            }
            verdict.code()
        }
    }

    unsafe extern "C" fn dequeue(sch: *mut bindings::Qdisc) -> *mut sk_buff {
        // SAFETY: Under the qdisc lock.
        unsafe {
            // The device asks until it gets nothing, so each run ends with one call too many.
            if (*sch).q.qlen == 0 {
                return null_mut();
            }
            let mut context = Sch::new(sch);
            match Self::state(sch).dequeue(&mut context) {
                Next::Packet(skb) => {
                    admission::dequeued(sch, &skb, T::CHILD);
                    skb.leave(sch);
                    return skb.into_raw();
                }
                Next::Wait { until, slack } => {
                    context.set_timer(until, slack);
                    context.overlimit();
                }
                Next::Nothing => {}
            }
        }
        null_mut()
    }

    unsafe extern "C" fn peek(sch: *mut bindings::Qdisc) -> *mut sk_buff {
        // SAFETY: Under the qdisc lock.
        unsafe {
            if (*sch).q.qlen == 0 {
                return null_mut();
            }
            let Some(skb) = Self::state(sch).peek() else {
                return null_mut();
            };
            skb.leave(sch);
            skb.as_ptr()
        }
    }

    unsafe extern "C" fn reset(sch: *mut bindings::Qdisc) {
        // SAFETY: Under RTNL, and under the qdisc lock or after the qdisc left the tree. The kernel
        // also resets a default qdisc (`net.core.default_qdisc`) whose init failed.
        unsafe {
            let private = Private::<T>::of(sch);
            if !addr_of!((*private).ready).read() {
                return;
            }
            Self::cancel(sch);
            if let Some(child) = &mut *addr_of_mut!((*private).child) {
                child.reset();
            }
            Self::state(sch).reset(&mut Self::rtnl(sch), &mut Purge::new());
        }
    }

    unsafe extern "C" fn dump(sch: *mut bindings::Qdisc, skb: *mut sk_buff) -> c_int {
        // SAFETY: Under RTNL, without the qdisc lock.
        let config = unsafe { Self::locked(sch, |state, _| state.config()) };
        // SAFETY: `skb` is the dump's message.
        unsafe { dump_options(skb, |dump| config.put(dump)) }
    }

    unsafe extern "C" fn dump_stats(sch: *mut bindings::Qdisc, d: *mut gnet_dump) -> c_int {
        // SAFETY: Under RTNL, without the qdisc lock.
        let stats = unsafe { Self::locked(sch, |state, sch| state.stats(sch)) };
        // SAFETY: `d` is the dump's.
        unsafe { copy_app(d, stats.as_ref()) }
    }

    /// The child, for as long as RTNL is held. The qdisc catches up first, so the child holds no
    /// packet that should have left it before.
    ///
    /// # Safety
    ///
    /// As for `locked`, of a qdisc with a child.
    unsafe fn child(sch: *mut bindings::Qdisc) -> *mut bindings::Qdisc {
        // SAFETY: As the caller promises.
        unsafe {
            Self::locked(sch, |state, sch| {
                state.catch_up(sch);
                let child = addr_of!((*Private::<T>::of(sch.as_ptr())).child);
                (*child).as_ref().map_or(null_mut(), Child::as_ptr)
            })
        }
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
        unsafe {
            *old = Self::locked(sch, |state, sch| {
                state.catch_up(sch);
                match &mut *addr_of_mut!((*Private::<T>::of(sch.as_ptr())).child) {
                    Some(child) => child.replace(new),
                    None => new,
                }
            });
        }
        0
    }

    /// The kernel calls this before it changes the child of a class.
    unsafe extern "C" fn leaf(sch: *mut bindings::Qdisc, _class: c_ulong) -> *mut bindings::Qdisc {
        // SAFETY: Under RTNL, without the qdisc lock.
        unsafe { Self::child(sch) }
    }

    /// The child reports that it became empty without a dequeue. Nothing needs correcting, as this
    /// qdisc reads the child's backlog whenever it needs it.
    unsafe extern "C" fn qlen_notify(_sch: *mut bindings::Qdisc, _class: c_ulong) {}

    unsafe extern "C" fn find(_sch: *mut bindings::Qdisc, _classid: u32) -> c_ulong {
        1
    }

    unsafe extern "C" fn walk(sch: *mut bindings::Qdisc, walker: *mut qdisc_walker) {
        // SAFETY: The kernel's arguments.
        unsafe {
            if (*walker).stop == 0 {
                weft_class_step(sch, 1, walker);
            }
        }
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
            (*tcm).tcm_info = (*Self::child(sch)).handle;
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
            let child = Self::child(sch);
            let basic = &raw mut (*child).bstats;
            if gnet_stats_copy_basic(d, (*child).cpu_bstats, basic, true) < 0
                || weft_qdisc_copy_queue_stats(d, child) < 0
            {
                return -1;
            }
            0
        }
    }
}

/// Queues as classes. A class is the queue's number plus 1, because 0 means no class.
impl<T: Qdisc> Adapter<T> {
    unsafe extern "C" fn no_leaf(
        _sch: *mut bindings::Qdisc,
        _class: c_ulong,
    ) -> *mut bindings::Qdisc {
        null_mut()
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
        unsafe { Self::locked(sch, |state, sch| state.queue(sch, queue)) }
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
        // SAFETY: Under RTNL, without the qdisc lock; `tcm` is the message's head. A queue that the
        // walk found worth showing is shown, if only as its number.
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
        // SAFETY: Under RTNL, without the qdisc lock; `d` is the dump's, and the sources copied to
        // it are not written to.
        unsafe {
            let Some(queue) = Self::view(sch, class) else {
                return 0;
            };
            let mut basic = MaybeUninit::uninit();
            weft_basic_stats(basic.as_mut_ptr(), queue.sent_bytes, queue.sent);
            let inside = gnet_stats_queue {
                qlen: queue.packets,
                backlog: queue.bytes,
                drops: 0,
                requeues: 0,
                overlimits: 0,
            };
            let none = null_mut();
            if gnet_stats_copy_basic(d, none, basic.as_mut_ptr(), false) < 0
                || gnet_stats_copy_queue(d, null_mut(), &inside, queue.packets) < 0
            {
                return -1;
            }
            copy_app(d, queue.stats.as_ref())
        }
    }
}

/// Copies statistics of the qdisc itself to a dump.
///
/// # Safety
///
/// `d` is a dump's.
unsafe fn copy_app(d: *mut gnet_dump, stats: &[u8]) -> c_int {
    let Ok(len) = c_int::try_from(stats.len()) else {
        return -1;
    };
    // SAFETY: As the caller promises. gnet_stats_copy_app() takes a `void *`, but copies from its
    // source and does not write to it.
    unsafe { gnet_stats_copy_app(d, stats.as_ptr().cast_mut().cast(), len) }
}
