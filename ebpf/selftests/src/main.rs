// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of weft's eBPF programs on real packets, as KTAP. They need root and Linux 6.6 or later,
//! and run on a host as well as in the guest.
//!
//! Every test has its own network namespaces and its own cgroup. Devices disappear with their
//! namespace, and attached programs with their device.

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
