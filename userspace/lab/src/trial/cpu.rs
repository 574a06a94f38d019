// SPDX-License-Identifier: MIT OR Apache-2.0

//! The load of the machine's processors.

use std::fs;

use anyhow::{Context as _, Result, ensure};

/// `/proc/stat`: clock ticks since the start, of each processor.
pub(super) struct Cpu(Vec<Ticks>);

#[derive(Clone, Copy)]
struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    /// user nice system idle iowait irq softirq steal; user time includes guest time.
    fn parse(words: &str) -> Result<Self> {
        let ticks: Vec<u64> = words
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

    /// `None` if no tick has passed.
    fn idle_share(self, later: Self) -> Option<f64> {
        let all = later.all.checked_sub(self.all).filter(|all| *all > 0)?;
        Some(later.idle.saturating_sub(self.idle) as f64 / all as f64)
    }
}

impl Cpu {
    pub(super) fn now() -> Result<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").context("reading /proc/stat")?)
    }

    /// The lines `cpuN …`; the first line, the sum over all processors, would hide one that is
    /// always busy.
    fn parse(text: &str) -> Result<Self> {
        let of_one = |line: &str| {
            let words = line.strip_prefix("cpu")?;
            let (_, ticks) = words.split_once(' ')?;
            words
                .starts_with(|c: char| c.is_ascii_digit())
                .then(|| Ticks::parse(ticks))
        };
        let all: Vec<Ticks> = text.lines().filter_map(of_one).collect::<Result<_>>()?;
        ensure!(!all.is_empty(), "/proc/stat names no processor");
        Ok(Self(all))
    }

    /// The share of time since then in which the busiest processor was idle, 0 to 1.
    ///
    /// `None` if no tick has passed.
    pub(super) fn idle_share_since(&self) -> Result<Option<f64>> {
        Ok(self.idle_share(&Self::now()?))
    }

    fn idle_share(&self, later: &Self) -> Option<f64> {
        let each = self.0.iter().zip(&later.0);
        let shares = each.filter_map(|(before, later)| before.idle_share(*later));
        shares.min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_idle_and_waiting_for_disks() {
        let before = Cpu::parse("cpu  9 9 9 9\ncpu0 100 0 50 800 40 5 5 0 0 0\nintr 5").unwrap();
        let after = Cpu::parse("cpu  9 9 9 9\ncpu0 150 0 60 820 50 10 5 5 0 0\n").unwrap();
        assert_eq!(before.idle_share(&after), Some(0.3));
        assert_eq!(before.idle_share(&before), None);
        assert!(Cpu::parse("intr 5").is_err());
    }

    #[test]
    fn one_busy_processor_among_idle_ones_is_detected() {
        let before = Cpu::parse("cpu 0 0 0 0 0\ncpu0 0 0 0 0 0\ncpu1 0 0 0 0 0\n").unwrap();
        let after = Cpu::parse("cpu 99 0 0 101 0\ncpu0 0 0 0 100 0\ncpu1 99 0 0 1 0\n").unwrap();
        assert_eq!(before.idle_share(&after), Some(0.01));
    }
}
