// SPDX-License-Identifier: MIT OR Apache-2.0

//! Machines that are programs (User Mode Linux): with the model clock, and with the debug kernel.
//!
//! The model clock is time-travel mode: it stands still while any process computes and jumps to the
//! next timer when all are idle, so a run is a function of its inputs and its seed. The debug
//! kernel uses the host's clock and processors. Neither needs root, KVM or a namespace. The guest's
//! processes are processes of the host, which end with the kernel, and the kernel ends with its
//! parent.

use std::path::Path;

use crate::machine::{Clock, Machine, Terminal};

/// Files of a run in its directory.
pub(crate) const INITRAMFS: &str = "initramfs";

/// When the clock starts: 2026-01-01, as in QEMU, in ns.
const START: &str = "1767225600000000000";

/// Descriptors of the kernel besides standard input and output: a file for output, and inputs of
/// the two serial lines. The first line leads to the kernel's log, the second is the command's
/// terminal. Output goes to files: the kernel waits until it is written, which takes none of its
/// own time. Input never arrives, but the kernel needs a file to wait for. With a user at the
/// terminal, the second line is standard input and output, and the log goes to the file.
pub(crate) const CONSOLE: i32 = 3;
pub(crate) const INPUTS: [i32; 2] = [4, 5];

/// The kernel's command line, see [`crate::qemu`].
const KERNEL_ARGUMENTS: &str = "con=null con0=null ssl=null console=ttyS0 panic=-1 oops=panic \
                                loglevel=5 net.ifnames=0";

/// The serial lines, to files.
const FILES: &str = "ssl0=fd:4,fd:1 ssl1=fd:5,fd:3";
/// The serial lines if the second one is the user's terminal.
const TERMINAL: &str = "ssl0=fd:4,fd:3 ssl1=fd:0,fd:1";

/// Arguments for the model clock.
const MODEL_ARGUMENTS: &str = "time-travel=inf-cpu seccomp=auto";

/// Arguments for the same kernel on the host's clock.
const WALL_ARGUMENTS: &str = "seccomp=auto";

/// Arguments for the debug kernel. Several processors need seccomp. KASAN must report more than the
/// first error. Allocators with self-checks keep no per-processor stacks of free objects, where
/// kmemleak would find stale references to leaked objects. The initrd's memory stays one piece,
/// because kmemleak scans it for references: if freed, it would contain other memory, including
/// kmemleak's own records.
const DEBUG_ARGUMENTS: &str = "seccomp=on kasan_multi_shot slab_debug=F retain_initrd";

/// The arguments of the kernel; the run's directory is given as the kernel sees it.
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
        // All numbers are known ones, so none is the process's.
        let numbers: Vec<&str> = line
            .split(|it: char| !it.is_ascii_digit())
            .filter(|it| !it.is_empty())
            .collect();
        let known = "1767225600000000000 7 0 4 1 1 5 3 0 0 1 5 0 512 1";
        assert_eq!(numbers.join(" "), known, "{line}");
    }

    #[test]
    fn the_debug_kernel_has_processors_and_no_clock_of_its_own() {
        let line = line(Clock::Debug, 4);
        assert!(line.contains(" ncpus=4 "), "{line}");
        assert!(!line.contains("time-travel"), "{line}");
    }
}
