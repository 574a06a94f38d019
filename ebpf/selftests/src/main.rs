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
mod ktap;
mod netns;
mod tests;
mod throughput;
mod transfer;

use std::process::ExitCode;

const HELP: &str = "\
Tests of weft's eBPF programs on real packets, as KTAP. Needs root and Linux 6.6 or later.

Usage: weft-ebpf-selftests [--list] [--filter PATTERN]
       weft-ebpf-selftests throughput

  --list            Print the tests' names and stop
  --filter PATTERN  Run the tests whose name `part.test` contains PATTERN
  throughput        Compare TCP's throughput with and without programs, in alternation
  -h, --help        Print this text

The programs are those built in, or those in the file that WEFT_EBPF_OBJECT names.
Exit status: 0 all passed, 1 a test failed, 2 wrong usage, 4 all were skipped.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["-h" | "--help"] => {
            println!("{HELP}");
            ExitCode::SUCCESS
        }
        ["--list"] => {
            tests::TESTS
                .iter()
                .for_each(|test| println!("{}", test.name));
            ExitCode::SUCCESS
        }
        [] => ktap::run(tests::TESTS, ""),
        ["--filter", pattern] => ktap::run(tests::TESTS, pattern),
        ["throughput"] => match throughput::run() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("weft-ebpf-selftests: {error:#}");
                ExitCode::FAILURE
            }
        },
        _ => {
            eprintln!("{HELP}");
            ExitCode::from(2)
        }
    }
}
