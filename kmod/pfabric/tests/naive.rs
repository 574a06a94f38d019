// SPDX-License-Identifier: GPL-2.0-only OR MIT
//! The common part of the tests of `pfabric` and its fuzz target: the naive model, the operations,
//! and the comparison of both queues after each operation.
//!
//! The model is the paper's text, word by word, on a `Vec` in order of arrival. A scenario is made
//! either by a property test or from a fuzzer's bytes ([`Scenario::decode`]).
#![allow(dead_code, reason = "tests, fuzz targets and examples each use a part")]

use std::rc::Rc;
use weft_mechanisms::heap::Heap;
use weft_mechanisms::pfabric::queue::{Counters, Limits, PFabric, MOST_EVICTED};

/// An owned packet, neither `Copy` nor `Clone`: none can be duplicated, and the count of its `Rc`
/// reveals a lost one.
#[derive(Debug)]
pub(crate) struct Packet {
    pub(crate) id: u32,
    alive: Rc<()>,
}

/// The properties of an arriving packet, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) id: u32,
    pub(crate) rank: u32,
    pub(crate) flow: u32,
    pub(crate) len: u32,
}

/// The queue of §4.1, naively.
pub(crate) struct Model {
    limits: Limits,
    /// In order of arrival.
    queue: Vec<Arrival>,
    counters: Counters,
}

impl Model {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            queue: Vec::new(),
            counters: Counters::default(),
        }
    }

    fn bytes(queue: &[Arrival]) -> u64 {
        queue.iter().map(|packet| u64::from(packet.len)).sum()
    }

    /// Removes packets from `queue` until it is within the limits: each time the one of the highest
    /// rank, and among these the latest.
    fn drop_least_urgent(limits: Limits, queue: &mut Vec<Arrival>) -> Vec<Arrival> {
        let mut dropped = Vec::new();
        while queue.len() > limits.packets as usize
            || limits.bytes != 0 && Self::bytes(queue) > u64::from(limits.bytes)
        {
            let worst = (0..queue.len())
                .max_by_key(|&i| (queue[i].rank, i))
                .unwrap();
            dropped.push(queue.remove(worst));
        }
        dropped
    }

    fn count_evicted(&mut self, evicted: &[Arrival]) {
        self.counters.evicted += evicted.len() as u64;
        self.counters.evicted_bytes += Self::bytes(evicted);
    }

    /// The evicted packets, in order; an error if the arriving packet is rejected.
    pub(crate) fn enqueue(&mut self, arrival: Arrival) -> Result<Vec<Arrival>, ()> {
        let mut queue = self.queue.clone();
        queue.push(arrival);
        let dropped = Self::drop_least_urgent(self.limits, &mut queue);
        if dropped.contains(&arrival) || dropped.len() > MOST_EVICTED as usize {
            // Then it makes no room, and the others stay.
            self.counters.rejected += 1;
            self.counters.rejected_bytes += u64::from(arrival.len);
            return Err(());
        }
        self.queue = queue;
        self.count_evicted(&dropped);
        let counters = &mut self.counters;
        counters.highest_len = counters.highest_len.max(self.queue.len() as u32);
        counters.highest_bytes = counters.highest_bytes.max(Self::bytes(&self.queue));
        Ok(dropped)
    }

    /// Positions of the most urgent packet and of the one to send.
    fn choose(&self) -> Option<(usize, usize)> {
        let top = (0..self.queue.len()).min_by_key(|&i| (self.queue[i].rank, i))?;
        if !self.limits.starvation_prevention {
            return Some((top, top));
        }
        let flow = self.queue[top].flow;
        Some((
            top,
            self.queue.iter().position(|packet| packet.flow == flow)?,
        ))
    }

    pub(crate) fn peek(&self) -> Option<u32> {
        self.choose().map(|(_, sent)| self.queue[sent].id)
    }

    pub(crate) fn dequeue(&mut self) -> Option<u32> {
        let (top, sent) = self.choose()?;
        self.counters.overtaken += u64::from(top != sent);
        Some(self.queue.remove(sent).id)
    }

    pub(crate) fn change(&mut self, limits: Limits) -> Vec<Arrival> {
        self.limits = limits;
        let evicted = Self::drop_least_urgent(limits, &mut self.queue);
        self.count_evicted(&evicted);
        evicted
    }

    fn flows(&self) -> u32 {
        let flows: std::collections::BTreeSet<_> = self.queue.iter().map(|p| p.flow).collect();
        flows.len() as u32
    }
}

/// All operations on a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Enqueue { rank: u32, flow: u32, len: u32 },
    Dequeue,
    Change(Limits),
    Clear,
}

/// A sequence of operations on a queue.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) limits: Limits,
    pub(crate) operations: Vec<Operation>,
}

/// Critical lengths: the least, Ethernet's, GSO's, more than any limit.
const LENGTHS: [u32; 8] = [1, 60, 66, 590, 1514, 9014, 65_549, u32::MAX];

