// SPDX-License-Identifier: MIT OR Apache-2.0

//! `cargo xtask vm`: a shell in the guest, or one command.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use weft_build::base::cache::Cache;
use weft_build::base::{output, process, progress};
use weft_build::guests;
use weft_build::guests::machine;
use weft_build::options::{ClockKind, Hardware, Target};
use weft_build::stages::{chain, packages};
use weft_machine::failure::Failure;
use weft_machine::{Guest, Machine, Terminal, terminal, transfer};

/// Run a shell or a command in the guest
#[derive(clap::Args, Clone, Debug)]
#[group(skip)]
#[command(after_help = "\
Without a command: a shell, in real time. `exit` ends the guest; ^C is the guest's.
With one: its output, and its exit status as ours. Whatever it leaves in /out (also $OUT) is unpacked into \
the directory given with --out, along with the kernel's log (dmesg).

Exit status: the command's; 124 if the guest hangs, 125 if its kernel reports trouble (whatever the command \
said), 1 or 2 if it could not be run.

Examples:
  cargo xtask vm
  cargo xtask vm -- sh -c 'tc qdisc add dev lo root pfabric && tc -s qdisc show dev lo'
  cargo xtask vm --seed 7 --file scenario.sh:/root/s.sh --out result -- sh /root/s.sh
  cargo xtask vm --clock model --package redis -- weft lab rack:hosts=2 --on h0 redis-server redis-cli -h h0 ping
  cargo xtask vm --clock real --cpus 4 -- iperf3 --version
  weft exec h3 cargo xtask vm --clock real --tap tap0 -- sh -c 'modprobe virtio_net && ip link'")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Clock of the guest (default: instructions with a command, real for a shell, model for a lab)
    #[arg(long, value_enum)]
    pub(crate) clock: Option<ClockKind>,
    #[command(flatten)]
    pub(crate) hardware: Hardware,
    /// Debian packages of the suite to add to the guest, with their dependencies, separated by
    /// commas; they are downloaded and installed once
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = packages::name)]
    pub(crate) package: Vec<String>,
    /// Copy a file or directory to the guest (repeatable; default destination: /root)
    #[arg(long, value_name = "HOST[:GUEST]")]
    pub(crate) file: Vec<String>,
    /// Unpack the guest's /out into this folder
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) out: Option<PathBuf>,
    /// Room for the guest's /out in MiB (a power of two); under the model clock it grows on demand
    #[arg(long, value_name = "MIB", default_value_t = 256, allow_negative_numbers = true, value_parser = power_of_two)]
    pub(crate) out_size: u32,
    /// Add an interface to the guest: a tap device of this network namespace, as created by `weft
    /// up --host h3=tap` (repeatable; --clock real). The guest's driver is virtio_net
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub(crate) tap: Vec<String>,
    /// Set a variable in the guest's environment (repeatable)
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<OsString>,
    /// Print the machine's command instead of running it
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The command and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// A name that is valid for a device in the kernel and for an option of QEMU.
fn device(text: &str) -> Result<String, &'static str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic());
    match begins && text.len() < 16 && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("expected a device's name, such as tap0"),
    }
}

/// The size of a PCI device's memory is a power of two.
fn power_of_two(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(size) if size.is_power_of_two() && (1..=1024).contains(&size) => Ok(size),
        _ => Err("expected a power of two from 1 to 1024".into()),
    }
}

/// Runs the guest and returns the command's exit status.
///
/// # Errors
/// If the guest cannot be built or run, or its kernel is in trouble.
pub(crate) fn run(cache: &Cache, vm: &Args) -> Result<u8> {
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
        None => ClockKind::Instructions,
    };
    if interactive && clock == ClockKind::Model {
        let message = "under the model clock no time passes while you type; give a command after --, or \
                       use --clock real";
        return Err(Failure::setup(message).into());
    }
    if !vm.tap.is_empty() && clock != ClockKind::Real {
        let message = "packets from a tap device arrive in real time: use --clock real with --tap";
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
    let mut unwritten = None;
    let outcome = guests::run(&built, &run, &mut |bytes| {
        let written = stdout.write_all(bytes).and_then(|()| stdout.flush());
        unwritten = unwritten.take().or(written.err());
    })?;
    if let Some(directory) = &vm.out {
        transfer::unpack(&outcome.tar, directory)?;
    }
    // The reader may be gone (`| head`); the guest's exit status still counts.
    if let Some(error) = unwritten.filter(|error| error.kind() != ErrorKind::BrokenPipe) {
        return Err(error).context("writing the command's output");
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
    fn files_go_to_the_given_place_in_the_guest() {
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
