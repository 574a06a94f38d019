// SPDX-License-Identifier: GPL-2.0-only

//! A header without data in place of what a timeout would send again.
//!
//! A congestion control is told of a timeout, but what the kernel does next, to send the first
//! packet again, it cannot decline. What it can, without a change to the kernel: before a packet is
//! sent again, `__tcp_retransmit_skb` has the socket's address family rebuild the header, and gives
//! up if that fails, as where there is no route. So the table of the family's operations is
//! replaced, for one socket and from the timeout to that call, by a copy that differs in this one:
//! it puts the table back, sends the header, and fails. The kernel then has the retransmission for
//! one that failed: nothing is in flight, the timer is set, and doubled.
//!
//! The header's sequence number is one before the first byte that is not acknowledged, as a
//! keepalive probe's is. The peer answers what is out of its window with an acknowledgement, at
//! most every `net.ipv4.tcp_invalid_ratelimit` ms, 500 by default: 0 for one each time. What comes
//! of the answer is the kernel's doing:
//!
//! - *It acknowledges nothing new.* The first packet, which the timeout has marked as lost, is sent
//!   again.
//! - *The packet's own acknowledgement came first.* It had only waited. As nothing was sent again
//!   ([`nothing_resent`]) the kernel finds that the timeout was none, and takes back what it
//!   marked.
//!
//! A packet that is still in the host's own queue is not sent again by the kernel, and gets no
//! probe.
//!
//! `setsockopt` and `getsockopt` read the pointer to the table without the socket's lock, so it is
//! written as the kernel writes it, and the tables stay until such readers are done ([`end`]).

use super::{
    bindings::{
        weft_tcp_nothing_resent, weft_tcp_probe_instead, weft_tcp_probe_over, weft_tcp_probes_end,
    },
    socket::Socket,
};

/// In the callback of a timeout: a header goes out in place of the first packet.
pub fn instead(socket: &mut Socket<'_>) {
    // SAFETY: Valid and locked (invariant of Socket).
    unsafe { weft_tcp_probe_instead(socket.as_ptr()) }
}

/// Nothing is replaced any more: to be called from each callback that may come between a timeout
/// and the next packet that is sent again, and before the socket goes.
pub fn over(socket: &mut Socket<'_>) {
    // SAFETY: As in instead().
    unsafe { weft_tcp_probe_over(socket.as_ptr()) }
}

/// Before the module goes, when no socket uses its congestion control any more: nobody uses a
/// replaced table any more. May sleep.
pub(super) fn end() {
    // SAFETY: A C function without pointers; a module's exit may sleep.
    unsafe { weft_tcp_probes_end() }
}

/// An acknowledgement arrived after a probe, and nothing was sent again since: before the kernel
/// concludes anything from it.
pub fn nothing_resent(socket: &mut Socket<'_>) {
    // SAFETY: As in instead().
    unsafe { weft_tcp_nothing_resent(socket.as_ptr()) }
}
