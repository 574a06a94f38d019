// SPDX-License-Identifier: MIT OR Apache-2.0

//! Wakes the main thread when another one has completed a batch.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use nix::sys::eventfd::{EfdFlags, EventFd};

/// A bell that has not been rung.
pub(crate) fn bell() -> Result<Arc<EventFd>> {
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let bell = EventFd::from_value_and_flags(0, flags).context("eventfd")?;
    Ok(Arc::new(bell))
}
