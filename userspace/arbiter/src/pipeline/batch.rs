// SPDX-License-Identifier: MIT OR Apache-2.0

//! The messages of the pipeline.

use crate::fabric::Component;
use crate::stages::{Order, Timeslot};
use crate::{Allocation, routes::Routes};

/// A message from sessions to allocation.
pub(super) enum Message {
    Request {
        source: u16,
        stream: u16,
        slots: u16,
    },
    Forget {
        source: u16,
    },
    Batch(Box<Batch>),
}

/// A packet without a path.
#[derive(Clone, Copy)]
pub(super) struct Pathless {
    /// The number of its batch.
    pub(super) batch: u64,
    pub(super) source: u16,
    pub(super) stream: u16,
}

/// A batch on its way, with reusable memory for its packets.
#[derive(Default)]
pub(super) struct Batch {
    /// The number of batches ordered before.
    pub(super) number: u64,
    pub(super) order: Order,
    /// The components to avoid from this batch on, if they have changed.
    pub(super) avoided: Option<Vec<Component>>,
    /// The packets of all timeslots.
    packets: Vec<Allocation>,
    paths: Vec<u8>,
    /// Their indices in their timeslots.
    pathless: Vec<usize>,
    /// Where each timeslot's packets end.
    packet_ends: Vec<usize>,
    pathless_ends: Vec<usize>,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.packets.clear();
        self.paths.clear();
        self.pathless.clear();
        self.packet_ends.clear();
        self.pathless_ends.clear();
    }

    /// Adds a timeslot.
    pub(super) fn add(&mut self, packets: &[Allocation]) {
        self.packets.extend_from_slice(packets);
        self.packet_ends.push(self.packets.len());
    }

    /// Chooses the paths; adds packets without one to `waiting`.
    pub(super) fn select(
        &mut self,
        routes: &mut Routes,
        classes: u16,
        waiting: &mut Vec<Pathless>,
    ) {
        let mut begin = 0;
        for (number, end) in (self.order.first..).zip(&self.packet_ends) {
            let packets = &self.packets[begin..*end];
            begin = *end;
            self.paths.extend_from_slice(routes.select(number, packets));
            self.pathless.extend_from_slice(routes.waiting());
            self.pathless_ends.push(self.pathless.len());
            waiting.extend(routes.waiting().iter().map(|place| Pathless {
                batch: self.number,
                source: packets[*place].source(),
                stream: packets[*place].stream(classes),
            }));
        }
    }

    /// The timeslots of the result.
    pub(super) fn timeslots<'a>(
        &'a self,
        is_over: &'a [bool],
    ) -> impl Iterator<Item = Timeslot<'a>> {
        let ends = self.packet_ends.iter().zip(&self.pathless_ends);
        let mut begin = (0, 0);
        (self.order.first..).zip(ends).map(move |(number, ends)| {
            let packets = begin.0..*ends.0;
            let pathless = begin.1..*ends.1;
            begin = (packets.end, pathless.end);
            Timeslot {
                number,
                packets: &self.packets[packets.clone()],
                paths: &self.paths[packets],
                pathless: &self.pathless[pathless],
                is_over,
            }
        })
    }
}
