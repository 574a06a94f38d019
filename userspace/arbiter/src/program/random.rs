// SPDX-License-Identifier: MIT OR Apache-2.0

//! Unpredictable numbers.

use std::fs::File;
use std::io::Read as _;

use anyhow::{Context as _, Result};

/// Two of them, from the kernel.
pub(crate) fn draw() -> Result<[u64; 2]> {
    let mut bytes = [[0; 8]; 2];
    let mut source = File::open("/dev/urandom").context("opening /dev/urandom")?;
    source
        .read_exact(bytes.as_flattened_mut())
        .context("reading /dev/urandom")?;
    Ok(bytes.map(u64::from_ne_bytes))
}
