// SPDX-License-Identifier: MIT OR Apache-2.0

//! The run's clock, and what wakes the loop.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;

use super::system;
use crate::error::Result;

/// ns of `CLOCK_MONOTONIC` since a beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) begin: Duration,
}

fn monotonic() -> Result<Duration> {
    let now = clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    now.map(Duration::from)
        .map_err(system("reading CLOCK_MONOTONIC"))
}

pub(super) fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Clock {
    /// Begins now.
    pub(super) fn start() -> Result<Self> {
        monotonic().map(|begin| Self { begin })
    }

    pub(super) fn now(&self) -> Result<u64> {
        Ok(ns(monotonic()?.saturating_sub(self.begin)))
    }
}

/// Becomes readable at a time.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: TimerFd,
    /// What it is set to.
    at: Option<u64>,
}

impl Alarm {
    pub(super) fn new() -> Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(system("making a timer"))?;
        Ok(Self { timer, at: None })
    }

    /// Sets it to a time of the clock that is to come. It is never read: setting it again is what
    /// makes it unreadable, and epoll tells of its edge only.
    pub(super) fn set(&mut self, clock: &Clock, at: u64) -> Result<()> {
        if self.at == Some(at) {
            return Ok(());
        }
        let time = TimeSpec::from(clock.begin.saturating_add(Duration::from_nanos(at)));
        self.timer
            .set(
                Expiration::OneShot(time),
                TimerSetTimeFlags::TFD_TIMER_ABSTIME,
            )
            .map_err(system("setting a timer"))?;
        self.at = Some(at);
        Ok(())
    }

    /// Its time has come: whatever it is set to next is new.
    pub(super) fn rang(&mut self) {
        self.at = None;
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// Something that happens every so often.
#[derive(Debug)]
pub(super) struct Period {
    every: u64,
    next: u64,
}

impl Period {
    pub(super) fn new(every: Duration, first: u64) -> Self {
        Self {
            every: ns(every).max(1),
            next: first,
        }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether it is due; then the next time is the first multiple to come.
    pub(super) fn is_due(&mut self, now: u64) -> bool {
        if now < self.next {
            return false;
        }
        let periods = (now - self.next) / self.every + 1;
        self.next = self.next.saturating_add(periods.saturating_mul(self.every));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_that_is_missed_is_left_out() {
        let mut period = Period::new(Duration::from_nanos(10), 0);
        assert!(period.is_due(0));
        assert!(!period.is_due(9));
        assert!(period.is_due(35));
        assert_eq!(period.next(), 40);
        assert!(!period.is_due(39));
        assert!(period.is_due(40));
    }
}
