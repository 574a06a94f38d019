// SPDX-License-Identifier: GPL-2.0-only

//! What the qdiscs of one network namespace share, and frames of their own to their neighbours.
//!
//! ```text
//!   qdisc of device a ──┐ with()                        ┌── timer (next_event)
//!   qdisc of device b ──┼────────▶ [ lock | state ] ◀───┤
//!   frames received  ───┘ receive()       │             └── work, queued when with() left news
//!                                         ▼ next_frame()
//!                                    dev_queue_xmit(): through the device's own qdiscs
//! ```
//!
//! A frame is never sent from where the news came up, which is under a qdisc lock: two devices
//! whose qdiscs send to each other's would deadlock. The work and the timer send it, in softirq
//! and without any lock; the work runs as soon as the softirq or the lock section in which it was
//! queued is over.
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
//!               a device's qdiscs come and go                    they hold a [`NamespaceRef`]
//!               a namespace ends: its devices, with them their qdiscs, then exit: its state
//!   module unloaded, when no qdisc is left ─▶ no more frames, exit in all namespaces
//! ```

use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::{addr_of_mut, NonNull},
};

use kernel::{
    error::{from_result, to_result},
    prelude::*,
    types::Opaque,
};

use super::{
    bindings::{
        self, cancel_work_sync, dev_add_pack, dev_remove_pack, hrtimer, hrtimer_cancel,
        hrtimer_setup, hrtimer_start_range_ns, net, net_device, packet_type, pernet_operations,
        register_pernet_subsys, sk_buff, spinlock_t, unregister_pernet_subsys, weft_dev_index,
        weft_dev_net, weft_dev_schedule, weft_frame_read, weft_frame_send, weft_lock,
        weft_lock_bh_off, weft_lock_init, weft_net_generic, weft_qdisc_dev, weft_skb_consume,
        weft_unlock, weft_unlock_bh_off, weft_work_init, weft_work_queue, work_struct,
    },
    clock::now,
    layout,
    qdisc::{Sch, Setup},
};

/// Bytes of the longest frame, without its Ethernet header.
pub const FRAME: usize = 256;

/// Frames that are sent in one go: bounds the time in one softirq.
const BUDGET: u32 = 64;

/// The state that the qdiscs of a namespace share.
///
/// All methods with `self` run under the state's lock, with bottom halves off: they must not sleep,
/// allocate, panic, or loop without a bound.
pub trait Shared: Sized + Send + 'static {
    /// The EtherType of the frames.
    const ETHERTYPE: u16;

    /// The group address to which they are sent.
    const GROUP: [u8; 6];

    /// Where the number of this kind of state is kept.
    fn id() -> &'static Id;

    /// The state of a new namespace.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn new() -> Result<Self>;

    /// A frame came in by a device, from an address, `now` in ns; `None` for one that is too long or
    /// not to the group. Whether the device's qdiscs are to be run.
    fn receive(&mut self, device: u32, from: [u8; 6], payload: Option<&[u8]>, now: u64) -> bool;

    /// Whether there is a frame to be sent at once.
    fn has_news(&self) -> bool;

    /// The time is `now` ns: what is due comes up.
    fn tick(&mut self, now: u64);

    /// Writes the next frame to be sent; the device by which it goes, and its length.
    fn next_frame(&mut self, now: u64, frame: &mut [u8; FRAME]) -> Option<(u32, usize)>;

    /// The frame that was last taken could not be sent by its device.
    fn unsent(&mut self, device: u32, now: u64);

    /// When `tick` is to be called, in ns, if at all.
    fn next_event(&self) -> Option<u64>;
}

/// The number under which the kernel keeps one kind of state (`net_generic()`).
pub struct Id(UnsafeCell<c_uint>);

impl Id {
    /// No number yet.
    pub const fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn get(&self) -> c_uint {
        // SAFETY: Written by register_pernet_subsys() only, before anybody who reads it is called.
        unsafe { *self.0.get() }
    }
}

// SAFETY: See `get`.
unsafe impl Sync for Id {}

