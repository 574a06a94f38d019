// SPDX-License-Identifier: MIT OR Apache-2.0

//! Guests of the built stages: their kernel and files, and the start of their machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use weft_machine::cpio::Archive;
use weft_machine::{Boot, Clock, Directly, Guest, Launcher, Machine, Outcome, last_lines};

use crate::base::enter::Enter;
use crate::stages::chain::{Built, Kernel};
use crate::stages::{boot, um_kernel};

pub mod kvm;
pub mod machine;

/// The mount point of the run's directory inside the root filesystem.
const PLACE: &str = "/mnt/run";

/// The shell that runs the machine's program. A kernel that panics calls abort(), and the first
/// process of a namespace ignores that signal; so the first process is a shell.
const SHELL: &str = "\"$@\"\nexit";

/// The root filesystem as the launcher of the machine's program.
struct Inside {
    enter: Enter,
    /// Whether the program is itself a kernel.
    program: bool,
}

impl Launcher for Inside {
    fn command(&self, program: &Path, directory: &Path) -> Result<Command> {
        let enter = self.enter.clone().with_writable(directory, PLACE);
        Ok(match self.program {
            true => {
                let mut command = enter.script(SHELL);
                command.arg(program);
                command
            }
            false => enter.command(&program.to_string_lossy()),
        })
    }

    fn directory(&self, _: &Path) -> PathBuf {
        PLACE.into()
    }
}

/// The kernel for a clock.
pub fn kernel(clock: Clock) -> Kernel {
    match clock {
        Clock::Instructions { .. } | Clock::Kvm | Clock::Tcg => Kernel::Stock,
        Clock::Model { .. } | Clock::Wall => Kernel::Model,
        Clock::Debug => Kernel::Debug,
    }
}

/// Calls a function with the files that guests of a clock boot.
fn with_boot<T>(
    built: &Built<'_>,
    clock: Clock,
    work: impl FnOnce(&Boot<'_>) -> Result<T>,
) -> Result<T> {
    let kernel = kernel(clock);
    let inside;
    let launcher: &dyn Launcher = match kernel {
        Kernel::Model => &Directly,
        Kernel::Stock | Kernel::Debug => {
            inside = Inside {
                enter: built.with_boot(kernel)?,
                program: kernel.is_program(),
            };
            &inside
        }
    };
    work(&Boot {
        kernel: match kernel {
            Kernel::Stock => Path::new(boot::PLACE).join(boot::KERNEL),
            Kernel::Model => built.program(kernel)?.kernel.file(),
            Kernel::Debug => Path::new(um_kernel::PLACE).join(um_kernel::KERNEL),
        },
        archives: built.foreign_initramfs(),
        own: &|archive: &mut Archive| built.add_to(archive, kernel),
        launcher,
        folder: built.cache.root(),
    })
}

/// Runs the guest to its end. `seen` receives the command's output as it arrives.
///
/// # Errors
/// Those of [`weft_machine::guest::run`].
pub fn run(built: &Built<'_>, guest: &Guest, seen: &mut dyn FnMut(&[u8])) -> Result<Outcome> {
    with_boot(built, guest.machine.clock, |boot| {
        weft_machine::guest::run(boot, guest, seen)
    })
}

/// Runs a guest whose command must succeed.
///
/// # Errors
/// Those of [`run`]; or if the command fails: with the end of its output.
pub fn succeed(built: &Built<'_>, guest: &Guest, what: &str) -> Result<Outcome> {
    let outcome = run(built, guest, &mut |_| {})?;
    ensure!(
        outcome.status == 0,
        "{what} ended with status {} in the guest\n{}",
        outcome.status,
        last_lines(&String::from_utf8_lossy(&outcome.console), 30)
    );
    Ok(outcome)
}

/// The command that starts the machine.
///
/// # Errors
/// If the kernel was not built.
pub fn command(built: &Built<'_>, machine: &Machine) -> Result<Command> {
    with_boot(built, machine.clock, |boot| {
        weft_machine::guest::command(boot, machine)
    })
}
