// SPDX-License-Identifier: MIT OR Apache-2.0

//! How much memory sockets may take. The kernel makes that of what was free when it booted, and with it how far
//! a window opens: a guest that has a file more, or was given more memory, would be another one. Here it is what a
//! machine of 64 GiB has.

use std::fs;

use anyhow::{Context, Result};

const PLACE: &str = "/proc/sys/net/ipv4";

/// What Linux 7.2 makes (`tcp_init`, `udp_init`) of 64 GiB of which seven eighths are free; pages, and bytes.
const SETTINGS: [(&str, &str); 4] = [
    ("tcp_mem", "688128 917504 1376256"),
    ("udp_mem", "1376256 1835008 2752512"),
    ("tcp_rmem", "4096 131072 33554432"),
    ("tcp_wmem", "4096 16384 4194304"),
];

/// Sets them.
///
/// # Errors
/// If the kernel has no such setting.
pub(crate) fn set() -> Result<()> {
    for (name, value) in SETTINGS {
        let path = format!("{PLACE}/{name}");
        fs::write(&path, value).with_context(|| format!("writing {path}"))?;
    }
    Ok(())
}
