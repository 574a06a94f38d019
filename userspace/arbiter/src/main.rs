// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft-arbiter`: Fastpass's arbiter, on a UDP socket.

mod program;

use std::process::ExitCode;

use clap::Parser as _;

use program::arguments::Arguments;
use program::log::say;
use program::run::run;

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
