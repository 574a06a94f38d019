// SPDX-License-Identifier: MIT OR Apache-2.0

//! Limits how often an endpoint may cause work that costs more than reading a datagram.
//!
//! A quota samples. It counts the datagrams of a period; if more arrive than may be served, each is
//! served with the probability that serves as many as allowed. So a flood delays a genuine datagram
//! only by the flood's share of the datagrams: a sender gains nothing by timing its datagrams. As
//! the count is known only when the period is over, a token bucket limits the datagrams served
//! meanwhile.

use weft_mechanisms::common::xorshift::Xorshift32;

/// A quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    /// The most datagrams served in a period on average; at most twice as many are served at once.
    most: u32,
    period: u64,
    /// Datagrams that arrived in the last period, and in this one.
    before: u32,
    now: u32,
    /// When this one ends.
    until: u64,
    tokens: u32,
    /// When the next token comes.
    next: u64,
}

impl Quota {
    /// `most` datagrams in `period` ns.
    pub(crate) fn new(most: u32, period: u64) -> Self {
        Self {
            most,
            period: period.max(1),
            before: 0,
            now: 0,
            until: 0,
            tokens: most.saturating_mul(2),
            next: 0,
        }
    }

    /// A datagram has arrived; returns whether it is served.
    pub(crate) fn take(&mut self, now: u64, random: &mut Xorshift32) -> bool {
        if let Some(late) = now.checked_sub(self.until) {
            // After a pause, none arrived in the last period.
            self.before = if late < self.period { self.now } else { 0 };
            self.now = 0;
            self.until = now.saturating_add(self.period);
        }
        self.now = self.now.saturating_add(1);
        if let Some(late) = now.checked_sub(self.next) {
            let interval = (self.period / u64::from(self.most.max(1))).max(1);
            let tokens = u64::from(self.tokens).saturating_add(1 + late / interval);
            self.tokens = tokens.min(2 * u64::from(self.most)) as u32;
            self.next = now.saturating_add(interval - late % interval);
        }
        let come = self.before.max(self.now);
        let is_served = random.below(come) < self.most && self.tokens > 0;
        self.tokens -= u32::from(is_served);
        is_served
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: u64 = 100_000;

    #[test]
    fn a_quota_serves_a_burst_of_twice_its_rate_and_then_its_rate() {
        let mut random = Xorshift32::new(1);
        let mut quota = Quota::new(16, PERIOD);
        let mut count = |times: &mut dyn Iterator<Item = u64>| {
            times.filter(|now| quota.take(*now, &mut random)).count()
        };
        let first = count(&mut (0..1000));
        assert_eq!(first, 32);
        let then = count(&mut (1..100_000).map(|time| time * PERIOD / 100));
        assert!((15_000..16_100).contains(&then), "{then} in 1000 periods");
        // A pause does not allow more.
        let last = count(&mut (3000 * PERIOD..3000 * PERIOD + 1000));
        assert_eq!(last, 32);
    }

    #[test]
    fn datagrams_within_the_quota_are_never_refused() {
        let mut random = Xorshift32::new(3);
        let mut quota = Quota::new(16, PERIOD);
        for round in 0..10_000 {
            for _ in 0..16 {
                assert!(quota.take(round * PERIOD, &mut random), "{round}");
            }
        }
    }

    #[test]
    fn a_flood_delays_a_sender_by_its_share_however_it_is_timed() {
        // The flood is spread evenly, or arrives all at once, at any phase.
        for phase in 0..10 {
            for burst in [1, 4, 128] {
                let mut random = Xorshift32::new(7);
                let mut quota = Quota::new(16, PERIOD);
                let mut given = 0;
                for now in 0..2000 * 128 {
                    let at = now * PERIOD / 128;
                    if now % burst == 0 {
                        for _ in 0..burst {
                            quota.take(at, &mut random);
                        }
                    }
                    if now % 128 == phase * 12 {
                        given += u32::from(quota.take(at + 1, &mut random));
                    }
                }
                // An even share of 2000 tries is 2000 * 16 / 129 = 248.
                assert!(
                    given > 124,
                    "{given} of 2000, phase {phase}, bursts of {burst}"
                );
            }
        }
    }
}
