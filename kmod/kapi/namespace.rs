// SPDX-License-Identifier: GPL-2.0-only

//! State shared by the qdiscs, or the sockets, of one network namespace: frames of their own to
//! their neighbours, datagrams to a more distant host, and packets that move from one qdisc to
//! another.
//!
//! ```text
//!   qdisc of device a ──┐ shared()                      ┌── work, queued when shared() left news
//!   qdisc of device b ──┼────────▶ [ lock | state ] ◀───┤   and by the timer (next_event)
//!   frames received  ───┘ receive()       │             │
//!                                         ▼ next_frame()▼
//!                                    dev_queue_xmit(): through the device's own qdiscs
//!                                                       ▲
//!   qdisc of device a ── hand_over() ──▶ [ list ] ── work, embark()
//! ```
//!
//! A frame is never sent by the code that has the news, which runs under a qdisc lock: two devices
//! whose qdiscs send to each other's would deadlock. The work sends it, in softirq and without any
//! lock, as soon as the softirq or the lock section in which it was queued is over. Only the work
//! sends: it runs on one CPU at a time, so frames leave in the order in which they were taken. The
//! timer only queues the work.
//!
//! # Datagrams
//!
//! Datagrams belong to a UDP socket of the kernel. The first qdisc of a namespace that communicates
//! opens it, and it is closed with the namespace. Received datagrams are handed over in softirq;
//! outgoing ones are sent by the work, like frames. So a datagram is sent with no lock held, and
//! routed like any packet of this host.
//!
//! # A packet that goes by another port
//!
//! DIBS (EuroSys 2014) sends a packet that finds its port full by another port of the switch. Port
//! a decides under its own qdisc lock, and the packet must then wait at port b, behind another
//! qdisc's lock. It cannot be enqueued there directly: two ports that detour to each other would
//! each wait for the other's lock, and a qdisc in the middle of a tree cannot be entered from the
//! side. So:
//!
//! 1. Under the qdisc lock of a and this lock, the module decides, and counts a place at b that no
//!    other packet gets. a's parents receive `NET_XMIT_SUCCESS | __NET_XMIT_STOLEN`, as for a
//!    packet that a filter took: they count nothing, and the sender sees no loss. The packet joins
//!    the end of the namespace's list once bottom halves are on again on this processor: until then
//!    the enqueuing code still reads it, if `qdisc_enqueue` is traced.
//! 2. The work, in softirq and without a qdisc lock, takes the first packet of the list. It asks
//!    the module once more, because a device or its carrier may have gone. The module then names
//!    another device, or none, in which case the packet is dropped. Otherwise the packet gets the
//!    header of that link and goes through `dev_queue_xmit()`, as if it had been routed there.
//! 3. On its way through b's qdiscs the packet is recognised by its address alone: it is the one
//!    that the work is carrying now. Once that call has returned, the place is free again if the
//!    packet did not reach b. A filter or a parent of b may have taken it; or another CPU, which
//!    was about to enqueue to b and takes the packet along, was later than that. It is then a
//!    packet like any other at b.
//!
//! *It cannot deadlock*: this lock is the innermost, and while the work is in `dev_queue_xmit()` it
//! holds no lock. *It cannot lose or duplicate packets*: a packet has one owner at each time (port
//! a, the list, the work, or b's qdiscs), and packets still on the list when the namespace ends are
//! freed with it. *A port cannot exceed its limit*: it takes no packet that was not first counted
//! under this lock. *The list is bounded*, as each packet on it has a place. *No CPU is kept busy*:
//! the work carries at most [`BUDGET`] packets at a time, and a packet that reaches b with its
//! place does not return to the list.
//!
//! Packets of one flow keep their order on the list. The softirq follows as soon as the lock
//! section is over, mostly on the same CPU, so a packet is between two ports for some microseconds.
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
    marker::PhantomData,
    mem::{offset_of, MaybeUninit},
    ops::{Deref, DerefMut},
    ptr::{addr_of, addr_of_mut, null, null_mut, NonNull},
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering},
};

