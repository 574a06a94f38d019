// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tests of weft's kernel modules on real qdiscs, in the guest, as KTAP.
//!
//! Every test owns its network namespaces and leaves nothing behind: when the last descriptor of a
//! namespace is closed, the kernel takes down what was in it. A test fails, too, if the kernel
//! warned of something while it ran, or if a module is still in use afterwards.

mod clock;
mod kmsg;
mod ktap;
mod meter;
mod model;
mod modules;
mod netlink;
mod netns;
mod packets;
mod port;
mod random;
mod scenario;
mod tests;
mod transfer;

use std::process::ExitCode;

const HELP: &str = "\
Tests of weft's kernel modules, as KTAP. Needs root and a kernel with the modules: run it in the
guest, `cargo xtask vm -- weft-selftests`.

Usage: weft-selftests [OPTIONS]
       weft-selftests scenario

Commands:
  scenario          Print when each packet of a short, random scenario arrives, in ns. In virtual
                    time the output is a function of the machine's seed.

Options:
  --list            Print the tests' names and stop
  --filter PATTERN  Run the tests whose name `part.test` contains PATTERN
  --repeat N        Run each of them N times, to find what fails now and then
  -h, --help        Print this text

Exit status: 0 all passed, 1 a test failed, 2 wrong usage, 4 all were skipped.";

enum Action {
    Run { filter: String, repeat: usize },
    List { filter: String },
    Scenario,
    Help,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Action, String> {
    let (mut list, mut filter, mut repeat) = (false, String::new(), 1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "-h" | "--help" => return Ok(Action::Help),
            "--list" => list = true,
            "--filter" => {
                filter = args
                    .next()
                    .ok_or("--filter needs a pattern, for example --filter wire")?;
            }
            "--repeat" => {
                repeat = args
                    .next()
                    .and_then(|number| number.parse().ok())
                    .filter(|&number| number > 0)
                    .ok_or("--repeat needs a number from 1, for example --repeat 100")?;
            }
            "scenario" => return Ok(Action::Scenario),
            other => match other.strip_prefix("--filter=") {
                Some(pattern) => filter = pattern.to_owned(),
                None => {
                    return Err(format!(
                        "unknown argument `{other}`; see weft-selftests --help"
                    ));
                }
            },
        }
    }
    Ok(if list {
        Action::List { filter }
    } else {
        Action::Run { filter, repeat }
    })
}

fn main() -> ExitCode {
    let action = match parse(std::env::args().skip(1)) {
        Ok(action) => action,
        Err(message) => {
            eprintln!("weft-selftests: {message}");
            return ExitCode::from(2);
        }
    };
    let result = match action {
        Action::Help => {
            println!("{HELP}");
            Ok(ExitCode::SUCCESS)
        }
        Action::List { filter } => {
            for (part, test) in ktap::select(tests::PARTS, &filter) {
                println!("{}.{}", part.name, test.name);
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Run { filter, repeat } => ktap::run(tests::PARTS, &filter, repeat),
        Action::Scenario => scenario::run().map(|()| ExitCode::SUCCESS),
    };
    result.unwrap_or_else(|error| {
        eprintln!("weft-selftests: {error:#}");
        ExitCode::FAILURE
    })
}
