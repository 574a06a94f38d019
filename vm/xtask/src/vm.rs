// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask vm`: a shell in the guest, or one command.

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use weft_build::base::cache::Cache;
use weft_build::base::{output, process, progress};
use weft_build::guests;
use weft_build::guests::machine;
use weft_build::options::ClockKind;
use weft_build::stages::chain;
use weft_machine::failure::Failure;
use weft_machine::{Guest, Machine, Terminal, terminal, transfer};

use crate::cli::Vm;

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
    let mut built = chain::all(cache, &vm.target.request(), &[clock.kernel()])?;
    let terminal = if interactive {
        Terminal::Interactive
    } else {
        Terminal::File
    };
    let machine = Machine {
        out_mib: vm.out_size,
        terminal,
        taps: vm.tap.clone(),
        ..machine::build(&built, clock, &vm.hardware.for_command(&vm.command))?
    };
    if vm.dry_run {
        output::print(process::shown(&guests::command(&built, &machine)?))?;
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
    let outcome = guests::run(&built, &run, &mut |bytes| {
        // Nobody may be reading any more (`| head`); the guest's exit status still counts.
        let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
    })?;
    if let Some(directory) = &vm.out {
        transfer::unpack(&outcome.tar, directory)?;
    }
    Ok(outcome.status)
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
    fn a_missing_file_is_named() {
        let error = file("/no/such:/x").unwrap_err().to_string();
        assert!(error.contains("/no/such does not exist"), "{error}");
    }
}