use kernel::{
    bindings::{cancel_work_sync, work_struct},
    error::{from_err_ptr, from_result, to_result},
    new_work,
    prelude::*,
    sync::rcu,
    types::Opaque,
    workqueue::{self, RawWorkItem, Work, WorkItem, WorkItemPointer},
};

use super::{
    bindings::{
        self, dev_add_pack, dev_remove_pack, hrtimer, hrtimer_cancel, hrtimer_setup,
        hrtimer_start_range_ns, net, net_device, packet_type, pernet_operations,
        register_pernet_subsys, sk_buff, spinlock_t, unregister_pernet_subsys, weft_dev_index,
        weft_dev_net, weft_dev_schedule, weft_dev_schedule_by_index, weft_leaving_flush,
        weft_leaving_init, weft_lock, weft_lock_bh_off, weft_lock_init, weft_net_generic,
        weft_qdisc_dev, weft_skb_consume, weft_skb_leave, weft_socket, weft_socket_close,
        weft_socket_deafen, weft_socket_open, weft_socket_send, weft_socket_sent, weft_unlock,
        weft_unlock_bh_off, Qdisc,
    },
    clock::now,
    detour,
    device::Handler,
    frame, layout,
    skb::{Fifo, Skb},
};
use crate::common::shared::{self, Frames, Peer, DATAGRAM, FRAME};

/// Frames sent, and packets carried, in one run of the work: bounds the time in one softirq.
const BUDGET: u32 = 64;

/// The state that the qdiscs of a namespace share.
///
/// All its methods with `self` run under the state's lock, with bottom halves off: they must not
/// sleep, allocate, panic, or loop without a bound.
pub trait Shared: shared::Shared<Error = Error> + Send + 'static {}

impl<T: shared::Shared<Error = Error> + Send + 'static> Shared for T {}

/// The shared state of a kind of qdisc: nothing, `()`, or something [`Shared`].
pub trait Sharing: private::Sharing {}

impl<T: private::Sharing> Sharing for T {}

pub(super) mod private {
    use super::*;

    /// For kapi only.
    pub trait Sharing {
        /// The group address that the devices receive.
        const GROUP: Option<[u8; 6]>;

        /// The handler of each packet that arrives on a device, if there is one.
        const TAP: Option<Handler>;

        /// The address of the state for a qdisc; null for none.
        ///
        /// # Safety
        ///
        /// `sch` is a valid qdisc of a registered kind, and its shared state is registered too.
        unsafe fn find(sch: *mut Qdisc) -> *mut c_void;

        /// The address of the state for a namespace.
        ///
        /// # Safety
        ///
        /// `net` is valid, and the shared state is registered.
        unsafe fn find_in(net: *const net) -> *mut c_void;

        /// Makes a state for each present and future namespace.
        ///
        /// # Safety
        ///
        /// The returned value is dropped before the module is unloaded.
        unsafe fn register() -> Result<Option<Registration>>;
    }

    impl Sharing for () {
        const GROUP: Option<[u8; 6]> = None;
        const TAP: Option<Handler> = None;

        unsafe fn find(_sch: *mut Qdisc) -> *mut c_void {
            null_mut()
        }

        unsafe fn find_in(_net: *const net) -> *mut c_void {
            null_mut()
        }

        unsafe fn register() -> Result<Option<Registration>> {
            Ok(None)
        }
    }

    impl<T: Shared> Sharing for T {
        const GROUP: Option<[u8; 6]> = match <T as shared::Shared>::FRAMES {
            Some(frames) => Some(frames.group),
            None => None,
        };
        const TAP: Option<Handler> = match <T as shared::Shared>::ARRIVALS {
            true => Some(Namespace::<T>::tap),
            false => None,
        };

        unsafe fn find(sch: *mut Qdisc) -> *mut c_void {
            // SAFETY: As the caller promises: a qdisc has a device, which has a namespace, which
            // has a state.
            unsafe { Self::find_in(weft_dev_net(weft_qdisc_dev(sch))) }
        }

