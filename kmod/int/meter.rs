// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The utilisation of a link, averaged over a base round-trip time; and the numbers from which a
//! sender computes it.

use crate::common::records::Departure;
use crate::common::stamp::{FRACTION_BITS, LIMIT};

const NS_PER_S: u64 = 1_000_000_000;
/// The largest utilisation.
const MOST: u64 = LIMIT as u64 - 1;
/// The longest base round-trip time in ns.
pub const MAX_RTT: u64 = 10 * NS_PER_S;

/// A link. Values out of range are clamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// B in bytes per second, at least 1.
    pub rate: u64,
    /// T in ns, from 1 to [`MAX_RTT`].
    pub rtt: u64,
}

/// The utilisation of one link.
#[derive(Clone, Copy, Debug)]
pub struct Meter {
    rate: u64,
    rtt: u64,
    /// U in 2^-20, at most `MOST`.
    utilisation: u64,
    /// When the last packet left, in ns.
    last: Option<u64>,
    /// The time in ns that all packets so far take; wraps.
    sent: u64,
    /// What whole nanoseconds leave of them, in bytes times 10^9, below the rate.
    rest: u64,
}

impl Meter {
    /// A link that has not sent anything.
    pub fn new(link: Link) -> Self {
        let mut new = Self {
            rate: 1,
            rtt: 1,
            utilisation: 0,
            last: None,
            sent: 0,
            rest: 0,
        };
        new.set_link(link);
        new
    }

    /// Applies to the next packets.
    pub fn set_link(&mut self, link: Link) {
        self.rate = link.rate.max(1);
        self.rest = 0;
        self.rtt = link.rtt.clamp(1, MAX_RTT);
    }

    /// The numbers of a packet that leaves at `now`, in ns, while packets that occupy `queue` bytes
    /// stay behind. Before [`depart`](Self::depart), which counts the packet.
    #[inline]
    pub fn departure(&self, now: u64, queue: u64) -> Departure {
        Departure {
            queue: queue
                .saturating_mul(NS_PER_S)
                .checked_div(self.rate)
                .unwrap_or(u64::MAX),
            sent: self.sent,
            time: now,
        }
    }

    /// T in ns.
    pub fn rtt(&self) -> u64 {
        self.rtt
    }

    /// Forgets the utilisation. The bytes sent stay, because senders remember them.
    pub fn reset(&mut self) {
        self.utilisation = 0;
        self.last = None;
    }

    /// A packet that occupies `bytes` leaves at `now`, in ns, and packets that occupy `queue` bytes
    /// stay behind. Returns the utilisation in 2^-20.
    #[inline]
    pub fn depart(&mut self, now: u64, bytes: u64, queue: u64) -> u32 {
        let since = self.since(now);
        let queue = self.parts(queue);
        // Each factor is below 2^29, and the two times are together T, below 2^34.
        let kept = self
            .utilisation
            .wrapping_mul(self.rtt.saturating_sub(since));
        let sum = kept.wrapping_add(queue.wrapping_mul(since));
        let average = sum
            .wrapping_add(self.rtt >> 1)
            .checked_div(self.rtt)
            .unwrap_or(0);
        self.utilisation = average.wrapping_add(self.parts(bytes)).min(MOST);
        self.last = Some(now);
        let time = bytes.saturating_mul(NS_PER_S).saturating_add(self.rest);
        self.rest = time.checked_rem(self.rate).unwrap_or(0);
        self.sent = self
            .sent
            .wrapping_add(time.checked_div(self.rate).unwrap_or(0));
        self.utilisation as u32
    }

    /// The utilisation at `now`, in 2^-20, if no packet leaves then.
    pub fn at(&self, now: u64) -> u32 {
        let left = self.rtt.saturating_sub(self.since(now));
        let kept = self.utilisation.wrapping_mul(left);
        kept.checked_div(self.rtt).unwrap_or(0) as u32
    }

    /// τ: ns since the last packet, at most T.
    #[inline]
    fn since(&self, now: u64) -> u64 {
        self.last
            .map_or(self.rtt, |last| now.saturating_sub(last).min(self.rtt))
    }

    /// `bytes / (B T)` in 2^-20, at most `MOST`.
    #[inline]
    fn parts(&self, bytes: u64) -> u64 {
        // The time that they take, at most 2^43 ns.
        let ns = bytes
            .saturating_mul(NS_PER_S)
            .checked_div(self.rate)
            .unwrap_or(u64::MAX)
            .min(self.rtt << 9);
        (ns << FRACTION_BITS)
            .checked_div(self.rtt)
            .unwrap_or(0)
            .min(MOST)
    }
}
