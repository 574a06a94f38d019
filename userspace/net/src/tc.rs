// SPDX-License-Identifier: MIT OR Apache-2.0

//! `tc`, for the lines that only it reads: a node's in one batch. And `ip`, likewise.

use std::fmt::Display;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::process::{Command, Output, Stdio};

use crate::error::{Error, Result, invalid};
use crate::namespace;
use crate::qdisc::TcCommand;

/// Has `tc` do all of `commands`, in this order, in a node's namespace.
///
/// # Errors
///
/// The first that is refused, with its file and line and what `tc` says; [`Error::Invalid`] if there
/// is no `tc`.
pub(crate) fn batch(node: &str, namespace: &File, commands: &[&TcCommand]) -> Result<()> {
    let Some(output) = feed("tc", node, namespace, commands)? else {
        return lacking(commands[0]);
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let (number, message) = complaint(&said);
    let command = number.and_then(|number| commands.get(number - 1));
    let command = command.unwrap_or(&commands[0]);
    Err(Error::Line {
        file: command.place.0.clone(),
        line: command.place.1,
        message: format!("{node}: `tc {command}`: {message}"),
    })
}

/// Has `ip` or `tc` do all of `commands` in a node's namespace. `None`: there is no such program.
pub(crate) fn feed(
    program: &str,
    node: &str,
    namespace: &File,
    commands: &[impl Display],
) -> Result<Option<Output>> {
    // A child is in the namespace of the thread that starts it.
    let started = namespace::visit(namespace, || {
        let mut command = Command::new(program);
        // Whatever the user's language is.
        command.args(["-batch", "-"]).env("LC_ALL", "C");
        command.stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn()
    })?;
    let mut child = match started {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        started => {
            started.map_err(|error| Error::system(format!("{node}: starting {program}"), error))?
        }
    };
    let lines: String = commands.iter().map(|it| format!("{it}\n")).collect();
    let stdin = child.stdin.take();
    // One that refuses a line does not read what comes after it, and says why itself.
    let _ = stdin.map(|mut pipe| pipe.write_all(lines.as_bytes()));
    let output = child.wait_with_output();
    let output = output.map_err(|error| Error::system(format!("{node}: {program}"), error))?;
    Ok(Some(output))
}

/// Whether there is a `tc`, which `command` needs.
pub(crate) fn find(command: &TcCommand) -> Result<()> {
    let mut tc = Command::new("tc");
    tc.arg("-Version").stdout(Stdio::null());
    match tc.stdin(Stdio::null()).status() {
        Err(error) if error.kind() == ErrorKind::NotFound => lacking(command),
        _ => Ok(()),
    }
}

fn lacking(command: &TcCommand) -> Result<()> {
    let (file, line) = &command.place;
    invalid(format!(
        "{file}:{line}: only tc can read `{command}`, and it is not there: apt-get install iproute2"
    ))
}

/// The number of the line, counted from 1, at which a batch ended, and why: what `tc` said first.
/// Usage often follows, and then that the command failed.
pub(crate) fn complaint(said: &str) -> (Option<usize>, String) {
    const FAILED: &str = "Command failed -:";
    let number = said.lines().find_map(|line| line.strip_prefix(FAILED));
    let number = number.and_then(|number| number.trim().parse().ok());
    let mut reasons = said.lines().filter(|line| !line.trim().is_empty());
    let reason = reasons.next().filter(|line| !line.starts_with(FAILED));
    let reason = reason.map_or("it says nothing", |line| {
        let line = line.trim();
        ["Error: ", "RTNETLINK answers: "]
            .iter()
            .find_map(|it| line.strip_prefix(it))
            .unwrap_or(line)
    });
    let reason = reason.trim_end_matches('.').to_owned();
    (number.filter(|&number| number > 0), reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tc_complains_of_is_one_line_without_its_usage() {
        let usage = "What is \"blub\"?\nUsage: ... qdisc add ... htb [default N] [r2q N]\n\
                     \n default  minor id\nCommand failed -:3\n";
        for (said, number, reason) in [
            (usage, Some(3), "What is \"blub\"?"),
            (
                "RTNETLINK answers: Invalid argument\nCommand failed -:4\n",
                Some(4),
                "Invalid argument",
            ),
            (
                "Error: Specified qdisc kind is unknown.\nCommand failed -:1",
                Some(1),
                "Specified qdisc kind is unknown",
            ),
            ("Command failed -:2\n", Some(2), "it says nothing"),
            ("Command failed -:0\n", None, "it says nothing"),
            ("", None, "it says nothing"),
        ] {
            assert_eq!(complaint(said), (number, reason.to_owned()), "{said}");
        }
    }
}
