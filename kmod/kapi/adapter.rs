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
        // SAFETY: `sch` is valid.
        let private = unsafe { Private::<T>::of(sch) };
        // SAFETY: The private area holds a `Private<T>` (priv_size).
        let state = unsafe { addr_of_mut!((*private).state) };
        // SAFETY: init has filled it. Access to it is exclusive for 'a, as the caller promises; the
        // other parts of the private area are borrowed separately.
        unsafe { &mut *state.cast::<T>() }
    }

    /// Whether init succeeded and destroy has not begun.
    ///
    /// # Safety
    ///
    /// `sch` is valid and of this kind, in its reset or destroy callback.
    unsafe fn is_ready(sch: *mut bindings::Qdisc) -> bool {
        // SAFETY: `sch` is valid.
        let private = unsafe { Private::<T>::of(sch) };
        // SAFETY: The kernel has zeroed the private area, so the flag is a bool. RTNL keeps init
        // and destroy, which write it, from running now.
        unsafe { addr_of!((*private).ready).read() }
    }

    /// A qdisc in its reset or destroy callback.
    ///
    /// # Safety
    ///
    /// As for `state`.
    unsafe fn rtnl<'a>(sch: *mut bindings::Qdisc) -> Rtnl<'a, T> {
        // SAFETY: `sch` is valid.
        let private = unsafe { Private::<T>::of(sch) };
        // SAFETY: init wrote it, and nothing has since.
        let namespace = unsafe { addr_of!((*private).namespace).read() };
        // SAFETY: A valid pointer is not null.
        let sch = unsafe { NonNull::new_unchecked(sch) };
        // SAFETY: Valid, with its device's namespace; access is exclusive for 'a, as the caller
        // promises.
        unsafe { Rtnl::new(sch, namespace) }
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
        // SAFETY: `sch` is valid. RTNL comes before the lock, and this thread does not hold the
        // lock.
        unsafe { weft_qdisc_lock(sch) };
        // SAFETY: The lock gives exclusive access to the state until it is released below, after
        // the last use.
        let state = unsafe { Self::state(sch) };
        // SAFETY: Valid, ready and locked until after the last use, and the only such value: the
        // caller has none, and no callback runs inside `f` but a child's.
        let mut context = unsafe { Sch::new(sch) };
        let result = f(state, &mut context);
        // SAFETY: This thread took the lock above.
        unsafe { weft_qdisc_unlock(sch) };
        result
    }

    unsafe extern "C" fn init(
        sch: *mut bindings::Qdisc,
        opt: *mut nlattr,
        extack: *mut netlink_ext_ack,
    ) -> c_int {
        from_result(|| {
            // SAFETY: The kernel's argument, null or valid for the call.
            let nest = unsafe { Nest::from_raw(opt) };
            // SAFETY: The kernel's argument, null or valid for the call.
            let mut ack = unsafe { ExtAck::from_raw(extack) };
            let config = T::Config::requested(None, nest.payload());
            let config = config.map_err(|r| ack.refuse(&r, &nest))?;
            let prepared = T::prepare(None, &config)?;
            let child = T::CHILD
                // SAFETY: In the init callback of a valid qdisc, under RTNL; `extack` is null or
                // valid.
                .then(|| unsafe { Child::new(sch, ack.as_ptr()) })
                .transpose()?;
            let group = T::Shared::GROUP
                // SAFETY: As above. It is dropped here or in the destroy callback, before the
                // device goes.
                .map(|group| unsafe { Group::join(sch, group) })
                .transpose()?;
            let tap = T::Shared::TAP
                .filter(|_| T::sees_arrivals(&config))
                // SAFETY: As for the group. The state that the handler looks up exists:
                // `Registration` registers it before the qdisc.
                .map(|handler| unsafe { Tap::new(sch, handler) })
                .transpose()?;
            // SAFETY: Valid, and of a registered kind; the shared state is registered before it.
            // The namespace of the device lives as long as the device's qdiscs do.
            let namespace = unsafe { T::Shared::find(sch) };
            // SAFETY: A valid pointer is not null.
            let valid = unsafe { NonNull::new_unchecked(sch) };
            // SAFETY: Valid, with its device's namespace. In its init callback nothing else knows
            // the qdisc, so access is exclusive.
            let rtnl = unsafe { Rtnl::new(valid, namespace) };
            // SAFETY: Null or valid for the call, which the value does not outlive.
            let mut setup = unsafe { Setup::new(rtnl, ack.as_ptr()) };
            let state = T::new(config, prepared, &mut setup)?;
            // SAFETY: `sch` is valid.
            let private = unsafe { Private::<T>::of(sch) };
            if T::WATCHDOG {
                // SAFETY: The private area has room for `Private<T>` (priv_size).
                let watchdog = unsafe { addr_of_mut!((*private).watchdog) };
                // SAFETY: The place belongs to this valid qdisc, and does not move until the qdisc
                // is freed, after destroy, which stops the timer.
                unsafe { Watchdog::init(watchdog.cast(), sch) };
            }
            // SAFETY: The private area has room for `Private<T>` (priv_size), and nothing else
            // knows it yet. Its bytes are zero, so no value is overwritten that needs a drop.
            unsafe { addr_of_mut!((*private).child).write(child) };
            // SAFETY: As above.
            unsafe { addr_of_mut!((*private).group).write(group) };
            // SAFETY: As above.
            unsafe { addr_of_mut!((*private).tap).write(tap) };
            // SAFETY: As above.
            unsafe { addr_of_mut!((*private).namespace).write(namespace) };
            // SAFETY: As above.
            unsafe { addr_of_mut!((*private).state).cast::<T>().write(state) };
            // SAFETY: As above. All of it is initialised now.
            unsafe { addr_of_mut!((*private).ready).write(true) };
            if T::CAN_BYPASS {
                // SAFETY: Valid, in its init callback: nothing else knows the flags yet.
                unsafe { (*sch).flags |= TCQ_F_CAN_BYPASS };
            }
            if T::TIMELESS {
                // SAFETY: As above.
                unsafe { (*sch).flags |= FLAG_TIMELESS };
            }
            Ok(0)
        })
    }

    unsafe extern "C" fn destroy(sch: *mut bindings::Qdisc) {
        // SAFETY: The kernel's argument, in its destroy callback.
        if !unsafe { Self::is_ready(sch) } {
            return;
        }
        // SAFETY: The kernel's argument.
        let private = unsafe { Private::<T>::of(sch) };
        // SAFETY: The last callback, so access is exclusive from here on, for the whole call.
        unsafe { addr_of_mut!((*private).ready).write(false) };
        // SAFETY: init succeeded. The timer is stopped, and nothing sets it again, before anything
        // is freed.
        unsafe { Self::cancel(sch) };
        // SAFETY: Exclusive, written by init, and dropped once: it is not ready any more.
        unsafe { core::ptr::drop_in_place(addr_of_mut!((*private).tap)) };
        if T::HAS_DESTROY {
            // SAFETY: Exclusive, and init succeeded.
            let state = unsafe { Self::state(sch) };
            // SAFETY: As above.
            let mut rtnl = unsafe { Self::rtnl(sch) };
            state.destroy(&mut rtnl);
        }
        // SAFETY: As for the tap; no reference to it is left.
        unsafe { core::ptr::drop_in_place(addr_of_mut!((*private).state).cast::<T>()) };
        // SAFETY: As for the tap.
        unsafe { core::ptr::drop_in_place(addr_of_mut!((*private).group)) };
        // SAFETY: As for the tap.
        unsafe { core::ptr::drop_in_place(addr_of_mut!((*private).child)) };
    }

    /// Stops the timer, if there is one.
    ///
    /// # Safety
    ///
    /// `sch` is valid, and of this kind; its init succeeded.
    unsafe fn cancel(sch: *mut bindings::Qdisc) {
        if T::WATCHDOG {
            // SAFETY: `sch` is valid.
            let private = unsafe { Private::<T>::of(sch) };
            // SAFETY: The private area holds a `Private<T>` (priv_size).
            let watchdog = unsafe { addr_of!((*private).watchdog) };
            // SAFETY: init has initialised it, and it lives as long as the qdisc. Nothing here
            // holds a lock that the timer's handler takes.
            unsafe { Watchdog::cancel(watchdog.cast()) }
        }
    }

    unsafe extern "C" fn change(
        sch: *mut bindings::Qdisc,
        opt: *mut nlattr,
        extack: *mut netlink_ext_ack,
    ) -> c_int {
        from_result(|| {
            // SAFETY: The kernel's argument, null or valid for the call.
            let nest = unsafe { Nest::from_raw(opt) };
            // SAFETY: The kernel's argument, null or valid for the call.
            let mut ack = unsafe { ExtAck::from_raw(extack) };
            // SAFETY: Under RTNL, without the qdisc lock. So nothing else changes the configuration
            // between here and `apply`.
            let current = unsafe { Self::locked(sch, |state, _| state.config()) };
            let config = T::Config::requested(Some(current), nest.payload());
            let config = config.map_err(|r| ack.refuse(&r, &nest))?;
            let prepared = T::prepare(Some(&current), &config)?;
            let apply = |state: &mut T, sch: &mut Sch<'_, T>| {
                // SAFETY: In a change callback, under RTNL, for longer than this closure runs.
                let mut purge = unsafe { Purge::new() };
                let retired = state.apply(sch, config, prepared, &mut purge);
                if purge.packets != 0 {
                    // SAFETY: Valid and locked as long as `sch` lives.
                    unsafe { admission::dropped(sch.as_ptr(), purge.packets) };
                    // SAFETY: As above.
                    unsafe { admission::evicted(sch.as_ptr(), purge.packets, purge.bytes) };
                }
                retired
            };
            // SAFETY: Under RTNL, without the qdisc lock.
            let retired = unsafe { Self::locked(sch, apply) };
            drop(retired);
            Ok(0)
        })
    }

    unsafe extern "C" fn enqueue(
        skb: *mut sk_buff,
        sch: *mut bindings::Qdisc,
        to_free: *mut *mut sk_buff,
    ) -> c_int {
        // The lock does not keep its holder from entering again: netem enqueues each duplicate at
        // the tree's root, which is this qdisc or has it below, while this qdisc hands netem the
        // packet. Neither the state nor a `Sch` may be borrowed twice, so that packet is dropped
        // before either is.
        // SAFETY: The kernel's argument.
        let private = unsafe { Private::<T>::of(sch) };
        // SAFETY: The private area holds a `Private<T>` (priv_size).
        let taking = unsafe { addr_of_mut!((*private).taking) };
        if T::CHILD {
            // SAFETY: Under the qdisc lock, and no reference to the flag exists.
            if unsafe { taking.read() } {
                // SAFETY: The kernel's arguments; the packet is this callback's.
                unsafe { bindings::weft_qdisc_drop(skb, sch, to_free) };
                return bindings::NET_XMIT_DROP as c_int;
            }
            // SAFETY: As above.
            unsafe { taking.write(true) };
        }
        // SAFETY: The kernel's argument, a valid pointer.
        let skb = unsafe { NonNull::new_unchecked(skb) };
        // SAFETY: Valid, on no list, and this callback's.
        let skb = unsafe { Skb::from_raw(skb) };
        // SAFETY: The kernel's argument, valid for the call.
        let admission = unsafe { Admission::new(to_free, &skb) };
        // SAFETY: Under the qdisc lock for the whole call, and not entered again (`taking`).
        let state = unsafe { Self::state(sch) };
        // SAFETY: As above: the only such value.
        let mut context = unsafe { Sch::new(sch) };
        let verdict = state.enqueue(&mut context, skb, admission);
        if T::CHILD {
            // SAFETY: As above.
            unsafe { taking.write(false) };
        }
        verdict.code()
    }

    unsafe extern "C" fn dequeue(sch: *mut bindings::Qdisc) -> *mut sk_buff {
        // The device asks until it gets nothing, so each run ends with one call too many.
        // SAFETY: The kernel's argument, under the qdisc lock.
        if unsafe { (*sch).q.qlen } == 0 {
            return null_mut();
        }
        // SAFETY: Under the qdisc lock for the whole call: the only such value.
        let mut context = unsafe { Sch::new(sch) };
        // SAFETY: Under the qdisc lock for the whole call.
        let state = unsafe { Self::state(sch) };
        match state.dequeue(&mut context) {
            Next::Packet(skb) => {
                // SAFETY: Valid, and under the qdisc lock.
                unsafe { admission::dequeued(sch, &skb, T::CHILD) };
                // SAFETY: `sch` is valid.
                unsafe { skb.leave(sch) };
                skb.into_raw()
            }
            Next::Wait { until, slack } => {
                context.set_timer(until, slack);
                context.overlimit();
                null_mut()
            }
            Next::Nothing => null_mut(),
        }
    }

    unsafe extern "C" fn peek(sch: *mut bindings::Qdisc) -> *mut sk_buff {
        // SAFETY: The kernel's argument, under the qdisc lock.
        if unsafe { (*sch).q.qlen } == 0 {
            return null_mut();
        }
        // SAFETY: Under the qdisc lock for the whole call.
        let state = unsafe { Self::state(sch) };
        let Some(skb) = state.peek() else {
            return null_mut();
        };
        // SAFETY: `sch` is valid.
        unsafe { skb.leave(sch) };
        skb.as_ptr()
    }

    /// The kernel also resets a default qdisc (`net.core.default_qdisc`) whose init failed.
    unsafe extern "C" fn reset(sch: *mut bindings::Qdisc) {
        // SAFETY: The kernel's argument, in its reset callback.
        if !unsafe { Self::is_ready(sch) } {
            return;
        }
        // SAFETY: init succeeded.
        unsafe { Self::cancel(sch) };
        // SAFETY: The kernel's argument.
        let private = unsafe { Private::<T>::of(sch) };
        // SAFETY: Under RTNL, and under the qdisc lock or after the qdisc left the tree: access is
        // exclusive for the whole call.
        if let Some(child) = unsafe { &mut *addr_of_mut!((*private).child) } {
            // SAFETY: In the parent's reset callback.
            unsafe { child.reset() };
        }
        // SAFETY: Exclusive, as for the child.
        let state = unsafe { Self::state(sch) };
        // SAFETY: As above.
        let mut rtnl = unsafe { Self::rtnl(sch) };
        // SAFETY: In a reset callback, under RTNL, for the whole call.
        let mut purge = unsafe { Purge::new() };
        state.reset(&mut rtnl, &mut purge);
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
        let child = |state: &mut T, sch: &mut Sch<'_, T>| {
            state.catch_up(sch);
            // SAFETY: Valid as long as `sch` lives.
            let private = unsafe { Private::<T>::of(sch.as_ptr()) };
            // SAFETY: init wrote it, and the qdisc lock is held as long as `sch` lives.
            let child = unsafe { &*addr_of!((*private).child) };
            child.as_ref().map_or(null_mut(), Child::as_ptr)
        };
        // SAFETY: As the caller promises.
        unsafe { Self::locked(sch, child) }
    }

    unsafe extern "C" fn graft(
        sch: *mut bindings::Qdisc,
        _class: c_ulong,
        new: *mut bindings::Qdisc,
        old: *mut *mut bindings::Qdisc,
        _extack: *mut netlink_ext_ack,
    ) -> c_int {
        let replace = |state: &mut T, sch: &mut Sch<'_, T>| {
            state.catch_up(sch);
            // SAFETY: Valid as long as `sch` lives.
            let private = unsafe { Private::<T>::of(sch.as_ptr()) };
            // SAFETY: init wrote it, and the qdisc lock is held as long as `sch` lives: access is
            // exclusive.
            let old = match unsafe { &mut *addr_of_mut!((*private).child) } {
                // SAFETY: `new` comes with its reference. RTNL and the qdisc lock are held.
                Some(child) => unsafe { child.replace(new) },
                None => new,
            };
            state.child_replaced(sch);
            old
        };
        // SAFETY: Under RTNL, without the qdisc lock.
        let replaced = unsafe { Self::locked(sch, replace) };
        // SAFETY: The kernel's argument, by which it gets the old child with its reference.
        unsafe { old.write(replaced) };
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
        // SAFETY: The kernel's argument, valid for the call.
        if unsafe { (*walker).stop } == 0 {
            // SAFETY: The kernel's arguments, under RTNL.
            unsafe { weft_class_step(sch, 1, walker) };
        }
    }

    unsafe extern "C" fn dump_class(
        sch: *mut bindings::Qdisc,
        _class: c_ulong,
        _skb: *mut sk_buff,
        tcm: *mut tcmsg,
    ) -> c_int {
        // SAFETY: Under RTNL, without the qdisc lock.
        let child = unsafe { Self::child(sch) };
        // SAFETY: RTNL, which keeps the child alive, is held.
        let handle = unsafe { (*child).handle };
        // SAFETY: The head of the kernel's message, which only this thread writes.
        let tcm = unsafe { &mut *tcm };
        tcm.tcm_handle |= 1;
        tcm.tcm_info = handle;
        0
    }

    unsafe extern "C" fn dump_class_stats(
        sch: *mut bindings::Qdisc,
        _class: c_ulong,
        d: *mut gnet_dump,
    ) -> c_int {
        // SAFETY: Under RTNL, without the qdisc lock.
        let child = unsafe { Self::child(sch) };
        // SAFETY: RTNL, which keeps the child alive, is held for the whole call.
        let basic = unsafe { &raw mut (*child).bstats };
        // SAFETY: As above.
        let per_cpu = unsafe { (*child).cpu_bstats };
        // SAFETY: The kernel's dump; both sources are the child's. They change meanwhile, which the
        // function allows for (`running`).
        if unsafe { gnet_stats_copy_basic(d, per_cpu, basic, true) } < 0 {
            return -1;
        }
        // SAFETY: The kernel's dump; the child is alive.
        if unsafe { weft_qdisc_copy_queue_stats(d, child) } < 0 {
            return -1;
        }
        0
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
            // SAFETY: The kernel's argument, valid for the call. Nothing else writes it between
            // here and the next call into C.
            let at = unsafe { &mut *walker };
            if at.stop != 0 {
                return;
            }
            // SAFETY: Under RTNL, without the qdisc lock.
            if unsafe { Self::view(sch, class) }.is_none() {
                at.count = at.count.wrapping_add(1);
                continue;
            }
            // SAFETY: The kernel's arguments, under RTNL.
            if !unsafe { weft_class_step(sch, class, walker) } {
                return;
            }
        }
    }

    unsafe extern "C" fn dump_queue(
        sch: *mut bindings::Qdisc,
        class: c_ulong,
        _skb: *mut sk_buff,
        tcm: *mut tcmsg,
    ) -> c_int {
        // A queue that the walk found worth showing is shown, if only as its number.
        // SAFETY: Under RTNL, without the qdisc lock.
        let minor = unsafe { Self::view(sch, class) }.map_or(0, |queue| queue.minor);
        // SAFETY: The head of the kernel's message, which only this thread writes.
        unsafe { (*tcm).tcm_handle |= u32::from(minor) };
        0
    }

    unsafe extern "C" fn dump_queue_stats(
        sch: *mut bindings::Qdisc,
        class: c_ulong,
        d: *mut gnet_dump,
    ) -> c_int {
        // SAFETY: Under RTNL, without the qdisc lock.
        let Some(queue) = (unsafe { Self::view(sch, class) }) else {
            return 0;
        };
        let mut basic = MaybeUninit::uninit();
        // SAFETY: There is room for the counters.
        unsafe { weft_basic_stats(basic.as_mut_ptr(), queue.sent_bytes, queue.sent) };
        let inside = gnet_stats_queue {
            qlen: queue.packets,
            backlog: queue.bytes,
            drops: 0,
            requeues: 0,
            overlimits: 0,
        };
        // SAFETY: The kernel's dump. The source is this function's, and initialised above.
        if unsafe { gnet_stats_copy_basic(d, null_mut(), basic.as_mut_ptr(), false) } < 0 {
            return -1;
        }
        // SAFETY: The kernel's dump. The source is this function's, and is not written to.
        if unsafe { gnet_stats_copy_queue(d, null_mut(), &inside, queue.packets) } < 0 {
            return -1;
        }
        // SAFETY: The kernel's dump.
        unsafe { copy_app(d, queue.stats.as_ref()) }
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