/// One namespace's state, in memory that the kernel allocates with the namespace, zeroed.
///
/// # Invariants
///
/// From init to exit all fields are initialised and `net` is valid. `live` and `state` are accessed
/// under `lock` only; `live` is false before init and during exit.
struct Namespace<T> {
    lock: Opaque<spinlock_t>,
    work: Opaque<work_struct>,
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
        unsafe { weft_net_generic(net, T::id().get()).cast() }
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
        // SAFETY: Initialised (invariant).
        unsafe { weft_work_queue(self.work.get()) }
    }

    /// Sends what there is to send, and sets the timer for what will be.
    fn pump(&self) {
        let mut frame = [0; FRAME];
        self.locked(|state, _| state.tick(now()));
        for _ in 0..BUDGET {
            let Some((device, len)) = self.locked(|state, _| state.next_frame(now(), &mut frame))
            else {
                break;
            };
            let len = len.min(FRAME) as u32;
            let (group, frame) = (T::GROUP.as_ptr(), frame.as_ptr().cast());
            // SAFETY: `net` is valid (invariant), group and frame are arrays of at least the lengths
            // that are read. No lock is held.
            if unsafe { weft_frame_send(self.net, device, T::ETHERTYPE, group, frame, len) } != 0 {
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
            // SAFETY: Initialised (invariant); a timer may be started from anywhere, also from its
            // own callback.
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
                let field = |offset: usize| this.wrapping_byte_add(offset);
                let lock = field(core::mem::offset_of!(Self, lock)).cast::<Opaque<spinlock_t>>();
                let work = field(core::mem::offset_of!(Self, work)).cast::<Opaque<work_struct>>();
                let timer = field(core::mem::offset_of!(Self, timer)).cast::<Opaque<hrtimer>>();
                weft_lock_init((*lock).get());
                weft_work_init((*work).get(), Some(Self::work));
                let clock = bindings::CLOCK_MONOTONIC as c_int;
                hrtimer_setup((*timer).get(), Some(Self::timer), clock, MODE);
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
            cancel_work_sync(this.work.get());
            hrtimer_cancel(this.timer.get());
            cancel_work_sync(this.work.get());
            (*this.state.get()).assume_init_drop();
        }
    }

    unsafe extern "C" fn work(work: *mut work_struct) {
        let this = work.wrapping_byte_sub(core::mem::offset_of!(Self, work));
        // SAFETY: The work is part of a namespace's state, whose exit waits for it.
        unsafe { (*this.cast::<Self>()).pump() }
    }

    unsafe extern "C" fn timer(timer: *mut hrtimer) -> bindings::hrtimer_restart {
        let this = timer.wrapping_byte_sub(core::mem::offset_of!(Self, timer));
        // SAFETY: As above.
        unsafe { (*this.cast::<Self>()).pump() }
        bindings::hrtimer_restart_HRTIMER_NORESTART
    }

    unsafe extern "C" fn receive(
        skb: *mut sk_buff,
        device: *mut net_device,
        _kind: *mut packet_type,
        origin: *mut net_device,
    ) -> c_int {
        let (mut from, mut payload) = ([0; 6], [0; FRAME]);
        // SAFETY: The kernel's arguments, under RCU: packet and devices are valid, and the packet's
        // reference is ours. A device's namespace is alive as long as it is, and since its init has
        // run before frames were registered for, there is state.
        unsafe {
            let (group, buffer) = (T::GROUP.as_ptr(), payload.as_mut_ptr().cast());
            let read = weft_frame_read(
                skb,
                device,
                origin,
                group,
                from.as_mut_ptr(),
                buffer,
                FRAME as u32,
            );
            weft_skb_consume(skb);
            let payload = usize::try_from(read)
                .ok()
                .and_then(|len| payload.get(..len));
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

/// A qdisc's way to what it shares with the other qdiscs of its namespace.
///
/// # Invariants
///
/// Points to the state of the namespace that the qdisc's device is in, between init and exit: a
/// device that changes its namespace, or whose namespace ends, loses its qdiscs first.
pub struct NamespaceRef<T: Shared>(NonNull<Namespace<T>>);

// SAFETY: The state is Send, and all access to it is under its lock.
unsafe impl<T: Shared> Send for NamespaceRef<T> {}

impl<T: Shared> Clone for NamespaceRef<T> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<T: Shared> NamespaceRef<T> {
    /// The state of the namespace of a qdisc's device.
    ///
    /// # Errors
    ///
    /// `ENODEV`: never, as the kind is registered before the module's qdiscs are.
    pub fn new(setup: &Setup) -> Result<Self> {
        // SAFETY: `setup` is a valid qdisc, of a valid device in a valid namespace. Qdiscs are
        // registered after this kind of state is, see `Registration`.
        let namespace = unsafe { Namespace::of(weft_dev_net(weft_qdisc_dev(setup.as_ptr()))) };
        // INVARIANT: As above; the reference becomes part of the qdisc.
        Ok(Self(NonNull::new(namespace).ok_or(ENODEV)?))
    }

    /// Runs `f` with the state's lock held, and sees to the frames that are to be sent after it.
    #[inline]
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: Alive (invariant).
        let namespace = unsafe { self.0.as_ref() };
        let (result, news) = namespace.locked(|state, _| {
            let result = f(state);
            (result, state.has_news())
        });
        if news {
            namespace.queue_work();
        }
        result
    }

    /// The same for whoever holds a qdisc lock, and so has bottom halves off already.
    #[inline(always)] // once per callback of a packet
    pub fn with_locked<R>(&self, _sch: &mut Sch, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: Alive (invariant). The qdisc lock, which is held as long as there is a `Sch`, is
        // taken with bottom halves off: so the lock of the state can be taken as it is. It gives
        // exclusive access.
        unsafe {
            let namespace = self.0.as_ref();
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
}

/// A registered kind of state, and its frames. To be dropped after the registration of the qdiscs
/// that use it.
///
/// # Invariants
///
/// Both structures are registered and stay where they are.
pub struct Registration<T: Shared> {
    operations: KBox<pernet_operations>,
    frames: KBox<packet_type>,
    _kind: PhantomData<T>,
}

// SAFETY: Taking the kind away is possible from any thread.
unsafe impl<T: Shared> Send for Registration<T> {}
// SAFETY: There is nothing to do with a shared registration.
unsafe impl<T: Shared> Sync for Registration<T> {}

impl<T: Shared> Registration<T> {
    /// Makes a state for each namespace there is and will be, and starts to receive frames.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EINVAL` where Rust and C disagree on a layout (see the kernel log), or what the
    /// state of a namespace fails with.
    pub fn register() -> Result<Self> {
        layout::check()?;
        let operations = pernet_operations {
            init: Some(Namespace::<T>::init),
            exit: Some(Namespace::<T>::exit),
            id: T::id().0.get(),
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
            _kind: PhantomData,
        })
    }
}

impl<T: Shared> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: Registered (invariant). dev_remove_pack() waits for frames that are being received.
        unsafe {
            dev_remove_pack(&raw mut *self.frames);
            unregister_pernet_subsys(&raw mut *self.operations);
        }
    }
}
