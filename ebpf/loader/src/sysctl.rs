// SPDX-License-Identifier: MIT OR Apache-2.0

//! Settings in /proc/sys of the calling thread's network namespace.

use std::io::ErrorKind;

use anyhow::{Context as _, Result};

/// `None` if the kernel lacks the setting, for example without IPv6.
pub(crate) fn read(name: &str) -> Result<Option<u32>> {
    let path = format!("/proc/sys/{name}");
    match std::fs::read_to_string(&path) {
        Ok(text) => {
            let value = text.trim().parse();
            value
                .map(Some)
                .with_context(|| format!("{path} holds {text:?}"))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {path}")),
    }
}

pub(crate) fn write(name: &str, value: u32) -> Result<()> {
    let path = format!("/proc/sys/{name}");
    std::fs::write(&path, value.to_string()).with_context(|| format!("writing {value} to {path}"))
}
