// SPDX-License-Identifier: GPL-2.0-only

//! Marks of congestion, counted exactly: the sender's half, and what DCTCP's receiver does (RFC 8257,
//! §3.2), which the kernel leaves to the receiver's congestion control.

use super::{
    bindings::{
        tcp_ca_event, tcp_ca_event_CA_EVENT_ECN_IS_CE, tcp_ca_event_CA_EVENT_ECN_NO_CE,
        weft_tcp_ce_arrived, weft_tcp_delivered_ce, weft_tcp_rcv_nxt,
    },
    congestion::Socket,
};

/// One socket's.
#[derive(Clone, Copy)]
pub struct Ecn {
    /// Packets that arrived marked, when that was last asked for; wraps.
    marked: u32,
    /// What was to be received next when the last packet had arrived.
    prior_rcv_nxt: u32,
    /// Whether that packet was marked.
    ce: bool,
}

impl Ecn {
    /// For a connection that is being established.
    pub fn new(socket: &mut Socket<'_>) -> Self {
        Self {
            // SAFETY: Valid and locked (invariant of Socket).
            marked: unsafe { weft_tcp_delivered_ce(socket.as_ptr()) },
            // SAFETY: As above.
            prior_rcv_nxt: unsafe { weft_tcp_rcv_nxt(socket.as_ptr()) },
            ce: false,
        }
    }

    /// How many packets arrived marked at the other end since this was last asked.
    pub fn marked(&mut self, socket: &mut Socket<'_>) -> u32 {
        // SAFETY: As in new().
        let marked = unsafe { weft_tcp_delivered_ce(socket.as_ptr()) };
        let new = marked.wrapping_sub(self.marked);
        self.marked = marked;
        new
    }

    /// A packet has arrived here, marked or not: the other end is told at once when that changes.
    pub fn cwnd_event(&mut self, socket: &mut Socket<'_>, event: tcp_ca_event) {
        let ce = event == tcp_ca_event_CA_EVENT_ECN_IS_CE;
        if !ce && event != tcp_ca_event_CA_EVENT_ECN_NO_CE {
            return;
        }
        // SAFETY: As in new(); both places are ours.
        unsafe {
            weft_tcp_ce_arrived(socket.as_ptr(), ce, &mut self.prior_rcv_nxt, &mut self.ce);
        }
    }
}
