// SPDX-License-Identifier: GPL-2.0-only

//! A TCP congestion control as a trait, and the adapter between it and the kernel's callbacks.
//!
//! All callbacks run with the socket locked, in process or softirq context: they must not sleep,
//! allocate or panic. A flow's state lives in the socket (`icsk_ca_priv`, 104 bytes); a
//! compile-time assertion checks that it fits.
//!
//! # Order of the callbacks
//!
//! ```text
//! handshake done   new
//! sending          before_transmit, then for each packet  [transmit_start, if none is in flight]
//! ACK              in_ack_event, [set_state], cong_avoid or delivered, [before_transmit …]
//! timeout          ssthresh, [cwnd_event], timeout, [transmit_start], no before_transmit
//! end              release
//! ```
//!
//! Callbacks of one socket do not nest. While one runs, no method of [`Socket`], nor of the types
//! that take one, calls a kernel function that can call back. Such work is returned to the adapter,
//! which does it when the flow's state is stored: see [`CongestionControl::cwnd_event`].
//!
//! # The handshake belongs to the kernel
//!
//! The kernel usually calls `init` at the handshake's end (`tcp_init_transfer`). It calls it
//! earlier in two cases: for a socket that chooses its congestion control while it connects
//! (`setsockopt` after `connect` or before its SYN-ACK arrives, or a sock_ops program at
//! `connect`), and for a child that a SYN with data creates (fast open). Some callbacks come even
//! without `init`. If the flow wrote a timeout or a window during the handshake, the handshake
//! would use or overwrite it.
//!
//! So a state exists, [`CongestionControl::new`] is called, and all other callbacks are, only from
//! the handshake's end on. The state is made in `init` or, if that was too early, in the first
//! callback that finds the connection established, which is before its first packet is sent. Until
//! then nothing is written, and the kernel treats the connection as if its congestion control never
//! decided anything. The window of a fast-open child before its SYN-ACK is acknowledged is the
//! route's.
//!
//! A mark behind the state says whether there is one. It is the address of the congestion control's
//! table, which nothing else writes there: the kernel may hand over a socket that another
//! congestion control has begun with (`tcp_ca_dst_init`, where a route has its own).
//!
//! The values of [`CongestionControl::info`] are kept beside the state, as atomics, because a
//! process that asks (`ss -ti`) does not lock the socket.

use core::{
    marker::{PhantomData, PhantomPinned},
    mem::MaybeUninit,
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
};

use kernel::{error::to_result, prelude::*, InPlaceModule};

pub use super::socket::Socket;
use super::{
    bindings::{
        rate_sample, sock, tcp_ca_event, tcp_ca_state_TCP_CA_Loss, tcp_cc_info, tcp_congestion_ops,
        tcp_register_congestion_control, tcp_unregister_congestion_control, weft_ca_info,
        weft_ca_initialized, weft_ca_ops, weft_ca_room, weft_ca_with_ecn, weft_ca_without_ecn,
        weft_rate_acked, weft_rate_is_retrans, weft_rate_rtt_us, weft_tcp_connected,
        weft_tcp_ends_handshake, weft_tcp_is_cwnd_limited, weft_tcp_may_have_ecn,
        weft_tcp_min_tso_segs, weft_tcp_snd_cwnd, weft_tcp_snd_ssthresh, weft_tcp_timed_out,
        weft_within_module, WEFT_CA_PRIV_SIZE, WEFT_CONG_ACCECN, WEFT_CONG_NEEDS_ECN,
    },
    ecn, layout,
    namespace::{self, private::Sharing as _, Sharing},
    probe,
    settings::{Namespaces, Settings},
};
use crate::common::window::{sampled_rtt_us, Ack};

