// SPDX-License-Identifier: MIT OR Apache-2.0

//! Figures in a file, a line of JSON each time.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use nix::fcntl::OFlag;
use serde::Serialize;
use weft_arbiter::faults::Fault;
use weft_arbiter::service::Counters;

use super::arguments::ns;
use super::clock::now;
use super::log::say;

/// Figures in a file.
pub(crate) struct Figures {
    file: Option<File>,
    every: u64,
    /// When the next line is due.
    pub(crate) next: u64,
    /// Lines that could not be written, and the reason for the first of them.
    unwritten: u64,
    why: Option<io::Error>,
}

/// A line of the file.
#[derive(Serialize)]
pub(crate) struct Line {
    /// ns of `CLOCK_MONOTONIC`.
    pub(crate) time_ns: u64,
    pub(crate) active: bool,
    pub(crate) takeovers: u64,
    #[serde(flatten)]
    pub(crate) counters: Counters,
    pub(crate) faults: Vec<Faulty>,
}

/// A component found to be faulty.
#[derive(Serialize)]
pub(crate) struct Faulty {
    what: String,
    avoided: bool,
    suspected_ns: u64,
    found_ns: u64,
}

impl From<&Fault> for Faulty {
    fn from(fault: &Fault) -> Self {
        Self {
            what: fault.component.to_string(),
            avoided: fault.is_avoided,
            suspected_ns: fault.suspected_ns,
            found_ns: fault.found_ns,
        }
    }
}

impl Figures {
    pub(crate) fn new(path: Option<&Path>, every: Option<Duration>) -> Result<Self> {
        let open = |path: &Path| {
            let mut options = File::options();
            // A pipe to another program may be full.
            let nonblocking = OFlag::O_NONBLOCK.bits();
            let file = options
                .append(true)
                .create(true)
                .custom_flags(nonblocking)
                .open(path);
            file.with_context(|| format!("opening {}", path.display()))
        };
        let every = every.map_or(u64::MAX, ns);
        Ok(Self {
            file: path.map(open).transpose()?,
            every,
            next: now()?.saturating_add(every),
            unwritten: 0,
            why: None,
        })
    }

    /// Writes a line. If that fails, [`end`](Self::end) reports it: hosts need timeslots even if
    /// figures cannot be written.
    pub(crate) fn write(&mut self, line: impl FnOnce() -> Line) {
        let Some(file) = &mut self.file else {
            return;
        };
        let line = serde_json::to_string(&line()).map_err(io::Error::from);
        // In one piece, so that lines of other writers do not come in between.
        let written = line.and_then(|line| file.write_all(format!("{line}\n").as_bytes()));
        if let Err(error) = written {
            if self.why.is_none() {
                say(format_args!("writing figures: {error}"));
            }
            self.unwritten = self.unwritten.saturating_add(1);
            self.why.get_or_insert(error);
        }
    }

    pub(crate) fn tick(&mut self, now: u64, line: impl FnOnce() -> Line) {
        if self.next <= now {
            self.next = now.saturating_add(self.every);
            self.write(line);
        }
    }

    /// # Errors
    ///
    /// If a line could not be written.
    pub(crate) fn end(self) -> Result<()> {
        let unwritten = self.unwritten;
        self.why.map_or(Ok(()), |error| {
            Err(error).with_context(|| format!("writing figures ({unwritten} lines are missing)"))
        })
    }
}
