// SPDX-License-Identifier: MIT OR Apache-2.0

//! A naive model of allocation: timeslot by timeslot, pair by pair.

use std::cmp::Reverse;
use std::collections::HashMap;

use weft_arbiter::max_min::HORIZON;
use weft_arbiter::min_fct::ALIKE;
use weft_arbiter::{MAX_DEMAND, Refused};

/// The order of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    MaxMin,
    MinFct,
}

/// Pairs with a demand, in order.
pub(crate) struct Naive {
    policy: Policy,
    endpoints: u16,
    batch: usize,
    next: u64,
    waiting: Vec<Waiting>,
    last: HashMap<(u16, u16), u64>,
}

#[derive(Clone, Copy)]
struct Waiting {
    pair: (u16, u16),
    last: u64,
    slots: u32,
    /// Of these, the number beyond the 255 that are processed at a time.
    more: u32,
}

impl Naive {
    pub(crate) fn new(policy: Policy, endpoints: u16, batch: usize) -> Self {
        Self {
            policy,
            endpoints,
            batch,
            next: HORIZON,
            waiting: Vec::new(),
            last: HashMap::new(),
        }
    }

    pub(crate) fn request(&mut self, from: u16, to: u16, slots: u16) -> Result<(), Refused> {
        if from >= self.endpoints || to >= self.endpoints {
            return Err(Refused::Unknown);
        }
        if from == to {
            return Err(Refused::Itself);
        }
        let slots = u32::from(slots);
        let known = self.waiting.iter().position(|w| w.pair == (from, to));
        match known {
            _ if slots == 0 => {}
            None => {
                let last = self.last.get(&(from, to)).copied().unwrap_or_default();
                let last = last.max(self.next - HORIZON);
                let pair = (from, to);
                self.waiting.push(Waiting {
                    pair,
                    last,
                    slots,
                    more: slots.saturating_sub(255),
                });
            }
            Some(index) => {
                let of_bound = match self.policy {
                    Policy::MaxMin => self.waiting[index].more,
                    Policy::MinFct => self.waiting[index].slots,
                };
                if of_bound + slots > MAX_DEMAND {
                    return Err(Refused::TooMuch);
                }
                self.waiting[index].slots += slots;
                self.waiting[index].more += slots;
                if self.policy == Policy::MinFct {
                    let waiting = self.waiting.remove(index);
                    self.waiting.push(waiting);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn forget(&mut self, source: u16) {
        for gone in self.waiting.extract_if(.., |w| w.pair.0 == source) {
            self.last.insert(gone.pair, gone.last);
        }
    }

    pub(crate) fn allocate(&mut self) -> Vec<Vec<(u16, u16)>> {
        match self.policy {
            Policy::MaxMin => self.waiting.sort_by_key(|w| w.last),
            Policy::MinFct => self.waiting.sort_by_key(|w| w.slots.min(ALIKE as u32)),
        }
        let before: HashMap<_, _> = self.waiting.iter().map(|w| (w.pair, w.slots)).collect();
        let mut timeslots = Vec::new();
        for _ in 0..self.batch {
            timeslots.push(self.timeslot());
            self.next += 1;
        }
        for done in self.waiting.extract_if(.., |w| w.slots == 0) {
            self.last.insert(done.pair, done.last);
        }
        if self.policy == Policy::MinFct {
            // Pairs whose demand has just changed have had it for the shortest time.
            self.waiting
                .sort_by_key(|w| Reverse(before[&w.pair] == w.slots));
        }
        timeslots
    }

    fn timeslot(&mut self) -> Vec<(u16, u16)> {
        let (mut sends, mut receives) = (vec![false; 4096], vec![false; 4096]);
        let mut matching = Vec::new();
        let mut behind = Vec::new();
        for waiting in std::mem::take(&mut self.waiting) {
            let (from, to) = waiting.pair;
            let is_free = !sends[usize::from(from)] && !receives[usize::from(to)];
            if waiting.slots == 0 || !is_free {
                self.waiting.push(waiting);
                continue;
            }
            sends[usize::from(from)] = true;
            receives[usize::from(to)] = true;
            matching.push((from, to));
            let mut given = waiting;
            given.slots -= 1;
            given.last = self.next;
            if given.slots == given.more {
                given.more = given.slots.saturating_sub(255);
            }
            match self.policy {
                Policy::MaxMin => behind.push(given),
                Policy::MinFct => self.waiting.push(given),
            }
        }
        self.waiting.append(&mut behind);
        matching
    }
}
