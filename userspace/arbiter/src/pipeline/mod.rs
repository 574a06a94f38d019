// SPDX-License-Identifier: MIT OR Apache-2.0

//! Allocation and path selection in threads of their own (§6.2).
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
//! with one thread: the other two have no clock. What an order does depends on what was written
//! before it alone, and on packets that came back. A timeslot counts as wanted until its batch is
//! back, so that a batch or two may be ordered of which nothing comes.
//!
//! # What is bounded, and what happens then
//!
//! There are as many [batches](Capacities::batches) as can be under way. They go round, with the
//! room for their packets in them, and in each ring is room for all: none is ever kept from going
//! on. While all are under way no other one can be ordered: then it is ordered late, and counted as
//! a late one is with one thread, or its timeslots as skipped. A batch that was ordered in time and
//! is back with less than half of the lead left is late, too.
//!
//! A request for which there is no room is refused, and counted. The endpoint's total is not
//! acknowledged then, so that it asks again. A packet that has no path and finds the ring back full
//! is kept by path selection, and the batch with it, until there is room. Allocation waits for
//! nobody, and reads that ring before each other thing it does: so there will be.
//!
//! # Sessions that begin anew
//!
//! What a source asked for before is forgotten in order: batches that were ordered before are of
//! its old session, and nobody wants their packets. So a source's session is told by the number of
//! the first batch that is of it. A packet without a path, too, is allocated again only if its
//! batch is none of an old session. As long as there is no room to say that a source is to be
//! forgotten, all its packets are of the old session, and its requests are refused.
//!
//! # Sleep and end
//!
//! A thread that has nothing to do is parked; who writes for it wakes it. When a thread ends, its
//! ends of the rings are gone, its neighbours are woken, and end as well: so all three end in
//! order, or by another's panic.

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

/// How much can be under way at most, each 1 at least.
#[derive(Clone, Copy, Debug)]
pub struct Capacities {
    /// Requests, and sources that are to be forgotten, on the way to allocation.
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

/// The parts of a pipeline, between them rings. Whoever wants to makes the steps of both stages
/// himself.
pub struct Pipeline {
    /// The sessions' end.
    pub front: Front,
    /// Gives timeslots.
    pub allocation: AllocationStage,
    /// Chooses paths.
    pub paths: PathStage,
}

impl Pipeline {
    /// # Errors
    ///
    /// If there can be none like that.
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

    /// Has a thread for each stage. `wake` is called, by another thread, when a batch is done, and
    /// when there will be none any more. The threads end when the front is dropped.
    ///
    /// # Errors
    ///
    /// If a thread cannot be had.
    pub fn spawn(self, wake: impl Fn() + Send + 'static) -> io::Result<Front> {
        let Self {
            mut front,
            mut allocation,
            mut paths,
        } = self;
        paths.set_front_bell(Bell::new(wake));
        // Each is to wake the other.
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
        // If it has ended already, nobody is there to be told.
        let _ = tell.send(Bell::of(&allocation_thread));
        front.set_threads(
            Bell::of(&allocation_thread),
            vec![allocation_thread, path_thread],
        );
        Ok(front)
    }
}

/// What a thread does.
trait Stage {
    /// Does the next thing there is to do, if there is one, and says whether there was.
    fn step(&mut self) -> bool;

    /// Whether nothing more will come.
    fn is_over(&self) -> bool;
}

/// Does what there is to do until nothing more comes.
fn run(mut stage: impl Stage) {
    loop {
        // Asked first, so that what came before the end is done.
        let is_over = stage.is_over();
        while stage.step() {}
        if is_over {
            return;
        }
        // Who has written since then has woken this thread before it sleeps.
        thread::park();
    }
}

/// Threads that are waited for when they are no longer needed.
#[derive(Default)]
struct Threads(Vec<JoinHandle<()>>);

impl Drop for Threads {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}
