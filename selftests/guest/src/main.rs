// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of weft's kernel modules on real qdiscs, in the guest, as KTAP.
//!
//! Every test owns its network namespaces and leaves nothing behind: when the last descriptor of a
//! namespace is closed, the kernel takes down what was in it. A test fails, too, if the kernel
//! warned of something while it ran, or if a module is still in use afterwards.

mod blaster;
mod capture;
mod cgroup_program;
mod clock;
mod detectors;
mod faults;
mod flow;
mod meter;
mod model;
mod modules;
mod netlink;
mod network;
mod packets;
mod pause;
mod port;
mod random;
mod ring;
mod scenario;
mod tests;
mod trace;
mod transfer;
mod tree;

use std::process::ExitCode;

use weft_ktap::{Program, Subcommand};

fn main() -> ExitCode {
    let program = Program {
        name: "weft-selftests",
        about: "\
Tests of weft's kernel modules, as KTAP. Needs root and a kernel with the modules: run it in the
guest, `cargo xtask vm -- weft-selftests`.",
        parts: tests::PARTS,
        subcommands: &[
            Subcommand {
                name: "scenario",
                about: "Print when each packet of a scenario that is random by the machine's seed arrives",
                run: scenario::run,
            },
            Subcommand {
                name: "detectors",
                about: "Make errors that a debug kernel has to report, and say whether it does",
                run: detectors::run,
            },
        ],
        watch_kernel_log: true,
        prepare: clock::wait_for_rest,
        settle: modules::wait_until_unused,
    };
    program.main()
}