/// A congestion control: "classic" in the words of `struct tcp_congestion_ops` if it has
/// `cong_avoid`, "custom" if it has `delivered`. It must have one of them.
#[vtable]
pub trait CongestionControl: Copy + Send + 'static {
    /// The name, as in `sysctl net.ipv4.tcp_congestion_control`; at most 15 bytes.
    const NAME: &'static str;

    /// Whether it needs congestion marks (ECN). Its connections then request ECN in the handshake,
    /// and all their packets can be marked. If the other end refuses ECN, the connection's packets
    /// cannot be marked, because the mark would not be echoed: see [`Socket::has_ecn`].
    const ECN: bool = false;

    /// Whether it needs accurate ECN (RFC 9768) besides. The handshake's packets are then ECT(1),
    /// and all later ones ECT(0). If the other end has only classic ECN, it counts as one that
    /// refuses ECN. On a kernel without these flags it is ECN like any other.
    const ACCURATE_ECN: bool = false;

    /// The settings of each network namespace; `()` for none.
    type Settings: Settings;

    /// The state that the flows of a network namespace share, see [`Socket::shared`]; `()` for
    /// none.
    type Shared: Sharing + 'static;

    /// A flow's state when the handshake has ended, or when the connection switches to this
    /// congestion control later.
    fn new(socket: &mut Socket<'_>) -> Self;

    /// The slow start threshold, in packets, after the kernel concludes that there is congestion:
    /// what it is, unless the congestion control leaves that to the kernel.
    fn ssthresh(&mut self, socket: &mut Socket<'_>) -> u32 {
        socket.snd_ssthresh()
    }

    /// The window, in packets, to return to when a loss turns out to be spurious: what it is,
    /// unless the congestion control remembers another one.
    fn undo_cwnd(&mut self, socket: &mut Socket<'_>) -> u32 {
        socket.snd_cwnd()
    }

    /// An ACK newly acknowledges `acked` packets up to `ack`. The kernel reduces the window after
    /// losses, and paces.
    fn cong_avoid(&mut self, _socket: &mut Socket<'_>, _ack: u32, _acked: u32) {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// An ACK was processed, and packets may be sent next. This congestion control alone sets the
    /// window; the kernel changes it only at a timeout.
    fn delivered(&mut self, _socket: &mut Socket<'_>, _ack: Ack) {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// An ACK was parsed, and nothing has been concluded from it yet. Not called for an ACK older
    /// than a previous one.
    fn in_ack_event(&mut self, _socket: &mut Socket<'_>) {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Packets may be sent next: new ones, or retransmissions except the first one after a timeout.
    fn before_transmit(&mut self, _socket: &mut Socket<'_>) {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// A packet is being sent, and no other is in flight.
    fn transmit_start(&mut self, _socket: &mut Socket<'_>) {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// A retransmission timeout of an established connection, by the timer or triggered by an ICMP
    /// message (RFC 6069). The packets in flight are marked lost, the window is one packet more
    /// than still is in flight, and the first packet is about to be retransmitted.
    fn timeout(&mut self, _socket: &mut Socket<'_>) {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// The loss recovery enters a new state (`TCP_CA_…`).
    fn set_state(&mut self, _socket: &mut Socket<'_>, _state: u8) {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// An event of the window, or a packet arrived that can be marked. The socket reports the
    /// returned [`Ecn::cwnd_event`](super::ecn::Ecn::cwnd_event) to the other end, which may
    /// trigger further callbacks.
    fn cwnd_event(
        &mut self,
        _socket: &mut Socket<'_>,
        _event: tcp_ca_event,
    ) -> Option<ecn::Arrival> {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// The output of `ss -ti` and `getsockopt(TCP_CC_INFO)`. It takes 16 bytes of the flow's room.
    fn info(&self) -> Info {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// The socket switches to another congestion control, or is destroyed.
    fn release(&mut self, _socket: &mut Socket<'_>) {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

/// A congestion control's report on a flow: a state and three numbers, in the form of dctcp's
/// report (`INET_DIAG_DCTCPINFO`), the only such form that programs know.
#[derive(Clone, Copy, Default)]
pub struct Info {
    /// `ss` calls it `ce_state`.
    pub state: u16,
    /// `ss` calls them `alpha`, `ab_ecn` and `ab_tot`.
    pub numbers: [u32; 3],
}

/// The kernel's table of a congestion control, and a second one that does not require ECN. As with
/// the kernel's dctcp, a connection whose other end refuses ECN uses the second: with the first
/// one's flag the kernel would send packets that can be marked.
///
/// # Invariants
///
/// The second table follows the first. Only the first one of a congestion control that needs ECN
/// has flags.
#[repr(C)]
struct Tables {
    registered: tcp_congestion_ops,
    without_ecn: tcp_congestion_ops,
}

/// The last bytes of a flow's room: the published values of [`CongestionControl::info`].
#[repr(C)]
struct Published {
    state: AtomicU32,
    numbers: [AtomicU32; 3],
}

/// The kernel's callbacks for a [`CongestionControl`].
///
/// # Safety
///
/// Only the kernel may call the `unsafe extern` functions here, through the table below: with a
/// valid socket that uses this congestion control and that is locked, except in `get_info`.
struct Adapter<T: CongestionControl>(PhantomData<T>);

impl<T: CongestionControl> Adapter<T> {
    /// Where [`Published`] begins, if it exists.
    const PUBLISHED_AT: usize = WEFT_CA_PRIV_SIZE as usize
        - if T::HAS_INFO {
            size_of::<Published>()
        } else {
            0
        };

    /// Where the mark of an existing state is.
    const MARK_AT: usize = Self::PUBLISHED_AT - size_of::<AtomicUsize>();

    /// The kernel's room for a flow's state, and its alignment.
    const STATE_FITS: () = assert!(
        size_of::<T>() <= Self::MARK_AT
            && align_of::<T>() <= align_of::<u64>()
            && Self::MARK_AT % align_of::<AtomicUsize>() == 0,
        "the congestion control's state does not fit into icsk_ca_priv"
    );

    const COMPLETE: () = assert!(
        T::HAS_CONG_AVOID || T::HAS_DELIVERED,
        "a congestion control must have cong_avoid or delivered"
    );

    /// The flags of the first table.
    const FLAGS: u32 = match (T::ECN, T::ACCURATE_ECN) {
        (false, _) => 0,
        (true, false) => WEFT_CONG_NEEDS_ECN,
        (true, true) => WEFT_CONG_NEEDS_ECN | WEFT_CONG_ACCECN,
    };

    fn tables(module: &'static ThisModule) -> Tables {
        // INVARIANT: The flags are as required.
        Tables {
            registered: Self::ops(module, Self::FLAGS),
            without_ecn: Self::ops(module, 0),
        }
    }

    fn ops(module: &'static ThisModule, flags: u32) -> tcp_congestion_ops {
        let () = Self::STATE_FITS;
        let () = Self::COMPLETE;
        tcp_congestion_ops {
            cong_avoid: T::HAS_CONG_AVOID.then_some(Self::cong_avoid),
            cong_control: T::HAS_DELIVERED.then_some(Self::cong_control),
            ssthresh: Some(Self::ssthresh),
            undo_cwnd: Some(Self::undo_cwnd),
            set_state: (T::HAS_SET_STATE || T::HAS_TIMEOUT).then_some(Self::set_state),
            cwnd_event: T::HAS_CWND_EVENT.then_some(Self::cwnd_event),
            cwnd_event_tx_start: T::HAS_TRANSMIT_START.then_some(Self::cwnd_event_tx_start),
            in_ack_event: T::HAS_IN_ACK_EVENT.then_some(Self::in_ack_event),
            // Always present: a flow that could not begin in init begins here, before it sends
            // anything.
            min_tso_segs: Some(Self::min_tso_segs),
            get_info: T::HAS_INFO.then_some(Self::get_info),
            init: Some(Self::init),
            release: (T::HAS_RELEASE || T::ECN).then_some(Self::release),
            name: super::qdisc::id(T::NAME),
            owner: module.as_ptr().cast(),
            // Restricted: a user who may not administer the network can choose it only if the
            // machine's administrator allows it (net.ipv4.tcp_allowed_congestion_control).
            flags,
            // SAFETY: All other fields are optional pointers, integers or a list head that the
            // registration fills, for all of which zero is valid.
            ..unsafe { MaybeUninit::zeroed().assume_init() }
        }
    }

    /// The published values of a flow.
    ///
    /// # Safety
    ///
    /// `sk` is valid for as long as the result is used, and T has info.
    unsafe fn published<'a>(sk: *mut sock) -> &'a Published {
        // SAFETY: The bytes are in the room, aligned because its size is a multiple of their
        // alignment, and not part of the state (STATE_FITS). Any bytes are a valid value, and while
        // the socket uses this congestion control they are written only as atomics.
        unsafe {
            &*weft_ca_room(sk)
                .cast::<u8>()
                .add(Self::PUBLISHED_AT)
                .cast::<Published>()
        }
    }

    /// The mark that a flow has a state.
    ///
    /// # Safety
    ///
    /// `sk` is valid for as long as the result is used.
    unsafe fn mark<'a>(sk: *mut sock) -> &'a AtomicUsize {
        // SAFETY: As for published().
        unsafe {
            &*weft_ca_room(sk)
                .cast::<u8>()
                .add(Self::MARK_AT)
                .cast::<AtomicUsize>()
        }
    }

    /// Whether the flow has a state.
    ///
    /// # Safety
    ///
    /// `sk` is valid and uses this congestion control.
    #[inline]
    unsafe fn has_begun(sk: *mut sock) -> bool {
        // SAFETY: As the caller promises.
        unsafe { Self::mark(sk).load(Ordering::Acquire) == weft_ca_ops(sk) as usize }
    }

    /// Whether the flow has the table without ECN.
    ///
    /// # Safety
    ///
    /// `sk` is valid, locked and uses this congestion control.
    unsafe fn is_without_ecn(sk: *mut sock) -> bool {
        // SAFETY: As the caller promises: the table is one of the two.
        T::ECN && unsafe { (*weft_ca_ops(sk).cast::<tcp_congestion_ops>()).flags == 0 }
    }

    /// Switches to the table without ECN if the other end has refused ECN.
    ///
    /// # Safety
    ///
    /// As for `is_without_ecn`.
    unsafe fn settle_ecn(sk: *mut sock) {
        // SAFETY: As the caller promises; the second table is behind the first (invariant of
        // Tables).
        unsafe {
            if T::ECN && !Self::is_without_ecn(sk) && !weft_tcp_may_have_ecn(sk) {
                let tables = weft_ca_ops(sk).cast::<Tables>();
                weft_ca_without_ecn(sk, &raw const (*tables).without_ecn);
            }
        }
    }

    /// Makes the flow's state.
    ///
    /// # Safety
    ///
    /// `sk` is valid, locked and uses this congestion control; its handshake has ended.
    unsafe fn begin(sk: *mut sock) {
        // SAFETY: As the caller promises; the state fits (STATE_FITS).
        unsafe {
            Self::settle_ecn(sk);
            let state = T::new(&mut Socket::new::<T::Shared>(sk));
            Self::store(sk, weft_ca_room(sk).cast::<T>(), state);
            // After what it publishes.
            Self::mark(sk).store(weft_ca_ops(sk) as usize, Ordering::Release);
        }
    }

    /// Stores the flow's state, and publishes its info.
    ///
    /// # Safety
    ///
    /// `sk` is valid, locked and uses this congestion control; `room` is its room.
    unsafe fn store(sk: *mut sock, room: *mut T, state: T) {
        // SAFETY: The state fits (STATE_FITS), and nobody refers to it.
        unsafe { room.write(state) };
        if T::HAS_INFO {
            let info = state.info();
            // SAFETY: As the caller promises; T has info.
            let published = unsafe { Self::published(sk) };
            published.state.store(info.state.into(), Ordering::Relaxed);
            for (place, number) in published.numbers.iter().zip(info.numbers) {
                place.store(number, Ordering::Relaxed);
            }
        }
    }

    /// Runs `f` on the flow's state and its socket.
    ///
    /// # Safety
    ///
    /// `sk` is valid, locked and uses this congestion control; the flow has a state.
    #[inline]
    unsafe fn run<R>(sk: *mut sock, f: impl FnOnce(&mut T, &mut Socket<'_>) -> R) -> R {
        // SAFETY: As the caller promises; begin() wrote the state. It is copied in and out, so that
        // no reference to it lives beside the socket that holds it. Nothing else writes it in
        // between: the socket is locked, and callbacks do not nest (see the module).
        unsafe {
            let room = weft_ca_room(sk).cast::<T>();
            let mut state = room.read();
            let result = f(&mut state, &mut Socket::new::<T::Shared>(sk));
            Self::store(sk, room, state);
            result
        }
    }

    /// Runs `f` on the flow's state and its socket; first makes the state if the handshake has
    /// ended since init. `None`: the handshake has not ended.
    ///
    /// # Safety
    ///
    /// `sk` is valid, locked and uses this congestion control.
    #[inline]
    unsafe fn with<R>(sk: *mut sock, f: impl FnOnce(&mut T, &mut Socket<'_>) -> R) -> Option<R> {
        // SAFETY: As the caller promises.
        unsafe {
            if !Self::has_begun(sk) {
                if !weft_ca_initialized(sk) || !weft_tcp_connected(sk) {
                    return None;
                }
                Self::begin(sk);
            }
            Some(Self::run(sk, f))
        }
    }

    unsafe extern "C" fn init(sk: *mut sock) {
        // SAFETY: The kernel's argument.
        unsafe {
            // The kernel reads the table's flag when this has returned.
            Self::settle_ecn(sk);
            if weft_tcp_connected(sk) || weft_tcp_ends_handshake(sk) {
                Self::begin(sk);
            }
        }
    }

    unsafe extern "C" fn release(sk: *mut sock) {
        // SAFETY: The kernel's argument.
        unsafe {
            if Self::has_begun(sk) {
                if T::HAS_RELEASE {
                    Self::run(sk, |state, socket| state.release(socket));
                }
                Self::mark(sk).store(0, Ordering::Relaxed);
            }
            // The socket may be reused for another connection (`tcp_disconnect`).
            if Self::is_without_ecn(sk) {
                let second = weft_ca_ops(sk).cast::<tcp_congestion_ops>();
                weft_ca_with_ecn(sk, second.sub(1));
            }
        }
    }

    unsafe extern "C" fn cong_avoid(sk: *mut sock, ack: u32, acked: u32) {
        // SAFETY: The kernel's argument.
        unsafe { Self::with(sk, |state, socket| state.cong_avoid(socket, ack, acked)) };
    }

    unsafe extern "C" fn cong_control(
        sk: *mut sock,
        _ack: u32,
        _flag: c_int,
        sample: *const rate_sample,
    ) {
        // SAFETY: The kernel's arguments.
        unsafe {
            let packets = weft_rate_acked(sample);
            let was_resent = weft_rate_is_retrans(sample);
            let ack = Ack {
                packets,
                marked: 0,
                rtt_us: sampled_rtt_us(packets, was_resent, weft_rate_rtt_us(sample)),
                limited: weft_tcp_is_cwnd_limited(sk),
            };
            Self::with(sk, |state, socket| state.delivered(socket, ack));
        }
    }

    unsafe extern "C" fn in_ack_event(sk: *mut sock, _flags: u32) {
        // SAFETY: The kernel's argument.
        unsafe { Self::with(sk, |state, socket| state.in_ack_event(socket)) };
    }

    unsafe extern "C" fn min_tso_segs(sk: *mut sock) -> u32 {
        // SAFETY: The kernel's argument. The returned number is the kernel's own default.
        unsafe {
            Self::with(sk, |state, socket| {
                if T::HAS_BEFORE_TRANSMIT {
                    state.before_transmit(socket);
                }
            });
            weft_tcp_min_tso_segs(sk)
        }
    }

    unsafe extern "C" fn cwnd_event_tx_start(sk: *mut sock) {
        // SAFETY: The kernel's argument.
        unsafe { Self::with(sk, |state, socket| state.transmit_start(socket)) };
    }

    unsafe extern "C" fn ssthresh(sk: *mut sock) -> u32 {
        // SAFETY: The kernel's argument. In the handshake the threshold does not change.
        unsafe {
            Self::with(sk, |state, socket| state.ssthresh(socket))
                .unwrap_or_else(|| weft_tcp_snd_ssthresh(sk))
        }
    }

    unsafe extern "C" fn undo_cwnd(sk: *mut sock) -> u32 {
        // SAFETY: The kernel's argument. In the handshake the window does not change.
        unsafe {
            Self::with(sk, |state, socket| state.undo_cwnd(socket))
                .unwrap_or_else(|| weft_tcp_snd_cwnd(sk))
        }
    }

    unsafe extern "C" fn set_state(sk: *mut sock, new: u8) {
        // SAFETY: The kernel's argument.
        unsafe {
            Self::with(sk, |state, socket| {
                // A changed path MTU also leads into this state.
                if T::HAS_TIMEOUT
                    && u32::from(new) == tcp_ca_state_TCP_CA_Loss
                    && weft_tcp_timed_out(sk)
                {
                    state.timeout(socket);
                }
                if T::HAS_SET_STATE {
                    state.set_state(socket, new);
                }
            });
        }
    }

    unsafe extern "C" fn cwnd_event(sk: *mut sock, event: tcp_ca_event) {
        // SAFETY: The kernel's argument. The flow's state is stored before anything is sent.
        unsafe {
            let arrival = Self::with(sk, |state, socket| state.cwnd_event(socket, event));
            if let Some(arrival) = arrival.flatten() {
                arrival.tell(sk);
            }
        }
    }

    unsafe extern "C" fn get_info(
        sk: *mut sock,
        ext: u32,
        attr: *mut c_int,
        info: *mut tcp_cc_info,
    ) -> usize {
        // SAFETY: The kernel's arguments; the socket is not locked, and only atomics are read.
        unsafe {
            if !Self::has_begun(sk) {
                return 0;
            }
            let Published { state, numbers } = Self::published(sk);
            let [first, second, third] = numbers.each_ref().map(|it| it.load(Ordering::Relaxed));
            let state = state.load(Ordering::Relaxed) as u16;
            weft_ca_info(ext, attr, info, state, first, second, third)
        }
    }
}

/// A registered congestion control; dropping it unregisters it. The kernel keeps the module loaded
/// as long as a socket uses it.
///
/// It is a module: `module! { type: Registration<…>, … }`. If the value were forgotten, the kernel
/// would call into an unloaded module. So it is pinned, in memory that lives as long as the module.
///
/// # Invariants
///
/// The first of `tables` is registered, and neither moves.
#[pin_data(PinnedDrop)]
pub struct Registration<T: CongestionControl> {
    tables: KBox<Tables>,
    /// Both are dropped after this value's `drop`, because sockets read them.
    _settings: Option<Namespaces<T::Settings>>,
    _shared: Option<namespace::Registration>,
    #[pin]
    _pinned: PhantomPinned,
}

// SAFETY: It can be unregistered from any thread.
unsafe impl<T: CongestionControl> Send for Registration<T> {}
// SAFETY: A shared registration has no operations.
unsafe impl<T: CongestionControl> Sync for Registration<T> {}

impl<T: CongestionControl> Registration<T> {
    /// Registers the congestion control.
    ///
    /// # Errors
    ///
    /// `EEXIST` if the name is taken, `EBUSY` if the module already has settings, `EINVAL` if Rust
    /// and C disagree on a layout (see the kernel log) or the registration is not in the module's
    /// static memory, `ENOMEM`.
    pub fn new(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            _settings: {
                // SAFETY: `module` is the running module.
                if !unsafe { weft_within_module(this.as_ptr().cast(), module.as_ptr().cast()) } {
                    Err(EINVAL)?;
                }
                layout::check()?;
                // SAFETY: It becomes part of a pinned value in the module's static memory, which is
                // dropped when the module is unloaded.
                unsafe { Namespaces::register()? }
            },
            // SAFETY: As for the settings.
            _shared: unsafe { T::Shared::register()? },
            // INVARIANT: Registered here.
            tables: {
                let mut tables = KBox::new(Adapter::<T>::tables(module), GFP_KERNEL)?;
                // SAFETY: The table is complete and, in its box, does not move until drop.
                to_result(unsafe { tcp_register_congestion_control(&raw mut tables.registered) })?;
                tables
            },
            _pinned: PhantomPinned,
        }? Error)
    }
}

impl<T: CongestionControl> InPlaceModule for Registration<T> {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        Self::new(module)
    }
}

#[pinned_drop]
impl<T: CongestionControl> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: Registered (invariant), and the table is not moved. The function itself waits for
        // readers of the list.
        unsafe {
            tcp_unregister_congestion_control(&raw mut self.get_unchecked_mut().tables.registered)
        }
        probe::end();
    }
}
