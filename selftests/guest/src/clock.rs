// SPDX-License-Identifier: MIT OR Apache-2.0

//! The machine's clock, and whether it is good enough to judge a wire by.

use std::time::Duration;

use anyhow::Result;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

use weft_ktap::Skip;

/// Nanoseconds of CLOCK_MONOTONIC, the qdiscs' clock.
pub(crate) fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("CLOCK_MONOTONIC can be read");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Nanoseconds of CLOCK_REALTIME, the clock of time stamps.
pub(crate) fn realtime() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_REALTIME).expect("CLOCK_REALTIME can be read");
    time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64
}

/// Waits until nothing else runs. For some seconds after boot, the kernel tests its ciphers
/// (`cryptomgr_test`), and a woken process waits for up to a millisecond.
pub(crate) fn wait_for_rest() {
    const PATIENCE: u32 = 10_000;
    const IN_A_ROW: u32 = 100;
    const TIME: Duration = Duration::from_millis(2);
    // Timer slack is 50 µs.
    const LATE: Duration = Duration::from_micros(150);
    let mut calm = 0;
    for _ in 0..PATIENCE {
        let start = std::time::Instant::now();
        std::thread::sleep(TIME);
        calm = if start.elapsed() < TIME + LATE {
            calm + 1
        } else {
            0
        };
        if calm == IN_A_ROW {
            return;
        }
    }
}

/// How much the lateness of timers may vary, in ns.
const EXACT: u64 = 5_000;

/// For a test of single microseconds.
///
/// # Errors
///
/// [`Skip`] where timers fire at random: whenever the host has time for the guest, and not when
/// they are due. In virtual time they do not.
pub(crate) fn require_exact() -> Result<()> {
    const SLEEPS: u32 = 50;
    const TIME: Duration = Duration::from_micros(500);
    nix::sys::prctl::set_timerslack(1)?;
    let mut times = Vec::new();
    for _ in 0..SLEEPS {
        let before = monotonic();
        clock_nanosleep(
            ClockId::CLOCK_MONOTONIC,
            ClockNanosleepFlags::empty(),
            &TIME.into(),
        )?;
        times.push(monotonic() - before);
    }
    times.sort_unstable();
    // Of ten, one may meet something else that the kernel has to do.
    let spread = times[times.len() * 9 / 10] - times[0];
    if spread > EXACT {
        let why = format!("timers vary by {spread} ns here; run this in virtual time");
        return Err(Skip(why).into());
    }
    Ok(())
}

/// Sleeps until CLOCK_MONOTONIC shows `time` ns.
pub(crate) fn sleep_until(time: u64) -> Result<()> {
    let time = Duration::from_nanos(time).into();
    clock_nanosleep(
        ClockId::CLOCK_MONOTONIC,
        ClockNanosleepFlags::TIMER_ABSTIME,
        &time,
    )?;
    Ok(())
}