        unsafe fn find_in(net: *const net) -> *mut c_void {
            // SAFETY: As the caller promises.
            unsafe { Namespace::<T>::of(net).cast() }
        }

        unsafe fn register() -> Result<Option<Registration>> {
            Registration::new::<T>().map(Some)
        }
    }
}

/// The number under which the kernel keeps the state of each namespace (`net_generic()`). kapi is
/// compiled into every module, so each module has its own.
static ID: AtomicU32 = AtomicU32::new(0);

/// Whether a [`Registration`] holds [`ID`]: a module has at most one, so the number stands for one
/// type.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The destination of a packet that goes by another port, as kept in a stamp.
#[derive(Clone, Copy)]
struct Detour {
    port: u16,
    /// The VRF of the device by which the packet was to leave.
    vrf: u32,
}

impl Detour {
    fn to_stamp(self) -> u64 {
        u64::from(self.vrf) << 16 | u64::from(self.port)
    }

    fn from_stamp(stamp: u64) -> Self {
        Self {
            port: stamp as u16,
            vrf: (stamp >> 16) as u32,
        }
    }
}

/// The fields that the lock guards.
struct Guarded<T> {
    state: T,
    /// False once exit has begun.
    live: bool,
    /// Packets that go by another port; a packet's stamp is a [`Detour`].
    detoured: Fifo,
    /// The packet that the work is carrying; only compared, never dereferenced.
    carried: *const sk_buff,
}

impl<T: Shared> Guarded<T> {
    /// States that no qdisc, packet or socket comes here once exit has begun.
    #[inline]
    fn expect_live(&self) {
        if !self.live {
            invariant!("a namespace's state is used after its exit has begun");
        }
    }

    /// Whether to queue the work. Nothing else queues it, and nothing once exit has begun.
    #[inline]
    fn has_news(&self) -> bool {
        self.state.has_news() && self.live
    }
}

/// One namespace's state, in memory that the kernel allocates, zeroed, with the namespace.
///
/// # Invariants
///
/// From init to exit all fields are initialised and `net` is valid. `guarded` is accessed only
/// under `lock`.
struct Namespace<T: Shared> {
    lock: Opaque<spinlock_t>,
    work: Work<Self>,
    // Not kernel::time::hrtimer's: that takes a time as an `Instant`, which only `Instant::now()`
    // makes, and it starts timers in a Box, an Arc or on the stack.
    timer: Opaque<hrtimer>,
    net: *mut net,
    /// Null until the socket is opened, once, under RTNL. It is closed in exit.
    socket: AtomicPtr<weft_socket>,
    guarded: UnsafeCell<MaybeUninit<Guarded<T>>>,
}

/// A namespace's state with the lock held, until this value is dropped. If `BH_OFF`, bottom halves
/// were off before the lock was taken, and stay off.
///
/// # Invariants
///
/// This thread has taken the lock, in the way that `BH_OFF` says.
struct Locked<'a, T: Shared, const BH_OFF: bool> {
    namespace: &'a Namespace<T>,
    // The thread that takes a lock releases it.
    _thread: PhantomData<*mut ()>,
}

impl<T: Shared, const BH_OFF: bool> Deref for Locked<'_, T, BH_OFF> {
    type Target = Guarded<T>;

    #[inline(always)] // once per callback of a packet
    fn deref(&self) -> &Guarded<T> {
        // SAFETY: Initialised (invariant of Namespace). The lock (invariant) gives exclusive
        // access, and this borrow of its only guard a shared one.
        unsafe { (*self.namespace.guarded.get()).assume_init_ref() }
    }
}

impl<T: Shared, const BH_OFF: bool> DerefMut for Locked<'_, T, BH_OFF> {
    #[inline(always)] // as deref
    fn deref_mut(&mut self) -> &mut Guarded<T> {
        // SAFETY: As in deref; this borrow of the lock's only guard is exclusive.
        unsafe { (*self.namespace.guarded.get()).assume_init_mut() }
    }
}

