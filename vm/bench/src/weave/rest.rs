// SPDX-License-Identifier: MIT OR Apache-2.0

//! Pauses between measurements, in which this process is idle: the processors' load is then that of
//! others. A pause lasts until the load is low, up to a limit.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

/// In the first part, the kernel's background work from the last run ends,
const SETTLE: Duration = Duration::from_millis(200);
/// and in the second the processors' load is measured.
const WATCH: Duration = Duration::from_millis(150);
/// On a machine that others use for more than this share of its time, measurements are unreliable.
pub(crate) const BUSY: f64 = 0.05;
/// Maximum time of all pauses together.
const PATIENCE: Duration = Duration::from_secs(300);

/// The ends of all pauses so far, in the kernel's ticks.
#[derive(Default)]
pub(crate) struct Rest {
    busy: u64,
    all: u64,
    waited: Duration,
}

impl Rest {
    /// Waits for a while, longer if others are busy.
    ///
    /// # Errors
    /// If the kernel does not report the processors' load.
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

    /// The share of processor time that was used.
    pub(crate) fn others(&self) -> f64 {
        self.busy as f64 / self.all.max(1) as f64
    }
}

/// Ticks of all processors: busy, and total.
fn ticks() -> Result<(u64, u64)> {
    let text = fs::read_to_string("/proc/stat")?;
    parse(&text).context("reading /proc/stat")
}

/// Parses the line `cpu`, the sum of all: user, nice, system, idle, iowait and further kinds of
/// work (proc(5)). The last two are guests', which the first two include.
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
