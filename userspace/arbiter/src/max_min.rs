// SPDX-License-Identifier: MIT OR Apache-2.0

//! Max-min fairness: the pair that has waited longest since its last timeslot goes first (Fastpass,
//! §3).
//!
//! # The rule
//!
//! For each timeslot, pairs with a demand are asked in order of their last timeslots, and get this
//! one if both their ends are still free. Pairs with the same last timeslot have no end in common,
//! so there is no order among them. A new pair goes behind equal pairs that already wait, and
//! starts with a credit of at most [`HORIZON`] timeslots: pairs without a timeslot for longer are
//! equal, and go in the order of their requests.
//!
//! # The algorithm
//!
//! The pairs, not the timeslots, are processed in turn, in the same order and for the whole batch.
//! The first timeslot in which both ends are free is one operation on two words. The pair then goes
//! to the end of the order, to the pairs with that timeslot. The result is the same. A pair asks
//! for timeslot t before another one does if its last timeslot is earlier, whether or not all ask
//! for timeslot t before any asks for t + 1; and only pairs that ask earlier can keep it from
//! getting t. A pair that is asked again cannot use timeslots before the one it got, because it got
//! the first.
//!
//! With [lags](crate::Lags) a packet sent in another timeslot can also keep a packet from a
//! timeslot, and a timeslot's packets may have a destination in common. Pairs are then asked in the
//! same order, and those with the same last timeslot in the order in which they were given it. The
//! packets of each timeslot are still such that none could be added.
//!
//! So the pairs that were given timeslot t are both the timeslot's matching and the pairs that are
//! asked next: a **row**, with a place for each source, as it is unordered. Pairs that find no
//! timeslot in the rest of a batch go into the order in which the next batch begins, in **runs** of
//! pairs with the same last timeslot.
//!
//! If a pair requests more while it still has a demand, the request is added when the demand is
//! used up. So only pairs that begin or end are looked up in a table.

use crate::free::Free;
use crate::{Allocation, Allocator, Invalid, MAX_BATCH, Refused, Rows, check, place};

/// The number of timeslots for which a pair's last timeslot is remembered.
pub const HORIZON: u64 = 256;

/// A fair allocator.
#[derive(Clone, Debug)]
pub struct MaxMin {
    endpoints: usize,
    batch: usize,
    /// By source and destination.
    pairs: Vec<Pair>,
    /// Where the search for expired last timeslots continues.
    sweep: usize,
    /// The next batch's first timeslot. Numbers begin with [`HORIZON`].
    next: u64,
    /// The last row is the order in which the next batch begins.
    rows: Rows,
    /// The runs of that order.
    runs: Vec<Run>,
    newcomers: Newcomers,
    /// The pairs that are waiting when a batch begins, and their runs.
    waited: Vec<Allocation>,
    waited_runs: Vec<Run>,
}

/// Pairs with the same last timeslot.
#[derive(Clone, Copy, Debug)]
struct Run {
    last: u64,
    /// Where they end in the order.
    end: usize,
}

/// The state of a pair: if it waits (the highest bit), the requested timeslots that are not yet in
/// rows and order; otherwise its last timeslot, modulo 2^31.
#[derive(Clone, Copy, Debug)]
struct Pair(u32);

impl Pair {
    const WAITS: u32 = 1 << 31;

    fn waiting(more: u16) -> Self {
        Self(Self::WAITS | u32::from(more))
    }

    fn idle(last: u64) -> Self {
        Self(last as u32 & !Self::WAITS)
    }

    fn waits(self) -> bool {
        self.0 & Self::WAITS != 0
    }

    fn more(self) -> u16 {
        self.0 as u16
    }

    /// The age of the last timeslot of a pair that does not wait, at most the horizon.
    fn age(self, now: u64) -> u32 {
        let age = (now as u32).wrapping_sub(self.0) & !Self::WAITS;
        age.min(HORIZON as u32)
    }
}

/// New pairs.
#[derive(Clone, Debug)]
struct Newcomers {
    /// Each with its last timeslot, counted from the beginning of the horizon.
    pairs: Vec<(Allocation, u32)>,
    /// The number of pairs by last timeslot; all 0 if there are none.
    counts: Box<[u32; HORIZON as usize + 1]>,
    /// In the order in which they are asked.
    sorted: Vec<Allocation>,
    runs: Vec<Run>,
}

impl Newcomers {
    fn new() -> Self {
        Self {
            pairs: Vec::new(),
            counts: Box::new([0; HORIZON as usize + 1]),
            sorted: Vec::new(),
            runs: Vec::new(),
        }
    }

