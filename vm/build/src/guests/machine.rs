// SPDX-License-Identifier: MIT OR Apache-2.0

//! The machine of a guest, according to a command's options.

use anyhow::{Context, Result};
use weft_machine::failure::Failure;
use weft_machine::{Clock, Machine, Terminal};

use super::kvm;
use crate::options::{ClockKind, Hardware};
use crate::stages::chain::Built;

/// In MiB. KASAN keeps freed memory for a while, and every allocation has a stored history.
const DEBUG_MEMORY: u32 = 2048;
/// `CONFIG_NR_CPUS` in vm/um/debug/config.
const DEBUG_PROCESSORS: u32 = 8;

/// The machine for the given options.
///
/// # Errors
/// Those of the KVM probe.
pub fn build(built: &Built, clock: ClockKind, hardware: &Hardware) -> Result<Machine> {
    let memory_mib = match clock {
        ClockKind::Debug => hardware.memory.max(DEBUG_MEMORY),
        _ => hardware.memory,
    };
    check_memory(memory_mib, &std::fs::read_to_string("/proc/meminfo")?)?;
    // One processor keeps virtual time exact: several would each run a slice of instructions in
    // turn while the others stand still.
    let (clock, cpus) = match clock {
        ClockKind::Instructions => (
            Clock::Instructions {
                shift: hardware.shift,
                seed: hardware.seed(),
            },
            1,
        ),
        ClockKind::Model => {
            if hardware.cpus.is_some_and(|cpus| cpus > 1) {
                let message = "the model clock has one processor, which computes in no time";
                return Err(Failure::setup(message).into());
            }
            let seed = hardware.seed();
            (Clock::Model { seed }, 1)
        }
        ClockKind::Real => (kvm::real_clock(built)?, 2),
        ClockKind::Debug => {
            if hardware.cpus.is_some_and(|cpus| cpus > DEBUG_PROCESSORS) {
                let message = format!("the debug kernel has up to {DEBUG_PROCESSORS} processors");
                return Err(Failure::setup(message).into());
            }
            (Clock::Debug, 2)
        }
    };
    Ok(Machine {
        clock,
        cpus: hardware.cpus.unwrap_or(cpus),
        memory_mib,
        out_mib: 256,
        append: hardware.append.clone(),
        terminal: Terminal::File,
        taps: Vec::new(),
    })
}

/// Refuses more memory than the host has; it would fail only when the memory is used. `meminfo` is
/// the host's /proc/meminfo.
fn check_memory(mib: u32, meminfo: &str) -> Result<()> {
    let total = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.strip_suffix(" kB"));
    let total: u64 = total
        .context("no MemTotal in /proc/meminfo")?
        .trim()
        .parse()?;
    if u64::from(mib) > total >> 10 {
        let message = format!("--memory {mib}: this machine has {} MiB", total >> 10);
        return Err(Failure::setup(message).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_larger_than_its_host_is_refused() {
        let meminfo = "MemTotal:        2097152 kB\nMemFree:           10000 kB\n";
        check_memory(2048, meminfo).unwrap();
        let error = check_memory(2049, meminfo).unwrap_err().to_string();
        assert_eq!(error, "--memory 2049: this machine has 2048 MiB");
        assert!(check_memory(1, "").is_err());
    }
}
