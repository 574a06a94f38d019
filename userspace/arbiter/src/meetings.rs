// SPDX-License-Identifier: MIT OR Apache-2.0

//! Where packets of long ways and of short ones meet that were sent in different timeslots.
//!
//! A packet to another pod comes down to its receiver's switch some timeslots later than one of the
//! pod's own that was sent with it. So the latter shares the way down with packets that were sent
//! before it, and whose paths are known, and the way up with those of its own timeslot. It is to
//! have a way on which nobody is on the way down, and those of its timeslot make room for it. That
//! there is such a way is not certain, as those that were sent before keep theirs.

use crate::Lags;

/// What long ways carry down to hosts' switches.
#[derive(Clone, Debug)]
pub(crate) struct Meetings {
    /// Ways down to each switch, and how many packets of a timeslot each carries.
    ways: usize,
    each: u8,
    /// How many timeslots later long ways come down.
    apart: u64,
    /// Of the latest timeslots, by their numbers modulo how many there are: how many packets each
    /// rack gets by each way.
    long: Vec<(u64, Vec<u8>)>,
    number: u64,
}

impl Meetings {
    /// Of so many switches with so many hosts each.
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

    /// Whether ways are of different length at all.
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

    /// A packet of a long way, to this rack, was given this way.
    pub(crate) fn long(&mut self, to: u16, way: u8) {
        let place = self.place(self.number);
        self.long[place].1[usize::from(to) * self.ways + usize::from(way)] += 1;
    }

    /// The ways by which one of a short way meets nobody on its way down to this rack: a bit for
    /// each.
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
