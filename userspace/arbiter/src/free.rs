// SPDX-License-Identifier: MIT OR Apache-2.0

//! In which timeslots of a batch each endpoint is free to send and to receive.
//!
//! # Ways of different length
//!
//! A packet takes its receiver's link some time after its sender's: the longer its way, the later. Where each packet of a
//! timeslot has that timeslot of its receiver's link, those of short ways get there before others that
//! were sent earlier, and wait for them. The paper's testbed is one rack, where all ways are alike. Here a packet takes
//! the timeslot of its receiver's link in which it will be there: its [lag](Lags) later. What a batch has
//! taken of those that begin after its end, the next one has not.

use weft_mechanisms::fastpass::address::Addresses;

use crate::{Invalid, MAX_BATCH, MAX_ENDPOINTS};

/// How many timeslots later than a packet to a host of the same switch others are at their receiver's link.
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

/// In which timeslots of a batch each endpoint is free: a bit for each, of the receivers' also for those after the batch
/// which packets of it can take.
#[derive(Clone, Debug)]
pub struct Free {
    pub(crate) to_send: [u64; MAX_ENDPOINTS],
    pub(crate) to_receive: [u64; MAX_ENDPOINTS],
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
}

#[derive(Clone, Debug)]
struct Ways {
    lags: Lags,
    /// Of each endpoint.
    rack: Vec<u16>,
    pod: Vec<u16>,
    /// What earlier batches have taken of the receivers' links, from the next batch's first timeslot on.
    taken: Vec<u64>,
}

impl Free {
    pub(crate) fn new(batch: usize) -> Box<Self> {
        Box::new(Self {
            to_send: [0; MAX_ENDPOINTS],
            to_receive: [0; MAX_ENDPOINTS],
            batch,
            ways: None,
            reserved: None,
        })
    }

    /// From the next batch on, packets take a timeslot of their receivers' links that is their lag later.
    ///
    /// # Errors
    ///
    /// Nothing has changed then. [`Invalid::Batch`] if a batch and the longest lag have more than [`MAX_BATCH`] timeslots together;
    /// [`Invalid::Lags`] if a longer way has a shorter lag.
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

    /// From the next batch on an endpoint is given none of these timeslots of a batch, to send or to receive: a bit for each,
    /// from the lowest. There is one such endpoint.
    pub fn reserve(&mut self, endpoint: u16, to_send: u64, to_receive: u64) {
        self.reserved = Some(Reserved {
            endpoint: endpoint.into(),
            to_send,
            to_receive,
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

    /// All `endpoints` are free in all timeslots of a batch, but for what was reserved, and for what earlier batches have taken.
    pub(crate) fn reset(&mut self, endpoints: usize) {
        let all = u64::MAX >> (MAX_BATCH - self.batch);
        self.to_send[..endpoints].fill(all);
        self.to_receive[..endpoints].fill(all);
        if let Some(ways) = &self.ways {
            let all = u64::MAX >> (MAX_BATCH - self.batch - ways.lags.far as usize);
            for (free, taken) in self.to_receive.iter_mut().zip(&ways.taken) {
                *free = all & !taken;
            }
        }
        if let Some(reserved) = self.reserved {
            self.to_send[reserved.endpoint] &= !reserved.to_send;
            self.to_receive[reserved.endpoint] &= !reserved.to_receive;
        }
    }

    /// The batch is allocated: what it has taken of timeslots after it is kept.
    pub(crate) fn close(&mut self) {
        let batch = self.batch;
        if let Some(ways) = &mut self.ways {
            let after = u64::MAX >> (MAX_BATCH - ways.lags.far as usize);
            for (taken, free) in ways.taken.iter_mut().zip(&self.to_receive) {
                *taken = !free >> batch & after;
            }
        }
    }
}
