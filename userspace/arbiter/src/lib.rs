// SPDX-License-Identifier: MIT OR Apache-2.0

//! Fastpass's arbiter: it decides when each packet is sent, and by which path.
//!
//! J. Perry, A. Ousterhout, H. Balakrishnan, D. Shah, H. Fugal: "Fastpass: A Centralized
//! 'Zero-Queue' Datacenter Network", SIGCOMM 2014.
//!
//! # Vocabulary
//!
//! - **timeslot**: the time that a packet of full size takes on a host's link (1.23 µs at 10
//!   Gbit/s).
//! - **endpoint**: a host, by its number. A **pair** is a source and a destination.
//! - **demand**: timeslots that a pair has requested and has not been given yet.
//! - **allocation**: a timeslot given to a pair. In a timeslot an endpoint sends at most one
//!   packet, and receives at most one: the timeslot's pairs are a **matching**, a maximal one: no
//!   remaining pair has a demand and both its ends free.
//! - **class**: the urgency of a demand, from 0, the most urgent, on. With several classes each has
//!   an allocator, which gets the timeslots of a batch that the more urgent ones leave. A
//!   destination and a class are a **stream**. (Ours: the paper has no classes.)
//! - **batch**: successive timeslots, up to 64, that are allocated together.
//! - **path**: a route of a packet from its source's rack to its destination's, by one core switch.
//!
//! # Structure
//!
//! | module | what it decides |
//! |---|---|
//! | [`max_min`] | the pair that gets a timeslot: the one that has waited longest since its last one |
//! | [`min_fct`] | the pair that gets a timeslot: the one that needs the fewest |
//! | [`paths`] | the path, such that no two packets of a timeslot share a link |
//! | [`routes`] | the same for a fabric of three layers, and around failed components |
//! | [`fabric`] | the links and switches of a path |
//! | [`faults`] | the component that loses packets |
//! | [`Free`] | the timeslots in which an endpoint can send, and receive, a packet |
//! | `ahead` | how long before its time a batch is allocated while nobody waits |
//! | `leftovers` | the timeslots before the next batch that a request gets at once |
//! | [`service`] | the replies to endpoints: the arbiter without its socket |
//! | [`stages`] | the two stages of a batch, allocation and path selection, one after the other |
//! | [`pipeline`] | the same stages in separate threads |
//! | [`watch`] | which of two arbiters allocates |
//!
//! Each module except the pipeline is a data structure without a clock, threads or I/O. The
//! pipeline has threads if the caller wants them; otherwise the caller runs one batch after the
//! other. None of it runs in the kernel, so it is a separate crate, with a heap. The program
//! `weft-arbiter` adds the socket and the clock. The cost of a batch is that of its requests, of
//! the timeslots given, and a look at each pair that still waits.
#![forbid(unsafe_code)]

use std::ops::Range;

pub use ahead::MAX_AHEAD;
pub use free::{Free, Lags};

mod ahead;
mod detours;
mod evidence;
pub mod fabric;
pub mod faults;
mod free;
mod leftovers;
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

/// The most endpoints of an arbiter.
pub const MAX_ENDPOINTS: usize = 4096;

/// The most timeslots in a batch: a bit of a word for each.
pub const MAX_BATCH: usize = 64;

/// The most classes of urgency.
pub const MAX_CLASSES: u16 = 4;

/// The most timeslots that a pair may have requested and not been given; its endpoint must request
/// more later. At 10 Gbit/s it is what a link carries in 80 ms.
pub const MAX_DEMAND: u32 = 65_535;

/// Allocation of timeslots to pairs, batch by batch.
pub trait Allocator {
    /// Requests `slots` more timeslots from `source` to `destination`.
    ///
    /// # Errors
    /// [`Refused`]; nothing has then changed.
    fn request(&mut self, source: u16, destination: u16, slots: u16) -> Result<(), Refused>;

    /// Cancels the demand of `source`.
    fn forget(&mut self, source: u16);

    /// Allocates the next batch from what is left of it, between [`Free::begin`] and [`Free::end`];
    /// [`Self::timeslot`] returns the result.
    fn allocate(&mut self, free: &mut Free);

    /// The allocations of timeslot `index` of the batch, from 0; none if the batch is shorter.
    fn timeslot(&self, index: usize) -> &[Allocation];

    /// The number of timeslots in a batch.
    fn batch(&self) -> usize;
}

/// The reason for refusing a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is no such endpoint.
    Unknown,
    /// An endpoint gets no timeslot to itself.
    Itself,
    /// The pair would have more than [`MAX_DEMAND`] outstanding timeslots.
    TooMuch,
}

/// Invalid parameters of an arbiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// There must be 2 to [`MAX_ENDPOINTS`] endpoints.
    Endpoints,
    /// A batch must have 1 to [`MAX_BATCH`] timeslots, including the longest lag.
    Batch,
    /// A longer path must not have a shorter lag.
    Lags,
    /// There must be 1 to [`MAX_CLASSES`] classes.
    Classes,
    /// There must be 1 to [`paths::MAX_RACKS`] racks.
    Racks,
    /// Paths times the packets of a rack that each carries in a timeslot must be 1 to
    /// [`paths::MAX_COLOURS`].
    Paths,
}

/// A pair that is given a timeslot.
///
/// A word holds the source (12 bits from the lowest), the destination (12), and the part of its
/// remaining demand that is known without a lookup (8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allocation(u32);

impl Allocation {
    /// The most timeslots of a demand that fit.
    const MOST: u16 = u8::MAX as u16;
    const SLOT: u32 = 1 << 24;

    fn new(source: u16, destination: u16, left: u16) -> Self {
        let left = left.min(Self::MOST);
        Self(u32::from(source) | u32::from(destination) << 12 | u32::from(left) << 24)
    }

    /// The sender.
    #[inline]
    pub fn source(self) -> u16 {
        self.0 as u16 % MAX_ENDPOINTS as u16
    }

    /// The receiver.
    #[inline]
    pub fn destination(self) -> u16 {
        (self.0 >> 12) as u16 % MAX_ENDPOINTS as u16
    }

    /// The same allocation, with a class in place of the remaining demand.
    pub(crate) fn of_class(self, class: u16) -> Self {
        Self::new(self.source(), self.destination(), class)
    }

    /// Its stream, if endpoints have this many classes of urgency. Without classes the class is not
    /// set.
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

/// The timeslots of a batch: a row for each with as many places as there are endpoints, and a row
/// of the required length for pairs that find none.
#[derive(Clone, Debug)]
struct Rows {
    places: Vec<Allocation>,
    /// The first free place of each row.
    ends: [u32; MAX_BATCH + 1],
    /// The distance from a row to the next.
    stride: usize,
    batch: usize,
}

impl Rows {
    fn new(endpoints: usize, batch: usize) -> Self {
        // A cache line more, because places of rows at a distance of a power of two would share few
        // lines.
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

    /// Empties all rows; the last one then has at least `places` places.
    fn clear(&mut self, places: usize) {
        self.ends = std::array::from_fn(|row| (row * self.stride) as u32);
        let end = MAX_BATCH * self.stride + places;
        if self.places.len() < end {
            let end = end.next_multiple_of(1 << 12);
            self.places.resize(end, Allocation::default());
        }
    }

    /// The range of a row's occupied places.
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

/// Checks the parameters of an allocator.
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
