// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fastpass's arbiter: which packet goes when, and by which path.
//!
//! J. Perry, A. Ousterhout, H. Balakrishnan, D. Shah, H. Fugal: "Fastpass: A Centralized
//! 'Zero-Queue' Datacenter Network", SIGCOMM 2014.
//!
//! # Vocabulary
//!
//! - **timeslot**: the time that a packet of full size takes on a host's link (1.23 µs at 10
//!   Gbit/s).
//! - **endpoint**: a host, by its number. A **pair** is a source and a destination.
//! - **demand**: timeslots that a pair has asked for, and has not been given yet.
//! - **allocation**: a timeslot given to a pair. In a timeslot an endpoint sends at most one
//!   packet, and receives at most one: the timeslot's pairs are a **matching**, a maximal one: no
//!   pair is left that has a demand and both its ends free.
//! - **class**: how urgent a demand is, from 0, the most urgent, on. With several classes each has
//!   an allocator, which is given what the more urgent ones leave of a batch. A destination and a
//!   class are a **stream**. (Ours: the paper has none.)
//! - **batch**: successive timeslots, up to 64, that are allocated together.
//! - **path**: what a packet can take from its source's rack to its destination's, by one core
//!   switch.
//!
//! # Structure
//!
//! | module | what it decides |
//! |---|---|
//! | [`max_min`] | who gets a timeslot: who has waited longest since the last one |
//! | [`min_fct`] | who gets a timeslot: who needs the fewest |
//! | [`paths`] | by which path, so that no two packets of a timeslot share a link |
//! | [`routes`] | the same for a fabric of three layers, and around what has failed |
//! | [`fabric`] | which links and switches a path comes by |
//! | [`faults`] | which of them it is that loses packets |
//! | [`Free`] | in which timeslots an endpoint can be given to, and take, a packet |
//! | [`service`] | what becomes of what endpoints say: the arbiter but for its socket |
//! | [`stages`] | the two things a batch goes through: allocation and path selection, one after the other |
//! | [`pipeline`] | the same in threads of their own |
//! | [`watch`] | which of two arbiters it is that allocates |
//!
//! Each but the pipeline is a data structure without a clock, threads or I/O, and the pipeline has
//! threads if the caller wants them: a batch follows the other when the caller says so. None of it
//! ever runs in the kernel, hence a crate of its own, with a heap. The program `weft-arbiter` adds
//! the socket and the clock. The cost of a batch is that of the requests that came, of the
//! timeslots given, and a glance at each pair that still waits.
#![forbid(unsafe_code)]

use std::ops::Range;

pub use free::{Free, Lags};

mod detours;
mod evidence;
pub mod fabric;
pub mod faults;
mod free;
pub mod max_min;
mod meetings;
pub mod min_fct;
mod own;
pub mod paths;
pub mod pipeline;
mod quota;
pub mod routes;
pub mod service;
mod sessions;
mod settings;
pub mod stages;
pub mod watch;

/// Endpoints that an arbiter may have.
pub const MAX_ENDPOINTS: usize = 4096;

/// Timeslots that a batch may have: a bit of a word for each.
pub const MAX_BATCH: usize = 64;

/// Classes of urgency that there may be.
pub const MAX_CLASSES: u16 = 4;

/// Timeslots that a pair may ask for while others of its are still to be served: what is beyond is
/// for its endpoint to ask for later. At 10 Gbit/s it is what a link carries in 80 ms.
pub const MAX_DEMAND: u32 = 65_535;

/// Allocation of timeslots to pairs, batch by batch.
pub trait Allocator {
    /// `slots` more timeslots from `source` to `destination` are wanted.
    ///
    /// # Errors
    /// [`Refused`]; nothing has changed then.
    fn request(&mut self, source: u16, destination: u16, slots: u16) -> Result<(), Refused>;

    /// Forgets what `source` has asked for and was not given.
    fn forget(&mut self, source: u16);

    /// Allocates the next batch of what is left of it, between [`Free::begin`] and [`Free::end`];
    /// [`Self::timeslot`] tells.
    fn allocate(&mut self, free: &mut Free);

    /// The allocations of timeslot `index` of the batch, from 0; none if the batch is not as long.
    fn timeslot(&self, index: usize) -> &[Allocation];

    /// Timeslots of a batch.
    fn batch(&self) -> usize;
}

/// Why nobody can be given what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such endpoint.
    Unknown,
    /// Of itself an endpoint gets nothing.
    Itself,
    /// The pair waits for more than [`MAX_DEMAND`] timeslots.
    TooMuch,
}

