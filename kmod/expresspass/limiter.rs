// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! The credit limit of a host's link: what a switch does to credits with `prio` and `tbf`.
//!
//! A short queue, which credits leave at the maximum rate, and in bursts of at most [`BURST`]. A
//! credit that finds the queue full is dropped before there is a packet of it.

use super::message::{Flow, Message};
use super::rate::FRACTION;
use crate::common::shared::Peer;

/// The most credits that wait.
pub const MAX_CREDITS: u32 = 64;

/// The most credits that leave at once, as in the authors' simulator.
pub const BURST: u64 = 2;

/// A queue of credits.
pub struct Limiter {
    credits: [Option<(Peer, Message)>; MAX_CREDITS as usize],
    first: u32,
    len: u32,
    limit: u32,
    /// The time between two credits, in 2^-8 ns.
    gap: u64,
    /// When a credit may leave if it is not part of a burst, in ns, and its fraction.
    at: u64,
    fraction: u64,
}

impl Limiter {
    /// An empty queue of at most `limit` credits, `gap` in 2^-8 ns apart.
    pub fn new(limit: u32, gap: u64) -> Self {
        Self {
            credits: [None; MAX_CREDITS as usize],
            first: 0,
            len: 0,
            limit: limit.clamp(1, MAX_CREDITS),
            gap,
            at: 0,
            fraction: 0,
        }
    }

    /// Changes limit and gap. Credits beyond the limit still leave.
    pub fn set(&mut self, limit: u32, gap: u64) {
        self.limit = limit.clamp(1, MAX_CREDITS);
        self.gap = gap;
    }

    /// Credits that wait.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether no credit waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a credit; returns `false` if it is dropped.
    pub fn push(&mut self, to: Peer, credit: Message) -> bool {
        if self.len >= self.limit {
            return false;
        }
        let place = self.first.wrapping_add(self.len) % MAX_CREDITS;
        if let Some(place) = self.credits.get_mut(place as usize) {
            *place = Some((to, credit));
        }
        self.len = self.len.wrapping_add(1);
        true
    }

    /// When the next credit may leave, if one waits.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        let burst = self.gap.wrapping_mul(BURST.wrapping_sub(1)) >> FRACTION;
        (self.len != 0).then_some(self.at.saturating_sub(burst))
    }

    /// The next credit, if it may leave now.
    pub fn pop(&mut self, now: u64) -> Option<(Peer, Message)> {
        self.next().filter(|&at| at <= now)?;
        let credit = self.credits.get_mut(self.first as usize)?.take();
        self.first = self.first.wrapping_add(1) % MAX_CREDITS;
        self.len = self.len.wrapping_sub(1);
        if self.at < now {
            (self.at, self.fraction) = (now, 0);
        }
        let sum = self.gap.wrapping_add(self.fraction);
        self.at = self.at.saturating_add(sum >> FRACTION);
        self.fraction = sum & ((1 << FRACTION) - 1);
        credit
    }

    /// Drops the credits of a flow.
    pub fn forget(&mut self, flow: &Flow) {
        let (first, len) = (self.first, self.len);
        self.len = 0;
        for number in 0..len {
            let place = first.wrapping_add(number) % MAX_CREDITS;
            let place = self.credits.get_mut(place as usize);
            let credit = place.and_then(Option::take);
            let Some(credit) = credit.filter(|(_, credit)| credit.flow != *flow) else {
                continue;
            };
            // Not behind the place that was just vacated.
            let place = first.wrapping_add(self.len) % MAX_CREDITS;
            if let Some(place) = self.credits.get_mut(place as usize) {
                *place = Some(credit);
            }
            self.len = self.len.wrapping_add(1);
        }
    }

    /// Drops all credits.
    pub fn clear(&mut self) {
        self.credits = [None; MAX_CREDITS as usize];
        self.len = 0;
    }
}
