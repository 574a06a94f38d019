// SPDX-License-Identifier: MIT OR Apache-2.0

//! A thread that listens to packets while a run lasts.

use std::io::{PipeReader, PipeWriter, pipe};
use std::os::fd::AsFd as _;
use std::thread::{Scope, ScopedJoinHandle};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use weft_net::{Follower, Seen};

use crate::testbed;

/// How often it reads what has come, in ms of the machine: what comes to a host at 10 Gbit/s meanwhile, 4,000 packets,
/// its socket keeps. To wake for each packet would cost more than the packets do.
const EVERY_MS: u8 = 5;

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
                let goes_on = wait(&hung_up)?;
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

/// Waits for the next time; false if the pipe was hung up first.
fn wait(hung_up: &PipeReader) -> Result<bool> {
    let mut ends = [PollFd::new(hung_up.as_fd(), PollFlags::empty())];
    match poll(&mut ends, PollTimeout::from(EVERY_MS)) {
        Ok(0) | Err(Errno::EINTR) => Ok(true),
        Ok(_) => Ok(false),
        Err(errno) => Err(errno).context("waiting for a run's end"),
    }
}
