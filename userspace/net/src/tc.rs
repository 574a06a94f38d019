// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs `tc` for the lines that only it can read, one batch per node; and `ip` in the same way.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::process::{Command, Output, Stdio};
use std::thread;

use crate::error::{Error, Result, invalid};
use crate::namespace;
use crate::qdisc::TcCommand;

/// The reason why a program did not complete its input.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The index of the refused line; `None` if the program did not report it.
    pub(crate) line: Option<usize>,
    /// Its message about that line.
    pub(crate) reason: String,
}

/// Runs all of `commands` through `tc`, in this order, in a node's namespace.
///
/// # Errors
///
/// The first refusal, with its file and line and the message of `tc`; [`Error::Invalid`] if there
/// is no `tc`.
pub(crate) fn batch(node: &str, namespace: &File, commands: &[&TcCommand]) -> Result<()> {
    let Some(done) = feed("tc", node, namespace, commands)? else {
        return lacking(commands[0]);
    };
    let Err(Refusal { line, reason }) = done else {
        return Ok(());
    };
    let command = line.map_or(commands[0], |line| commands[line]);
    // weft's objection to the line is often clearer than the message of `tc`.
    let own = command.doubt.as_ref();
    let own = own.map_or(String::new(), |doubt| format!(" (weft: {doubt})"));
    Err(Error::Line {
        file: command.place.0.clone(),
        line: command.place.1,
        message: format!("{node}: `tc {command}`: {reason}{own}"),
    })
}

/// Runs all of `commands` through `ip` or `tc`, in this order, in a node's namespace. `None`: there
/// is no such program.
pub(crate) fn feed(
    program: &str,
    node: &str,
    namespace: &File,
    commands: &[impl Display],
) -> Result<Option<Result<(), Refusal>>> {
    let lines: Vec<String> = commands.iter().map(|it| format!("{it}\n")).collect();
    let run = |lines: &[String]| -> Result<Option<Output>> {
        // A child is in the namespace of the thread that starts it.
        let started = namespace::visit(namespace, || {
            let mut command = Command::new(program);
            // Independent of the user's language.
            command.args(["-batch", "-"]).env("LC_ALL", "C");
            talk(&mut command, lines.concat().as_bytes())
        })?;
        match started {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            started => {
                let failed = |error| Error::system(format!("{node}: running {program}"), error);
                started.map(Some).map_err(failed)
            }
        }
    };
    let mut done = 0;
    while done < lines.len() {
        let Some(output) = run(&lines[done..])? else {
            return Ok(None);
        };
        if output.status.success() {
            break;
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let refused = failed_line(&said).map(|line| done + line);
        let Some(line) = refused.filter(|&line| line < lines.len()) else {
            let reason = format!("{} ({})", reason(&said), output.status);
            return Ok(Some(Err(Refusal { line: None, reason })));
        };
        // Standard error also has notices about earlier lines, and nothing distinguishes them. So
        // the line is run alone. It changed nothing when it was refused.
        let Some(output) = run(&lines[line..=line])? else {
            return Ok(None);
        };
        if !output.status.success() {
            return Ok(Some(Err(Refusal {
                line: Some(line),
                reason: reason(&String::from_utf8_lossy(&output.stderr)),
            })));
        }
        done = line + 1;
    }
    Ok(Some(Ok(())))
}

/// Starts `command`, writes `input` to it, and meanwhile reads all its output: a pipe holds 64 KiB,
/// and a writer that does not read meanwhile would wait for a child that waits for it.
///
/// # Errors
///
/// If it cannot be started. It is not an error if it does not read all of its input.
fn talk(command: &mut Command, input: &[u8]) -> io::Result<Output> {
    command.stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let pipe = child.stdin.take();
    thread::scope(|scope| {
        // A program that refuses a line does not read the rest, and reports the reason itself.
        scope.spawn(move || pipe.map(|mut pipe| pipe.write_all(input)));
        child.wait_with_output()
    })
}

/// Checks that there is a `tc`, which `command` needs.
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
    let own = command.doubt.as_ref();
    let own = own.map_or(String::new(), |doubt| format!(" (weft: {doubt})"));
    invalid(format!(
        "{file}:{line}: only tc can read `{command}`{own}, and it is not there: apt-get install iproute2"
    ))
}

/// The index of the line at which a batch ended.
fn failed_line(said: &str) -> Option<usize> {
    let number = said
        .lines()
        .find_map(|line| line.strip_prefix("Command failed -:"))?;
    number.trim().parse::<usize>().ok()?.checked_sub(1)
}

/// The reason why a program refused its only line. Notices may come before it; usage often follows,
/// and then a message that the command failed.
fn reason(said: &str) -> String {
    const PREFIXES: [&str; 2] = ["Error: ", "RTNETLINK answers: "];
    let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines = lines
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("Command failed -:"));
    let lines: Vec<&str> = lines.collect();
    // The kernel's refusal, if the program got that far; otherwise the part that the program could
    // not read. Several such sentences are about the same problem, and notices come first.
    let kernel = |prefix: &&str| lines.iter().find_map(|line| line.strip_prefix(*prefix));
    let reason = PREFIXES.iter().find_map(kernel);
    let other = || lines.iter().rfind(|line| !line.starts_with("Warning:"));
    let reason = reason.or_else(|| other().copied());
    reason
        .unwrap_or("it says nothing")
        .trim_end_matches('.')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_one_line_without_notices_and_usage() {
        let usage = "What is \"blub\"?\nUsage: ... qdisc add ... htb [default N] [r2q N]\n\
                     \n default  minor id\nCommand failed -:3\n";
        for (said, line, expected) in [
            (usage, Some(2), "What is \"blub\"?"),
            (
                "RTNETLINK answers: Invalid argument\nCommand failed -:4\n",
                Some(3),
                "Invalid argument",
            ),
            (
                "Error: Specified qdisc kind is unknown.\nCommand failed -:1",
                Some(0),
                "Specified qdisc kind is unknown",
            ),
            (
                "RED: set bandwidth to 10Mbit\nError: Invalid handle.\nCommand failed -:1\n",
                Some(0),
                "Invalid handle",
            ),
            (
                "RED: set bandwidth to 10Mbit\nRED: failed to calculate probability.\nCommand failed -:1\n",
                Some(0),
                "RED: failed to calculate probability",
            ),
            (
                "Warning: sch_htb: quantum of class 20010 is big. Consider r2q change.\n\
                 RTNETLINK answers: No buffer space available\nCommand failed -:1\n",
                Some(0),
                "No buffer space available",
            ),
            ("Command failed -:2\n", Some(1), "it says nothing"),
            ("Command failed -:0\n", None, "it says nothing"),
            ("", None, "it says nothing"),
        ] {
            assert_eq!(failed_line(said), line, "{said}");
            assert_eq!(reason(said), expected, "{said}");
        }
    }

    /// More in both directions than a pipe holds.
    #[test]
    fn a_child_that_writes_while_it_reads_does_not_block() {
        let input = vec![b'x'; 1 << 20];
        let mut shell = Command::new("sh");
        shell.args(["-c", "tee /dev/stderr"]);
        let output = talk(&mut shell, &input).unwrap();
        assert_eq!(
            (output.stdout.len(), output.stderr.len()),
            (1 << 20, 1 << 20)
        );
    }

    #[test]
    fn a_child_that_reads_nothing_is_no_error() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo why >&2; exit 3"]);
        let output = talk(&mut shell, &vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.stderr, b"why\n");
    }
}