    fn add(&mut self, pair: Allocation, last: u32) {
        self.counts[last as usize] += 1;
        self.pairs.push((pair, last));
    }

    /// Sorts them, where numbers begin with `horizon`: a counting sort.
    fn sort(&mut self, horizon: u64) {
        self.runs.clear();
        let mut end = 0;
        for (count, last) in self.counts.iter_mut().zip(horizon..) {
            if *count > 0 {
                let begin = end;
                end += *count as usize;
                *count = begin as u32;
                self.runs.push(Run { last, end });
            }
        }
        self.sorted.resize(end, Allocation::default());
        for (pair, last) in self.pairs.drain(..) {
            let place = &mut self.counts[last as usize];
            self.sorted[*place as usize] = pair;
            *place += 1;
        }
        for run in &self.runs {
            self.counts[(run.last - horizon) as usize] = 0;
        }
    }
}

/// Gives a pair the first timeslot in which both its ends are free, if there is one: it goes into
/// the row of that timeslot. Otherwise it goes into the next batch's order, which is at the place
/// of the row after the last.
///
/// No branch depends on the result, because it would be unpredictable. Without lags, none is looked
/// up.
#[inline(always)]
fn give<const LAGS: bool>(
    pair: Allocation,
    free: &mut Free,
    places: &mut [Allocation],
    ends: &mut [u32; MAX_BATCH + 1],
) {
    let lag = match LAGS {
        true => free.lag(pair.source(), pair.destination()),
        false => 0,
    };
    let to_send = &mut free.to_send[usize::from(pair.source())];
    let to_receive = &mut free.to_receive[usize::from(pair.destination())];
    let both = *to_send & (*to_receive >> lag);
    let slot = both & both.wrapping_neg();
    *to_send ^= slot;
    *to_receive ^= slot << lag;
    let end = &mut ends[both.trailing_zeros() as usize];
    places[*end as usize] = pair;
    *end += 1;
}

impl MaxMin {
    /// For this many endpoints, 2 to [`MAX_ENDPOINTS`](crate::MAX_ENDPOINTS), and timeslots of a
    /// batch, 1 to [`MAX_BATCH`].
    ///
    /// # Errors
    /// Those of [`Invalid`].
    pub fn new(endpoints: usize, batch: usize) -> Result<Self, Invalid> {
        check(endpoints, batch)?;
        Ok(Self {
            endpoints,
            batch,
            pairs: vec![Pair::idle(0); endpoints * endpoints],
            sweep: 0,
            next: HORIZON,
            rows: Rows::new(endpoints, batch),
            runs: Vec::new(),
            newcomers: Newcomers::new(),
            waited: Vec::new(),
            waited_runs: Vec::new(),
        })
    }

    /// Closes the run of the pairs with this last timeslot that remain in the order.
    fn close_run(&mut self, last: u64) {
        let end = self.rows.taken(MAX_BATCH).len();
        match self.runs.last_mut() {
            Some(run) if run.last == last => run.end = end,
            Some(run) if run.end == end => {}
            None if end == 0 => {}
            _ => self.runs.push(Run { last, end }),
        }
    }

    /// Examines a few pairs' last timeslots, before they are confused with those 2^31 later: all
    /// pairs are examined within fewer timeslots than that.
    fn sweep(&mut self) {
        for _ in 0..self.batch {
            self.sweep = match self.sweep {
                0 => self.pairs.len() - 1,
                place => place - 1,
            };
            let known = &mut self.pairs[self.sweep];
            if !known.waits() {
                *known = Pair::idle(self.next - u64::from(known.age(self.next)));
            }
        }
    }

    /// Asks all waiting pairs, and new ones.
    fn ask_all<const LAGS: bool>(&mut self, free: &mut Free) {
        let (mut begin, mut new_begin, mut new) = (0, 0, 0);
        for index in 0..=self.waited_runs.len() {
            let run = self.waited_runs.get(index).copied();
            while let Some(&newcomers) = self.newcomers.runs.get(new) {
                if run.is_some_and(|run| run.last <= newcomers.last) {
                    break;
                }
                for &pair in &self.newcomers.sorted[new_begin..newcomers.end] {
                    let Rows { places, ends, .. } = &mut self.rows;
                    give::<LAGS>(pair, free, places, ends);
                }
                self.close_run(newcomers.last);
                new_begin = newcomers.end;
                new += 1;
            }
            if let Some(run) = run {
                for &pair in &self.waited[begin..run.end] {
                    let Rows { places, ends, .. } = &mut self.rows;
                    give::<LAGS>(pair, free, places, ends);
                }
                self.close_run(run.last);
                begin = run.end;
            }
        }
    }

