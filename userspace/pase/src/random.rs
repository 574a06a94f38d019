// SPDX-License-Identifier: MIT OR Apache-2.0

//! An unpredictable random number.

use std::io;

/// Draws it from the kernel; waits until the kernel's generator is ready after boot.
pub(crate) fn draw() -> io::Result<u64> {
    let mut bytes = [0_u8; 8];
    // SAFETY: the length is that of the buffer.
    let drawn = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match drawn {
        // So few bytes are returned all at once, or not at all.
        8 => Ok(u64::from_ne_bytes(bytes)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ() {
        assert_ne!(draw().unwrap(), draw().unwrap());
    }
}
