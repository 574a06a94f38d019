// SPDX-License-Identifier: MIT OR Apache-2.0

//! The sessions' end of the pipeline.

use std::thread::JoinHandle;

use rtrb::Consumer;

use super::batch::{Batch, Message};
use super::ring::{Bell, Sender};
use super::{Settings, Threads};
use crate::fabric::Component;
use crate::place;
use crate::stages::{Order, Stages, Timeslot};

/// For a source that must be forgotten, if there was no room for the message.
const NOT_SAID: u64 = u64::MAX;

/// Passes on the sessions' demand, and receives the results. When it is dropped, the threads end,
/// and it waits for them.
pub struct Front {
    endpoints: usize,
    /// Classes of urgency.
    classes: u16,
    /// In ns.
    timeslot: u64,
    lead: u64,
    to_allocation: Sender<Message>,
    /// Whether a message was written without waking allocation.
    is_written: bool,
    done: Consumer<Box<Batch>>,
    /// The batches that are not under way.
    #[expect(
        clippy::vec_box,
        reason = "they go into messages as they are, and these are small"
    )]
    batches: Vec<Box<Batch>>,
    /// The total number of batches.
    batch_count: usize,
    /// The number of batches ordered.
    ordered: u64,
    /// By source: the first batch of its session.
    since: Vec<u64>,
    /// The latest of these that allocation was sent.
    latest: u64,
    /// Sources about which allocation has yet to be informed.
    forgotten: Vec<u16>,
    /// The components that the next batch must pass to path selection.
    avoided: Option<Vec<Component>>,
    /// By source: whether a batch's packets belong to an old session.
    is_over: Vec<bool>,
    crowded: u64,
    late: u64,
    /// Dropped last: the threads end when their rings are abandoned.
    threads: Threads,
}

impl Front {
    pub(super) fn new(
        settings: &Settings,
        batches: usize,
        to_allocation: Sender<Message>,
        done: Consumer<Box<Batch>>,
    ) -> Self {
        let endpoints = settings.addresses.count() as usize;
        Self {
            endpoints,
            classes: settings.classes,
            timeslot: settings.timeslot,
            lead: settings.lead,
            to_allocation,
            is_written: false,
            done,
            batches: (0..batches).map(|_| Box::default()).collect(),
            batch_count: batches,
            ordered: 0,
            since: vec![0; endpoints],
            latest: 0,
            forgotten: Vec::with_capacity(endpoints),
            avoided: None,
            is_over: Vec::with_capacity(endpoints),
            crowded: 0,
            late: 0,
            threads: Threads::default(),
        }
    }

    pub(super) fn set_threads(&mut self, bell: Bell, threads: Vec<JoinHandle<()>>) {
        self.to_allocation.set_bell(bell);
        self.threads = Threads(threads);
    }

    /// Writes, if there is room in addition to that for all batches: even those under way can then
    /// be ordered again before this is read. Returns whether there was room.
    fn write(&mut self, message: Message) -> bool {
        let has_room = self.to_allocation.has_room(self.batch_count);
        self.is_written = true;
        has_room && self.to_allocation.push(message)
    }

    /// Sends the sources to forget, as far as there is room.
    fn say_forgotten(&mut self) {
        while let Some(source) = self.forgotten.last().copied() {
            if !self.write(Message::Forget { source }) {
                return;
            }
            self.since[usize::from(source)] = self.ordered;
            self.latest = self.ordered;
            self.forgotten.pop();
        }
    }

    /// Wakes allocation if there is a message for it.
    fn wake(&mut self) {
        if std::mem::take(&mut self.is_written) {
            self.to_allocation.ring();
        }
    }
}

impl Stages for Front {
    fn request(&mut self, source: u16, stream: u16, slots: u16) -> bool {
        if place(self.endpoints, source, stream / self.classes).is_err() {
            return false;
        }
        self.say_forgotten();
        let request = Message::Request {
            source,
            stream,
            slots,
        };
        let is_taken = self.since[usize::from(source)] != NOT_SAID && self.write(request);
        if !is_taken {
            self.crowded += 1;
            self.wake();
        }
        is_taken
    }

    fn forget(&mut self, source: u16) {
        let Some(since) = self.since.get_mut(usize::from(source)) else {
            return;
        };
        if *since != NOT_SAID {
            *since = NOT_SAID;
            self.forgotten.push(source);
        }
        self.say_forgotten();
    }

    fn avoid(&mut self, components: &[Component]) {
        self.avoided = Some(components.to_vec());
    }

    fn is_ready(&self) -> bool {
        !self.batches.is_empty()
    }

    fn order(&mut self, order: Order) {
        self.say_forgotten();
        let Some(mut batch) = self.batches.pop() else {
            return;
        };
        batch.number = self.ordered;
        batch.order = order;
        batch.avoided = self.avoided.take();
        self.ordered += 1;
        let has_room = self.to_allocation.push(Message::Batch(batch));
        assert!(has_room, "room was left for each batch");
        self.is_written = true;
    }

    fn collect(&mut self, now: u64, give: &mut dyn FnMut(Timeslot<'_>)) {
        self.say_forgotten();
        self.wake();
        while let Ok(batch) = self.done.pop() {
            let begin = batch.order.first.saturating_mul(self.timeslot);
            let is_late = begin < now.saturating_add(self.lead / 2);
            self.late += u64::from(is_late && !batch.order.is_late);
            self.is_over.clear();
            if batch.number < self.latest || !self.forgotten.is_empty() {
                let since = self.since.iter();
                self.is_over
                    .extend(since.map(|since| batch.number < *since));
            }
            batch.timeslots(&self.is_over).for_each(&mut *give);
            self.batches.push(batch);
        }
    }

    fn crowded(&self) -> u64 {
        self.crowded
    }

    fn late(&self) -> u64 {
        self.late
    }

    fn has_failed(&self) -> bool {
        self.done.is_abandoned()
    }
}