    /// Asks the pairs again that were given the timeslot of this row.
    fn ask_again<const LAGS: bool>(&mut self, free: &mut Free, row: usize) {
        let taken = self.rows.taken(row);
        let Rows { places, ends, .. } = &mut self.rows;
        let places = &mut places[..];
        for place in taken {
            let mut pair = Allocation(places[place].0 - Allocation::SLOT);
            if pair.left() == 0 {
                let [from, to] = [pair.source(), pair.destination()].map(usize::from);
                let place = from * self.endpoints + to;
                let known = &mut self.pairs[place];
                let more = known.more();
                if more == 0 {
                    *known = Pair::idle(self.next + row as u64);
                    continue;
                }
                pair = Allocation::new(pair.source(), pair.destination(), more);
                *known = Pair::waiting(more - u16::from(pair.left()));
            }
            give::<LAGS>(pair, free, places, ends);
        }
    }

    /// Asks all pairs, until none has a demand left, or nothing is left of the batch.
    fn ask<const LAGS: bool>(&mut self, free: &mut Free) {
        self.ask_all::<LAGS>(free);
        for row in 0..self.batch {
            self.ask_again::<LAGS>(free, row);
            self.close_run(self.next + row as u64);
        }
    }
}

impl Allocator for MaxMin {
    fn request(&mut self, source: u16, destination: u16, slots: u16) -> Result<(), Refused> {
        let known = &mut self.pairs[place(self.endpoints, source, destination)?];
        if slots == 0 {
            return Ok(());
        }
        if known.waits() {
            let more = known.more().checked_add(slots);
            *known = Pair::waiting(more.ok_or(Refused::TooMuch)?);
            return Ok(());
        }
        let age = known.age(self.next);
        let pair = Allocation::new(source, destination, slots);
        *known = Pair::waiting(slots - u16::from(pair.left()));
        self.newcomers.add(pair, HORIZON as u32 - age);
        Ok(())
    }

    fn forget(&mut self, source: u16) {
        if usize::from(source) >= self.endpoints {
            return;
        }
        let row = usize::from(source) * self.endpoints;
        let Newcomers { pairs, counts, .. } = &mut self.newcomers;
        for (pair, last) in pairs.extract_if(.., |(pair, _)| pair.source() == source) {
            counts[last as usize] -= 1;
            let last = self.next - HORIZON + u64::from(last);
            self.pairs[row + usize::from(pair.destination())] = Pair::idle(last);
        }
        let order = self.rows.taken(MAX_BATCH);
        let Rows { places, ends, .. } = &mut self.rows;
        let places = &mut places[order.start..];
        let (mut begin, mut kept) = (0, 0);
        for run in &mut self.runs {
            for place in begin..run.end {
                let pair = places[place];
                if pair.source() == source {
                    self.pairs[row + usize::from(pair.destination())] = Pair::idle(run.last);
                } else {
                    places[kept] = pair;
                    kept += 1;
                }
            }
            begin = run.end;
            run.end = kept;
        }
        ends[MAX_BATCH] = (order.start + kept) as u32;
    }

    fn allocate(&mut self, free: &mut Free) {
        self.newcomers.sort(self.next - HORIZON);
        let waited = &self.rows.places[self.rows.taken(MAX_BATCH)];
        self.waited.clear();
        self.waited.extend_from_slice(waited);
        std::mem::swap(&mut self.waited_runs, &mut self.runs);
        self.runs.clear();
        self.rows
            .clear(self.waited.len() + self.newcomers.sorted.len());

        match free.has_lags() {
            true => self.ask::<true>(free),
            false => self.ask::<false>(free),
        }
        self.next += self.batch as u64;
        self.sweep();
    }

    fn timeslot(&self, index: usize) -> &[Allocation] {
        self.rows.timeslot(index)
    }

    fn batch(&self) -> usize {
        self.batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeslot_long_past_is_not_mistaken_for_a_recent_one() {
        let mut arbiter = MaxMin::new(3, 64).unwrap();
        let mut free = Free::new(3, 64).unwrap();
        arbiter.request(1, 0, 1).unwrap();
        free.allocate(&mut arbiter);
        // 2^31 timeslots without, or almost without, requests.
        for _ in 0..2 {
            arbiter.next += (1 << 30) - 64;
            free.allocate(&mut arbiter);
        }
        arbiter.request(1, 0, 1).unwrap();
        arbiter.request(2, 0, 1).unwrap();
        free.allocate(&mut arbiter);
        // They are equal, and go in the order of their requests.
        let sources = [0, 1].map(|index| arbiter.timeslot(index)[0].source());
        assert_eq!(sources, [1, 2]);
    }
}
