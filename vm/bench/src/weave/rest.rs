// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pauses between measurements, in which this process does nothing: what the processors do then is
//! others' work. A pause lasts until they do little, within reason.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// What the last run left to the kernel's background is done in the first part of it,
const SETTLE: Duration = Duration::from_millis(200);
/// and in the second the processors are watched.
const WATCH: Duration = Duration::from_millis(150);
/// A machine that is used by others for more than this share of its time is no place to measure.
pub(crate) const BUSY: f64 = 0.05;
/// How long pauses may wait for others, all of them together.
const PATIENCE: Duration = Duration::from_secs(300);

/// The ends of all pauses so far, in the kernel's ticks.
#[derive(Default)]
pub(crate) struct Rest {
    busy: u64,
    all: u64,
    waited: Duration,
}

impl Rest {
    /// Does nothing for a while, longer if others are busy.
    ///
    /// # Errors
    /// If the kernel does not say what the processors did.
    pub(crate) fn take(&mut self) -> Result<()> {
        thread::sleep(SETTLE);
        loop {
            let before = ticks()?;
            thread::sleep(WATCH);
            let after = ticks()?;
            let busy = after.0.saturating_sub(before.0);
            let all = after.1.saturating_sub(before.1).max(1);
            if busy as f64 / all as f64 <= BUSY || self.waited >= PATIENCE {
                self.busy += busy;
                self.all += all;
                return Ok(());
            }
            self.waited += WATCH;
        }
    }

    /// The share of the processors' time that was used.
    pub(crate) fn others(&self) -> f64 {
        self.busy as f64 / self.all.max(1) as f64
    }
}

/// Of all processors: busy ones, and all.
fn ticks() -> Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat")?;
    parse(&text).context("reading /proc/stat")
}

/// The line `cpu`, of all: user, nice, system, idle, iowait and further kinds of work (proc(5)).
/// The last two are guests', and part of the first two.
fn parse(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let numbers: Vec<u64> = line
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .take(8)
        .collect();
    let idle = numbers.get(3)? + numbers.get(4)?;
    let all: u64 = numbers.iter().sum();
    Some((all - idle, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_processors_are_not_busy() {
        let stat = "cpu  10 20 30 400 50 6 7 8 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(parse(stat), Some((81, 531)));
        assert_eq!(parse("intr 1"), None);
    }
}
