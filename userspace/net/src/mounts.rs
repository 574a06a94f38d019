// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether the mounts of this process outlive it.
//!
//! A testbed's names are mounts. They belong to a mount namespace, which ends with its last
//! process: `ip netns exec NAME weft up …` and `unshare -m weft up …` create one for weft alone.

use std::fs;
use std::path::PathBuf;

use crate::error::{Result, invalid};
use crate::layout::entries;

/// Programs that end when the program that they started does.
const WAITING: [&str; 8] = [
    "sudo", "su", "doas", "runuser", "timeout", "time", "strace", "script",
];

/// How long mounts of this process last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mounts {
    /// Until they are unmounted.
    Stay,
    /// As long as another process runs, such as the shell that called this one.
    GoWithOthers,
}

/// How long mounts of this process last.
///
/// # Errors
///
/// If they end with this very process; the error contains the remedy.
pub fn mounts() -> Result<Mounts> {
    // An unprivileged process cannot read that of process 1. It is refused for another reason.
    let (own, first) = (namespace("self"), namespace("1"));
    if own.is_none() || first.is_none() || first == own {
        return Ok(Mounts::Stay);
    }
    let ancestors: Vec<u32> = std::iter::successors(parent(std::process::id()), |pid| parent(*pid))
        .take_while(|&pid| pid != 0)
        .collect();
    let processes = entries(std::path::Path::new("/proc"))?;
    let mut others = processes.iter().filter_map(|name| name.parse::<u32>().ok());
    let stays = others.any(|pid| {
        let waits = ancestors.contains(&pid)
            && fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| WAITING.contains(&name.trim()));
        pid != std::process::id()
            && namespace(&pid.to_string()) == own
            && !waits
            && parent(pid) != Some(std::process::id())
    });
    match stays {
        true => Ok(Mounts::GoWithOthers),
        false => invalid(
            "this process has a mount namespace to itself, as under `ip netns exec` or `unshare -m`, and the \
             fabric would vanish with it; begin the command with `nsenter --mount=/proc/1/ns/mnt`, or run it \
             in a shell that stays in the namespace",
        ),
    }
}

fn namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// The process that started another one.
fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_parent() {
        let own = std::process::id();
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
        assert_eq!(parent(u32::MAX), None);
    }
}
