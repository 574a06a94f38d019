// SPDX-License-Identifier: MIT OR Apache-2.0

//! What wakes the main thread when another one has done a batch.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// A bell that nobody has rung.
pub(crate) fn bell() -> Result<Arc<EventFd>> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let bell = EventFd::from_value_and_flags(0, flags).context("eventfd")?;
    Ok(Arc::new(bell))
}
