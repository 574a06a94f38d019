// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where packets on long and on short paths meet that were sent in different timeslots.
//!
//! A packet to another pod comes down to its receiver's switch some timeslots later than a packet
//! within the pod that was sent at the same time. So the latter shares the links down with packets
//! that were sent before it, whose paths are fixed, and the links up with packets of its own
//! timeslot. It should take a way on which it meets no packet on the way down, and packets of its
//! timeslot make room for it. Such a way does not always exist, because packets sent earlier keep
//! theirs.

use crate::Lags;

/// The packets on long paths on the links down to hosts' switches.
#[derive(Clone, Debug)]
pub(crate) struct Meetings {
    /// The number of ways down to each switch, and how many packets of a timeslot each carries.
    ways: usize,
    each: u8,
    /// How many timeslots later packets on long paths come down.
    apart: u64,
    /// For the latest timeslots, by their numbers modulo the number stored: how many packets each
    /// rack gets by each way.
    long: Vec<(u64, Vec<u8>)>,
    number: u64,
}

impl Meetings {
    /// For this many switches with this many hosts each.
    pub(crate) fn new(racks: usize, ways: usize, hosts: usize, lags: Lags) -> Self {
        let apart = u64::from(lags.far - lags.near);
        Self {
            ways,
            each: u8::try_from(hosts.div_ceil(ways)).unwrap_or(u8::MAX),
            apart,
            long: vec![(u64::MAX, vec![0; racks * ways]); apart as usize + 1],
            number: 0,
        }
    }

    /// Whether paths have different lengths.
    pub(crate) fn is_apart(&self) -> bool {
        self.apart > 0
    }

    fn place(&self, timeslot: u64) -> usize {
        (timeslot % self.long.len() as u64) as usize
    }

    /// The timeslot of this number is next.
    pub(crate) fn begin(&mut self, number: u64) {
        self.number = number;
        let place = self.place(number);
        let (known, own) = &mut self.long[place];
        *known = number;
        own.fill(0);
    }

    /// A packet on a long path, to this rack, was given this way.
    pub(crate) fn long(&mut self, to: u16, way: u8) {
        let place = self.place(self.number);
        self.long[place].1[usize::from(to) * self.ways + usize::from(way)] += 1;
    }

    /// The ways by which a packet on a short path meets no other on its way down to this rack: a
    /// bit for each.
    pub(crate) fn free(&self, to: u16) -> u64 {
        let before = self.number.checked_sub(self.apart);
        let known = before.map(|before| (before, &self.long[self.place(before)]));
        let Some((_, (_, links))) = known.filter(|(before, (known, _))| before == known) else {
            return u64::MAX;
        };
        let first = usize::from(to) * self.ways;
        let links = links[first..first + self.ways].iter().enumerate();
        let free = links.filter(|(_, others)| **others < self.each);
        free.fold(0, |all, (way, _)| all | 1 << way)
    }
}
