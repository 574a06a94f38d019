// SPDX-License-Identifier: MIT OR Apache-2.0

//! A number that nobody can guess.

use std::io;

/// From the kernel; waits until it has collected enough at boot.
pub(crate) fn draw() -> io::Result<u64> {
    let mut bytes = [0_u8; 8];
    // SAFETY: the buffer is as long as the call is told.
    let drawn = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match drawn {
        // So few bytes come at once, or none do.
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_another_one() {
        assert_ne!(draw().unwrap(), draw().unwrap());
    }
}
