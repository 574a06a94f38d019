// SPDX-License-Identifier: GPL-2.0-only

//! A TCP congestion control as a trait; the adapter between it and the kernel's callbacks.
//!
//! All callbacks run with the socket locked, in process or softirq context: they must not sleep,
//! allocate or panic. A flow's state lives in the socket (`icsk_ca_priv`, 104 bytes); that it fits
//! is checked when the module is compiled.

use core::{marker::PhantomData, mem::MaybeUninit, ptr::NonNull};

use kernel::{error::to_result, prelude::*};

use super::{
    bindings::{
        sock, tcp_ca_event, tcp_congestion_ops, tcp_register_congestion_control,
        tcp_reno_cong_avoid, tcp_reno_ssthresh, tcp_reno_undo_cwnd,
        tcp_unregister_congestion_control, weft_ca_priv, weft_tcp_is_cwnd_limited,
        weft_tcp_set_snd_cwnd, weft_tcp_snd_cwnd, weft_tcp_snd_ssthresh, WEFT_CA_PRIV_SIZE,
    },
    layout,
};

/// A congestion control with the kernel's loss recovery ("classic" in `struct
/// tcp_congestion_ops`).
#[vtable]
pub trait CongestionControl: Copy + Send + 'static {
    /// The name, as in `sysctl net.ipv4.tcp_congestion_control`; at most 15 bytes.
    const NAME: &'static str;

    /// A flow's state when the connection is established.
    fn new(socket: &Socket<'_>) -> Self;

    /// An ACK newly acknowledges `acked` packets up to `ack`.
    fn cong_avoid(&mut self, socket: &mut Socket<'_>, ack: u32, acked: u32);

    /// The slow start threshold, in packets, after a loss was detected.
    fn ssthresh(&mut self, socket: &mut Socket<'_>) -> u32;

    /// The window, in packets, to return to when a loss turns out to be none.
    fn undo_cwnd(&mut self, socket: &mut Socket<'_>) -> u32;

    /// The loss recovery enters a new state.
    fn set_state(&mut self, _socket: &mut Socket<'_>, _state: u8) {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }

    /// Something happened to the window.
    fn cwnd_event(&mut self, _socket: &mut Socket<'_>, _event: tcp_ca_event) {
        build_error!(kernel::error::VTABLE_DEFAULT_ERROR)
    }
}

/// A TCP socket that is locked by the running callback.
///
/// # Invariants
///
/// Valid and locked as long as this value lives.
pub struct Socket<'a> {
    sk: NonNull<sock>,
    _locked: PhantomData<&'a mut sock>,
}

impl Socket<'_> {
    /// The congestion window, in packets.
    pub fn snd_cwnd(&self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_snd_cwnd(self.sk.as_ptr()) }
    }

    /// Sets the congestion window, in packets, at least 1.
    pub fn set_snd_cwnd(&mut self, packets: u32) {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_set_snd_cwnd(self.sk.as_ptr(), packets) }
    }

    /// The slow start threshold, in packets.
    pub fn snd_ssthresh(&self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_snd_ssthresh(self.sk.as_ptr()) }
    }

    /// Whether the window, not the application, limits the flow.
    pub fn is_cwnd_limited(&self) -> bool {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_is_cwnd_limited(self.sk.as_ptr()) }
    }

    /// Reno's growth of the window.
    pub fn reno_cong_avoid(&mut self, ack: u32, acked: u32) {
        // SAFETY: Valid and locked (invariant).
        unsafe { tcp_reno_cong_avoid(self.sk.as_ptr(), ack, acked) }
    }

    /// Reno's threshold: half the window, at least 2.
    pub fn reno_ssthresh(&mut self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { tcp_reno_ssthresh(self.sk.as_ptr()) }
    }

    /// Reno's window after a loss that was none.
    pub fn reno_undo_cwnd(&mut self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { tcp_reno_undo_cwnd(self.sk.as_ptr()) }
    }
}

/// The kernel's callbacks for a [`CongestionControl`].
///
/// # Safety
///
/// All `unsafe extern` functions in here are to be called by the kernel only, through the table
/// below: with a valid, locked socket that uses this congestion control.
struct Adapter<T: CongestionControl>(PhantomData<T>);

impl<T: CongestionControl> Adapter<T> {
    /// The kernel's room for a flow's state, and its alignment.
    const STATE_FITS: () = assert!(
        size_of::<T>() <= WEFT_CA_PRIV_SIZE as usize && align_of::<T>() <= align_of::<u64>(),
        "the congestion control's state does not fit into icsk_ca_priv"
    );

