// SPDX-License-Identifier: MIT OR Apache-2.0

//! How far a run is, on standard error; and its end by Ctrl-C.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
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
    eprintln!(
        "weft: interrupted; {} is of a part of it, without a summary",
        path.display()
    );
    Ok(ExitCode::from(130))
}

/// For so long nothing is printed at most: the last of the flows may take a run most of its time,
/// and who sees nothing may think that it hangs.
const SILENCE: Duration = Duration::from_secs(60);

/// Progress, on standard error: a bar on a terminal, elsewhere a line for each tenth.
pub(crate) struct Shown {
    what: String,
    /// Drawn when something ends, by no thread of its own: that would be one more process of the
    /// fabric's machine. It is there where it is not drawn, too: its making takes of the kernel's
    /// random numbers, and what a run meets under the model clock is not to depend on who watches.
    bar: ProgressBar,
    begun: Instant,
    /// Whether a line is printed now and then.
    lines: bool,
    /// Per cent that was printed last.
    last: u64,
    /// When that was, since the beginning.
    printed: Duration,
}

impl Shown {
    pub(crate) fn new(scheme: &str, seed: u64, quiet: bool) -> Self {
        let what = format!("{scheme}, seed {seed}");
        Self::on(std::io::stderr().is_terminal(), what, quiet)
    }

    fn on(terminal: bool, what: String, quiet: bool) -> Self {
        let target = match terminal && !quiet {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        Self {
            bar: bar(&what, target),
            what,
            begun: Instant::now(),
            lines: !terminal && !quiet,
            last: 0,
            printed: Duration::ZERO,
        }
    }

    pub(crate) fn update(&mut self, progress: Progress) {
        let Progress { flows, ended, .. } = progress;
        self.bar.set_length(flows);
        self.bar.set_position(ended);
        if ended == flows {
            self.bar.finish();
        }
        if let Some(line) = self.line(flows, ended, self.begun.elapsed()) {
            eprintln!("{line}");
        }
    }

    /// What there is to say now, if anything.
    fn line(&mut self, flows: u64, ended: u64, elapsed: Duration) -> Option<String> {
        const STEP: u64 = 10;
        let percent = 100 * ended / flows.max(1);
        let is_due = percent >= self.last + STEP || elapsed >= self.printed + SILENCE;
        if !self.lines || !is_due {
            return None;
        }
        self.last = percent - percent % STEP;
        self.printed = elapsed;
        let left = elapsed.mul_f64((flows - ended) as f64 / ended.max(1) as f64);
        Some(format!(
            "{}: {ended} of {flows} flows, about {:.0} s left",
            self.what,
            left.as_secs_f64().ceil()
        ))
    }
}

fn bar(what: &str, target: ProgressDrawTarget) -> ProgressBar {
    let style = "{prefix}: {pos} of {len} flows, about {eta} left {wide_bar}";
    let style = ProgressStyle::with_template(style);
    ProgressBar::with_draw_target(Some(0), target)
        .with_prefix(what.to_owned())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(terminal: bool, quiet: bool) -> Vec<String> {
        let mut shown = Shown::on(terminal, "dctcp, seed 1".to_owned(), quiet);
        let line = |ended| shown.line(40, ended, Duration::from_secs(ended));
        (1..=40).filter_map(line).collect()
    }

    #[test]
    fn a_file_gets_a_line_for_each_tenth() {
        let lines = lines(false, false);
        assert_eq!(lines.len(), 10);
        assert_eq!(lines[0], "dctcp, seed 1: 4 of 40 flows, about 36 s left");
        assert_eq!(lines[9], "dctcp, seed 1: 40 of 40 flows, about 0 s left");
    }

    #[test]
    fn a_file_gets_a_line_for_each_minute_without_one() {
        let mut shown = Shown::on(false, "bfc, seed 1".to_owned(), false);
        let mut says = |ended, seconds| {
            let line = shown.line(100, ended, Duration::from_secs(seconds));
            line.is_some()
        };
        assert!(!says(9, 59));
        assert!(says(9, 60), "a minute without a line");
        assert!(!says(9, 119));
        assert!(says(10, 119) && !says(19, 150));
        assert!(!says(19, 178) && says(19, 179));
    }

    #[test]
    fn a_terminal_gets_a_bar_and_who_asks_for_quiet_gets_nothing() {
        assert!(lines(true, false).is_empty());
        for terminal in [false, true] {
            assert!(lines(terminal, true).is_empty());
            assert!(Shown::on(terminal, String::new(), true).bar.is_hidden());
        }
    }
}
