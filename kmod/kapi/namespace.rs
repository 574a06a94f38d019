// SPDX-License-Identifier: GPL-2.0-only

//! What the qdiscs of one network namespace share, and frames of their own to their neighbours.
//!
//! ```text
//!   qdisc of device a ──┐ shared()                      ┌── work, queued when shared() left news
//!   qdisc of device b ──┼────────▶ [ lock | state ] ◀───┤   and by the timer (next_event)
//!   frames received  ───┘ receive()       │             │
//!                                         ▼ next_frame()▼
//!                                    dev_queue_xmit(): through the device's own qdiscs
//! ```
//!
//! A frame is never sent from where the news came up, which is under a qdisc lock: two devices
//! whose qdiscs send to each other's would deadlock. The work sends it, in softirq and without any
//! lock, as soon as the softirq or the lock section in which it was queued is over. Nobody else does:
//! a work runs on one CPU at a time, so frames leave in the order in which they were taken. The timer
//! only queues the work.
//!
//! # Lock order
//!
//! ```text
//! RTNL  →  qdisc lock  →  this lock (bottom halves off)
//! ```
//!
//! # Lifetime
//!
//! ```text
//!   register ─▶ init: one state per namespace, old and new
//!               a device's qdiscs come and go                    the adapter lends it to them
//!               a namespace ends: its devices, with them their qdiscs, then exit: its state
//!   module unloaded, when no qdisc is left ─▶ no more frames, exit in all namespaces
//! ```

