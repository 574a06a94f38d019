// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft-arbiter`: Fastpass's arbiter, on a UDP socket.

mod program;

use std::process::ExitCode;

use program::arguments::Arguments;
use program::log::say;
use program::run::run;

fn main() -> ExitCode {
    let arguments = match weft_arguments::parse::<Arguments>() {
        Ok((arguments, _)) => arguments,
        Err(status) => return status,
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}
