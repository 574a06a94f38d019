// SPDX-License-Identifier: MIT OR Apache-2.0

//! Limits of socket memory. The kernel derives them from the free memory at boot, and with them how
//! far a window opens, so one more file in the guest would change its behaviour. Here windows open
//! as far as on a machine of 64 GiB. All sockets together may use half of the guest's memory,
//! rounded to large steps, where a machine gives them a sixteenth: in the guest they belong to many
//! machines, each of which would have as much. A run that needs more reports it (`TCP's memory
//! short`).

use std::fs;

use anyhow::{Context, Result};

const PLACE: &str = "/proc/sys/net/ipv4";
const MEMORY: &str = "/proc/meminfo";
/// In kB. Rounding to it hides the kernel's own share of memory, which is smaller.
const STEP: u64 = 64 << 10;
const PAGE: u64 = 4;

/// Minimum, default and maximum of a socket's buffer, in bytes.
const RECEIVE: &str = "4096 131072 33554432";
const SEND: &str = "4096 16384 4194304";

/// Sets the limits.
///
/// # Errors
/// If the kernel lacks a setting, or does not report the size of memory.
pub(crate) fn set() -> Result<()> {
    let text = fs::read_to_string(MEMORY).with_context(|| MEMORY)?;
    let pages = pages(&text).with_context(|| format!("{MEMORY} has no total"))?;
    let settings = [
        ("tcp_mem", of_all(pages / 2)),
        ("udp_mem", of_all(pages / 2)),
        ("tcp_rmem", RECEIVE.to_owned()),
        ("tcp_wmem", SEND.to_owned()),
    ];
    for (name, value) in settings {
        let path = format!("{PLACE}/{name}");
        fs::write(&path, value).with_context(|| format!("writing {path}"))?;
    }
    Ok(())
}

/// The size of memory in pages, rounded to whole steps.
fn pages(memory: &str) -> Option<u64> {
    let line = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kb: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kb / STEP * STEP / PAGE)
}

/// The setting as `tcp_init_mem` and `udp_init` derive it from a limit in pages.
fn of_all(limit: u64) -> String {
    let least = limit / 4 * 3;
    format!("{least} {limit} {}", 2 * least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_more_memory_makes_no_difference() {
        let of = |kb: u64| pages(&format!("MemTotal:        {kb} kB\nMemFree:  1 kB\n"));
        assert_eq!(of(1_023_464), Some(960 * 256));
        assert_eq!(of(1_023_464 - 20_000), of(1_023_464));
        assert_eq!(pages("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn limits_of_memory_pressure_are_the_same_on_any_machine() {
        assert_eq!(of_all(15360), "11520 15360 23040");
    }
}
