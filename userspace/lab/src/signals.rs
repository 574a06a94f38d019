// SPDX-License-Identifier: MIT OR Apache-2.0

//! Waiting for a command in spite of signals: a signal that would end this process ends the command
//! first, so that there is time to clean up.

use std::os::fd::AsFd as _;
use std::process::{Child, ExitStatus};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

/// The signals that would end this process.
const ENDING: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGTERM,
    Signal::SIGHUP,
];

/// Keeps signals until they are read, for as long as it lives. Commands that are started in that
/// time receive theirs as usual.
pub(crate) struct Signals {
    before: SigSet,
    kept: SignalFd,
}

/// A kept signal.
struct Kept {
    signal: Signal,
    /// Whether a process sent it, to this process alone. A terminal sends its signals to all
    /// processes in its foreground.
    is_ours: bool,
}

impl Signals {
    /// The caller must not have started threads: they inherit the mask of signals.
    pub(crate) fn keep() -> Result<Self> {
        let set = SigSet::from_iter(ENDING);
        let mut before = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&set), Some(&mut before))
            .context("blocking signals")?;
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let kept = SignalFd::with_flags(&set, flags).context("keeping signals")?;
        Ok(Self { before, kept })
    }

    /// The next signal that has arrived, if there is one.
    fn next(&self) -> Result<Option<Kept>> {
        let Some(said) = self.kept.read_signal().context("reading signals")? else {
            return Ok(None);
        };
        let signal = i32::try_from(said.ssi_signo).context("a signal's number")?;
        Ok(Some(Kept {
            signal: Signal::try_from(signal)?,
            is_ours: said.ssi_code <= 0,
        }))
    }

    /// The first unread signal that should have ended this process.
    pub(crate) fn ending(&self) -> Result<Option<Signal>> {
        Ok(self.next()?.map(|kept| kept.signal))
    }

    /// Waits until the command has ended, and passes on to it the signals that were sent to this
    /// process.
    pub(crate) fn wait(&self, child: &mut Child) -> Result<ExitStatus> {
        const WAITING: &str = "waiting for the command";
        let end = weft_net::watch(child.id()).context(WAITING)?;
        loop {
            while let Some(Kept { signal, is_ours }) = self.next()? {
                if is_ours {
                    let pid = i32::try_from(child.id()).context("a process's number")?;
                    // It is this process's child and has not been waited for, so the number cannot
                    // belong to another process.
                    let _ = kill(Pid::from_raw(pid), signal);
                }
            }
            if let Some(status) = child.try_wait().context(WAITING)? {
                return Ok(status);
            }
            let ready = PollFlags::POLLIN;
            let mut both = [self.kept.as_fd(), end.as_fd()].map(|fd| PollFd::new(fd, ready));
            match poll(&mut both, PollTimeout::NONE) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(errno) => return Err(errno).context(WAITING),
            }
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // A signal that came too late needs no action: everything has been cleaned up.
        while let Ok(Some(_)) = self.ending() {}
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use nix::sys::pthread::{pthread_kill, pthread_self};

    use super::*;

    #[test]
    fn a_signal_to_this_process_ends_the_command() {
        let signals = Signals::keep().unwrap();
        let mut sleep = Command::new("sleep");
        weft_net::unblock_signals(&mut sleep);
        let mut child = sleep.arg("1000").spawn().unwrap();
        // A test runs in a thread.
        pthread_kill(pthread_self(), Signal::SIGTERM).unwrap();
        let status = signals.wait(&mut child).unwrap();
        assert_eq!(status.signal(), Some(Signal::SIGTERM as i32));
    }

    #[test]
    fn the_end_of_a_command_is_noticed() {
        let signals = Signals::keep().unwrap();
        let mut child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        assert_eq!(signals.wait(&mut child).unwrap().code(), Some(7));
        assert_eq!(signals.ending().unwrap(), None);
    }
}
