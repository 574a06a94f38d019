// SPDX-License-Identifier: MIT OR Apache-2.0

//! The timeslots of a batch in which each endpoint is free to send and to receive.
//!
//! # Paths of different lengths
//!
//! A packet takes its receiver's link some time after its sender's: the longer its path, the later.
//! If every packet were given the same timeslot of its receiver's link, packets on short paths
//! would arrive before others that were sent earlier, and wait for them. The paper's testbed is one
//! rack, where all paths are alike. Here a packet takes the timeslot of its receiver's link in
//! which it arrives: its [lag](Lags) later. If a batch takes timeslots after its end, they are not
//! available to the next batch.

use weft_mechanisms::fastpass::address::Addresses;

use crate::{Allocator, Invalid, MAX_BATCH, MAX_ENDPOINTS, check};

/// How many timeslots later other packets are at their receiver's link than a packet to a host of
/// the same switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lags {
    /// To another switch of the pod.
    pub near: u32,
    /// To another pod; at least as much.
    pub far: u32,
}

impl Lags {
    /// Whether there are any lags.
    pub(crate) fn are_there(self) -> bool {
        self != Self::default()
    }

    /// The lag of a packet to another switch, or to another pod.
    #[inline]
    pub(crate) fn of(self, to_other_rack: bool, to_other_pod: bool) -> u32 {
        u32::from(to_other_rack) * self.near + u32::from(to_other_pod) * (self.far - self.near)
    }
}

/// The rack of each endpoint, if `size` endpoints form one; or the pod.
pub(crate) fn groups(addresses: &Addresses, size: u32) -> Vec<u16> {
    let endpoints = 0..addresses.count();
    endpoints.map(|it| (it / size.max(1)) as u16).collect()
}

/// The timeslots of a batch in which each endpoint is free, a bit for each. For receivers they
/// include timeslots after the batch that its packets can take.
#[derive(Clone, Debug)]
pub struct Free {
    pub(crate) to_send: [u64; MAX_ENDPOINTS],
    pub(crate) to_receive: [u64; MAX_ENDPOINTS],
    endpoints: usize,
    batch: usize,
    lagged: Option<Lagged>,
    reserved: Option<Reserved>,
}

/// Timeslots reserved for an endpoint's own packets.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    endpoint: usize,
    to_send: u64,
    to_receive: u64,
    /// Timeslots to receive in for which earlier batches had no room.
    owed: u32,
}

/// Moves each reserved timeslot that is not `free` to the next free one, the first one following
/// the last; and adds `owed` more, the first that are free. Returns those that found room, and the
/// number of those that did not.
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

/// Packets that arrive in a later timeslot than they leave in.
#[derive(Clone, Debug)]
struct Lagged {
    lags: Lags,
    /// By endpoint.
    rack: Vec<u16>,
    pod: Vec<u16>,
    /// The timeslots of the receivers' links that earlier batches have taken, from the next batch's
    /// first timeslot on.
    taken: Vec<u64>,
}

impl Free {
    /// For this many endpoints, 2 to [`MAX_ENDPOINTS`], and timeslots of a batch, 1 to
    /// [`MAX_BATCH`].
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
            lagged: None,
            reserved: None,
        }))
    }

    /// From the next batch on, a packet takes the timeslot of its receiver's link that is its lag
    /// later.
    ///
    /// # Errors
    ///
    /// Nothing has then changed. [`Invalid::Batch`] if a batch and the longest lag together have
    /// more than [`MAX_BATCH`] timeslots; [`Invalid::Lags`] if a longer path has a shorter lag.
    pub fn set_lags(&mut self, addresses: &Addresses, lags: Lags) -> Result<(), Invalid> {
        if lags.far < lags.near {
            return Err(Invalid::Lags);
        }
        if self.batch + lags.far as usize > MAX_BATCH {
            return Err(Invalid::Batch);
        }
        self.lagged = lags.are_there().then(|| Lagged {
            lags,
            rack: groups(addresses, addresses.hosts),
            pod: groups(addresses, addresses.hosts * addresses.racks),
            taken: vec![0; addresses.count() as usize],
        });
        Ok(())
    }

    /// Whether any packet has a lag.
    pub(crate) fn has_lags(&self) -> bool {
        self.lagged.is_some()
    }

    /// A packet's lag.
    #[inline(always)]
    pub(crate) fn lag(&self, source: u16, destination: u16) -> u32 {
        let Some(Lagged {
            lags, rack, pod, ..
        }) = &self.lagged
        else {
            return 0;
        };
        let [from, to] = [source, destination].map(usize::from);
        lags.of(rack[from] != rack[to], pod[from] != pod[to])
    }

    /// Reserves these timeslots of the next batch, and of each after it, for packets that an
    /// endpoint sends and receives without a request: a bit for each, from the lowest. There is one
    /// such endpoint.
    ///
    /// A timeslot to receive in that a packet of an earlier batch has taken is moved to another one
    /// of the batch. If none is free, a later batch makes up for it.
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

    /// This many timeslots pass before the next batch begins.
    pub fn skip(&mut self, timeslots: u64) {
        if let Some(lagged) = &mut self.lagged {
            for taken in &mut lagged.taken {
                *taken = match timeslots {
                    0..64 => *taken >> timeslots,
                    _ => 0,
                };
            }
        }
    }

    /// Begins a batch: all endpoints are free in all its timeslots, except in reserved ones and
    /// those that earlier batches have taken.
    pub fn begin(&mut self) {
        let endpoints = self.endpoints;
        let all = u64::MAX >> (MAX_BATCH - self.batch);
        self.to_send[..endpoints].fill(all);
        self.to_receive[..endpoints].fill(all);
        if let Some(lagged) = &self.lagged {
            let all = u64::MAX >> (MAX_BATCH - self.batch - lagged.lags.far as usize);
            for (free, taken) in self.to_receive.iter_mut().zip(&lagged.taken) {
                *free = all & !taken;
            }
        }
        if let Some(reserved) = &mut self.reserved {
            let to_receive = &mut self.to_receive[reserved.endpoint];
            let wanted = reserved.to_receive & all;
            let (placed, missing) = place(*to_receive & all, wanted, reserved.owed);
            *to_receive &= !placed;
            // A backlog above a batch would be long out of date.
            reserved.owed = missing.min(self.batch as u32);
            self.to_send[reserved.endpoint] &= !reserved.to_send;
        }
    }

    /// Allocates a whole batch with one allocator.
    pub fn allocate(&mut self, allocator: &mut (impl Allocator + ?Sized)) {
        self.begin();
        allocator.allocate(self);
        self.end();
    }

    /// Ends the batch: timeslots after it that it has taken stay taken.
    pub fn end(&mut self) {
        let batch = self.batch;
        if let Some(lagged) = &mut self.lagged {
            let after = u64::MAX >> (MAX_BATCH - lagged.lags.far as usize);
            for (taken, free) in lagged.taken.iter_mut().zip(&self.to_receive) {
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