    fn ops(module: &'static ThisModule) -> tcp_congestion_ops {
        let () = Self::STATE_FITS;
        tcp_congestion_ops {
            cong_avoid: Some(Self::cong_avoid),
            ssthresh: Some(Self::ssthresh),
            undo_cwnd: Some(Self::undo_cwnd),
            set_state: if T::HAS_SET_STATE {
                Some(Self::set_state)
            } else {
                None
            },
            cwnd_event: if T::HAS_CWND_EVENT {
                Some(Self::cwnd_event)
            } else {
                None
            },
            init: Some(Self::init),
            name: super::qdisc::id(T::NAME),
            owner: module.as_ptr().cast(),
            // SAFETY: All other fields are optional pointers, integers or a list head that the
            // registration fills, for all of which zero is valid.
            ..unsafe { MaybeUninit::zeroed().assume_init() }
        }
    }

    /// Runs `f` on the flow's state and its socket.
    ///
    /// # Safety
    ///
    /// `sk` is valid, locked and uses this congestion control; init was called.
    #[inline]
    unsafe fn with<R>(sk: *mut sock, f: impl FnOnce(&mut T, &mut Socket<'_>) -> R) -> R {
        // SAFETY: As the caller promises. The state is copied in and out, so that a reference to
        // it never lives beside the socket that holds it.
        unsafe {
            let private = weft_ca_priv(sk).cast::<T>();
            let mut state = private.read();
            let result = f(
                &mut state,
                &mut Socket {
                    sk: NonNull::new_unchecked(sk),
                    _locked: PhantomData,
                },
            );
            private.write(state);
            result
        }
    }

    unsafe extern "C" fn init(sk: *mut sock) {
        // SAFETY: The socket is valid and locked; the state fits (STATE_FITS).
        unsafe {
            let state = T::new(&Socket {
                sk: NonNull::new_unchecked(sk),
                _locked: PhantomData,
            });
            weft_ca_priv(sk).cast::<T>().write(state);
        }
    }

    unsafe extern "C" fn cong_avoid(sk: *mut sock, ack: u32, acked: u32) {
        // SAFETY: The kernel's argument.
        unsafe { Self::with(sk, |state, socket| state.cong_avoid(socket, ack, acked)) }
    }

    unsafe extern "C" fn ssthresh(sk: *mut sock) -> u32 {
        // SAFETY: The kernel's argument.
        unsafe { Self::with(sk, |state, socket| state.ssthresh(socket)) }
    }

    unsafe extern "C" fn undo_cwnd(sk: *mut sock) -> u32 {
        // SAFETY: The kernel's argument.
        unsafe { Self::with(sk, |state, socket| state.undo_cwnd(socket)) }
    }

    unsafe extern "C" fn set_state(sk: *mut sock, new: u8) {
        // SAFETY: The kernel's argument.
        unsafe { Self::with(sk, |state, socket| state.set_state(socket, new)) }
    }

    unsafe extern "C" fn cwnd_event(sk: *mut sock, event: tcp_ca_event) {
        // SAFETY: The kernel's argument.
        unsafe { Self::with(sk, |state, socket| state.cwnd_event(socket, event)) }
    }
}

/// A registered congestion control; dropping it takes it away. The kernel keeps the module loaded
/// as long as a socket uses it.
///
/// # Invariants
///
/// `ops` is registered and stays where it is.
pub struct Registration<T: CongestionControl> {
    ops: KBox<tcp_congestion_ops>,
    _kind: PhantomData<T>,
}

// SAFETY: Taking it away is possible from any thread.
unsafe impl<T: CongestionControl> Send for Registration<T> {}
// SAFETY: There is nothing to do with a shared registration.
unsafe impl<T: CongestionControl> Sync for Registration<T> {}

impl<T: CongestionControl> Registration<T> {
    /// Makes the congestion control known.
    ///
    /// # Errors
    ///
    /// `EEXIST` where there is one of that name, `EINVAL` where Rust and C disagree on a layout
    /// (see the kernel log), `ENOMEM`.
    pub fn register(module: &'static ThisModule) -> Result<Self> {
        layout::check()?;
        let mut ops = KBox::new(Adapter::<T>::ops(module), GFP_KERNEL)?;
        // SAFETY: The table is complete and, in its box, stays where it is until drop.
        to_result(unsafe { tcp_register_congestion_control(&raw mut *ops) })?;
        // INVARIANT: Registered just now.
        Ok(Self {
            ops,
            _kind: PhantomData,
        })
    }
}

impl<T: CongestionControl> Drop for Registration<T> {
    fn drop(&mut self) {
        // SAFETY: Registered (invariant); waits for readers of the list itself.
        unsafe { tcp_unregister_congestion_control(&raw mut *self.ops) }
    }
}
