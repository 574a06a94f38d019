// SPDX-License-Identifier: MIT OR Apache-2.0

//! The virtual machine: QEMU's command line.
//!
//! Under the instruction clock (`-icount`) the guest's clock counts instructions, 2^shift ns each,
//! and idle time is skipped (`sleep=off`), so a run is a function of its inputs and its seed.
//!
//! Such a run is also recorded, although the recording is discarded. When the guest goes idle,
//! QEMU's main thread advances the clock to the next timer. If it does so between the guest's last
//! instruction and its count, those instructions are added afterwards, and the run differs: that
//! happened in 1 of 20 runs on a busy machine with two processors. While it records, QEMU holds its
//! replay lock from the first instruction to the count, and the main thread waits.
//!
//! ERMS and FSRM are masked, because the kernel then copies by loops that TCG runs 3 to 5 times
//! faster than `rep movsb`, which also may be interrupted at different points in each run.

use std::path::Path;

use crate::machine::{Clock, Machine, Terminal};
use crate::um::INITRAMFS;

/// The program.
pub const PROGRAM: &str = "qemu-system-x86_64";
/// Files of a run in its directory.
pub(crate) const KERNEL_LOG: &str = "kernel.log";
pub(crate) const CONSOLE: &str = "console";
pub(crate) const SHARED_MEMORY: &str = "out";

/// The kernel's command line. An oops must end the run, with the log so far. Mitigations, audit,
/// security modules (SELinux inspects each packet) and the zeroing of memory cost instructions and
/// are useless here; DAMON would sample memory all the time for unused statistics. If a busy host
/// stalls a processor, the kernel must not blame the TSC. A fixed address layout makes addresses in
/// logs comparable. The ciphers' self-tests would continue in the background for a while.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 panic=-1 oops=panic loglevel=5 nokaslr \
                                mitigations=off audit=0 lsm=capability init_on_alloc=0 \
                                damon_stat.enabled=0 tsc=reliable net.ifnames=0 \
                                cryptomgr.notests";

/// The arguments of QEMU; the kernel and the run's directory are given as QEMU sees them.
pub(crate) fn arguments(machine: &Machine, kernel: &Path, directory: &Path) -> Vec<String> {
    let directory = directory.display();
    let mut words: Vec<String> = Vec::new();
    let mut push = |text: &str| words.extend(text.split(' ').map(str::to_owned));
    push("-nodefaults -no-user-config -display none -no-reboot");
    match machine.clock {
        Clock::Instructions { shift, seed } => {
            push("-accel tcg,thread=single,tb-size=512 -cpu max,-erms,-fsrm");
            push(&match machine.terminal {
                Terminal::File => {
                    format!("-icount shift={shift},sleep=off,rr=record,rrfile=/dev/null")
                }
                // Idle time passes at the user's pace; if it were skipped, there would be no time
                // to type.
                Terminal::Interactive => format!("-icount shift={shift},sleep=on"),
            });
            push(&format!("-seed {seed}"));
            push("-rtc base=2026-01-01T00:00:00,clock=vm");
        }
        Clock::Kvm => push("-accel kvm -cpu host"),
        Clock::Model { .. } | Clock::Wall | Clock::Debug => unreachable!("no machine of QEMU's"),
        Clock::Tcg => push("-accel tcg,thread=multi,tb-size=512 -cpu max,-erms,-fsrm"),
    }
    push(&format!("-smp {} -m {}M", machine.cpus, machine.memory_mib));
    push(&format!(
        "-kernel {} -initrd {directory}/{INITRAMFS}",
        kernel.display()
    ));
    push(&format!(
        "-chardev file,id=kernel,path={directory}/{KERNEL_LOG} -serial chardev:kernel"
    ));
    match machine.terminal {
        Terminal::File => push(&format!("-chardev file,id=user,path={directory}/{CONSOLE}")),
        // Without signals: ^C is for the guest.
        Terminal::Interactive => push("-chardev stdio,id=user,signal=off"),
    }
    push("-serial chardev:user");
    push(&format!(
        "-object memory-backend-file,id=out,share=on,mem-path={directory}/{SHARED_MEMORY},size={}M",
        machine.out_mib
    ));
    for tap in &machine.taps {
        // Each packet separately, with its checksum: a capture between the guests shows the packets
        // of a wire.
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

    fn line_of(machine: &Machine) -> Vec<String> {
        arguments(machine, Path::new("/k/vmlinux"), Path::new("/r"))
    }

    #[test]
    fn a_tap_device_is_an_interface_without_offloads() {
        let machine = Machine {
            taps: vec!["tap0".into(), "tap1".into()],
            ..machine(Clock::Tcg)
        };
        let line = line_of(&machine).join(" ");
        assert_eq!(
            line.matches("vnet_hdr=off -device virtio-net-pci").count(),
            2
        );
        assert!(line.contains("ifname=tap1,"), "{line}");
    }

    #[test]
    fn the_instruction_clock_leaves_nothing_to_the_host() {
        let line = line_of(&machine(Clock::Instructions { shift: 1, seed: 7 })).join(" ");
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
        let mut machine = machine(Clock::Instructions { shift: 1, seed: 7 });
        machine.terminal = Terminal::Interactive;
        let line = line_of(&machine).join(" ");
        assert!(line.contains("-icount shift=1,sleep=on -seed"), "{line}");
    }

    #[test]
    fn the_kernels_command_line_is_one_argument() {
        let words = line_of(&machine(Clock::Kvm));
        let append = &words[words.iter().position(|word| word == "-append").unwrap() + 1];
        assert!(
            append.contains("oops=panic") && append.ends_with(" a=1"),
            "{append}"
        );
    }
}
