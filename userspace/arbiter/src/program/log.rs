// SPDX-License-Identifier: MIT OR Apache-2.0

//! Messages on standard error.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Prints a line, unless standard error is full or closed: a slow or absent reader must not stop
/// the arbiter.
pub(crate) fn say(line: impl Display) {
    let line = format!("weft-arbiter: {line}\n");
    let mut stderr = io::stderr();
    // O_NONBLOCK would also apply to other processes that share the file.
    let mut room = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
    if poll(&mut room, PollTimeout::ZERO).is_ok_and(|ready| ready > 0) {
        let _ = stderr.write_all(line.as_bytes());
    }
}
