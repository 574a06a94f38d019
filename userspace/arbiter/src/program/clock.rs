// SPDX-License-Identifier: MIT OR Apache-2.0

//! The clock shared with the hosts: `CLOCK_MONOTONIC`.

use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::time::{ClockId, clock_gettime};

use super::arguments::ns;

/// The time in ns.
pub(crate) fn now() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).context("reading the clock")?;
    Ok(ns(Duration::from(time)))
}
