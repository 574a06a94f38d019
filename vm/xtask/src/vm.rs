// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask vm`: a shell in the guest, or one command.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::build::{self, Built};
use crate::cache::Cache;
use crate::cli::{ClockKind, Hardware, Vm};
use crate::failure::Failure;
use crate::guest;
use crate::kvm;
use crate::output;
use crate::process;
use crate::progress;
use crate::transfer;
use weft_machine::Guest;
use weft_machine::{Clock, Machine, Terminal, terminal};

/// In MiB. What is freed stays reserved for a while, and all that is allocated has its history.
const DEBUG_MEMORY: u32 = 2048;
/// `CONFIG_NR_CPUS` in vm/um/debug/config.
const DEBUG_PROCESSORS: u32 = 8;

/// Runs it and returns the command's exit status.
///
/// # Errors
/// If the guest cannot be built or run, or is in trouble.
pub(crate) fn run(cache: &Cache, vm: &Vm) -> Result<u8> {
    let interactive = vm.command.is_empty();
    if interactive && !terminal::is_there() {
        let message = "a shell needs a terminal; give a command after --, for example\n    \
                       cargo xtask vm -- sh -c 'tc qdisc show'";
        return Err(Failure::setup(message).into());
    }
    let files = vm
        .file
        .iter()
        .map(|text| file(text))
        .collect::<Result<Vec<_>>>()?;
    if vm.target.debug() && (interactive || vm.clock.is_some()) {
        let message = "--kernel debug has the host's clock and no terminal: leave --clock out, and give a \
                       command after --";
        return Err(Failure::setup(message).into());
    }
    let clock = match vm.clock {
        _ if vm.target.debug() => ClockKind::Debug,
        Some(clock) => clock,
        None if interactive => ClockKind::Real,
        None => ClockKind::Virtual,
    };
    if interactive && clock == ClockKind::Model {
        let message = "under the model clock no time passes while somebody types; give a command after \
                       --, or take --clock real";
        return Err(Failure::setup(message).into());
    }
    if !vm.tap.is_empty() && clock != ClockKind::Real {
        let message =
            "what comes by a tap device comes in the time of others: --tap takes --clock real";
        return Err(Failure::setup(message).into());
    }
    let mut built = build::all(cache, &vm.target.request(), &[clock.kernel()])?;
    let terminal = if interactive {
        Terminal::Interactive
    } else {
        Terminal::File
    };
    let machine = Machine {
        out_mib: vm.out_size,
        terminal,
        taps: vm.tap.clone(),
        ..machine(&built, clock, &vm.hardware.for_command(&vm.command))?
    };
    if vm.dry_run {
        output::print(process::shown(&guest::command(&built, &machine)?))?;
        return Ok(0);
    }
    built.add_packages(&vm.package)?;
    let mut run = Guest::new(machine, vm.command.clone(), vm.hardware.timeout());
    run.files = files;
    run.request.environment.clone_from(&vm.env);
    if interactive {
        run.request = terminal::shell(std::mem::take(&mut run.request));
        progress::note(&format!(
            "booting {}; `exit` ends the guest",
            built.base.resolution.kernel
        ));
    }
    let mut stdout = std::io::stdout();
    let outcome = guest::run(&built, &run, &mut |bytes| {
        // Nobody may be reading any more (`| head`); the guest's exit status still counts.
        let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
    })?;
    if let Some(directory) = &vm.out {
        transfer::unpack(&outcome.tar, directory)?;
    }
    Ok(outcome.status)
}

/// The machine for some options.
///
/// # Errors
/// Those of the KVM probe.
pub(crate) fn machine(built: &Built, clock: ClockKind, hardware: &Hardware) -> Result<Machine> {
    let memory_mib = match clock {
        ClockKind::Debug => hardware.memory.max(DEBUG_MEMORY),
        _ => hardware.memory,
    };
    check_memory(memory_mib, &std::fs::read_to_string("/proc/meminfo")?)?;
    // One processor keeps virtual time exact: with several, each in turn runs a slice of
    // instructions while the others stand still.
    let (clock, cpus) = match clock {
        ClockKind::Virtual => (
            Clock::Virtual {
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

/// More than the host has would be noticed when it is gone. `meminfo` is the host's /proc/meminfo.
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

/// `HOST[:GUEST]`.
fn file(text: &str) -> Result<(PathBuf, String)> {
    let (host, guest) = weft_machine::place::handed(text);
    anyhow::ensure!(
        host.exists(),
        "--file {text}: {} does not exist",
        host.display()
    );
    Ok((
        host,
        guest.context("--file needs a name in the guest: HOST:GUEST")?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_go_where_they_are_told() {
        for (text, guest) in [
            ("/etc/passwd", "root/passwd"),
            ("/etc/passwd:/etc/x", "etc/x"),
            ("/etc/passwd:/opt/", "opt/passwd"),
            ("/etc/passwd:/bin/x", "usr/bin/x"),
            ("/etc/passwd:/usr/sbin/x", "usr/bin/x"),
        ] {
            assert_eq!(
                file(text).unwrap(),
                ("/etc/passwd".into(), guest.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn a_guest_larger_than_its_host_is_refused() {
        let meminfo = "MemTotal:        2097152 kB\nMemFree:           10000 kB\n";
        check_memory(2048, meminfo).unwrap();
        let error = check_memory(2049, meminfo).unwrap_err().to_string();
        assert_eq!(error, "--memory 2049: this machine has 2048 MiB");
        assert!(check_memory(1, "").is_err());
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = file("/no/such:/x").unwrap_err().to_string();
        assert!(error.contains("/no/such does not exist"), "{error}");
    }
}
