// SPDX-License-Identifier: MIT OR Apache-2.0

//! A program's command line.

use std::io::{self, ErrorKind, Write as _};
use std::process::ExitCode;

use clap::{ArgMatches, Error, Parser};

/// Parses the command line of this process, also as clap's matches.
///
/// Unlike [`Parser::parse`], which ignores it if a help text or a version cannot be written.
///
/// # Errors
///
/// The exit status, after printing: 0 for a help text or a version, or if its reader is gone
/// (`weft --help | head -1`); 1 if it cannot be written; 2 for wrong usage.
pub fn parse<T: Parser>() -> Result<(T, ArgMatches), ExitCode> {
    let parsed = T::command().try_get_matches().and_then(|matches| {
        let arguments = T::from_arg_matches(&matches);
        let arguments = arguments.map_err(|error| error.format(&mut T::command()))?;
        Ok((arguments, matches))
    });
    parsed.map_err(|error| print(&error, T::command().get_name()))
}

/// Prints what clap calls an error: also a help text or a version.
fn print(error: &Error, program: &str) -> ExitCode {
    // The buffer of standard output may hold the end of the text.
    let printed = error.print().and_then(|()| io::stdout().flush());
    match printed {
        Err(unwritten) if !error.use_stderr() && unwritten.kind() != ErrorKind::BrokenPipe => {
            eprintln!("{program}: writing to standard output: {unwritten}");
            ExitCode::FAILURE
        }
        _ => ExitCode::from(error.exit_code() as u8),
    }
}
