// SPDX-License-Identifier: GPL-2.0-only

//! A TCP socket, locked by a callback of its congestion control.

use core::{any::TypeId, marker::PhantomData, ptr::NonNull};

use super::{
    bindings::{
        sock, tcp_reno_cong_avoid, tcp_reno_ssthresh, tcp_reno_undo_cwnd, weft_sock_net,
        weft_tcp_all_acked, weft_tcp_may_have_ecn, weft_tcp_paced, weft_tcp_set_snd_cwnd,
        weft_tcp_set_snd_ssthresh, weft_tcp_snd_cwnd, weft_tcp_snd_ssthresh, weft_tcp_snd_wnd,
        weft_tcp_unpaced,
    },
    namespace::{self, private::Sharing as _, Shared, Sharing},
    settings::{self, Settings},
};

/// A TCP socket, locked by the running callback.
///
/// # Invariants
///
/// Valid and locked as long as this value lives. The state that the flows of its congestion control
/// share is of the type `shared`, and registered.
pub struct Socket<'a> {
    sk: NonNull<sock>,
    shared: TypeId,
    _locked: PhantomData<&'a mut sock>,
}

impl Socket<'_> {
    /// # Safety
    ///
    /// `sk` is valid, locked and uses a congestion control whose flows share a `T`, for as long as
    /// the result lives.
    pub(super) unsafe fn new<T: Sharing + 'static>(sk: *mut sock) -> Self {
        // INVARIANT: As the caller promises; a registration keeps the shared state for longer than
        // the congestion control.
        Self {
            // SAFETY: A valid pointer is not null.
            sk: unsafe { NonNull::new_unchecked(sk) },
            shared: TypeId::of::<T>(),
            _locked: PhantomData,
        }
    }

    /// Valid and locked (invariant).
    pub(super) fn as_ptr(&self) -> *mut sock {
        self.sk.as_ptr()
    }

    /// The congestion window, in packets.
    pub fn snd_cwnd(&self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_snd_cwnd(self.sk.as_ptr()) }
    }

    /// Sets the congestion window, in packets, at least 1 and at most what the route allows.
    pub fn set_snd_cwnd(&mut self, packets: u32) {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_set_snd_cwnd(self.sk.as_ptr(), packets) }
    }

    /// The slow start threshold, in packets.
    pub fn snd_ssthresh(&self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_snd_ssthresh(self.sk.as_ptr()) }
    }

    /// Sets the slow start threshold, in packets.
    pub fn set_snd_ssthresh(&mut self, packets: u32) {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_set_snd_ssthresh(self.sk.as_ptr(), packets) }
    }

    /// Whether all data was sent and is acknowledged.
    pub fn all_acked(&self) -> bool {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_all_acked(self.sk.as_ptr()) }
    }

    /// Whether marks are echoed: whether the other end has agreed to report them.
    pub fn has_ecn(&self) -> bool {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_may_have_ecn(self.sk.as_ptr()) }
    }

    /// Whether the peer's window is closed: a timeout then asks whether it still is.
    pub fn peer_window_closed(&self) -> bool {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_snd_wnd(self.sk.as_ptr()) == 0 }
    }

    /// A setting of the socket's network namespace, by its place in the list of settings.
    pub fn setting<S: Settings>(&self, place: usize) -> u32 {
        // SAFETY: Valid and locked (invariant), and of a congestion control whose registration
        // keeps the settings: they are removed after its last socket. A socket's namespace is not
        // destroyed before the socket.
        unsafe { settings::read::<S>(weft_sock_net(self.sk.as_ptr()), place) }
    }

    /// The state that the flows of the socket's network namespace share, locked for the length of
    /// `f`; `None` if it is of another type. `f` must not sleep, allocate, or loop without a bound.
    /// `&mut self` keeps `f` from calling this again, see
    /// [`Rtnl::shared`](super::scope::Rtnl::shared).
    pub fn shared<S: Shared, R>(&mut self, f: impl FnOnce(&mut S) -> R) -> Option<R> {
        if self.shared != TypeId::of::<S>() {
            return None;
        }
        // SAFETY: Valid and locked (invariant). The state is of the type that was registered
        // (checked above) and exists as long as the namespace, which is not destroyed before the
        // socket. The lock is not held: callbacks of a socket do not nest (see the module), other
        // sockets' callbacks run on other threads, and `f` cannot come back here, because this
        // socket is borrowed for it and is the only one that a callback has.
        unsafe {
            let net = weft_sock_net(self.sk.as_ptr());
            Some(namespace::with(S::find_in(net), f))
        }
    }

    /// Lets the flow send as fast as the application allows (`SO_MAX_PACING_RATE`). With
    /// `delivered`, the kernel does not pace it again.
    pub fn unpace(&mut self) {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_unpaced(self.sk.as_ptr()) }
    }

    /// Paces the flow at this many bytes of payload a second, at least 1 and at most what the
    /// application allows (`SO_MAX_PACING_RATE`). A new rate applies after the next packet, whose
    /// time was set when the last one left. The kernel does not pace the first ten packets of a
    /// connection. With `delivered`, nothing else changes the rate.
    ///
    /// The socket keeps its timer for the rate of a later congestion control, as with BBR.
    pub fn pace(&mut self, bytes_per_second: u64) {
        // SAFETY: Valid and locked (invariant).
        unsafe { weft_tcp_paced(self.sk.as_ptr(), bytes_per_second) }
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

    /// Reno's window after a spurious loss.
    pub fn reno_undo_cwnd(&mut self) -> u32 {
        // SAFETY: Valid and locked (invariant).
        unsafe { tcp_reno_undo_cwnd(self.sk.as_ptr()) }
    }
}
