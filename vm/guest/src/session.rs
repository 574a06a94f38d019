// SPDX-License-Identifier: MIT OR Apache-2.0

//! Runs the request on the second serial line and waits for it, reaping every orphan meanwhile.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::termios::{SetArg, cfmakeraw, tcdrain, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::Pid;
use weft_guest::request::Request;

use crate::foreign;
use crate::mounts::OUT;

const TERMINAL: &str = "/dev/ttyS1";
/// Runs bash if it exists. `$0`: an option for the shell, or empty.
const SHELL: &str = "command -v bash >/dev/null && exec bash $0; exec sh $0";
/// The exit status of a shell that cannot find or start a command.
const NOT_FOUND: u32 = 127;
const NOT_STARTED: u32 = 126;

/// Runs the request and returns its exit status (128 + signal, as a shell would).
///
/// # Errors
/// If the terminal cannot be opened or children cannot be waited for. A command that cannot be
/// started is not an error: it is reported on the terminal, with a shell's exit status.
pub(crate) fn run(request: &Request) -> Result<u32> {
    let terminal = open_terminal()?;
    let (mut command, input) = match request.command.split_first() {
        Some((program, arguments)) => {
            make_raw(&terminal)?;
            let mut command = Command::new(program);
            command.args(arguments);
            (command, Stdio::null())
        }
        None => (shell(request, &terminal)?, terminal.try_clone()?.into()),
    };
    command
        .env_clear()
        .env("PATH", "/usr/bin:/usr/sbin:/bin:/sbin")
        .env("HOME", "/root")
        .env("LC_ALL", "C.UTF-8")
        .env("OUT", OUT)
        .current_dir("/root")
        .stdin(input)
        .stdout(terminal.try_clone()?)
        .stderr(terminal.try_clone()?);
    if !request.terminal.is_empty() {
        command.env("TERM", &request.terminal);
    }
    if !request.command.is_empty() {
        // The line is a terminal, but no person reads it.
        command.env("NO_COLOR", "1");
    }
    for variable in &request.environment {
        if let Some((name, value)) = variable.to_string_lossy().split_once('=') {
            command.env(name, value);
        }
    }
    let entered = request
        .foreign
        .as_ref()
        .map_or(Ok(()), |foreign| foreign::enter(foreign, &mut command));
    if let Err(error) = entered {
        writeln!(&terminal, "weft: --root: {error:#}")?;
        tcdrain(&terminal)?;
        return Ok(NOT_STARTED);
    }
    let child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let program = command.get_program().to_string_lossy().into_owned();
            writeln!(&terminal, "{program}: {error}")?;
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            return Ok(if missing { NOT_FOUND } else { NOT_STARTED });
        }
    };
    let status = reap_until(Pid::from_raw(child.id().try_into()?))?;
    // Otherwise the last bytes could still be in the line discipline at power-off. It is opened
    // again: when a shell ends, its terminal hangs up, and older descriptors are dead.
    tcdrain(open_terminal()?)?;
    Ok(status)
}

fn open_terminal() -> Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(TERMINAL)
        .with_context(|| format!("opening {TERMINAL}"))
}

/// Output as written: no newline translation, no echo.
fn make_raw(terminal: &File) -> Result<()> {
    let mut settings = tcgetattr(terminal)?;
    cfmakeraw(&mut settings);
    tcsetattr(terminal, SetArg::TCSANOW, &settings)?;
    Ok(())
}

nix::ioctl_write_int_bad!(
    /// Makes the terminal the session's.
    take_terminal,
    nix::libc::TIOCSCTTY
);

/// A shell in its own session, with the serial line as its controlling terminal, so that job
/// control and ^C work.
fn shell(request: &Request, terminal: &File) -> Result<Command> {
    if request.rows > 0 && request.columns > 0 {
        let status = Command::new("/usr/bin/busybox")
            .args([
                "stty",
                "rows",
                &request.rows.to_string(),
                "cols",
                &request.columns.to_string(),
            ])
            .stdin(terminal.try_clone()?)
            .status()?;
        anyhow::ensure!(status.success(), "stty: {status}");
    }
    let mut command = Command::new("/bin/sh");
    // No login shell in another system's tree: its profile would change PATH.
    let login = if request.foreign.is_none() { "-l" } else { "" };
    command.args(["-c", SHELL, login]);
    let begin = || {
        nix::unistd::setsid()?;
        // SAFETY: an ioctl without a pointer, on standard input.
        unsafe { take_terminal(0, 0) }?;
        Ok(())
    };
    // SAFETY: between fork and exec there are only two system calls, which access no memory.
    unsafe { command.pre_exec(begin) };
    Ok(command)
}

fn reap_until(child: Pid) -> Result<u32> {
    loop {
        match wait() {
            Ok(WaitStatus::Exited(pid, code)) if pid == child => return Ok(u32::try_from(code)?),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => {
                return Ok(128 + signal as u32);
            }
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
