// SPDX-License-Identifier: MIT OR Apache-2.0

//! The user's terminal, for a shell in a guest.

use std::fs;
use std::io::{IsTerminal as _, stdin, stdout};
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{LocalFlags, tcgetattr};
use nix::unistd::Pid;

use crate::request::Request;

/// Whether standard input and output are a terminal.
pub fn is_there() -> bool {
    stdin().is_terminal() && stdout().is_terminal()
}

/// The request for a shell, with the terminal's size, 0 if unknown, and its kind.
pub fn shell(request: Request) -> Request {
    let size = terminal_size::terminal_size();
    let (columns, rows) = size.map_or((0, 0), |(width, height)| (width.0, height.0));
    Request {
        rows,
        columns,
        terminal: std::env::var("TERM").unwrap_or_default(),
        ..request
    }
}

/// Sends SIGIO to a kernel that is a program if input waits at its terminal. User Mode Linux reads
/// its terminal when the host signals input, and the host does so only for input that arrives after
/// the kernel has asked for it. Without this, earlier input would wait for the next key.
pub(crate) fn announce_input(terminal: impl AsFd, kernel: Pid) {
    // The kernel makes the terminal raw when the guest opens it, and asks for signals then.
    let settings = tcgetattr(&terminal);
    let is_open = settings.is_ok_and(|it| !it.local_flags.contains(LocalFlags::ICANON));
    if is_open && has_input(&terminal) && catches(kernel, Signal::SIGIO) {
        // The kernel may have ended meanwhile.
        let _ = kill(kernel, Signal::SIGIO);
    }
}

/// Whether there is input that nobody has read.
fn has_input(terminal: impl AsFd) -> bool {
    let mut asked = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
    poll(&mut asked, PollTimeout::ZERO).is_ok_and(|ready| ready > 0)
}

/// Whether a process has a handler for a signal, which would end it otherwise.
fn catches(process: Pid, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status
        .lines()
        .find_map(|line| line.strip_prefix("SigCgt:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (signal as i32 - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Child, Command, Stdio};

    use nix::pty::openpty;
    use nix::sys::termios::{SetArg, cfmakeraw, tcsetattr};

    use super::*;

    /// A shell that says so when it gets SIGIO, or ends by it.
    fn shell(script: &str) -> (Child, BufReader<impl std::io::Read>) {
        let mut shell = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        (shell, output)
    }

    #[test]
    fn a_kernel_that_has_opened_its_terminal_is_told_of_earlier_input() {
        let (mut kernel, mut output) =
            shell("trap 'echo input' 29; echo begun; read line; read end");
        let process = Pid::from_raw(kernel.id().try_into().unwrap());
        let pty = openpty(None, None).unwrap();
        let mut keys = File::from(pty.master);
        keys.write_all(b"typed\n").unwrap();
        // It has not opened the terminal yet.
        announce_input(&pty.slave, process);
        let mut settings = tcgetattr(&pty.slave).unwrap();
        cfmakeraw(&mut settings);
        tcsetattr(&pty.slave, SetArg::TCSANOW, &settings).unwrap();
        announce_input(&pty.slave, process);
        let mut input = kernel.stdin.take().unwrap();
        input.write_all(b"\n\n").unwrap();
        let mut said = String::new();
        std::io::Read::read_to_string(&mut output, &mut said).unwrap();
        kernel.wait().unwrap();
        assert_eq!(said, "input\n");
    }

    #[test]
    fn a_process_that_a_signal_would_end_gets_none() {
        let (mut other, _output) = shell("echo begun; read line");
        let process = Pid::from_raw(other.id().try_into().unwrap());
        assert!(!catches(process, Signal::SIGIO));
        drop(other.stdin.take());
        other.wait().unwrap();
    }
}
