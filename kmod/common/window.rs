// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The interface between a host's window law and the socket that obeys it.
//!
//! | law | of |
//! |---|---|
//! | [`RateControl`](crate::pfabric::rate::RateControl) | a pFabric host |
//! | [`Window`](crate::bfc::window::Window) | a BFC host |
//! | [`Window`](crate::pase::window::Window) | a PASE host |

use core::num::NonZeroU32;

/// The kernel's longest retransmission timeout, in µs: no setting of a flow's time is longer.
pub const LONGEST_TIMEOUT_US: u32 = 120_000_000;

/// The contents of an acknowledgement, as a law sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// How many packets it newly acknowledges, cumulatively or selectively.
    pub packets: u32,
    /// How many of them arrived with a congestion mark; 0 if nobody counts marks.
    pub marked: u32,
    /// How long ago, in µs, the last of them was sent; `None` if there is none, or if it was sent
    /// more than once and it is unknown which transmission arrived.
    pub rtt_us: Option<NonZeroU32>,
    /// Whether the window kept the flow from sending more.
    pub limited: bool,
}

/// The round-trip time of an acknowledgement of `packets` packets, from the kernel's sample, which
/// is negative if there is none.
///
/// A packet that was sent more than once gives none (Karn's algorithm). The kernel would take it
/// from timestamps, which have millisecond resolution.
pub fn sampled_rtt_us(packets: u32, was_resent: bool, sample_us: i64) -> Option<NonZeroU32> {
    if packets == 0 || was_resent || sample_us < 0 {
        return None;
    }
    NonZeroU32::new(u32::try_from(sample_us).unwrap_or(u32::MAX).max(1))
}

/// The retransmission after a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resend {
    /// The first unacknowledged packet.
    Packet,
    /// One byte of it.
    Probe,
}

/// A law for the number of packets that a flow may have in flight.
pub trait WindowLaw {
    /// The most packets that may be in flight, at least 1.
    fn window(&self) -> u32;

    /// The slow start threshold, in packets.
    fn threshold(&self) -> u32;

    /// An acknowledgement arrived.
    fn on_ack(&mut self, ack: Ack);

    /// The retransmission timer fired: returns what to retransmit.
    fn on_timeout(&mut self) -> Resend;

    /// All data is acknowledged: the next data is a new flow.
    fn on_idle(&mut self);
}