use core::{
    cell::UnsafeCell,
    mem::{offset_of, MaybeUninit},
    ptr::{addr_of, addr_of_mut, null_mut},
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use kernel::{
    bindings::{cancel_work_sync, work_struct},
    error::{from_result, to_result},
    new_work,
    prelude::*,
    types::Opaque,
    workqueue::{self, RawWorkItem, Work, WorkItem, WorkItemPointer},
};

use super::{
    bindings::{
        self, dev_add_pack, dev_remove_pack, hrtimer, hrtimer_cancel, hrtimer_setup,
        hrtimer_start_range_ns, net, net_device, packet_type, pernet_operations,
        register_pernet_subsys, sk_buff, spinlock_t, unregister_pernet_subsys, weft_dev_index,
        weft_dev_net, weft_dev_schedule, weft_lock, weft_lock_bh_off, weft_lock_init,
        weft_net_generic, weft_qdisc_dev, weft_skb_consume, weft_unlock, weft_unlock_bh_off, Qdisc,
    },
    clock::now,
    frame, layout,
};
use crate::common::shared::{self, FRAME};

/// Frames that are sent in one go: bounds the time in one softirq.
const BUDGET: u32 = 64;

/// The state that the qdiscs of a namespace share.
///
/// All its methods with `self` run under the state's lock, with bottom halves off: they must not
/// sleep, allocate, panic, or loop without a bound.
pub trait Shared: shared::Shared<Error = Error> + Send + 'static {}

impl<T: shared::Shared<Error = Error> + Send + 'static> Shared for T {}

/// What a kind of qdisc shares: nothing, `()`, or something [`Shared`].
pub trait Sharing: private::Sharing {}

impl<T: private::Sharing> Sharing for T {}

pub(super) mod private {
    use super::*;

    /// For kapi only.
    pub trait Sharing {
        /// The group address that the devices receive.
        const GROUP: Option<[u8; 6]>;

        /// Where the state is for a qdisc; null for none.
        ///
        /// # Safety
        ///
        /// `sch` is a valid qdisc, of a kind that is registered, and what it shares too.
        unsafe fn find(sch: *mut Qdisc) -> *mut c_void;

        /// Makes a state for each namespace there is and will be.
        ///
        /// # Safety
        ///
        /// What is returned is dropped before the module goes.
        unsafe fn register() -> Result<Option<Registration>>;
    }

    impl Sharing for () {
        const GROUP: Option<[u8; 6]> = None;

        unsafe fn find(_sch: *mut Qdisc) -> *mut c_void {
            null_mut()
        }

        unsafe fn register() -> Result<Option<Registration>> {
            Ok(None)
        }
    }

    impl<T: Shared> Sharing for T {
        const GROUP: Option<[u8; 6]> = Some(<T as shared::Shared>::GROUP);

        unsafe fn find(sch: *mut Qdisc) -> *mut c_void {
            // SAFETY: As the caller promises: a qdisc has a device, that a namespace, and that a
            // state.
            unsafe { Namespace::<T>::of(weft_dev_net(weft_qdisc_dev(sch))).cast() }
        }

        unsafe fn register() -> Result<Option<Registration>> {
            Registration::new::<T>().map(Some)
        }
    }
}

/// The number under which the kernel keeps the state of each namespace (`net_generic()`). kapi is
/// compiled into every module: it is the module's.
static ID: AtomicU32 = AtomicU32::new(0);

/// Whether [`ID`] is some [`Registration`]'s: a module has one, so the number stands for one type.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// One namespace's state, in memory that the kernel allocates with the namespace, zeroed.
///
/// # Invariants
///
/// From init to exit all fields are initialised and `net` is valid. `live` and `state` are accessed
/// under `lock` only; `live` is false before init and during exit.
struct Namespace<T: Shared> {
    lock: Opaque<spinlock_t>,
    work: Work<Self>,
    // Not kernel::time::hrtimer's: that is told a time as an `Instant`, which only `Instant::now()`
    // makes, and it starts timers in a Box, an Arc or on the stack.
    timer: Opaque<hrtimer>,
    net: *mut net,
    live: UnsafeCell<bool>,
    state: UnsafeCell<MaybeUninit<T>>,
}

impl<T: Shared> Namespace<T> {
    /// Where a namespace's state is.
    ///
    /// # Safety
    ///
    /// `net` is valid and its init for this kind has run.
    unsafe fn of(net: *const net) -> *mut Self {
        // SAFETY: As the caller promises, there is an id and memory of `size_of::<Self>()`.
        unsafe { weft_net_generic(net, ID.load(Ordering::Relaxed)).cast() }
    }

    /// Runs `f` with the lock held.
    fn locked<R>(&self, f: impl FnOnce(&mut T, bool) -> R) -> R {
        // SAFETY: Initialised (invariant); the lock gives exclusive access to state and `live`.
        unsafe {
            weft_lock(self.lock.get());
            let result = f((*self.state.get()).assume_init_mut(), *self.live.get());
            weft_unlock(self.lock.get());
            result
        }
    }

    fn queue_work(&self) {
        // If it is queued already, that will do.
        workqueue::system_bh().enqueue(Pump(self));
    }

    /// Sends what there is to send, and sets the timer for what will be. Called by the work only.
    fn pump(&self) {
        let mut frame = [0; FRAME];
        self.locked(|state, _| state.tick(now()));
        for _ in 0..BUDGET {
            let Some((device, len)) = self.locked(|state, _| state.next_frame(now(), &mut frame))
            else {
                break;
            };
            let frame = frame.get(..len).unwrap_or_default();
            // SAFETY: `net` is valid (invariant). No lock is held.
            if !unsafe { frame::send(self.net, device, T::ETHERTYPE, &T::GROUP, frame) } {
                self.locked(|state, _| state.unsent(device, now()));
            }
        }
        let (again, next) = self.locked(|state, live| {
            (
                live && state.has_news(),
                state.next_event().filter(|_| live),
            )
        });
        if again {
            self.queue_work();
        }
        if let Some(at) = next {
            let at = i64::try_from(at).unwrap_or(i64::MAX);
            // SAFETY: Initialised (invariant); a timer may be started from anywhere.
            unsafe { hrtimer_start_range_ns(self.timer.get(), at, 0, MODE) }
        }
    }

    unsafe extern "C" fn init(net: *mut net) -> c_int {
        from_result(|| {
            let state = T::new()?;
            // SAFETY: The kernel's argument; the memory is ours and zeroed, and nobody else knows of
            // it yet. It stays where it is.
            unsafe {
                let this = Self::of(net);
                weft_lock_init(Opaque::cast_into(addr_of!((*this).lock)));
                let Ok(()) = new_work!("weft").__pinned_init(addr_of_mut!((*this).work));
                let timer = Opaque::cast_into(addr_of!((*this).timer));
                let clock = bindings::CLOCK_MONOTONIC as c_int;
                hrtimer_setup(timer, Some(Self::timer), clock, MODE);
                addr_of_mut!((*this).net).write(net);
                addr_of_mut!((*this).state).write(UnsafeCell::new(MaybeUninit::new(state)));
                addr_of_mut!((*this).live).write(UnsafeCell::new(true));
            }
            Ok(0)
        })
    }

    unsafe extern "C" fn exit(net: *mut net) {
        // SAFETY: The kernel's argument; init has run, and succeeded. The devices are gone, so
        // nobody holds a reference.
        unsafe {
            let this = &*Self::of(net);
            weft_lock(this.lock.get());
            *this.live.get() = false;
            weft_unlock(this.lock.get());
            // Whoever began before that may still queue the work or start the timer, once.
            cancel_work_sync(Work::raw_get(&raw const this.work));
            hrtimer_cancel(this.timer.get());
            cancel_work_sync(Work::raw_get(&raw const this.work));
            (*this.state.get()).assume_init_drop();
        }
    }

    unsafe extern "C" fn timer(timer: *mut hrtimer) -> bindings::hrtimer_restart {
        let this = timer.wrapping_byte_sub(offset_of!(Self, timer));
        // SAFETY: The timer is part of a namespace's state, whose exit waits for it.
        // What is due is sent by the work, lest two CPUs send in no order.
        unsafe { (*this.cast::<Self>()).queue_work() }
        bindings::hrtimer_restart_HRTIMER_NORESTART
    }

    unsafe extern "C" fn receive(
        skb: *mut sk_buff,
        device: *mut net_device,
        _kind: *mut packet_type,
        origin: *mut net_device,
    ) -> c_int {
        let mut payload = [0; FRAME];
        // SAFETY: The kernel's arguments, under RCU: packet and devices are valid, and the packet's
        // reference is ours. A device's namespace is alive as long as it is, and since its init has
        // run before frames were registered for, there is state.
        unsafe {
            let read = frame::read(skb, device, origin, &T::GROUP, &mut payload);
            weft_skb_consume(skb);
            let (from, len) = read.unzip();
            let (from, payload) = (
                from.unwrap_or_default(),
                len.and_then(|len| payload.get(..len)),
            );
            let this = &*Self::of(weft_dev_net(device));
            let index = weft_dev_index(device);
            if this.locked(|state, _| state.receive(index, from, payload, now())) {
                weft_dev_schedule(device);
            }
        }
        0
    }
}

/// Absolute times, and the callback in softirq.
const MODE: bindings::hrtimer_mode = bindings::hrtimer_mode_HRTIMER_MODE_ABS_SOFT;

/// A namespace whose work is queued, or runs: between init and exit, which waits for it.
struct Pump<T: Shared>(*const Namespace<T>);

// SAFETY: A namespace's state is accessed under its lock only.
unsafe impl<T: Shared> Send for Pump<T> {}

// SAFETY: The work is part of the namespace's state, in which it stays valid until exit, and that
// waits until it is not queued and has run.
unsafe impl<T: Shared> RawWorkItem<0> for Pump<T> {
    type EnqueueOutput = ();

    unsafe fn __enqueue<F>(self, queue_work_on: F)
    where
        F: FnOnce(*mut work_struct) -> bool,
    {
        // SAFETY: Valid and initialised, as whoever queues it is between init and exit.
        queue_work_on(unsafe { Work::raw_get(addr_of!((*self.0).work)) });
    }
}

// SAFETY: `__enqueue` queues the work of a namespace, which `Work::new` made with this `run`.
unsafe impl<T: Shared> WorkItemPointer<0> for Pump<T> {
    unsafe extern "C" fn run(work: *mut work_struct) {
        let this = work.wrapping_byte_sub(offset_of!(Namespace<T>, work));
        Namespace::run(Pump(this.cast::<Namespace<T>>()));
    }
}

impl<T: Shared> WorkItem<0> for Namespace<T> {
    type Pointer = Pump<T>;

    fn run(pump: Pump<T>) {
        // SAFETY: As the type says.
        unsafe { (*pump.0).pump() }
    }
}

/// Runs `f` on what is shared, with its lock held, and sees to the frames that are to be sent after it.
///
/// # Safety
///
/// `namespace` was found for `T`, and is used between init and exit: a device that changes its
/// namespace, or whose namespace ends, loses its qdiscs first. The lock is not held.
pub(super) unsafe fn with<T: Shared, R>(namespace: *mut c_void, f: impl FnOnce(&mut T) -> R) -> R {
    // SAFETY: As the caller promises.
    let namespace = unsafe { &*namespace.cast::<Namespace<T>>() };
    let (result, news) = namespace.locked(|state, _| {
        let result = f(state);
        (result, state.has_news())
    });
    if news {
        namespace.queue_work();
    }
    result
}

/// The same for whoever has bottom halves off already, as a qdisc lock's holder has.
///
/// # Safety
///
/// As for `with`, and bottom halves are off.
#[inline(always)] // once per callback of a packet
pub(super) unsafe fn with_bh_off<T: Shared, R>(
    namespace: *mut c_void,
    f: impl FnOnce(&mut T) -> R,
) -> R {
    // SAFETY: As the caller promises; the lock gives exclusive access.
    unsafe {
        let namespace = &*namespace.cast::<Namespace<T>>();
        weft_lock_bh_off(namespace.lock.get());
        let state = (*namespace.state.get()).assume_init_mut();
        let result = f(state);
        let news = state.has_news();
        weft_unlock_bh_off(namespace.lock.get());
        if news {
            namespace.queue_work();
        }
        result
    }
}

/// A registered kind of state, and its frames. To be dropped after the registration of the qdiscs
/// that use it.
///
/// # Invariants
///
/// Both structures are registered and stay where they are; [`ID`] is the number of the type that they
/// were registered for.
pub struct Registration {
    operations: KBox<pernet_operations>,
    frames: KBox<packet_type>,
    // Dropped last.
    _id: Taken,
}

/// Who may have [`ID`].
struct Taken;

impl Taken {
    fn new() -> Result<Self> {
        if TAKEN.swap(true, Ordering::Acquire) {
            return Err(EBUSY);
        }
        Ok(Self)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

impl Registration {
    /// Makes a state for each namespace there is and will be, and starts to receive frames.
    ///
    /// # Errors
    ///
    /// `EBUSY` where the module has one, `ENOMEM`, `EINVAL` where Rust and C disagree on a layout (see
    /// the kernel log), or what the state of a namespace fails with.
    fn new<T: Shared>() -> Result<Self> {
        layout::check()?;
        let id = Taken::new()?;
        let operations = pernet_operations {
            init: Some(Namespace::<T>::init),
            exit: Some(Namespace::<T>::exit),
            id: ID.as_ptr(),
            size: size_of::<Namespace<T>>(),
            // SAFETY: All other fields are pointers, for which zero is valid.
            ..unsafe { MaybeUninit::zeroed().assume_init() }
        };
        let frames = packet_type {
            type_: T::ETHERTYPE.to_be(),
            func: Some(Namespace::<T>::receive),
            // SAFETY: All other fields are pointers or integers, for which zero is valid.
            ..unsafe { MaybeUninit::zeroed().assume_init() }
        };
        let mut operations = KBox::new(operations, GFP_KERNEL)?;
        let mut frames = KBox::new(frames, GFP_KERNEL)?;
        // SAFETY: Both structures are complete and, in their boxes, stay where they are until drop.
        unsafe {
            to_result(register_pernet_subsys(&raw mut *operations))?;
            dev_add_pack(&raw mut *frames);
        }
        // INVARIANT: Registered just now.
        Ok(Self {
            operations,
            frames,
            _id: id,
        })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: Registered (invariant). dev_remove_pack() waits for frames that are being received.
        unsafe {
            dev_remove_pack(&raw mut *self.frames);
            unregister_pernet_subsys(&raw mut *self.operations);
        }
    }
}
