// SPDX-License-Identifier: MIT OR Apache-2.0

//! The virtual machine: QEMU's command line.
//!
//! In virtual time (`-icount`) the guest's clock counts instructions, 2^shift ns each, and idle
//! time is skipped (`sleep=off`), so a run is a function of its inputs and its seed.
//!
//! Such a run is also a recording, which nobody keeps. For when the guest goes idle, QEMU's main
//! thread moves the clock to the next timer; if it does so at the very moment between the guest's
//! last instruction and its being counted, those instructions are counted on top, and the run is
//! another one: seen in 1 of 20 runs on a busy machine with two processors. While it records, QEMU
//! holds its replay lock from the first instruction to the count, and the main thread waits.
//!
//! ERMS and FSRM are masked because the kernel then copies by loops that TCG runs 3 to 5 times
//! faster than `rep movsb`, which besides may be interrupted at points that are not the same each
//! time.

use std::process::Command;

use crate::boot;
use crate::build::Kernel;
use crate::cli::ClockKind;
use crate::enter::Enter;
use crate::um;

/// Where the run's directory is shown to QEMU.
pub(crate) const PLACE: &str = "/mnt/run";
/// Files of a run in its directory.
pub(crate) const INITRAMFS: &str = "initramfs";
pub(crate) const KERNEL_LOG: &str = "kernel.log";
pub(crate) const CONSOLE: &str = "console";
pub(crate) const SHARED_MEMORY: &str = "out";

/// What drives the guest's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    /// Counted instructions: deterministic.
    Virtual {
        /// An instruction takes 2^shift ns.
        shift: u8,
        /// What randomness the guest sees.
        seed: u64,
    },
    /// The host's clock and processor.
    Kvm,
    /// The host's clock, translated code.
    Tcg,
    /// No machine of QEMU's, but a kernel that is a program: see [`crate::um`].
    Model {
        /// What randomness the guest sees.
        seed: u64,
    },
    /// The same, with the host's clock and processors: the debug kernel.
    Debug,
}

impl Clock {
    /// As the command line and results have it.
    pub(crate) fn name(self) -> &'static str {
        let kind = match self {
            Self::Virtual { .. } => ClockKind::Virtual,
            Self::Kvm | Self::Tcg => ClockKind::Real,
            Self::Model { .. } => ClockKind::Model,
            Self::Debug => ClockKind::Debug,
        };
        kind.name()
    }

    /// The kernel that goes with it.
    pub(crate) fn kernel(self) -> Kernel {
        match self {
            Self::Virtual { .. } | Self::Kvm | Self::Tcg => Kernel::Stock,
            Self::Model { .. } => Kernel::Model,
            Self::Debug => Kernel::Debug,
        }
    }
}

/// Where the guest's second serial line, the command's terminal, leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminal {
    /// To a file. A pipe could run full, and a serial line that waits changes the guest's timing.
    File,
    /// To the user.
    Interactive,
}

/// A machine's size and kind.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) clock: Clock,
    pub(crate) cpus: u32,
    pub(crate) memory_mib: u32,
    /// Room for the guest's `/out`.
    pub(crate) out_mib: u32,
    /// More of the kernel's command line.
    pub(crate) append: Vec<String>,
    pub(crate) terminal: Terminal,
    /// Tap devices of this network namespace, each of which is an interface of the guest.
    pub(crate) taps: Vec<String>,
}

/// The kernel's command line. An oops must end the run, with the log so far. Mitigations, audit,
/// security modules (SELinux looks at each packet) and the zeroing of memory cost instructions and
/// protect nobody here; DAMON would watch memory all the time for statistics that nobody reads.
/// When a busy host stalls a processor that is not the TSC's fault. A fixed address layout makes
/// addresses in logs comparable. The ciphers' self-tests would go on for a while beside whatever is
/// run.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 panic=-1 oops=panic loglevel=5 nokaslr \
                                mitigations=off audit=0 lsm=capability init_on_alloc=0 \
                                damon_stat.enabled=0 tsc=reliable net.ifnames=0 \
                                cryptomgr.notests";

/// The machine inside the root filesystem, which shows what is booted and the run's directory.
pub(crate) fn command(enter: &Enter, machine: &Machine) -> Command {
    if machine.clock.kernel().is_program() {
        return um::command(enter, machine);
    }
    let mut command = enter.command("qemu-system-x86_64");
    command.args(arguments(machine));
    command
}

