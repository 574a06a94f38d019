// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocation and path selection in separate threads (§6.2).
//!
//! "The arbiter is made up of three types of cores: comm-cores communicate with endpoints,
//! alloc-cores perform timeslot allocation, and pathsel-cores assign paths." Here there is one of
//! each. The paper's allocation cores take turns at timeslots; ours does a batch of them at a time.
//!
//! ```text
//!           requests, batches              batches
//!  sessions ----------------> allocation ----------> path selection
//!     ^                           ^   packets without a path |  |
//!     |                           +--------------------------+  |
//!     +---------------------------------------------------------+
//!                              batches
//! ```
//!
//! Each arrow is a ring with one writer and one reader. Sessions order a batch when it is due, as
//! with one thread: the other two have no clock. The effect of an order depends only on the
//! messages written before it, and on packets that came back. A timeslot counts as wanted until its
//! batch is back, so one or two batches may be ordered that give nothing.
//!
//! # Bounds, and what happens at them
//!
//! There are as many [batches](Capacities::batches) as can be under way. They circulate, with the
//! memory for their packets, and each ring has room for all of them, so no batch is ever held up.
//! While all are under way no other one can be ordered. It is then ordered late, and counted as
//! late, as with one thread, or its timeslots are counted as skipped. A batch that was ordered in
//! time and is back with less than half of the lead left also counts as late.
//!
//! A request for which there is no room is refused, and counted. The endpoint's total is then not
//! acknowledged, so it asks again. If a packet has no path and the ring back is full, path
//! selection keeps it, and its batch, until there is room. Allocation waits for nothing, and reads
//! that ring before each other step, so there will be room.
//!
//! # New sessions
//!
//! A source's earlier demand is cancelled in order: batches ordered before belong to its old
//! session, and their packets are not wanted. So a source's session is identified by the number of
//! its first batch. Likewise, a packet without a path is allocated again only if its batch does not
//! belong to an old session. As long as there is no room for the message that cancels a source's
//! demand, all its packets belong to the old session, and its requests are refused.
//!
//! # Sleep and end
//!
//! An idle thread is parked; a thread that writes for it wakes it. When a thread ends, its ends of
//! the rings are gone; its neighbours are woken, and end as well. So all three end in order, or
//! after a panic of another.

mod allocation;
mod batch;
mod front;
mod path_selection;
mod ring;

use std::io;
use std::sync::mpsc;
use std::thread::{self, Builder, JoinHandle};

use rtrb::RingBuffer;

pub use allocation::AllocationStage;
pub use front::Front;
pub use path_selection::PathStage;

use crate::Invalid;
use crate::service::Settings;
use ring::{Bell, Sender};

/// The most that can be under way, each at least 1.
#[derive(Clone, Copy, Debug)]
pub struct Capacities {
    /// Requests, and sources to forget, on the way to allocation.
    pub requests: usize,
    /// Batches.
    pub batches: usize,
    /// Packets without a path on the way back to allocation.
    pub pathless: usize,
}

impl Default for Capacities {
    /// Requests of 256 full datagrams; a batch for each stage, and one on its way.
    fn default() -> Self {
        Self {
            requests: 1 << 14,
            batches: 4,
            pathless: 1 << 10,
        }
    }
}

/// The parts of a pipeline, connected by rings. Callers may run the steps of both stages
/// themselves.
pub struct Pipeline {
    /// The sessions' end.
    pub front: Front,
    /// Allocates timeslots.
    pub allocation: AllocationStage,
    /// Chooses paths.
    pub paths: PathStage,
}

impl Pipeline {
    /// # Errors
    ///
    /// If the settings are invalid.
    pub fn new(settings: &Settings, capacities: Capacities) -> Result<Self, Invalid> {
        let [requests, batches, pathless] =
            [capacities.requests, capacities.batches, capacities.pathless]
                .map(|capacity| capacity.max(1));
        let (to_allocation, orders) = RingBuffer::new(requests + batches);
        let (to_paths, allocated) = RingBuffer::new(batches);
        let (to_front, done) = RingBuffer::new(batches);
        let (to_back, back) = RingBuffer::new(pathless);
        Ok(Self {
            front: Front::new(settings, batches, Sender::new(to_allocation), done),
            allocation: AllocationStage::new(settings, orders, back, Sender::new(to_paths))?,
            paths: PathStage::new(
                settings,
                allocated,
                Sender::new(to_back),
                Sender::new(to_front),
            )?,
        })
    }

    /// Starts a thread for each stage. `wake` is called, by another thread, when a batch is done,
    /// and when there will be no more. The threads end when the front is dropped.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started.
    pub fn spawn(self, wake: impl Fn() + Send + 'static) -> io::Result<Front> {
        let Self {
            mut front,
            mut allocation,
            mut paths,
        } = self;
        paths.set_front_bell(Bell::new(wake));
        // Each must be able to wake the other.
        let (tell, told) = mpsc::channel();
        let path_thread = Builder::new().name("paths".to_owned()).spawn(move || {
            if let Ok(bell) = told.recv() {
                paths.set_back_bell(bell);
                run(paths);
            }
        })?;
        allocation.set_bell(Bell::of(&path_thread));
        let allocation_thread = Builder::new()
            .name("allocation".to_owned())
            .spawn(move || run(allocation))?;
        // If that thread has already ended, there is no receiver.
        let _ = tell.send(Bell::of(&allocation_thread));
        front.set_threads(
            Bell::of(&allocation_thread),
            vec![allocation_thread, path_thread],
        );
        Ok(front)
    }
}

/// A stage that a thread runs.
trait Stage {
    /// Does the next step, if there is one; returns whether there was.
    fn step(&mut self) -> bool;

    /// Whether there will be no more input.
    fn is_over(&self) -> bool;
}

/// Runs a stage until there will be no more input.
fn run(mut stage: impl Stage) {
    loop {
        // Checked first, so that input from before the end is processed.
        let is_over = stage.is_over();
        while stage.step() {}
        if is_over {
            return;
        }
        // A thread that has written since then has woken this one before it sleeps.
        thread::park();
    }
}

/// Threads that are joined on drop.
#[derive(Default)]
struct Threads(Vec<JoinHandle<()>>);

impl Drop for Threads {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // A thread that panicked has reported it.
            let _ = thread.join();
        }
    }
}
