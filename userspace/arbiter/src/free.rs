// SPDX-License-Identifier: MIT OR Apache-2.0

//! In which timeslots of a batch each endpoint is free to send and to receive.
//!
//! # Ways of different length
//!
//! A packet takes its receiver's link some time after its sender's: the longer its way, the later.
//! Where each packet of a timeslot has that timeslot of its receiver's link, those of short ways
//! get there before others that were sent earlier, and wait for them. The paper's testbed is one
//! rack, where all ways are alike. Here a packet takes the timeslot of its receiver's link in which
//! it will be there: its [lag](Lags) later. What a batch has taken of those that begin after its
//! end, the next one has not.

use weft_mechanisms::fastpass::address::Addresses;

use crate::{Allocator, Invalid, MAX_BATCH, MAX_ENDPOINTS, check};

/// How many timeslots later than a packet to a host of the same switch others are at their
/// receiver's link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lags {
    /// To another switch of the pod.
    pub near: u32,
    /// To another pod; no less.
    pub far: u32,
}

impl Lags {
    /// Whether any packet has one.
    pub(crate) fn are_there(self) -> bool {
        self != Self::default()
    }
}

/// By endpoint, which rack it is of, if so many of them are one; or which pod.
pub(crate) fn groups(addresses: &Addresses, size: u32) -> Vec<u16> {
    let endpoints = 0..addresses.count();
    endpoints.map(|it| (it / size.max(1)) as u16).collect()
}

/// In which timeslots of a batch each endpoint is free: a bit for each, of the receivers' also for
/// those after the batch which packets of it can take.
#[derive(Clone, Debug)]
pub struct Free {
    pub(crate) to_send: [u64; MAX_ENDPOINTS],
    pub(crate) to_receive: [u64; MAX_ENDPOINTS],
    endpoints: usize,
    batch: usize,
    ways: Option<Ways>,
    reserved: Option<Reserved>,
}

/// Timeslots that an endpoint has for itself.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    endpoint: usize,
    to_send: u64,
    to_receive: u64,
    /// Timeslots to receive in that found no room in earlier batches.
    owed: u32,
}

/// Moves each reserved timeslot that is not `free` to the next one that is, the first one coming
/// after the last; and adds `owed` more, the first that are free. Returns those that found room,
/// and how many did not.
fn place(free: u64, reserved: u64, owed: u32) -> (u64, u32) {
    let mut placed = reserved & free;
    let mut taken = reserved & !free;
    let mut rest = free & !reserved;
    let mut missing = owed;
    while taken != 0 {
        let slot = taken.trailing_zeros();
        taken &= taken - 1;
        let after = match rest >> slot << slot {
            0 => rest,
            after => after,
        };
        missing += u32::from(after == 0);
        let next = after & after.wrapping_neg();
        placed |= next;
        rest ^= next;
    }
    while missing > 0 && rest != 0 {
        placed |= rest & rest.wrapping_neg();
        rest &= rest - 1;
        missing -= 1;
    }
    (placed, missing)
}

#[derive(Clone, Debug)]
struct Ways {
    lags: Lags,
    /// Of each endpoint.
    rack: Vec<u16>,
    pod: Vec<u16>,
    /// What earlier batches have taken of the receivers' links, from the next batch's first
    /// timeslot on.
    taken: Vec<u64>,
}

impl Free {
    /// Of so many endpoints, 2 to [`MAX_ENDPOINTS`], and timeslots of a batch, 1 to [`MAX_BATCH`].
    ///
    /// # Errors
    ///
    /// [`Invalid::Endpoints`] and [`Invalid::Batch`].
    pub fn new(endpoints: usize, batch: usize) -> Result<Box<Self>, Invalid> {
        check(endpoints, batch)?;
        Ok(Box::new(Self {
            to_send: [0; MAX_ENDPOINTS],
            to_receive: [0; MAX_ENDPOINTS],
            endpoints,
            batch,
            ways: None,
            reserved: None,
        }))
    }

    /// From the next batch on, packets take a timeslot of their receivers' links that is their lag
    /// later.
    ///
    /// # Errors
    ///
    /// Nothing has changed then. [`Invalid::Batch`] if a batch and the longest lag have more than
    /// [`MAX_BATCH`] timeslots together; [`Invalid::Lags`] if a longer way has a shorter lag.
    pub fn set_lags(&mut self, addresses: &Addresses, lags: Lags) -> Result<(), Invalid> {
        if lags.far < lags.near {
            return Err(Invalid::Lags);
        }
        if self.batch + lags.far as usize > MAX_BATCH {
            return Err(Invalid::Batch);
        }
        self.ways = lags.are_there().then(|| Ways {
            lags,
            rack: groups(addresses, addresses.hosts),
            pod: groups(addresses, addresses.hosts * addresses.racks),
            taken: vec![0; addresses.count() as usize],
        });
        Ok(())
    }