impl Scenario {
    /// Every sequence of bytes is a scenario: limits, then operations of one to five bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut bytes = bytes.iter().copied();
        let mut next = || bytes.next();
        let limits = |next: &mut dyn FnMut() -> Option<u8>| {
            let (packets, bytes) = (u32::from(next()?), u32::from(next()?));
            Some(Limits {
                packets: packets / 2 + 1,
                starvation_prevention: packets % 2 == 0,
                bytes: bytes * bytes,
            })
        };
        let first = Limits {
            packets: 24,
            bytes: 0,
            starvation_prevention: true,
        };
        let mut scenario = Self {
            limits: limits(&mut next).unwrap_or(first),
            operations: Vec::new(),
        };
        while let Some(code) = next() {
            let operation = match code {
                0..=159 => (|| {
                    // Ranks that differ in high, low or both bits: the shapes of the trie.
                    let (high, low) = (u32::from(next()?), u32::from(next()?));
                    let (flow, len) = (u32::from(next()?), u32::from(next()?));
                    Some(Operation::Enqueue {
                        rank: ((high & 7) << (high >> 3)) ^ low,
                        flow,
                        len: match LENGTHS.get(len as usize) {
                            Some(&len) => len,
                            None => len * 8,
                        },
                    })
                })(),
                160..=239 => Some(Operation::Dequeue),
                240..=253 => limits(&mut next).map(Operation::Change),
                254..=255 => Some(Operation::Clear),
            };
            scenario.operations.extend(operation);
        }
        scenario
    }

    /// Runs the scenario on the queue and on the model.
    ///
    /// # Panics
    ///
    /// If they differ, or if an invariant of the queue is violated.
    pub(crate) fn run(&self) {
        let alive = Rc::new(());
        let mut queue = new_queue(self.limits);
        let mut model = Model::new(self.limits);
        for (id, &operation) in (0_u32..).zip(&self.operations) {
            match operation {
                Operation::Enqueue { rank, flow, len } => {
                    let packet = Packet {
                        id,
                        alive: Rc::clone(&alive),
                    };
                    let mut evicted = Vec::new();
                    let verdict = queue
                        .enqueue(packet, rank, flow, len, |p, len| evicted.push((p.id, len)))
                        .map_err(|packet| packet.id);
                    match model.enqueue(Arrival {
                        id,
                        rank,
                        flow,
                        len,
                    }) {
                        Ok(expected) => {
                            assert_eq!(verdict, Ok(()), "is queued");
                            assert_eq!(evicted, numbers(&expected), "evicted by an arrival");
                        }
                        Err(()) => {
                            assert_eq!(verdict, Err(id), "is rejected");
                            assert_eq!(evicted, [], "evicted in vain");
                        }
                    }
                }
                Operation::Dequeue => {
                    let peeked = queue.peek().map(|packet| packet.id);
                    let sent = queue.dequeue().map(|packet| packet.id);
                    assert_eq!(peeked, sent, "peek is what dequeue returns");
                    assert_eq!(sent, model.dequeue(), "sent");
                }
                Operation::Change(limits) => {
                    let mut evicted = Vec::new();
                    let mut old = std::mem::replace(&mut queue, new_queue(limits));
                    queue.take_over(&mut old, |packet, len| evicted.push((packet.id, len)));
                    assert_eq!(
                        evicted,
                        numbers(&model.change(limits)),
                        "evicted by a change"
                    );
                    old.check_invariants()
                        .expect("the old queue is a valid one");
                    assert!(old.is_empty() && old.bytes() == 0 && old.flows() == 0);
                }
                Operation::Clear => {
                    let mut out = Vec::new();
                    queue.clear(|packet| out.push(packet.id));
                    out.sort_unstable();
                    let queued: Vec<_> = model.queue.drain(..).map(|packet| packet.id).collect();
                    assert_eq!(out, queued, "cleared");
                }
            }
            queue
                .check_invariants()
                .unwrap_or_else(|broken| panic!("after {id}: {broken}"));
            assert_eq!(queue.limits(), model.limits);
            assert_eq!(queue.peek().map(|packet| packet.id), model.peek(), "peek");
            assert_eq!(queue.len() as usize, model.queue.len(), "packets");
            assert_eq!(queue.is_empty(), model.queue.is_empty());
            assert_eq!(queue.bytes(), Model::bytes(&model.queue), "bytes");
            assert_eq!(queue.flows(), model.flows(), "flows");
            assert_eq!(queue.counters(), model.counters);
            assert_eq!(
                Rc::strong_count(&alive) - 1,
                model.queue.len(),
                "packets in memory"
            );
        }
        drop(queue);
        assert_eq!(Rc::strong_count(&alive), 1, "packets outlive their queue");
    }
}

/// The packets' numbers and lengths.
fn numbers(packets: &[Arrival]) -> Vec<(u32, u32)> {
    packets
        .iter()
        .map(|packet| (packet.id, packet.len))
        .collect()
}

fn new_queue(limits: Limits) -> PFabric<Packet, Heap> {
    let Ok(queue) = PFabric::new(limits);
    queue
}
