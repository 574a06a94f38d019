// SPDX-License-Identifier: MIT OR Apache-2.0

//! Short flow completion times: the pair that needs the fewest timeslots goes first (Fastpass, §3).
//!
//! # The rule
//!
//! For each timeslot, pairs with a demand are asked in the order of their demands, the smallest
//! first, and get it if both their ends are still free. The demand at the beginning of the batch
//! counts; demands of [`ALIKE`] and more are equal. Among equals, the pair goes first whose demand
//! has been unchanged for longer.
//!
//! # The algorithm
//!
//! As the order is the same for all timeslots of a batch, a pair can be asked for all of them at
//! once: it gets the first ones in which both its ends are free, as many as it needs. Pairs are in
//! lists, one for each demand, and are moved only if their demand changes.

use crate::free::Free;
use crate::{Allocation, Allocator, Invalid, MAX_DEMAND, Refused, Rows};
use crate::{check, place};

/// Demands of this many timeslots and more are equal: 5 ms at 10 Gbit/s.
pub const ALIKE: usize = 4096;

/// No pair.
const NONE: u32 = u32::MAX;

/// An allocator that prefers small demands.
#[derive(Clone, Debug)]
pub struct MinFct {
    endpoints: usize,
    batch: usize,
    /// By source and destination: the index of its demand in `demands`.
    pairs: Vec<u32>,
    demands: Vec<Demand>,
    /// The unused elements of `demands`.
    unused: Vec<u32>,
    /// By demand, from 1; and a bit for each list that is not empty.
    lists: Box<[List; ALIKE]>,
    filled: [u64; ALIKE / 64],
    rows: Rows,
}

/// A pair's demand, in the list of equal demands.
#[derive(Clone, Copy, Debug)]
struct Demand {
    source: u16,
    destination: u16,
    slots: u32,
    before: u32,
    behind: u32,
}

#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

impl List {
    const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
    };
}

/// The list of a demand.
fn list(slots: u32) -> usize {
    (slots as usize).clamp(1, ALIKE) - 1
}

impl MinFct {
    /// For this many endpoints, 2 to [`MAX_ENDPOINTS`](crate::MAX_ENDPOINTS), and timeslots of a
    /// batch, 1 to [`MAX_BATCH`](crate::MAX_BATCH).
    ///
    /// # Errors
    /// Those of [`Invalid`].
    pub fn new(endpoints: usize, batch: usize) -> Result<Self, Invalid> {
        check(endpoints, batch)?;
        Ok(Self {
            endpoints,
            batch,
            pairs: vec![NONE; endpoints * endpoints],
            demands: Vec::new(),
            unused: Vec::new(),
            lists: Box::new([List::EMPTY; ALIKE]),
            filled: [0; ALIKE / 64],
            rows: Rows::new(endpoints, batch),
        })
    }

    /// Appends a demand to the list of its equals.
    fn link(&mut self, number: u32) {
        let index = list(self.demands[number as usize].slots);
        let list = &mut self.lists[index];
        let before = std::mem::replace(&mut list.last, number);
        match before {
            NONE => {
                list.first = number;
                self.filled[index / 64] |= 1 << (index % 64);
            }
            before => self.demands[before as usize].behind = number,
        }
        let demand = &mut self.demands[number as usize];
        (demand.before, demand.behind) = (before, NONE);
    }

    fn unlink(&mut self, number: u32) {
        let Demand {
            slots,
            before,
            behind,
            ..
        } = self.demands[number as usize];
        let index = list(slots);
        match before {
            NONE => self.lists[index].first = behind,
            before => self.demands[before as usize].behind = behind,
        }
        match behind {
            NONE => self.lists[index].last = before,
            behind => self.demands[behind as usize].before = before,
        }
        if self.lists[index].first == NONE {
            self.filled[index / 64] &= !(1 << (index % 64));
        }
    }

    /// Gives a pair as many as it needs of the timeslots in which both its ends are free.
    fn give(&mut self, free: &mut Free, number: u32) {
        let Demand {
            source,
            destination,
            slots,
            ..
        } = self.demands[number as usize];
        let [from, to] = [source, destination].map(usize::from);
        let lag = free.lag(source, destination);
        let both = free.to_send[from] & (free.to_receive[to] >> lag);
        if both == 0 {
            return;
        }
        let (mut left, mut rest) = (slots, both);
        while left > 0 && rest != 0 {
            left -= 1;
            let row = rest.trailing_zeros() as usize;
            let end = &mut self.rows.ends[row];
            self.rows.places[*end as usize] = Allocation::new(source, destination, 0);
            *end += 1;
            rest &= rest - 1;
        }
        free.to_send[from] ^= both ^ rest;
        free.to_receive[to] ^= (both ^ rest) << lag;
        self.unlink(number);
        self.demands[number as usize].slots = left;
        if left > 0 {
            self.link(number);
        } else {
            self.release(number);
        }
    }

    /// The demand is satisfied or cancelled.
    fn release(&mut self, number: u32) {
        let demand = self.demands[number as usize];
        let place = usize::from(demand.source) * self.endpoints + usize::from(demand.destination);
        self.pairs[place] = NONE;
        self.unused.push(number);
    }
}

impl Allocator for MinFct {
    fn request(&mut self, source: u16, destination: u16, slots: u16) -> Result<(), Refused> {
        let place = place(self.endpoints, source, destination)?;
        let more = u32::from(slots);
        if more == 0 {
            return Ok(());
        }
        let number = match self.pairs[place] {
            NONE => {
                let demand = Demand {
                    source,
                    destination,
                    slots: more,
                    before: NONE,
                    behind: NONE,
                };
                let number = self.unused.pop().unwrap_or(self.demands.len() as u32);
                match self.demands.get_mut(number as usize) {
                    Some(unused) => *unused = demand,
                    None => self.demands.push(demand),
                }
                self.pairs[place] = number;
                number
            }
            number => {
                let slots = self.demands[number as usize].slots + more;
                if slots > MAX_DEMAND {
                    return Err(Refused::TooMuch);
                }
                self.unlink(number);
                self.demands[number as usize].slots = slots;
                number
            }
        };
        self.link(number);
        Ok(())
    }

    fn forget(&mut self, source: u16) {
        if usize::from(source) >= self.endpoints {
            return;
        }
        let row = usize::from(source) * self.endpoints;
        for place in row..row + self.endpoints {
            let number = self.pairs[place];
            if number != NONE {
                self.unlink(number);
                self.release(number);
            }
        }
    }

    fn allocate(&mut self, free: &mut Free) {
        self.rows.clear(0);
        for word in 0..self.filled.len() {
            // A pair that is given something goes to a list that has been passed, or to the end of
            // its own.
            let mut filled = self.filled[word];
            while filled != 0 {
                let index = 64 * word + filled.trailing_zeros() as usize;
                filled &= filled - 1;
                let List { first, last } = self.lists[index];
                let mut number = first;
                loop {
                    let behind = self.demands[number as usize].behind;
                    self.give(free, number);
                    if number == last {
                        break;
                    }
                    number = behind;
                }
            }
        }
    }

    fn timeslot(&self, index: usize) -> &[Allocation] {
        self.rows.timeslot(index)
    }

    fn batch(&self) -> usize {
        self.batch
    }
}
