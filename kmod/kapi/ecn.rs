// SPDX-License-Identifier: GPL-2.0-only

//! Exact counts of congestion marks: the sender's half, and the duties of DCTCP's receiver (RFC
//! 8257, §3.2), which the kernel leaves to the receiver's congestion control.
//!
//! The receiver acknowledges at once when marks begin or end, and before that sends any delayed
//! acknowledgement. A local qdisc can answer that packet with `NET_XMIT_CN`; the kernel then enters
//! `TCP_CA_CWR` and calls back into this congestion control on the same socket. So a callback only
//! returns what to send ([`Arrival`]), and the adapter sends it when the flow's state is stored.

use super::{
    bindings::{
        sock, tcp_ca_event, tcp_ca_event_CA_EVENT_ECN_IS_CE, tcp_ca_event_CA_EVENT_ECN_NO_CE,
        weft_tcp_ce_arrived, weft_tcp_delivered_ce, weft_tcp_rcv_nxt,
    },
    recovery::Recovery,
    socket::Socket,
};
use crate::common::window::Ack;

/// The marks of one socket.
#[derive(Clone, Copy)]
pub struct Ecn {
    /// Packets that had arrived marked at the last query; wraps.
    marked: u32,
    /// `rcv_nxt` after the last packet arrived.
    prior_rcv_nxt: u32,
    /// Whether that packet was marked.
    ce: bool,
}

/// A packet has arrived: the report on its mark to the other end.
#[must_use = "the other end has to be told of marks"]
pub struct Arrival {
    /// Whether it was marked, and whether the packet before it was.
    ce: bool,
    prior_ce: bool,
    /// `rcv_nxt` before it.
    prior_rcv_nxt: u32,
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

    /// How many packets arrived marked at the other end since the last call.
    pub fn marked(&mut self, socket: &mut Socket<'_>) -> u32 {
        // SAFETY: As in new().
        let marked = unsafe { weft_tcp_delivered_ce(socket.as_ptr()) };
        let new = marked.wrapping_sub(self.marked);
        self.marked = marked;
        new
    }

    /// The same. If the other end refuses ECN, so that no packet can be marked, those that `ack`
    /// acknowledges during the repair of a loss count as marked.
    pub fn marked_or_lost(
        &mut self,
        socket: &mut Socket<'_>,
        ack: &Ack,
        recovery: &Recovery,
    ) -> u32 {
        if recovery.is_on() && !socket.has_ecn() {
            ack.packets
        } else {
            self.marked(socket)
        }
    }

    /// For [`cwnd_event`](super::congestion::CongestionControl::cwnd_event): whether a packet has
    /// arrived here, and the report on it to the other end.
    pub fn cwnd_event(&mut self, socket: &mut Socket<'_>, event: tcp_ca_event) -> Option<Arrival> {
        let ce = event == tcp_ca_event_CA_EVENT_ECN_IS_CE;
        if !ce && event != tcp_ca_event_CA_EVENT_ECN_NO_CE {
            return None;
        }
        let arrival = Arrival {
            ce,
            prior_ce: self.ce,
            prior_rcv_nxt: self.prior_rcv_nxt,
        };
        // SAFETY: As in new().
        self.prior_rcv_nxt = unsafe { weft_tcp_rcv_nxt(socket.as_ptr()) };
        self.ce = ce;
        Some(arrival)
    }
}

impl Arrival {
    /// Reports to the other end, at once if marks begin or end.
    ///
    /// # Safety
    ///
    /// `sk` is valid and locked. Callbacks of its congestion control may run before this returns.
    pub(super) unsafe fn tell(self, sk: *mut sock) {
        // SAFETY: As the caller promises.
        unsafe { weft_tcp_ce_arrived(sk, self.ce, self.prior_ce, self.prior_rcv_nxt) }
    }
}
