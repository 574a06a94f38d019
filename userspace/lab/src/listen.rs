// SPDX-License-Identifier: MIT OR Apache-2.0

//! A thread that listens to packets while a run lasts.

use std::io::{PipeWriter, pipe};
use std::os::fd::AsFd as _;
use std::thread::{Scope, ScopedJoinHandle};

use anyhow::{Context as _, Result};
use weft_net::{Follower, Seen};

use crate::testbed;

/// What becomes of packets.
pub(crate) trait Listener {
    /// Takes one, in no order.
    fn hear(&mut self, seen: &Seen<'_>);

    /// When all has been read that there was.
    fn settle(&mut self) {}
}

/// A listener at work, until it is ended or goes.
pub(crate) struct Listening<'scope, L> {
    thread: ScopedJoinHandle<'scope, Result<(L, u64)>>,
    /// Hung up, it ends.
    end: PipeWriter,
}

impl<'scope, L: Listener + Send + 'scope> Listening<'scope, L> {
    /// Begins.
    ///
    /// # Errors
    ///
    /// If the process may have no pipe more.
    pub(crate) fn begin<'env>(
        scope: &'scope Scope<'scope, 'env>,
        mut follower: Follower,
        mut listener: L,
    ) -> Result<Self> {
        let (hung_up, end) = pipe().context("making a pipe")?;
        let thread = scope.spawn(move || {
            loop {
                let goes_on = follower.wait(hung_up.as_fd());
                let goes_on = goes_on.map_err(testbed::explain)?;
                let read = follower.read(|seen| listener.hear(&seen));
                read.map_err(testbed::explain)?;
                listener.settle();
                if !goes_on {
                    return Ok((listener, follower.missed()));
                }
            }
        });
        Ok(Self { thread, end })
    }

    /// The listener, and how many packets it missed.
    ///
    /// # Errors
    ///
    /// If packets could not be read.
    pub(crate) fn end(self) -> Result<(L, u64)> {
        drop(self.end);
        let ended = self.thread.join();
        ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
