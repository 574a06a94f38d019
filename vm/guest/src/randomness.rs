// SPDX-License-Identifier: MIT OR Apache-2.0

//! Has the model clock's kernel draw anew, so that what a command meets is a function of the seed,
//! and not of how much the kernel drew while it unpacked this very guest.

use std::fs::File;
use std::os::fd::AsRawFd;

use anyhow::{Context, Result};

const DEVICE: &str = "/dev/urandom";

mod request {
    //! Of `linux/random.h`.
    const RANDOM: u8 = b'R';
    const CLEAR_POOL: u8 = 6;
    const RESEED: u8 = 7;

    nix::ioctl_none!(clear_pool, RANDOM, CLEAR_POOL);
    nix::ioctl_none!(reseed, RANDOM, RESEED);
}

/// From here on the kernel's randomness is a function of its seed. Elsewhere than under the model
/// clock the pool stays as it is (`vm/um/patches/0007`).
///
/// # Errors
/// If the kernel has no random numbers yet.
pub(crate) fn begin_anew() -> Result<()> {
    let device = File::open(DEVICE).with_context(|| format!("opening {DEVICE}"))?;
    // SAFETY: these requests have no argument, and the device is open.
    unsafe {
        request::clear_pool(device.as_raw_fd()).context("emptying the kernel's random pool")?;
        request::reseed(device.as_raw_fd()).context("taking new randomness")?;
    }
    Ok(())
}
