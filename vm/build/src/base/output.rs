// SPDX-License-Identifier: MIT OR Apache-2.0

//! Standard output.

use std::io::{self, ErrorKind, Write as _};

use anyhow::{Context as _, Result};
use serde::Serialize;

/// Prints a line. If the reader is gone (`| head`), that is not an error: the remaining work is
/// done anyway, and the exit status still counts.
///
/// # Errors
///
/// Errors of the writer, except that the reader is gone.
pub fn print(text: impl AsRef<str>) -> Result<()> {
    bytes(format!("{}\n", text.as_ref()).as_bytes())
}

/// Prints a value as JSON.
///
/// # Errors
///
/// Those of [`print()`].
pub fn json(value: &impl Serialize) -> Result<()> {
    print(serde_json::to_string_pretty(value)?)
}

/// Prints bytes, at once.
///
/// # Errors
///
/// Those of [`print()`].
pub fn bytes(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("writing to standard output")
        }
        _ => Ok(()),
    }
}
