// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of weft's eBPF programs on real packets, as KTAP. Needs root and Linux 6.6 or later; runs
//! on a host as in the guest.
//!
//! Every test owns its network namespaces and its cgroup. Devices go with their namespace, and
//! what is attached with its device.

mod capture;
mod cgroup;
mod fabric;
mod frame;
mod tests;
mod throughput;
mod transfer;

use std::process::ExitCode;

use weft_ktap::{Program, Subcommand};

fn main() -> ExitCode {
    let program = Program {
        name: "weft-ebpf-selftests",
        about: "\
Tests of weft's eBPF programs on real packets, as KTAP. Needs root and Linux 6.6 or later. The
programs are those built in, or those in the file that WEFT_EBPF_OBJECT names.",
        parts: tests::PARTS,
        subcommands: &[Subcommand {
            name: "throughput",
            about: "Compare TCP's throughput with and without programs, in alternation",
            run: throughput::run,
        }],
        ..Program::DEFAULT
    };
    program.main()
}
