// SPDX-License-Identifier: MIT OR Apache-2.0

//! How busy the machine's processors are.

use std::fs;

use anyhow::{Context as _, Result};

/// The first line of `/proc/stat`: clock ticks since the start, of all processors.
pub(super) struct Cpu {
    idle: u64,
    all: u64,
}

impl Cpu {
    pub(super) fn now() -> Result<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").context("reading /proc/stat")?)
    }

    /// user nice system idle iowait irq softirq steal; guest time is in user time.
    fn parse(text: &str) -> Result<Self> {
        let line = text
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("cpu "));
        let ticks: Vec<u64> = line
            .context("/proc/stat does not begin with cpu")?
            .split_whitespace()
            .take(8)
            .map(str::parse)
            .collect::<Result<_, _>>()
            .context("a number in /proc/stat")?;
        Ok(Self {
            idle: ticks.get(3..5).map_or(0, |idle| idle.iter().sum()),
            all: ticks.iter().sum(),
        })
    }

    /// The share of time since then in which there was nothing to do, 0 to 1.
    ///
    /// `None` if no tick has passed.
    pub(super) fn idle_share_since(&self) -> Result<Option<f64>> {
        Ok(self.idle_share(&Self::now()?))
    }

    fn idle_share(&self, later: &Self) -> Option<f64> {
        let all = later.all.checked_sub(self.all).filter(|all| *all > 0)?;
        Some(later.idle.saturating_sub(self.idle) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_idle_and_waiting_for_disks() {
        let before = Cpu::parse("cpu  100 0 50 800 40 5 5 0 0 0\ncpu0 …").unwrap();
        let after = Cpu::parse("cpu  150 0 60 820 50 10 5 5 0 0\n").unwrap();
        assert_eq!(before.idle_share(&after), Some(0.3));
        assert_eq!(before.idle_share(&before), None);
        assert!(Cpu::parse("intr 5").is_err());
    }
}
