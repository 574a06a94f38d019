// SPDX-License-Identifier: MIT OR Apache-2.0

//! The run's clock and the timer that wakes the event loop.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use nix::time::clock_gettime;

use super::system;
use crate::error::Result;

/// ns of `CLOCK_MONOTONIC` since the clock was started.
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
    /// Starts the clock now.
    pub(super) fn start() -> Result<Self> {
        monotonic().map(|begin| Self { begin })
    }

    pub(super) fn now(&self) -> Result<u64> {
        Ok(ns(monotonic()?.saturating_sub(self.begin)))
    }
}

/// Becomes readable at a given time.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: TimerFd,
    /// The time that it is set to.
    at: Option<u64>,
}

impl Alarm {
    pub(super) fn new() -> Result<Self> {
        let flags = TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK;
        let timer =
            TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).map_err(system("making a timer"))?;
        Ok(Self { timer, at: None })
    }

    /// Sets it to a future time of the clock. It is never read: setting it again makes it
    /// unreadable, and epoll reports only edges.
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

    /// Notes that it has fired, so that the next `set` always takes effect.
    pub(super) fn rang(&mut self) {
        self.at = None;
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.timer.as_fd()
    }
}

/// A periodic event: once in each period, at a varying time in the period's first half. A strictly
/// periodic event would always coincide, or never, with other regular events such as the kernel's
/// tick, by which the kernel counts idle time.
#[derive(Debug)]
pub(super) struct Period {
    every: u64,
    first: u64,
    next: u64,
}

impl Period {
    pub(super) fn new(every: Duration, first: u64) -> Self {
        Self {
            every: ns(every).max(1),
            first,
            next: first,
        }
    }

    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Whether the event is due. If so, the next one is in the next period.
    pub(super) fn is_due(&mut self, now: u64) -> bool {
        if now < self.next {
            return false;
        }
        let number = (now - self.first) / self.every + 1;
        let begin = number.saturating_mul(self.every).saturating_add(self.first);
        self.next = begin.saturating_add(self.offset(number));
        true
    }

    /// The offset within a period: multiples of the golden ratio modulo 1 spread as evenly as
    /// possible.
    fn offset(&self, number: u64) -> u64 {
        const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
        let share = number.wrapping_mul(GOLDEN);
        ((u128::from(share) * u128::from(self.every)) >> 65) as u64
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
        assert!((40..45).contains(&period.next()));
        assert!(!period.is_due(39));
        assert!(period.is_due(45));
        assert!((50..55).contains(&period.next()));
    }

    #[test]
    fn a_regular_event_meets_the_timer_at_every_phase() {
        let mut period = Period::new(Duration::from_nanos(1000), 500);
        let mut phases = [0; 5];
        for number in 0..1000 {
            let at = period.next();
            assert_eq!((at - 500) / 1000, number);
            phases[((at - 500) % 1000 / 100) as usize] += 1;
            assert!(period.is_due(at));
        }
        assert!(phases.iter().all(|n| (195..=205).contains(n)), "{phases:?}");
    }
}
