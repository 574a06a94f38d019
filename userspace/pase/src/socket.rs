// SPDX-License-Identifier: MIT OR Apache-2.0

//! The sockets on which `weft-pase serve` answers `weft-pase show`: one for each network namespace.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The directory of the sockets.
pub(crate) const DIRECTORY: &str = "/run/weft-pase";

/// The socket of this network namespace.
pub(crate) fn path() -> Result<PathBuf> {
    let namespace = fs::metadata("/proc/self/ns/net").context("reading /proc/self/ns/net")?;
    Ok(Path::new(DIRECTORY).join(namespace.ino().to_string()))
}
