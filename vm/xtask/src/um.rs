// SPDX-License-Identifier: MIT OR Apache-2.0

//! The machine of the model clock: a kernel that is a program (User Mode Linux), in time-travel mode.
//!
//! Its clock stands still while anything computes and goes on to the next timer when nothing does, so
//! a run is a function of its inputs and its seed. It needs neither root nor KVM; the guest's
//! processes are processes of the host's, which end with the namespace that [`Enter`] makes.

use std::process::Command;

use crate::enter::Enter;
use crate::model;
use crate::qemu::{CONSOLE, INITRAMFS, KERNEL_LOG, Machine, PLACE};

/// When the clock starts: 2026-01-01, as in QEMU, in ns.
const START: &str = "1767225600000000000";

/// The kernel's command line, see [`crate::qemu`]. Of the serial lines the first leads to the kernel's
/// log, the second is the command's terminal.
const KERNEL_ARGUMENTS: &str = "time-travel=inf-cpu seccomp=auto con=null con0=null \
                                ssl=null ssl0=fd:4,fd:1 ssl1=fd:5,fd:3 console=ttyS0 panic=-1 \
                                oops=panic loglevel=5 net.ifnames=0";

/// What comes out goes to files: the kernel waits until it is written, in no time of its own. Nothing
/// ever goes in, but the kernel wants something to wait for. And it leaves no core dump when it panics.
/// The guest's memory is an unlinked file in `TMPDIR`, a tmpfs, of which only what is used takes memory:
/// it may be as large as all of the host's.
const SCRIPT: &str = "\
ulimit -c 0
mkfifo /tmp/nothing
mount -t tmpfs -o size=100%,mode=1777 tmpfs $TMPDIR
exec \"$@\"";

/// The kernel inside the root filesystem, which shows its stage and the run's directory.
pub(crate) fn command(enter: &Enter, machine: &Machine, seed: u64) -> Command {
    let files = format!(">{PLACE}/{KERNEL_LOG} 3>{PLACE}/{CONSOLE}");
    let redirected = format!("{SCRIPT} {files} 4<>/tmp/nothing 5<>/tmp/nothing");
    let mut command = enter.script(&redirected);
    command.arg(format!("{}/{}", model::PLACE, model::KERNEL));
    command.args(KERNEL_ARGUMENTS.split_whitespace());
    command.args([
        format!("time-travel-start={START}"),
        format!("random-seed={seed}"),
        format!("mem={}M", machine.memory_mib),
        format!("initrd={PLACE}/{INITRAMFS}"),
        format!("hostfs={PLACE}"),
        format!("uml_dir={PLACE}/"),
        "umid=guest".to_owned(),
    ]);
    command.args(&machine.append);
    command.env("TMPDIR", "/var/tmp");
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qemu::{Clock, Terminal};
    use std::path::Path;

    #[test]
    fn nothing_of_the_host_is_on_the_command_line() {
        let machine = Machine {
            clock: Clock::Model { seed: 7 },
            cpus: 1,
            memory_mib: 512,
            out_mib: 64,
            append: vec!["a=1".to_owned()],
            terminal: Terminal::File,
        };
        let command = command(&Enter::new(Path::new("/r")), &machine, 7);
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let kernel = words
            .iter()
            .position(|word| word.ends_with("/linux"))
            .unwrap();
        let line = words[kernel..].join(" ");
        for part in [
            "time-travel=inf-cpu",
            "time-travel-start=1767225600000000000",
            "random-seed=7",
            "mem=512M",
            " a=1",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        let process = std::process::id().to_string();
        assert!(!line.contains(&process), "{line}");
    }
}