impl<T: Shared, const BH_OFF: bool> Drop for Locked<'_, T, BH_OFF> {
    #[inline(always)] // as deref
    fn drop(&mut self) {
        let lock = self.namespace.lock.get();
        if BH_OFF {
            // SAFETY: This thread has taken the lock, by lock_bh_off() (invariant).
            unsafe { weft_unlock_bh_off(lock) }
        } else {
            // SAFETY: This thread has taken the lock, by lock() (invariant).
            unsafe { weft_unlock(lock) }
        }
    }
}

impl<T: Shared> Namespace<T> {
    /// The address of a namespace's state.
    ///
    /// # Safety
    ///
    /// `net` is valid and its init for this kind has run.
    unsafe fn of(net: *const net) -> *mut Self {
        // SAFETY: As the caller promises, there is an id and memory of `size_of::<Self>()`.
        unsafe { weft_net_generic(net, ID.load(Ordering::Relaxed)).cast() }
    }

    /// Takes the lock, which this thread does not hold, and turns bottom halves off.
    fn lock(&self) -> Locked<'_, T, false> {
        // SAFETY: Initialised (invariant).
        unsafe { weft_lock(self.lock.get()) };
        // INVARIANT: Taken just now.
        Locked {
            namespace: self,
            _thread: PhantomData,
        }
    }

    /// Takes the lock, which this thread does not hold.
    ///
    /// # Safety
    ///
    /// Bottom halves are off as long as the result lives.
    #[inline(always)] // once per callback of a packet
    unsafe fn lock_bh_off(&self) -> Locked<'_, T, true> {
        // SAFETY: Initialised (invariant); bottom halves are off, as the caller promises.
        unsafe { weft_lock_bh_off(self.lock.get()) };
        // INVARIANT: Taken just now.
        Locked {
            namespace: self,
            _thread: PhantomData,
        }
    }

    /// Runs `f` with the lock held.
    fn locked<R>(&self, f: impl FnOnce(&mut Guarded<T>) -> R) -> R {
        f(&mut self.lock())
    }

    fn queue_work(&self) {
        // If it is queued already, that will do.
        workqueue::system_bh().enqueue(Pump(self));
    }

    /// Sends everything that is due, and sets the timer for the next event. Called by the work
    /// only.
    fn pump(&self) {
        if let Some(frames) = T::FRAMES {
            self.send_frames(&frames);
        }
        if T::DATAGRAMS {
            self.send_datagrams();
        }
        for _ in 0..BUDGET {
            if !self.carry() {
                break;
            }
        }
        let (again, next) = self.locked(|inside| {
            let carries = inside.live && inside.detoured.len() != 0;
            let next = inside.state.next_event();
            (inside.has_news() || carries, next.filter(|_| inside.live))
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

    fn send_frames(&self, frames: &Frames) {
        let mut frame = [0; FRAME];
        self.locked(|inside| inside.state.tick(now()));
        for _ in 0..BUDGET {
            let next = self.locked(|inside| inside.state.next_frame(now(), &mut frame));
            let Some((device, len)) = next else {
                break;
            };
            let frame = frame.get(..len).unwrap_or_default();
            // SAFETY: `net` is valid (invariant). No lock is held.
            let sent = unsafe { frame::send(self.net, device, frames, frame) };
            if !sent {
                self.locked(|inside| inside.state.unsent(device, now()));
            }
        }
    }

    fn send_datagrams(&self) {
        let socket = self.socket.load(Ordering::Acquire);
        if socket.is_null() {
            return;
        }
        let mut data = [0; DATAGRAM];
        for _ in 0..BUDGET {
            let next = self.locked(|inside| inside.state.next_datagram(now(), &mut data));
            let Some((Peer { address, port }, len)) = next else {
                break;
            };
            let data = data.get(..len).unwrap_or_default();
            // SAFETY: The socket is closed only after the work has ended. No lock is held, and
            // `data` has that many bytes. A datagram that cannot be sent is lost, as it could be on
            // its path.
            unsafe { weft_socket_send(socket, address, port, data.as_ptr(), data.len() as u32) };
        }
    }

    /// Opens the socket for datagrams, unless it is open.
    ///
    /// # Safety
    ///
    /// Under RTNL, between init and exit.
    unsafe fn listen(&self) -> Result {
        if !self.socket.load(Ordering::Relaxed).is_null() {
            return Ok(());
        }
        let owner: *const Self = self;
        // SAFETY: `net` is valid (invariant). The callbacks get this namespace, whose socket is
        // deafened before it ends.
        let socket = unsafe {
            weft_socket_open(
                self.net,
                owner.cast_mut().cast(),
                Some(Self::receive_datagram),
            )
        };
        self.socket.store(from_err_ptr(socket)?, Ordering::Release);
        Ok(())
    }

    unsafe extern "C" fn receive_datagram(
        owner: *mut c_void,
        address: u32,
        port: u16,
        data: *const u8,
        len: u32,
    ) {
        // SAFETY: The arguments of a running callback of the namespace's socket, under RCU: `data`
        // has `len` bytes, and the namespace is between init and exit, which waits for it.
        unsafe {
            let this = &*owner.cast::<Self>();
            let data = core::slice::from_raw_parts(data, len as usize);
            let from = Peer { address, port };
            let (device, news) = this.locked(|inside| {
                let device = inside.state.receive_datagram(from, data, now());
                (device, inside.has_news())
            });
            if let Some(device) = device {
                let _rcu = rcu::read_lock();
                weft_dev_schedule_by_index(this.net, device);
            }
            if news {
                this.queue_work();
            }
        }
    }

    /// Carries the first of the packets that go by another port, and returns whether there was one.
    /// Called by the work only, one at a time.
    fn carry(&self) -> bool {
        let taken = self.locked(|inside| {
            let Detour { port, vrf } = Detour::from_stamp(inside.detoured.first_stamp()?);
            let skb = inside.detoured.pop()?;
            let len = skb.packet().len;
            // SAFETY: `net` is valid (invariant).
            let takes = |device| unsafe { detour::takes(self.net, vrf, device, &skb) };
            let device = inside.state.embark(port, len, takes);
            inside.carried = skb.as_ptr();
            Some((device, vrf, skb))
        });
        let Some((device, vrf, skb)) = taken else {
            return false;
        };
        // SAFETY: `net` is valid (invariant). No lock is held.
        let sent = device.is_some_and(|device| unsafe { detour::send(self.net, vrf, device, skb) });
        self.locked(|inside| {
            inside.carried = null();
            if device.is_some() {
                inside.state.landed(sent);
            }
        });
        true
    }

    unsafe extern "C" fn init(net: *mut net) -> c_int {
        from_result(|| {
            let state = T::new()?;
            // SAFETY: The kernel's argument; the memory is ours and zeroed, and nothing else knows
            // of it yet. It does not move.
            unsafe {
                let this = Self::of(net);
                weft_lock_init(Opaque::cast_into(addr_of!((*this).lock)));
                let Ok(()) = new_work!("weft").__pinned_init(addr_of_mut!((*this).work));
                let timer = Opaque::cast_into(addr_of!((*this).timer));
                let clock = bindings::CLOCK_MONOTONIC as c_int;
                hrtimer_setup(timer, Some(Self::timer), clock, MODE);
                addr_of_mut!((*this).net).write(net);
                addr_of_mut!((*this).socket).write(AtomicPtr::new(null_mut()));
                let guarded = Guarded {
                    state,
                    live: true,
                    detoured: Fifo::new(),
                    carried: null(),
                };
                addr_of_mut!((*this).guarded).write(UnsafeCell::new(MaybeUninit::new(guarded)));
            }
            Ok(0)
        })
    }

    unsafe extern "C" fn exit(net: *mut net) {
        // SAFETY: The kernel's argument; init has run, and succeeded. The devices are gone, so
        // there are no other references.
        unsafe {
            let this = &*Self::of(net);
            this.locked(|inside| inside.live = false);
            // Packets that still reach the list are freed with it.
            weft_leaving_flush();
            let socket = this.socket.swap(null_mut(), Ordering::AcqRel);
            if !socket.is_null() {
                weft_socket_deafen(socket);
            }
            // Callers that began before that may still queue the work or start the timer, once.
            cancel_work_sync(Work::raw_get(&raw const this.work));
            hrtimer_cancel(this.timer.get());
            cancel_work_sync(Work::raw_get(&raw const this.work));
            if !socket.is_null() {
                weft_socket_close(socket);
            }
            (*this.guarded.get()).assume_init_drop();
        }
    }

    /// A packet that goes by another port has left its original port.
    unsafe extern "C" fn left(this: *mut c_void, skb: *mut sk_buff, stamp: u64) {
        // SAFETY: The arguments of `hand_over`: a packet that is ours and on no list, and a
        // namespace, whose exit waits for this.
        unsafe {
            let this = &*this.cast::<Self>();
            let skb = Skb::from_raw(NonNull::new_unchecked(skb));
            let live = this.locked(|inside| {
                inside.detoured.push(skb, stamp);
                inside.live
            });
            if live {
                this.queue_work();
            }
        }
    }

    unsafe extern "C" fn timer(timer: *mut hrtimer) -> bindings::hrtimer_restart {
        let this = timer.wrapping_byte_sub(offset_of!(Self, timer));
        // SAFETY: The timer is part of a namespace's state, whose exit waits for it. Only the work
        // sends, because two CPUs would send in no defined order.
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
        let group = T::FRAMES.map_or([0; 6], |frames| frames.group);
        // SAFETY: The kernel's arguments, under RCU: packet and devices are valid, and the packet's
        // reference is ours. A device's namespace lives as long as the device, and its state
        // exists, because its init has run before frames were registered for.
        unsafe {
            let read = frame::read(skb, device, origin, &group, &mut payload);
            weft_skb_consume(skb);
            let (from, len) = read.unzip();
            let (from, payload) = (
                from.unwrap_or_default(),
                len.and_then(|len| payload.get(..len)),
            );
            let this = &*Self::of(weft_dev_net(device));
            let index = weft_dev_index(device);
            if this.locked(|inside| inside.state.receive(index, from, payload, now())) {
                weft_dev_schedule(device);
            }
        }
        0
    }

    /// The handler of a device's tap.
    unsafe extern "C" fn tap(
        skb: *mut sk_buff,
        device: *mut net_device,
        _kind: *mut packet_type,
        _origin: *mut net_device,
    ) -> c_int {
        // SAFETY: The kernel's arguments, under RCU and with bottom halves off: packet and device
        // are valid, and one reference to the packet is ours. It may be shared, so it is only read.
        // The state exists, as in `receive`; the device has a qdisc of this kind, or had one.
        unsafe {
            let Some(skb) = NonNull::new(skb) else {
                return 0;
            };
            let skb = Skb::from_raw(skb);
            let this = &*Self::of(weft_dev_net(device));
            let news = this.locked(|inside| {
                let (protocol, header) = (skb.protocol(), skb.network_header());
                inside.state.arrived(protocol, header, now()) && inside.has_news()
            });
            if news {
                this.queue_work();
            }
            weft_skb_consume(skb.into_raw());
        }
        0
    }
}

/// Absolute times, and the callback in softirq.
const MODE: bindings::hrtimer_mode = bindings::hrtimer_mode_HRTIMER_MODE_ABS_SOFT;

/// A namespace whose work is queued or running: between init and exit, which waits for it.
struct Pump<T: Shared>(*const Namespace<T>);

// SAFETY: A namespace's state is accessed only under its lock.
unsafe impl<T: Shared> Send for Pump<T> {}

// SAFETY: The work is part of the namespace's state. It stays valid there until exit, which waits
// until the work is not queued and has run.
unsafe impl<T: Shared> RawWorkItem<0> for Pump<T> {
    type EnqueueOutput = ();

    unsafe fn __enqueue<F>(self, queue_work_on: F)
    where
        F: FnOnce(*mut work_struct) -> bool,
    {
        // SAFETY: Valid and initialised, because the work is queued only between init and exit.
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
        // SAFETY: By the type's definition, the namespace is between init and exit.
        unsafe { (*pump.0).pump() }
    }
}

/// Runs `f` on the shared state, with its lock held, and queues the work if frames are to be sent
/// afterwards.
///
/// # Safety
///
/// `namespace` was looked up for `T`, and is used between init and exit: a device that changes its
/// namespace, or whose namespace ends, loses its qdiscs first. The lock is not held.
pub(super) unsafe fn with<T: Shared, R>(namespace: *mut c_void, f: impl FnOnce(&mut T) -> R) -> R {
    // SAFETY: As the caller promises.
    let namespace = unsafe { &*namespace.cast::<Namespace<T>>() };
    let (result, news) = namespace.locked(|inside| {
        inside.expect_live();
        let result = f(&mut inside.state);
        (result, inside.has_news())
    });
    if news {
        namespace.queue_work();
    }
    result
}

/// Like `with`, for callers that already have bottom halves off, such as the holder of a qdisc
/// lock.
///
/// # Safety
///
/// As for `with`, and bottom halves are off.
#[inline(always)] // once per callback of a packet
pub(super) unsafe fn with_bh_off<T: Shared, R>(
    namespace: *mut c_void,
    f: impl FnOnce(&mut T) -> R,
) -> R {
    // SAFETY: As the caller promises.
    let namespace = unsafe { &*namespace.cast::<Namespace<T>>() };
    // SAFETY: As the caller promises, until this function returns.
    let mut inside = unsafe { namespace.lock_bh_off() };
    inside.expect_live();
    let result = f(&mut inside.state);
    let news = inside.has_news();
    drop(inside);
    if news {
        namespace.queue_work();
    }
    result
}

/// A packet that arrives at a device's qdisc, as the shared state sees it.
///
/// # Invariants
///
/// `net` and `sch` are valid, and the qdisc's device is in that namespace.
pub struct Arriving<'a> {
    net: *mut net,
    sch: *mut Qdisc,
    skb: &'a Skb,
    is_carried: bool,
}

impl Arriving<'_> {
    /// Whether it is the packet being carried now, see
    /// [`Admission::detour`](super::admission::Admission::detour).
    #[inline]
    pub fn is_carried(&self) -> bool {
        self.is_carried
    }

    /// Whether this namespace has routed it, to a single station.
    pub fn is_routed(&self) -> bool {
        // SAFETY: Valid (invariant), and so is a qdisc's device.
        unsafe { detour::is_routed(weft_qdisc_dev(self.sch), self.skb) }
    }

    /// Whether another device can currently send it.
    pub fn is_taken_by(&self, device: u32) -> bool {
        // SAFETY: As above.
        unsafe {
            let vrf = detour::vrf(weft_qdisc_dev(self.sch));
            detour::takes(self.net, vrf, device, self.skb)
        }
    }
}

