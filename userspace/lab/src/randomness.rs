// SPDX-License-Identifier: MIT OR Apache-2.0

//! The randomness of the model clock's kernel, which starts again at the stages of a run.
//!
//! That kernel draws from its seed (`vm/um/README.md`). Each draw takes the next number, so a
//! process that made one more draw would shift all later numbers. At each [`Stage`] the numbers
//! start again, at the same distance from the seconds at which the kernel takes a new key: events
//! before the stage have no influence on those after it.

use std::fs::File;
use std::os::fd::AsRawFd as _;

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};

use crate::clock::is_model_clock;

const DEVICE: &str = "/dev/urandom";
/// Half a second, in ns.
const HALF: i64 = 500_000_000;

mod request {
    //! Of `linux/random.h`.
    const RANDOM: u8 = b'R';
    const CLEAR_POOL: u8 = 6;
    const RESEED: u8 = 7;

    nix::ioctl_none!(clear_pool, RANDOM, CLEAR_POOL);
    nix::ioctl_none!(reseed, RANDOM, RESEED);
}

/// A point in a run after which randomness is a function of the seed alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing is woven yet.
    Weave,
    /// No packets have been sent yet.
    Connections,
    /// The connections that are opened ahead of the flows are open.
    Flows,
}

impl Stage {
    /// The number of keys that are taken from the seed: it differs by stage, so that their numbers
    /// do.
    fn keys(self) -> u32 {
        match self {
            Self::Weave => 1,
            Self::Connections => 2,
            Self::Flows => 3,
        }
    }

    /// The stage begins half a second after the next multiple of this many seconds of uptime. The
    /// kernel takes new keys at whole seconds, at growing intervals: one of them is after 28 s, the
    /// next after 42 s. Weaving a fabric takes less than 5 s of the clock, and everything before it
    /// less than 30 s.
    fn seconds(self) -> i64 {
        match self {
            Self::Weave => 30,
            Self::Connections | Self::Flows => 5,
        }
    }

    /// Waits for the stage's time, which takes no real time under the model clock, and makes the
    /// kernel draw from a new key. Under another clock it does nothing.
    ///
    /// # Errors
    ///
    /// If the kernel has no clock or no randomness.
    pub(crate) fn begin(self) -> Result<()> {
        if !is_model_clock() {
            return Ok(());
        }
        let clock = ClockId::CLOCK_MONOTONIC;
        let now = clock_gettime(clock).context("reading the clock")?;
        let then = TimeSpec::new(next(now.tv_sec(), now.tv_nsec(), self.seconds()), HALF);
        clock_nanosleep(clock, ClockNanosleepFlags::TIMER_ABSTIME, &then)
            .context("waiting for the time of a stage")?;
        let device = File::open(DEVICE).with_context(|| format!("opening {DEVICE}"))?;
        // SAFETY: the request has no argument, and the device is open.
        match unsafe { request::clear_pool(device.as_raw_fd()) } {
            Ok(_) => {}
            // Without root (`--rootless`) the kernel keeps its present numbers.
            Err(Errno::EPERM) => return Ok(()),
            Err(errno) => return Err(errno).context("emptying the kernel's random pool"),
        }
        for _ in 0..self.keys() {
            // SAFETY: as above.
            unsafe { request::reseed(device.as_raw_fd()) }.context("taking new randomness")?;
        }
        Ok(())
    }
}

/// The next multiple of `every` seconds such that half a second after it has not passed yet.
fn next(seconds: i64, ns: i64, every: i64) -> i64 {
    let multiple = seconds - seconds.rem_euclid(every);
    match seconds == multiple && ns <= HALF {
        true => multiple,
        false => multiple + every,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_begins_at_the_same_second_however_long_the_last_one_took() {
        for (now, expected) in [
            ((0, 0), 0),
            ((0, HALF + 1), 30),
            ((1, 0), 30),
            ((29, 999_999_999), 30),
            ((30, HALF), 30),
            ((30, HALF + 1), 60),
        ] {
            assert_eq!(next(now.0, now.1, 30), expected, "{now:?}");
        }
        assert_eq!(next(31, 0, 5), 35);
        assert_eq!(next(35, HALF, 5), 35);
    }

    #[test]
    fn two_stages_draw_different_random_numbers() {
        let keys = [Stage::Weave, Stage::Connections, Stage::Flows].map(Stage::keys);
        assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "{keys:?}");
    }
}
