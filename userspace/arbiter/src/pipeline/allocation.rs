// SPDX-License-Identifier: MIT OR Apache-2.0

//! The stage that allocates timeslots.

use rtrb::Consumer;

use super::batch::{Batch, Message, Pathless};
use super::ring::{Bell, Sender};
use super::{Settings, Stage};
use crate::Invalid;
use crate::stages::Allocating;

/// Allocation, between two rings.
pub struct AllocationStage {
    allocating: Allocating,
    orders: Consumer<Message>,
    back: Consumer<Pathless>,
    to_paths: Sender<Box<Batch>>,
    /// The number of the next batch.
    next: u64,
    /// By source: the first batch of its session.
    since: Vec<u64>,
}

impl AllocationStage {
    pub(super) fn new(
        settings: &Settings,
        orders: Consumer<Message>,
        back: Consumer<Pathless>,
        to_paths: Sender<Box<Batch>>,
    ) -> Result<Self, Invalid> {
        Ok(Self {
            allocating: Allocating::new(settings)?,
            orders,
            back,
            to_paths,
            next: 0,
            since: vec![0; settings.addresses.count() as usize],
        })
    }

    pub(super) fn set_bell(&mut self, bell: Bell) {
        self.to_paths.set_bell(bell);
    }

    /// Takes back the packets without a path, and processes the next message from the sessions.
    /// Returns whether there was anything to do.
    ///
    /// # Panics
    ///
    /// If a pair waits for more than [`MAX_DEMAND`](crate::MAX_DEMAND), which the sessions prevent.
    pub fn step(&mut self) -> bool {
        let has_come_back = self.take_back();
        match self.orders.pop() {
            Ok(Message::Request {
                source,
                stream,
                slots,
            }) => {
                let is_taken = self.allocating.request(source, stream, slots);
                assert!(is_taken, "{source} may not ask {slots} for stream {stream}");
            }
            Ok(Message::Forget { source }) => {
                self.allocating.forget(source);
                self.since[usize::from(source)] = self.next;
            }
            Ok(Message::Batch(batch)) => self.allocate(batch),
            Err(_) => return has_come_back,
        }
        true
    }

    fn take_back(&mut self) -> bool {
        let mut has_come_back = false;
        while let Ok(packet) = self.back.pop() {
            has_come_back = true;
            if packet.batch >= self.since[usize::from(packet.source)] {
                self.allocating.take_back(packet.source, packet.stream);
            }
        }
        if has_come_back {
            // It may have waited for room.
            self.to_paths.ring();
        }
        has_come_back
    }

    fn allocate(&mut self, mut batch: Box<Batch>) {
        self.next += 1;
        self.allocating.allocate(&batch.order);
        batch.clear();
        for packets in self.allocating.timeslots() {
            batch.add(packets);
        }
        let has_room = self.to_paths.push(batch);
        assert!(has_room, "there are more batches than there can be");
        self.to_paths.ring();
    }
}

impl Stage for AllocationStage {
    fn step(&mut self) -> bool {
        self.step()
    }

    fn is_over(&self) -> bool {
        self.orders.is_abandoned()
    }
}
