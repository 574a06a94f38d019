// SPDX-License-Identifier: MIT OR Apache-2.0

//! What the arbiter's own packets take of its host's link.
//!
//! They wait for no timeslot. Where the host is an endpoint as well, its link would be given away
//! as a whole and used twice, and what was to have it waits at the last switch, or leaves late. So
//! the arbiter counts what its own packets took, and leaves as many timeslots of the next batch:
//! those to send in at that time of a batch at which it tells the endpoints of another one, those
//! to receive in evenly spread, as endpoints ask when they like.

use weft_mechanisms::common::on_wire;
use weft_mechanisms::fastpass::options::{DEFAULT_MPU, DEFAULT_OVERHEAD};

use crate::MAX_BATCH;

/// What a timeslot carries, in bytes: a frame of full size on Ethernet.
const FRAME: u64 = 1538;
/// What a frame has besides a datagram's content: UDP, IP, Ethernet; and the tag that it may have.
const HEADERS: usize = 8 + 20 + 14 + 8;

/// Bytes of one direction that timeslots are still to be left for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Debt(u64);

impl Debt {
    /// A datagram of so many bytes was sent, or has come.
    pub(crate) fn add(&mut self, len: usize) {
        let len = u32::try_from(len + HEADERS).unwrap_or(u32::MAX);
        self.0 += on_wire::bytes(len, 1, DEFAULT_OVERHEAD, DEFAULT_MPU);
    }

    /// How many timeslots of the next batch, of so many, are left for it: half of them at most.
    /// What is more is forgotten: it has long been sent.
    pub(crate) fn take(&mut self, batch: usize) -> usize {
        let most = batch / 2;
        let due = (self.0 / FRAME) as usize;
        self.0 %= FRAME;
        due.min(most)
    }
}

/// So many timeslots of a batch from this one on, and on with the first after the last.
pub(crate) fn together(count: usize, from: usize, batch: usize) -> u64 {
    bits((0..count).map(|index| (from + index) % batch))
}

/// So many timeslots of a batch, evenly spread.
pub(crate) fn spread(count: usize, batch: usize) -> u64 {
    bits((0..count).map(|index| (2 * index + 1) * batch / (2 * count)))
}

fn bits(timeslots: impl Iterator<Item = usize>) -> u64 {
    timeslots.fold(0, |bits, timeslot| bits | 1 << (timeslot % MAX_BATCH))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_left_room_for_once() {
        let mut debt = Debt::default();
        assert_eq!(debt.take(16), 0);
        for _ in 0..16 {
            debt.add(100);
        }
        // 16 of 174 bytes: one timeslot, and the rest next time.
        assert_eq!(debt.take(16), 1);
        assert_eq!(debt.take(16), 0);
        for _ in 0..3 {
            debt.add(50);
        }
        assert_eq!(debt.take(16), 1);
        for _ in 0..1000 {
            debt.add(600);
        }
        assert_eq!((debt.take(16), debt.take(16)), (8, 0));
    }

    #[test]
    fn timeslots_are_together_or_spread() {
        assert_eq!(together(3, 14, 16), 0b1100_0000_0000_0001);
        assert_eq!(together(0, 14, 16), 0);
        assert_eq!(spread(0, 16), 0);
        assert_eq!(spread(2, 16), 1 << 4 | 1 << 12);
        for batch in 1..=64 {
            for count in 0..=batch / 2 {
                let all = u64::MAX >> (64 - batch);
                for bits in [spread(count, batch), together(count, batch - 1, batch)] {
                    assert_eq!(bits.count_ones() as usize, count, "{count} of {batch}");
                    assert_eq!(bits & !all, 0, "{count} of {batch}");
                }
            }
        }
    }
}
