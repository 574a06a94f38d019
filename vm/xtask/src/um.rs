// SPDX-License-Identifier: MIT OR Apache-2.0

//! Machines that are programs (User Mode Linux): that of the model clock, and the debug kernel's.
//!
//! The model clock is time-travel mode: it stands still while anything computes and goes on to the
//! next timer when nothing does, so a run is a function of its inputs and its seed. The debug
//! kernel's clock and processors are the host's. Neither root nor KVM is needed; the guest's
//! processes are processes of the host's, which end with the namespace that [`Enter`] makes.

use std::process::Command;

use crate::enter::Enter;
use crate::qemu::{CONSOLE, Clock, INITRAMFS, KERNEL_LOG, Machine, PLACE};
use crate::um_kernel;

/// When the clock starts: 2026-01-01, as in QEMU, in ns.
const START: &str = "1767225600000000000";

/// The kernel's command line, see [`crate::qemu`]. Of the serial lines the first leads to the
/// kernel's log, the second is the command's terminal.
const KERNEL_ARGUMENTS: &str = "con=null con0=null ssl=null ssl0=fd:4,fd:1 ssl1=fd:5,fd:3 \
                                console=ttyS0 panic=-1 oops=panic loglevel=5 net.ifnames=0";

/// The model clock's.
const MODEL_ARGUMENTS: &str = "time-travel=inf-cpu seccomp=auto";

/// The debug kernel's. Several processors take seccomp; KASAN is to report more than the first
/// error. Allocators that check themselves keep no stacks of free objects for each processor, in
/// which kmemleak would find what was taken from them long ago, and call it referred to. What the
/// initrd was stays one piece, in which kmemleak looks for references: given back, it would have
/// others' memory in it, kmemleak's own notes of what there is among that.
const DEBUG_ARGUMENTS: &str = "seccomp=on kasan_multi_shot slab_debug=F retain_initrd";

/// What comes out goes to files: the kernel waits until it is written, in no time of its own.
/// Nothing ever goes in, but the kernel wants something to wait for. And it leaves no core dump
/// when it panics. The guest's memory is an unlinked file in `TMPDIR`, a tmpfs, of which only what
/// is used takes memory: it may be as large as all of the host's.
const SCRIPT: &str = "\
ulimit -c 0
mkfifo /tmp/nothing
mount -t tmpfs -o size=100%,mode=1777 tmpfs $TMPDIR
\"$@\"";

/// The kernel inside the root filesystem, which shows its stage and the run's directory.
pub(crate) fn command(enter: &Enter, machine: &Machine) -> Command {
    let files = format!(">{PLACE}/{KERNEL_LOG} 3>{PLACE}/{CONSOLE}");
    // No `exec`: a kernel that panics aborts, by a signal that the first process of a namespace
    // ignores.
    let redirected = format!("{SCRIPT} {files} 4<>/tmp/nothing 5<>/tmp/nothing\nexit");
    let mut command = enter.script(&redirected);
    let own = match machine.clock {
        Clock::Model { seed } => {
            format!("{MODEL_ARGUMENTS} time-travel-start={START} random-seed={seed}")
        }
        _ => format!("{DEBUG_ARGUMENTS} ncpus={}", machine.cpus),
    };
    command.arg(format!("{}/{}", um_kernel::PLACE, um_kernel::KERNEL));
    command.args(own.split_whitespace());
    command.args(KERNEL_ARGUMENTS.split_whitespace());
    command.args([
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
    use crate::qemu::Terminal;
    use std::path::Path;

    fn line(clock: Clock, cpus: u32) -> String {
        let machine = Machine {
            clock,
            cpus,
            memory_mib: 512,
            out_mib: 64,
            taps: Vec::new(),
            append: vec!["a=1".to_owned()],
            terminal: Terminal::File,
        };
        let command = command(&Enter::new(Path::new("/r")), &machine);
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let kernel = words
            .iter()
            .position(|word| word.ends_with("/linux"))
            .unwrap();
        words[kernel..].join(" ")
    }

    #[test]
    fn nothing_of_the_host_is_on_the_command_line() {
        let line = line(Clock::Model { seed: 7 }, 1);
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

    #[test]
    fn the_debug_kernel_has_processors_and_no_clock_of_its_own() {
        let line = line(Clock::Debug, 4);
        assert!(line.contains(" ncpus=4 "), "{line}");
        assert!(!line.contains("time-travel"), "{line}");
    }
}
