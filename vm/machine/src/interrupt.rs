// SPDX-License-Identifier: MIT OR Apache-2.0

//! Ctrl-C: processes and files that must not outlive this process are registered here, and the
//! signal handler removes them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::Pid;

/// Exit status after an interrupt: 128 + SIGINT, like a shell's.
const STATUS: i32 = 130;

struct State {
    children: Vec<Registered>,
    directories: Vec<PathBuf>,
    terminal: Option<Termios>,
    ending: bool,
}

/// Removes a directory and its content.
pub type Remove = fn(&Path) -> Result<()>;

static REMOVE: OnceLock<Remove> = OnceLock::new();

/// Removes a directory and its content.
pub(crate) fn remove(path: &Path) -> Result<()> {
    if let Some(remove) = REMOVE.get() {
        return remove(path);
    }
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Registered {
    pid: Pid,
    kind: Kind,
}

/// How a child is ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In a process group of its own, killed at once.
    Group,
    /// In ours, because it needs the terminal.
    Foreground,
    /// Left alone and waited for: interrupting dpkg would leave the host half configured.
    Untouchable,
}

static STATE: Mutex<State> = Mutex::new(State {
    children: Vec::new(),
    directories: Vec::new(),
    terminal: None,
    ending: false,
});

fn state() -> MutexGuard<'static, State> {
    // The handler must work even after a panic elsewhere.
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Installs the handler for SIGINT, SIGTERM and SIGHUP. `remove` is for directories that need more
/// than the removal of their content.
///
/// # Errors
/// If a handler is installed already.
pub fn install(remove: Option<Remove>) -> Result<()> {
    if let Some(remove) = remove {
        // The handler is installed once, which the next line checks.
        let _ = REMOVE.set(remove);
    }
    ctrlc::set_handler(end).context("installing the signal handler")
}

fn end() {
    // Held to the end: no child starts and no message appears during the cleanup.
    let mut state = state();
    state.ending = true;
    for child in &state.children {
        // A child that has just ended is not an error.
        let _ = match child.kind {
            Kind::Group => killpg(child.pid, Signal::SIGKILL),
            Kind::Foreground => kill(child.pid, Signal::SIGKILL),
            Kind::Untouchable => nix::sys::wait::waitpid(child.pid, None).map(drop),
        };
    }
    if let Some(settings) = state.terminal.take() {
        let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &settings);
    }
    eprintln!("\ninterrupted");
    for directory in state.directories.drain(..) {
        if let Err(error) = remove(&directory) {
            eprintln!("could not remove {}: {error:#}", directory.display());
        }
    }
    std::process::exit(STATUS);
}

/// A child that an interrupt ends.
pub struct Guarded {
    /// The child.
    pub child: Child,
    registered: Registered,
}

/// Starts a command that an interrupt will end.
///
/// # Errors
/// If it cannot be started; the message names the program.
pub fn spawn(command: &mut Command, kind: Kind) -> Result<Guarded> {
    use std::os::unix::process::CommandExt;
    if kind != Kind::Foreground {
        command.process_group(0);
    }
    // Locked across the start, so that the handler cannot miss it.
    let mut state = state();
    let child = command
        .spawn()
        .with_context(|| format!("starting {}", command.get_program().to_string_lossy()))?;
    let registered = Registered {
        pid: Pid::from_raw(child.id().try_into()?),
        kind,
    };
    state.children.push(registered);
    Ok(Guarded { child, registered })
}

impl Guarded {
    /// Ends it now.
    pub fn kill(&mut self) {
        let _ = match self.registered.kind {
            Kind::Group => killpg(self.registered.pid, Signal::SIGKILL),
            Kind::Foreground | Kind::Untouchable => kill(self.registered.pid, Signal::SIGKILL),
        };
        let _ = self.child.wait();
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.kill();
        }
        state().children.retain(|child| *child != self.registered);
    }
}

/// A directory that is removed unless it is kept.
pub struct Temporary {
    path: PathBuf,
    kept: bool,
}

impl Temporary {
    /// Creates the directory (and its parents).
    ///
    /// # Errors
    /// Those of the file system.
    pub fn new(path: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        state().directories.push(path.clone());
        Ok(Self { path, kept: false })
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Moves it to its final place.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn keep_as(mut self, target: &Path) -> Result<()> {
        std::fs::rename(&self.path, target)
            .with_context(|| format!("moving {} into place", target.display()))?;
        self.kept = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.kept {
            remove(&self.path).unwrap_or_else(|error| {
                eprintln!("could not remove {}: {error:#}", self.path.display());
            });
        }
        state().directories.retain(|path| *path != self.path);
    }
}

/// Saves the terminal's settings and restores them at the end, even after an interrupt.
pub struct TerminalGuard(());

impl TerminalGuard {
    /// Saves the settings of standard input.
    ///
    /// # Errors
    /// If it is not a terminal.
    pub fn new() -> Result<Self> {
        state().terminal =
            Some(tcgetattr(std::io::stdin()).context("reading the terminal's settings")?);
        Ok(Self(()))
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        if let Some(settings) = state().terminal.take() {
            let _ = tcsetattr(std::io::stdin(), SetArg::TCSANOW, &settings);
        }
    }
}

/// To be called when a child failed: after an interrupt, only the handler may end this process.
pub fn park_if_ending() {
    let ending = STATE.try_lock().map_or(true, |state| state.ending);
    if ending {
        // The lock is held either by the handler, which will exit, or briefly by another thread.
        drop(state());
    }
}
