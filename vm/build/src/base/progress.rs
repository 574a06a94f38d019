// SPDX-License-Identifier: MIT OR Apache-2.0

//! The current steps and their times: a spinner on a terminal, plain lines otherwise. Steps may run
//! in parallel.
//!
//! All output goes to standard error; standard output is for data and for the guest's command.

use std::io::IsTerminal;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// All spinners, one below the other.
static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// Prints while the spinners are hidden.
pub fn aside<T>(print: impl FnOnce() -> T) -> T {
    BARS.suspend(print)
}

/// Shows `name` while `work` runs, then the time it took.
///
/// # Errors
/// Those of `work`, with the step's name.
pub fn step<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let bar = std::io::stderr().is_terminal().then(|| spinner(name));
    if bar.is_none() {
        aside(|| eprintln!("      … {name}"));
    }
    let result = work();
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let mark = if result.is_ok() { ' ' } else { '✗' };
    aside(|| eprintln!("{mark} {:>6} {name}", seconds(start.elapsed())));
    result.with_context(|| name.to_owned())
}

/// A spinner that moves by itself; its message can change.
pub fn spinner(name: &str) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {elapsed:>6} {msg}");
    let bar = BARS.add(ProgressBar::new_spinner().with_message(name.to_owned()));
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// A remark between steps.
pub fn note(text: &str) {
    aside(|| eprintln!("         {text}"));
}

/// `3.2s`, `47s`, `3m07s`.
pub fn seconds(time: Duration) -> String {
    let tenths = (time.as_millis() + 50) / 100;
    if tenths < 100 {
        return format!("{}.{}s", tenths / 10, tenths % 10);
    }
    let whole = (time.as_millis() + 500) / 1000;
    if whole < 60 {
        format!("{whole}s")
    } else {
        format!("{}m{:02}s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short_and_readable() {
        for (milliseconds, text) in [
            (0, "0.0s"),
            (3_249, "3.2s"),
            (9_949, "9.9s"),
            (9_951, "10s"),
            (59_400, "59s"),
            (59_500, "1m00s"),
            (187_000, "3m07s"),
        ] {
            assert_eq!(seconds(Duration::from_millis(milliseconds)), text);
        }
    }
}
