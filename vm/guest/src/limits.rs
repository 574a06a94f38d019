// SPDX-License-Identifier: MIT OR Apache-2.0

//! How much memory sockets may take. The kernel makes that of what was free when it booted, and
//! with it how far a window opens: a guest that has a file more would be another one. Here windows
//! open as far as on a machine of 64 GiB. All sockets together may have half of the guest's memory,
//! in large steps, where a machine gives them a sixteenth: here they are those of many machines,
//! each of which would have as much. A run that needs more says so (`TCP's memory short`).

use std::fs;

use anyhow::{Context, Result};

const PLACE: &str = "/proc/sys/net/ipv4";
const MEMORY: &str = "/proc/meminfo";
/// In kB. What the kernel itself takes, which is less, makes no difference.
const STEP: u64 = 64 << 10;
const PAGE: u64 = 4;

/// What a socket may have: least, at first, most, in bytes.
const RECEIVE: &str = "4096 131072 33554432";
const SEND: &str = "4096 16384 4194304";

/// Sets them.
///
/// # Errors
/// If the kernel has no such setting, or does not say how much memory there is.
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

/// All of memory, in whole steps.
fn pages(memory: &str) -> Option<u64> {
    let line = memory
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kb: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kb / STEP * STEP / PAGE)
}

/// As `tcp_init_mem` and `udp_init` make them of a limit in pages.
fn of_all(limit: u64) -> String {
    let least = limit / 4 * 3;
    format!("{least} {limit} {}", 2 * least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_little_memory_more_makes_no_difference() {
        let of = |kb: u64| pages(&format!("MemTotal:        {kb} kB\nMemFree:  1 kB\n"));
        assert_eq!(of(1_023_464), Some(960 * 256));
        assert_eq!(of(1_023_464 - 20_000), of(1_023_464));
        assert_eq!(pages("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn pressure_ends_where_it_does_on_any_machine() {
        assert_eq!(of_all(15360), "11520 15360 23040");
    }
}
