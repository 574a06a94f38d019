// SPDX-License-Identifier: GPL-2.0-only

//! A header without data in place of a timeout's retransmission.
//!
//! A congestion control is called on a timeout, but it cannot prevent the kernel's next action, the
//! retransmission of the first packet. It can do this without a change to the kernel: before a
//! retransmission, `__tcp_retransmit_skb` has the socket's address family rebuild the header, and
//! gives up if that fails, for example if there is no route. So the table of the family's
//! operations is replaced, for one socket and from the timeout to that call, by a copy that differs
//! in this one operation: it puts the original table back, sends the header, and fails. The kernel
//! then treats the retransmission as failed: nothing is in flight, and the timer is set and
//! doubled.
//!
//! The header's sequence number is one before the first unacknowledged byte, as in a keepalive
//! probe. The peer answers a segment outside its window with an acknowledgement, at most once every
//! `net.ipv4.tcp_invalid_ratelimit` ms, 500 by default: 0 means one each time. The kernel decides
//! on the answer:
//!
//! - *It acknowledges nothing new.* The first packet, which the timeout has marked as lost, is
//!   retransmitted.
//! - *The packet's own acknowledgement came first.* The packet was only delayed. As nothing was
//!   retransmitted ([`nothing_resent`]), the kernel finds the timeout spurious and reverts its
//!   marks.
//!
//! A packet that is still in the host's own queue is not retransmitted by the kernel, and gets no
//! probe.
//!
//! `setsockopt` and `getsockopt` read the pointer to the table without the socket's lock. So it is
//! written as the kernel writes it, and the tables stay until such readers are done ([`end`]).

use super::{
    bindings::{
        weft_tcp_nothing_resent, weft_tcp_probe_instead, weft_tcp_probe_over, weft_tcp_probes_end,
    },
    socket::Socket,
};

/// In a timeout's callback: sends a header in place of the first packet.
pub fn instead(socket: &mut Socket<'_>) {
    // SAFETY: Valid and locked (invariant of Socket).
    unsafe { weft_tcp_probe_instead(socket.as_ptr()) }
}

/// Ends the replacement. Call it from each callback that may come between a timeout and the next
/// retransmission, and before the socket is destroyed.
pub fn over(socket: &mut Socket<'_>) {
    // SAFETY: As in instead().
    unsafe { weft_tcp_probe_over(socket.as_ptr()) }
}

/// Waits for readers of replaced tables, before the module is unloaded and when no socket uses its
/// congestion control any more. May sleep.
pub(super) fn end() {
    // SAFETY: A C function without pointers; a module's exit may sleep. After it, nobody has a
    // pointer into the module. A socket gives its table back in `release`, which comes before the
    // socket returns its reference to the module. A reader without the socket's lock takes only
    // the address of a function of the kernel from the table, and the call waits until each reader
    // has done so, even a preempted one.
    unsafe { weft_tcp_probes_end() }
}

/// An acknowledgement arrived after a probe, and nothing was retransmitted since. Call it before
/// the kernel concludes anything from the acknowledgement.
pub fn nothing_resent(socket: &mut Socket<'_>) {
    // SAFETY: As in instead().
    unsafe { weft_tcp_nothing_resent(socket.as_ptr()) }
}
