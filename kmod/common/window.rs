// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! What a host's window law is to the socket that obeys it: what it is told, and what it says.
//!
//! | law | of |
//! |---|---|
//! | [`RateControl`](super::pfabric_rate::RateControl) | a pFabric host |
//! | [`Window`](super::bfc_window::Window) | a BFC host |
//! | [`Window`](crate::pase::window::Window) | a PASE host |

use core::num::NonZeroU32;

/// What an acknowledgement tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// How many packets it acknowledges for the first time, cumulatively or selectively.
    pub packets: u32,
    /// How many of them arrived with a mark of congestion; 0 where nobody looks.
    pub marked: u32,
    /// How long ago, in µs, the last of them was sent; `None` if there is none, or if it was sent
    /// more than once, and nobody knows which of them arrived.
    pub rtt_us: Option<NonZeroU32>,
    /// Whether the flow had more to send than the window let it.
    pub limited: bool,
}

/// What a timeout sends again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// The first unacknowledged packet.
    Packet,
    /// One byte of it.
    Probe,
}

/// How many packets a flow may have in flight.
pub trait WindowLaw {
    /// The most packets that may be in flight, at least 1.
    fn window(&self) -> u32;

    /// The window up to which slow start goes, in packets.
    fn threshold(&self) -> u32;

    /// An acknowledgement arrived.
    fn on_ack(&mut self, ack: Ack);

    /// The retransmission timer fired: what to send again.
    fn on_timeout(&mut self) -> Resend;

    /// All that was to be sent is acknowledged: what comes next is a new flow.
    fn on_idle(&mut self);
}
