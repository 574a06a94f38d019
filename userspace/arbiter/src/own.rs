// SPDX-License-Identifier: MIT OR Apache-2.0

//! The use of its host's link by the arbiter's own packets.
//!
//! They wait for no timeslot. If the host is also an endpoint, its link would be given away as a
//! whole and used twice, and the packets that have its timeslots would wait at the last switch, or
//! leave late. So the arbiter counts the timeslots that its own packets took, and leaves as many
//! timeslots of the next batch free. Those to send in are at the time of a batch at which it
//! informs the endpoints of another one; those to receive in are evenly spread, because endpoints
//! ask at any time.

use weft_mechanisms::common::on_wire;
use weft_mechanisms::fastpass::options::{DEFAULT_MPU, DEFAULT_OVERHEAD};

use crate::MAX_BATCH;

/// The bytes that a timeslot carries: a frame of full size on Ethernet.
const FRAME: u64 = 1538;
/// The bytes of a frame besides a datagram's content: UDP, IP, Ethernet; and a possible tag.
const HEADERS: usize = 8 + 20 + 14 + 8;

/// Bytes of one direction for which timeslots have yet to be kept free.
#[derive(Clone, Copy, Debug, Default)]
struct Debt(u64);

impl Debt {
    /// A datagram of this many bytes was sent or received; returns its bytes on the link.
    fn add(&mut self, len: usize) -> u64 {
        let len = u32::try_from(len + HEADERS).unwrap_or(u32::MAX);
        let bytes = on_wire::bytes(len, 1, DEFAULT_OVERHEAD, DEFAULT_MPU);
        self.0 += bytes;
        bytes
    }

    /// The number of timeslots of the next batch to keep free, at most half of them. The rest is
    /// forgotten, because it has long been sent.
    fn take(&mut self, batch: usize) -> usize {
        let most = batch / 2;
        let due = (self.0 / FRAME) as usize;
        self.0 %= FRAME;
        due.min(most)
    }
}

/// Its host's link, on which its packets go before all others.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Link {
    /// Sent packets, and received ones.
    debts: [Debt; 2],
    /// When all packets sent so far have left.
    free_at: u64,
}

impl Link {
    /// A datagram of this many bytes is sent. The link carries a frame of full size in `timeslot`
    /// ns.
    pub(crate) fn sent(&mut self, now: u64, len: usize, timeslot: u64) {
        let [sent, _] = &mut self.debts;
        let time = sent.add(len).saturating_mul(timeslot) / FRAME;
        self.free_at = self.free_at.max(now).saturating_add(time);
    }

    /// A datagram of this many bytes was received.
    pub(crate) fn heard(&mut self, len: usize) {
        let [_, heard] = &mut self.debts;
        heard.add(len);
    }

    /// When a datagram that is sent now begins to leave.
    pub(crate) fn free_at(&self, now: u64) -> u64 {
        self.free_at.max(now)
    }

    /// The number of timeslots of the next batch to keep free: to send, and to receive.
    pub(crate) fn take(&mut self, batch: usize) -> [usize; 2] {
        self.debts.each_mut().map(|debt| debt.take(batch))
    }
}

/// This many timeslots of a batch from `from` on, the first one following the last.
pub(crate) fn together(count: usize, from: usize, batch: usize) -> u64 {
    bits((0..count).map(|index| (from + index) % batch))
}

/// This many timeslots of a batch, evenly spread.
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
    fn room_is_left_once_for_sent_packets() {
        let mut debt = Debt::default();
        assert_eq!(debt.take(16), 0);
        for _ in 0..16 {
            debt.add(100);
        }
        // 16 of 174 bytes: one timeslot, and the rest the next time.
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
    fn datagrams_leave_one_after_the_other() {
        let mut link = Link::default();
        assert_eq!(link.free_at(5), 5);
        // Each is 1538 bytes on the link, with preamble and gap.
        let full = FRAME as usize - HEADERS - 24;
        let start = 1000;
        link.sent(start, full, 1200);
        link.sent(start, full, 1200);
        let per_frame = link.free_at(start) - start;
        assert!((2390..=2410).contains(&per_frame), "{per_frame}");
        assert_eq!(link.free_at(10_000), 10_000);
        link.sent(10_000, full, 1200);
        assert!(link.free_at(0) > 11_000);
    }

    #[test]
    fn reserved_timeslots_are_together_or_spread() {
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
