// SPDX-License-Identifier: GPL-2.0-only

//! A socket that obeys a window law: what its congestion control does on each callback.

use super::socket::Socket;
use crate::common::window::{Ack, Resend, WindowLaw};

/// Tells the socket what the law says.
pub fn apply(law: &impl WindowLaw, socket: &mut Socket<'_>) {
    socket.set_snd_cwnd(law.window());
    socket.set_snd_ssthresh(law.threshold());
}

/// Tells the law of an acknowledgement, and whether there is nothing more to send; then the socket.
pub fn on_ack(law: &mut impl WindowLaw, socket: &mut Socket<'_>, ack: Ack) {
    law.on_ack(ack);
    if socket.all_acked() {
        law.on_idle();
    }
    apply(law, socket);
}

/// Tells the law of a timeout, and then the socket. A closed window says nothing about the fabric,
/// and a timeout over one nothing to the law.
pub fn on_timeout(law: &mut impl WindowLaw, socket: &mut Socket<'_>) -> Resend {
    let resend = if socket.peer_window_closed() {
        Resend::Packet
    } else {
        law.on_timeout()
    };
    apply(law, socket);
    resend
}
