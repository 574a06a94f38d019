// SPDX-License-Identifier: MIT OR Apache-2.0

//! How far a run is, on standard error; and its end by Ctrl-C.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, Result};
use weft_load::engine::{Cancel, Progress, raise_descriptor_limit};

/// Once, before the first run. Ctrl-C ends the run that is under way.
pub(crate) fn prepare() -> Result<Arc<Cancel>> {
    raise_descriptor_limit()?;
    let cancel = Arc::new(Cancel::new()?);
    let interrupt = Arc::clone(&cancel);
    ctrlc::set_handler(move || interrupt.cancel()).context("catching Ctrl-C")?;
    Ok(cancel)
}

pub(crate) fn interrupted(path: &Path) -> Result<ExitCode> {
    eprintln!("weft: interrupted; {} is of a part of it", path.display());
    Ok(ExitCode::from(130))
}

/// Progress, on standard error.
pub(crate) struct Shown {
    what: String,
    begun: Instant,
    terminal: bool,
    quiet: bool,
    /// Per cent that was printed last.
    last: u64,
}

impl Shown {
    pub(crate) fn new(scheme: &str, seed: u64, quiet: bool) -> Self {
        Self {
            what: format!("{scheme}, seed {seed}"),
            begun: Instant::now(),
            terminal: std::io::stderr().is_terminal(),
            quiet,
            last: 0,
        }
    }

    pub(crate) fn update(&mut self, progress: Progress) {
        let Progress { flows, ended, .. } = progress;
        let percent = 100 * ended / flows.max(1);
        // A file gets a line for each tenth.
        let step = if self.terminal { 1 } else { 10 };
        if self.quiet || percent < self.last + step {
            return;
        }
        self.last = percent - percent % step;
        let elapsed = self.begun.elapsed();
        let left = elapsed.mul_f64((flows - ended) as f64 / ended.max(1) as f64);
        let (start, end) = if self.terminal {
            ("\r", "  ")
        } else {
            ("", "\n")
        };
        let clear = if self.terminal && ended == flows {
            "\n"
        } else {
            ""
        };
        eprint!(
            "{start}{}: {ended} of {flows} flows, about {:.0} s left{end}{clear}",
            self.what,
            left.as_secs_f64().ceil()
        );
    }
}
