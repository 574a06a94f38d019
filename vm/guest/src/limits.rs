// SPDX-License-Identifier: MIT OR Apache-2.0

//! How much memory sockets may take. The kernel makes that of what was free when it booted, and with it how far
//! a window opens: a guest that has a file more would be another one. Here it is made of the memory that the
//! guest was given, as the kernel would (`tcp_init`, `udp_init`).

use std::fs;

use anyhow::{Context, Result};

const PLACE: &str = "/proc/sys/net/ipv4";
/// Pages of a MiB, of which an eighth is the kernel's and the guest's files'.
const FREE_PAGES: u64 = 256 / 8 * 7;
const PAGE: u64 = 4096;
/// The most that the kernel lets a socket receive and send without an acknowledgement, however much is free.
const RECEIVE: u64 = 32 << 20;
const SEND: u64 = 4 << 20;

/// Sets them as for a machine of so much memory, in MiB, if that is known.
///
/// # Errors
/// If the kernel has no such setting.
pub(crate) fn set(memory_mib: u32) -> Result<()> {
    if memory_mib == 0 {
        return Ok(());
    }
    for (name, value) in settings(memory_mib.into()) {
        let path = format!("{PLACE}/{name}");
        fs::write(&path, value).with_context(|| format!("writing {path}"))?;
    }
    Ok(())
}

fn settings(mib: u64) -> [(&'static str, String); 4] {
    let free = mib * FREE_PAGES;
    let pages = |limit: u64| {
        let least = limit / 4 * 3;
        format!("{least} {limit} {}", 2 * least)
    };
    let bytes = |first: &str, most: u64| format!("{first} {}", most.min(free * PAGE / 128));
    [
        ("tcp_mem", pages(free / 16)),
        ("udp_mem", pages(free / 8)),
        ("tcp_rmem", bytes("4096 131072", RECEIVE)),
        ("tcp_wmem", bytes("4096 16384", SEND)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_of_a_kernel_with_so_much_free() {
        let values = |mib| settings(mib).map(|(_, value)| value);
        let of_a_gib = [
            "10752 14336 21504",
            "21504 28672 43008",
            "4096 131072 7340032",
            "4096 16384 4194304",
        ];
        assert_eq!(values(1024), of_a_gib);
        assert_eq!(values(8192)[2], "4096 131072 33554432");
    }
}
