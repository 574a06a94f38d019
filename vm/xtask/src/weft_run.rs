// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft run` in a guest of its own: the results that it leaves, and how far it says
//! that it is.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail};

use crate::build::Built;
use crate::cli::{ClockKind, Hardware};
use crate::guest::{self, Run};
use crate::process;
use crate::transfer;
use crate::vm;

/// The exit status of `weft run` whose results are not to be believed.
const NOT_BELIEVED: u8 = 1;
/// That of a process that was ended by SIGKILL.
const KILLED: u8 = 128 + 9;

/// What the guest left.
pub(crate) struct Left {
    pub(crate) status: u8,
    pub(crate) file: Vec<u8>,
}

impl Left {
    /// Writes the result, and makes the folder for it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        }
        fs::write(path, &self.file).with_context(|| format!("writing {}", path.display()))
    }
}

/// `weft run` on a topology, with options and their values.
pub(crate) fn words<'a>(
    topology: &str,
    options: impl IntoIterator<Item = (&'a str, String)>,
) -> Vec<String> {
    let mut words = ["weft", "run", topology].map(str::to_owned).to_vec();
    for (option, value) in options {
        words.extend([option.to_owned(), value]);
    }
    words
}

/// The name that `weft run` gives a result.
pub(crate) fn file(scheme: &str, seed: u64) -> String {
    format!("{scheme}-seed{seed}.jsonl")
}

/// What is wanted of it.
pub(crate) struct Wanted<'a> {
    /// What errors call the run.
    pub(crate) name: &'a str,
    /// In the folder that leaves the guest.
    pub(crate) file: &'a str,
    /// What the run did if there is no such file.
    pub(crate) missing: &'a str,
}

/// Runs `command`. `seen` is given what it prints as it comes.
///
/// # Errors
/// If the guest cannot be run, or does not leave the file: with the end of what was printed.
pub(crate) fn run(
    built: &Built,
    clock: ClockKind,
    hardware: &Hardware,
    command: Vec<String>,
    wanted: &Wanted<'_>,
    cancel: &Arc<AtomicBool>,
    seen: &mut dyn FnMut(&[u8]),
) -> Result<Left> {
    let machine = vm::machine(built, clock, hardware)?;
    let run = Run {
        cancel: Some(Arc::clone(cancel)),
        ..Run::new(machine, command, hardware.timeout())
    };
    let Wanted {
        name,
        file,
        missing,
    } = wanted;
    let outcome = guest::run(built, &run, seen).with_context(|| (*name).to_owned())?;
    let left = transfer::file(&outcome.tar, file)?;
    match whole(outcome.status, left) {
        Some(file) => Ok(Left {
            status: outcome.status,
            file,
        }),
        None => {
            let output = String::from_utf8_lossy(&outcome.console);
            let output = process::last_lines(&output, 30);
            let cure = match outcome.status {
                KILLED => ": killed, most likely for want of memory; --memory gives more",
                _ => "",
            };
            bail!(
                "{name} {missing} (status {}{cure})\n{output}",
                outcome.status
            )
        }
    }
}

/// What a run left that came to its end. One that did not may leave a file, too, in which anything may be missing.
fn whole(status: u8, left: Option<Vec<u8>>) -> Option<Vec<u8>> {
    left.filter(|_| status <= NOT_BELIEVED)
}

/// How far it is, by what it printed.
#[derive(Default)]
pub(crate) struct Progress {
    /// Output since the last line's end.
    line: Vec<u8>,
    /// Flows that ended.
    pub(crate) ended: u64,
    /// All flows; 0: nothing was said yet.
    flows: u64,
}

impl Progress {
    /// Takes in what was printed: lines such as
    /// `droptail, seed 1: 60 of 600 flows, about 100 s left`.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte != b'\n' && byte != b'\r' {
                self.line.push(byte);
                continue;
            }
            if let Some(told) = told(&String::from_utf8_lossy(&self.line)) {
                (self.ended, self.flows) = told;
            }
            self.line.clear();
        }
    }

    /// The share of flows that ended, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        (self.ended as f64 / self.flows.max(1) as f64).min(1.0)
    }
}

/// Flows that ended, and all.
fn told(line: &str) -> Option<(u64, u64)> {
    let (_, rest) = line.split_once(": ")?;
    let (ended, rest) = rest.split_once(" of ")?;
    let (flows, _) = rest.split_once(" flows")?;
    Some((ended.parse().ok()?, flows.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_run_left_is_no_result() {
        let left = || Some(b"{}".to_vec());
        assert_eq!(whole(0, left()), left());
        assert_eq!(whole(1, left()), left());
        assert_eq!(whole(KILLED, left()), None);
        assert_eq!(whole(2, left()), None);
        assert_eq!(whole(0, None), None);
    }

    #[test]
    fn progress_is_read_from_what_the_guest_prints() {
        let mut guest = Progress::default();
        guest.take(b"\rdctcp, seed 1: 60 of 600 flows, about 100 s left  ");
        assert_eq!((guest.ended, guest.share()), (0, 0.0));
        guest.take(b"\rdctcp, seed 1: 66 of 6");
        assert_eq!((guest.ended, guest.share()), (60, 0.1));
        guest.take(b"00 flows, about 99 s left\n");
        assert_eq!((guest.ended, guest.share()), (66, 0.11));
        guest.take(b"something else: 7 of 9\n");
        assert_eq!((guest.ended, guest.share()), (66, 0.11));
    }
}