fn arguments(machine: &Machine) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut push = |text: &str| words.extend(text.split(' ').map(str::to_owned));
    push("-nodefaults -no-user-config -display none -no-reboot");
    match machine.clock {
        Clock::Virtual { shift, seed } => {
            push("-accel tcg,thread=single,tb-size=512 -cpu max,-erms,-fsrm");
            push(&match machine.terminal {
                Terminal::File => {
                    format!("-icount shift={shift},sleep=off,rr=record,rrfile=/dev/null")
                }
                // Idle time passes as the user's does; skipped, there would be none to type in.
                Terminal::Interactive => format!("-icount shift={shift},sleep=on"),
            });
            push(&format!("-seed {seed}"));
            push("-rtc base=2026-01-01T00:00:00,clock=vm");
        }
        Clock::Kvm => push("-accel kvm -cpu host"),
        Clock::Model { .. } | Clock::Debug => unreachable!("no machine of QEMU's"),
        Clock::Tcg => push("-accel tcg,thread=multi,tb-size=512 -cpu max,-erms,-fsrm"),
    }
    push(&format!("-smp {} -m {}M", machine.cpus, machine.memory_mib));
    push(&format!(
        "-kernel {}/{} -initrd {PLACE}/{INITRAMFS}",
        boot::PLACE,
        boot::KERNEL
    ));
    push(&format!(
        "-chardev file,id=kernel,path={PLACE}/{KERNEL_LOG} -serial chardev:kernel"
    ));
    match machine.terminal {
        Terminal::File => push(&format!("-chardev file,id=user,path={PLACE}/{CONSOLE}")),
        // Without signals: ^C is for the guest.
        Terminal::Interactive => push("-chardev stdio,id=user,signal=off"),
    }
    push("-serial chardev:user");
    push(&format!(
        "-object memory-backend-file,id=out,share=on,mem-path={PLACE}/{SHARED_MEMORY},size={}M",
        machine.out_mib
    ));
    for tap in &machine.taps {
        // Each packet by itself, with its checksum: who is between the guests sees what a wire
        // would.
        push(&format!(
            "-netdev tap,id={tap},ifname={tap},script=no,downscript=no,vnet_hdr=off -device virtio-net-pci,netdev={tap}"
        ));
    }
    push("-device ivshmem-plain,memdev=out -append");
    let append = [&[KERNEL_ARGUMENTS.to_owned()][..], &machine.append]
        .concat()
        .join(" ");
    words.push(append);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(clock: Clock) -> Machine {
        let terminal = Terminal::File;
        let append = vec!["a=1".to_owned()];
        Machine {
            clock,
            cpus: 2,
            memory_mib: 512,
            out_mib: 64,
            append,
            terminal,
            taps: Vec::new(),
        }
    }

    #[test]
    fn a_tap_device_is_an_interface_without_offloads() {
        let machine = Machine {
            taps: vec!["tap0".into(), "tap1".into()],
            ..machine(Clock::Tcg)
        };
        let line = arguments(&machine).join(" ");
        assert_eq!(
            line.matches("vnet_hdr=off -device virtio-net-pci").count(),
            2
        );
        assert!(line.contains("ifname=tap1,"), "{line}");
    }

    #[test]
    fn virtual_time_leaves_nothing_to_the_host() {
        let line = arguments(&machine(Clock::Virtual { shift: 1, seed: 7 })).join(" ");
        for part in [
            "-icount shift=1,sleep=off,rr=record,rrfile=/dev/null",
            "-seed 7",
            "thread=single",
            "clock=vm",
            "-erms",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!line.contains("stdio"), "{line}");
    }

    #[test]
    fn a_users_idle_time_is_not_skipped() {
        let mut machine = machine(Clock::Virtual { shift: 1, seed: 7 });
        machine.terminal = Terminal::Interactive;
        let line = arguments(&machine).join(" ");
        assert!(line.contains("-icount shift=1,sleep=on -seed"), "{line}");
    }

    #[test]
    fn the_kernels_command_line_is_one_argument() {
        let words = arguments(&machine(Clock::Kvm));
        let append = &words[words.iter().position(|word| word == "-append").unwrap() + 1];
        assert!(
            append.contains("oops=panic") && append.ends_with(" a=1"),
            "{append}"
        );
    }
}