/// Like `with_bh_off`, for a packet that arrives at a qdisc.
///
/// # Safety
///
/// As for `with_bh_off`; `sch` is valid and in that namespace.
#[inline(always)] // once per packet
pub(super) unsafe fn with_arrival<T: Shared, R>(
    namespace: *mut c_void,
    sch: *mut Qdisc,
    skb: &Skb,
    f: impl FnOnce(&mut T, &Arriving<'_>) -> R,
) -> R {
    // SAFETY: As the caller promises.
    let namespace = unsafe { &*namespace.cast::<Namespace<T>>() };
    // SAFETY: As the caller promises, until this function returns.
    let mut inside = unsafe { namespace.lock_bh_off() };
    inside.expect_live();
    // INVARIANT: `net` is valid (invariant of Namespace), and so is `sch`, as the caller promises.
    let arriving = Arriving {
        net: namespace.net,
        sch,
        skb,
        is_carried: core::ptr::eq(inside.carried, skb.as_ptr()),
    };
    f(&mut inside.state, &arriving)
}

/// Takes from a qdisc a packet that goes by the port of that number, to carry it there.
///
/// # Safety
///
/// As for `with_arrival`.
pub(super) unsafe fn hand_over(namespace: *mut c_void, sch: *mut Qdisc, skb: Skb, port: u16) {
    // SAFETY: As the caller promises. The packet is ours; its destination is a namespace of the
    // type for which `left` was registered.
    unsafe {
        let vrf = detour::vrf(weft_qdisc_dev(sch));
        let stamp = Detour { port, vrf }.to_stamp();
        weft_skb_leave(skb.into_raw(), namespace, stamp);
    }
}

/// Opens the socket for datagrams, unless it is open.
///
/// # Errors
///
/// Errors that the kernel returns.
///
/// # Safety
///
/// As for `with`, and under RTNL.
pub(super) unsafe fn listen<T: Shared>(namespace: *mut c_void) -> Result {
    // SAFETY: As the caller promises.
    unsafe { (*namespace.cast::<Namespace<T>>()).listen() }
}

/// Whether the socket for datagrams, if it is open, sent the packet.
///
/// # Safety
///
/// As for `with`.
pub(super) unsafe fn has_sent<T: Shared>(namespace: *const c_void, skb: &Skb) -> bool {
    // SAFETY: As the caller promises. The socket is closed after the namespace's qdiscs are gone;
    // only its address is compared.
    unsafe {
        let socket = (*namespace.cast::<Namespace<T>>())
            .socket
            .load(Ordering::Acquire);
        !socket.is_null() && weft_socket_sent(socket, skb.as_ptr())
    }
}

/// A registered type of state, and its frames. It must be dropped after the registration of the
/// qdiscs that use it.
///
/// # Invariants
///
/// Both structures are registered and do not move; [`ID`] is the number of the type for which they
/// were registered.
pub struct Registration {
    operations: KBox<pernet_operations>,
    frames: Option<KBox<packet_type>>,
    // Dropped last.
    _id: Taken,
}

/// The right to hold [`ID`].
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
    /// Makes a state for each present and future namespace, and starts to receive frames.
    ///
    /// # Errors
    ///
    /// `EBUSY` if the module already has one, `ENOMEM`, `EINVAL` if Rust and C disagree on a layout
    /// (see the kernel log), or the error of the state of a namespace.
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
        let frames = T::FRAMES.map(|frames| packet_type {
            type_: frames.ethertype.to_be(),
            func: Some(Namespace::<T>::receive),
            // SAFETY: All other fields are pointers or integers, for which zero is valid.
            ..unsafe { MaybeUninit::zeroed().assume_init() }
        });
        let mut operations = KBox::new(operations, GFP_KERNEL)?;
        let mut frames = frames
            .map(|frames| KBox::new(frames, GFP_KERNEL))
            .transpose()?;
        // SAFETY: Both structures are complete and, in their boxes, do not move until drop. No
        // packet leaves before there is a namespace.
        unsafe {
            weft_leaving_init(Some(Namespace::<T>::left));
            to_result(register_pernet_subsys(&raw mut *operations))?;
            if let Some(frames) = &mut frames {
                dev_add_pack(&raw mut **frames);
            }
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
        // SAFETY: Registered (invariant). dev_remove_pack() waits for frames that are being
        // received.
        unsafe {
            if let Some(frames) = &mut self.frames {
                dev_remove_pack(&raw mut **frames);
            }
            unregister_pernet_subsys(&raw mut *self.operations);
        }
    }
}
