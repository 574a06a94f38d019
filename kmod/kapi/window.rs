// SPDX-License-Identifier: GPL-2.0-only

//! A socket that obeys a window law: the actions of its congestion control on each callback.

use super::socket::Socket;
use crate::common::window::{Ack, Resend, WindowLaw};

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
