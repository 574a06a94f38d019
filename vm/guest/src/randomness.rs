// SPDX-License-Identifier: MIT OR Apache-2.0

//! Reseeds the random numbers of the model clock's kernel. So a command's behaviour depends on the
//! seed, and not on how many numbers the kernel drew while it unpacked this guest.

use std::fs::File;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};

const DEVICE: &str = "/dev/urandom";

mod request {
    //! From `linux/random.h`.
    const RANDOM: u8 = b'R';
    const CLEAR_POOL: u8 = 6;
    const RESEED: u8 = 7;

    nix::ioctl_none!(clear_pool, RANDOM, CLEAR_POOL);
    nix::ioctl_none!(reseed, RANDOM, RESEED);
}

/// From here on the kernel's random numbers are a function of its seed. Without the model clock,
/// the pool does not change (`vm/um/patches/0007`).
///
/// # Errors
/// If the kernel's generator is not ready.
pub(crate) fn begin_anew() -> Result<()> {
    let device = File::open(DEVICE).with_context(|| format!("opening {DEVICE}"))?;
    // SAFETY: these requests have no argument, and the device is open.
    unsafe {
        request::clear_pool(device.as_raw_fd()).context("emptying the kernel's random pool")?;
        request::reseed(device.as_raw_fd()).context("taking new randomness")?;
    }
    Ok(())
}