/// An arbiter that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// Endpoints are 2 to [`MAX_ENDPOINTS`].
    Endpoints,
    /// A batch is of 1 to [`MAX_BATCH`] timeslots, the longest lag included.
    Batch,
    /// A longer way has no shorter lag.
    Lags,
    /// Classes are 1 to [`MAX_CLASSES`].
    Classes,
    /// Racks are 1 to [`paths::MAX_RACKS`].
    Racks,
    /// Paths, times the packets that each takes of a rack's in a timeslot, are 1 to
    /// [`paths::MAX_COLOURS`].
    Paths,
}

/// A pair that is given a timeslot.
///
/// In a word: the source (12 bits from the lowest), the destination (12), and how much there was of
/// its demand, of what is known of that without looking it up (8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation(u32);

impl Allocation {
    /// Timeslots of a demand that fit.
    const MOST: u16 = u8::MAX as u16;
    const SLOT: u32 = 1 << 24;

    fn new(source: u16, destination: u16, left: u16) -> Self {
        let left = left.min(Self::MOST);
        Self(u32::from(source) | u32::from(destination) << 12 | u32::from(left) << 24)
    }

    /// Who sends.
    #[inline]
    pub fn source(self) -> u16 {
        self.0 as u16 % MAX_ENDPOINTS as u16
    }

    /// Who receives.
    #[inline]
    pub fn destination(self) -> u16 {
        (self.0 >> 12) as u16 % MAX_ENDPOINTS as u16
    }

    /// The same, with a class in the place of what was left of its demand.
    pub(crate) fn of_class(self, class: u16) -> Self {
        Self::new(self.source(), self.destination(), class)
    }

    /// The stream that it is of, where an endpoint has so many classes of urgency. Without classes
    /// nobody has set one.
    #[inline]
    pub(crate) fn stream(self, classes: u16) -> u16 {
        match classes {
            0 | 1 => self.destination(),
            _ => self.destination() * classes + u16::from(self.left()),
        }
    }

    #[inline]
    fn left(self) -> u8 {
        (self.0 >> 24) as u8
    }
}

/// The timeslots of a batch, a row for each with as many places as there are endpoints, and a row
/// that is as long as needed for those who find none.
#[derive(Clone, Debug)]
struct Rows {
    places: Vec<Allocation>,
    /// The first place of each row that is free.
    ends: [u32; MAX_BATCH + 1],
    /// From a row to the next.
    stride: usize,
    batch: usize,
}

impl Rows {
    fn new(endpoints: usize, batch: usize) -> Self {
        // A cache line more, as places of rows that are a power of two apart would share few lines.
        let stride = endpoints.next_multiple_of(16) + 16;
        let mut rows = Self {
            places: vec![Allocation::default(); MAX_BATCH * stride],
            ends: [0; MAX_BATCH + 1],
            stride,
            batch,
        };
        rows.clear(0);
        rows
    }

    /// All rows are empty; the last one has so many places at least.
    fn clear(&mut self, places: usize) {
        self.ends = std::array::from_fn(|row| (row * self.stride) as u32);
        let end = MAX_BATCH * self.stride + places;
        if self.places.len() < end {
            let end = end.next_multiple_of(1 << 12);
            self.places.resize(end, Allocation::default());
        }
    }

    /// Where a row's places are that are not free.
    #[inline]
    fn taken(&self, row: usize) -> Range<usize> {
        row * self.stride..self.ends[row] as usize
    }

    fn timeslot(&self, index: usize) -> &[Allocation] {
        match index < self.batch {
            true => &self.places[self.taken(index)],
            false => &[],
        }
    }
}

/// Whether an allocator can be like this.
fn check(endpoints: usize, batch: usize) -> Result<(), Invalid> {
    if !(2..=MAX_ENDPOINTS).contains(&endpoints) {
        return Err(Invalid::Endpoints);
    }
    if !(1..=MAX_BATCH).contains(&batch) {
        return Err(Invalid::Batch);
    }
    Ok(())
}

/// The pair's place in a table of all pairs.
fn place(endpoints: usize, source: u16, destination: u16) -> Result<usize, Refused> {
    let [from, to] = [source, destination].map(usize::from);
    if from >= endpoints || to >= endpoints {
        return Err(Refused::Unknown);
    }
    if from == to {
        return Err(Refused::Itself);
    }
    Ok(from * endpoints + to)
}
