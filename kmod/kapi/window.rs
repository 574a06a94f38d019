// SPDX-License-Identifier: GPL-2.0-only

//! A socket that obeys a window law: the actions of its congestion control on each callback; and
//! one that obeys a rate.

use super::socket::Socket;
use crate::common::{
    bdp,
    pacing::payload_rate,
    window::{Ack, Resend, WindowLaw},
};

/// Sets a window in packets, without slow start.
pub fn without_slow_start(socket: &mut Socket<'_>, packets: u32) {
    socket.set_snd_cwnd(packets);
    socket.set_snd_ssthresh(packets);
}

/// Paces full packets at `bits` bit/s, if each occupies `packet` bytes on the wire, within a window
/// of `window` packets.
pub fn at_rate(socket: &mut Socket<'_>, bits: u64, packet: u32, window: u32) {
    socket.pace(payload_rate(bits, socket.mss(), packet));
    without_slow_start(socket, window);
}

/// Sets a window in 2^-10 bytes on the wire, rounded up to a whole packet of `packet` bytes, and
/// paces the packets at the window's rate, in bit/s.
pub fn in_bytes(socket: &mut Socket<'_>, window: u64, rate: u64, packet: u32) {
    at_rate(socket, rate, packet, bdp::packets(window, packet));
}

/// Applies the law's window and threshold to the socket.
pub fn apply(law: &impl WindowLaw, socket: &mut Socket<'_>) {
    socket.set_snd_cwnd(law.window());
    socket.set_snd_ssthresh(law.threshold());
}

/// Passes the law an acknowledgement, and whether there is nothing more to send; then updates the
/// socket.
pub fn on_ack(law: &mut impl WindowLaw, socket: &mut Socket<'_>, ack: Ack) {
    law.on_ack(ack);
    if socket.all_acked() {
        law.on_idle();
    }
    apply(law, socket);
}

/// Passes the law a timeout, and then updates the socket. A closed peer window is not caused by the
/// fabric, so the law does not see timeouts during one.
pub fn on_timeout(law: &mut impl WindowLaw, socket: &mut Socket<'_>) -> Resend {
    let resend = if socket.peer_window_closed() {
        Resend::Packet
    } else {
        law.on_timeout()
    };
    apply(law, socket);
    resend
}
