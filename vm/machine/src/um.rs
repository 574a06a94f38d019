// SPDX-License-Identifier: MIT OR Apache-2.0

//! Machines that are programs (User Mode Linux): that of the model clock, and the debug kernel's.
//!
//! The model clock is time-travel mode: it stands still while anything computes and goes on to the
//! next timer when nothing does, so a run is a function of its inputs and its seed. The debug
//! kernel's clock and processors are the host's. Neither root nor KVM is needed, and no namespace:
//! the guest's processes are processes of the host's, which end with the kernel, and the kernel
//! ends with who started it.

use std::path::Path;

use crate::machine::{Clock, Machine, Terminal};

/// Files of a run in its directory.
pub(crate) const INITRAMFS: &str = "initramfs";

/// When the clock starts: 2026-01-01, as in QEMU, in ns.
const START: &str = "1767225600000000000";

/// Descriptors of the kernel beside standard input and output: a file for output, and inputs of
/// the two serial lines. The first line leads to the kernel's log, the second is the command's
/// terminal. Output goes to files: the kernel waits until it is written, in no time of its own. No
/// input ever comes, but the kernel wants something to wait for. If a user is at the terminal, the
/// second line is standard input and output, and the log goes to the file.
pub(crate) const CONSOLE: i32 = 3;
pub(crate) const INPUTS: [i32; 2] = [4, 5];

/// The kernel's command line, see [`crate::qemu`].
const KERNEL_ARGUMENTS: &str = "con=null con0=null ssl=null console=ttyS0 panic=-1 oops=panic \
                                loglevel=5 net.ifnames=0";

/// The serial lines, to files.
const FILES: &str = "ssl0=fd:4,fd:1 ssl1=fd:5,fd:3";
/// The serial lines where the second is the user's terminal.
const TERMINAL: &str = "ssl0=fd:4,fd:3 ssl1=fd:0,fd:1";

/// The model clock's.
const MODEL_ARGUMENTS: &str = "time-travel=inf-cpu seccomp=auto";

/// Those of the same kernel on the host's clock.
const WALL_ARGUMENTS: &str = "seccomp=auto";

/// The debug kernel's. Several processors take seccomp; KASAN is to report more than the first
/// error. Allocators that check themselves keep no stacks of free objects for each processor, in
/// which kmemleak would find what was taken from them long ago, and call it referred to. What the
/// initrd was stays one piece, in which kmemleak looks for references: given back, it would have
/// others' memory in it, kmemleak's own notes of what there is among that.
const DEBUG_ARGUMENTS: &str = "seccomp=on kasan_multi_shot slab_debug=F retain_initrd";

/// The arguments of the kernel, which sees the run's directory as `directory`.
pub(crate) fn arguments(machine: &Machine, directory: &Path) -> Vec<String> {
    let directory = directory.display();
    let own = match machine.clock {
        Clock::Model { seed } => {
            format!("{MODEL_ARGUMENTS} time-travel-start={START} random-seed={seed}")
        }
        Clock::Wall => WALL_ARGUMENTS.to_owned(),
        _ => format!("{DEBUG_ARGUMENTS} ncpus={}", machine.cpus),
    };
    let lines = match machine.terminal {
        Terminal::File => FILES,
        Terminal::Interactive => TERMINAL,
    };
    let words = own
        .split_whitespace()
        .chain(lines.split_whitespace())
        .chain(KERNEL_ARGUMENTS.split_whitespace());
    let mut words: Vec<String> = words.map(str::to_owned).collect();
    words.extend([
        format!("mem={}M", machine.memory_mib),
        format!("initrd={directory}/{INITRAMFS}"),
        format!("hostfs={directory}"),
        format!("uml_dir={directory}/"),
        "umid=guest".to_owned(),
    ]);
    words.extend(machine.append.iter().cloned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

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
        arguments(&machine, Path::new(".")).join(" ")
    }

    #[test]
    fn nothing_of_the_host_is_on_the_command_line() {
        let line = line(Clock::Model { seed: 7 }, 1);
        for part in [
            "time-travel=inf-cpu",
            "time-travel-start=1767225600000000000",
            "random-seed=7",
            "mem=512M",
            "initrd=./initramfs",
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
