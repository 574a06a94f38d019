// SPDX-License-Identifier: MIT OR Apache-2.0

//! Options of sockets.

use std::os::fd::{AsFd, AsRawFd as _};

use nix::errno::Errno;

/// Sets any option to any bytes.
///
/// # Errors
///
/// What the kernel refuses.
pub fn set_option(socket: impl AsFd, level: i32, option: i32, value: &[u8]) -> nix::Result<()> {
    // SAFETY: The kernel reads `value.len()` bytes.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            value.as_ptr().cast(),
            value.len() as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop)
}