    /// Whether any packet has a lag.
    pub(crate) fn has_lags(&self) -> bool {
        self.ways.is_some()
    }

    /// A packet's lag.
    #[inline(always)]
    pub(crate) fn lag(&self, source: u16, destination: u16) -> u32 {
        let Some(Ways {
            lags, rack, pod, ..
        }) = &self.ways
        else {
            return 0;
        };
        let [from, to] = [source, destination].map(usize::from);
        let near = u32::from(rack[from] != rack[to]) * lags.near;
        near + u32::from(pod[from] != pod[to]) * (lags.far - lags.near)
    }

    /// Reserves these timeslots of the next batch, and of each after it, for what an endpoint sends
    /// and receives without asking: a bit for each, from the lowest. There is one such endpoint.
    ///
    /// A timeslot to receive in that a packet of an earlier batch has taken is moved to another one
    /// of the batch. Where none is free, a later batch makes up for it.
    pub fn reserve(&mut self, endpoint: u16, to_send: u64, to_receive: u64) {
        let endpoint = endpoint.into();
        let before = self.reserved.filter(|it| it.endpoint == endpoint);
        self.reserved = Some(Reserved {
            endpoint,
            to_send,
            to_receive,
            owed: before.map_or(0, |it| it.owed),
        });
    }

    /// So many timeslots go by before the next batch begins.
    pub fn skip(&mut self, timeslots: u64) {
        if let Some(ways) = &mut self.ways {
            for taken in &mut ways.taken {
                *taken = match timeslots {
                    0..64 => *taken >> timeslots,
                    _ => 0,
                };
            }
        }
    }

    /// A batch begins: all endpoints are free in all its timeslots, except those that are reserved,
    /// and those that earlier batches have taken.
    pub fn begin(&mut self) {
        let endpoints = self.endpoints;
        let all = u64::MAX >> (MAX_BATCH - self.batch);
        self.to_send[..endpoints].fill(all);
        self.to_receive[..endpoints].fill(all);
        if let Some(ways) = &self.ways {
            let all = u64::MAX >> (MAX_BATCH - self.batch - ways.lags.far as usize);
            for (free, taken) in self.to_receive.iter_mut().zip(&ways.taken) {
                *free = all & !taken;
            }
        }
        if let Some(reserved) = &mut self.reserved {
            let to_receive = &mut self.to_receive[reserved.endpoint];
            let wanted = reserved.to_receive & all;
            let (placed, missing) = place(*to_receive & all, wanted, reserved.owed);
            *to_receive &= !placed;
            // More than a batch would be long ago.
            reserved.owed = missing.min(self.batch as u32);
            self.to_send[reserved.endpoint] &= !reserved.to_send;
        }
    }

    /// Allocates a whole batch by one allocator.
    pub fn allocate(&mut self, allocator: &mut (impl Allocator + ?Sized)) {
        self.begin();
        allocator.allocate(self);
        self.end();
    }

    /// The batch is allocated: what it has taken of timeslots after it stays taken.
    pub fn end(&mut self) {
        let batch = self.batch;
        if let Some(ways) = &mut self.ways {
            let after = u64::MAX >> (MAX_BATCH - ways.lags.far as usize);
            for (taken, free) in ways.taken.iter_mut().zip(&self.to_receive) {
                *taken = !free >> batch & after;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserved_timeslot_that_is_taken_moves_to_the_next_free_one() {
        assert_eq!(place(0b1111, 0b0101, 0), (0b0101, 0));
        assert_eq!(place(0b1110, 0b0101, 0), (0b0110, 0));
        // The next free one is itself reserved.
        assert_eq!(place(0b1110, 0b0011, 0), (0b0110, 0));
        // Beyond the last comes the first.
        assert_eq!(place(0b0011, 0b1000, 0), (0b0001, 0));
        assert_eq!(place(0b0010, 0b1001, 0), (0b0010, 1));
        assert_eq!(place(0, 0b1001, 3), (0, 5));
        assert_eq!(place(0b1111, 0b1000, 2), (0b1011, 0));
        assert_eq!(place(u64::MAX, 0, 70), (u64::MAX, 6));
        assert_eq!(place(1, 1 << 63, 0), (1, 0));
    }
}
