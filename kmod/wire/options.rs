// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `wire` qdisc: one wire's serialization and propagation.

use crate::common::nla::Refusal;
use crate::common::options::Unit;

/// The qdisc's name, as in `tc qdisc add … wire`.
pub const KIND: &str = "wire";

/// The lowest rate in bytes per second: 1 kbit/s.
pub const MIN_RATE: u64 = 125;
/// The highest rate in bytes per second: 400 Gbit/s.
pub const MAX_RATE: u64 = 50_000_000_000;
/// The longest propagation delay in nanoseconds: 10 s.
pub const MAX_DELAY: u64 = 10_000_000_000;
/// The largest overhead in bytes.
pub const MAX_OVERHEAD: u32 = 1_000;
/// The largest minimum packet unit in bytes.
pub const MAX_MPU: u32 = 2_000;
/// The largest slack in nanoseconds: 1 s.
pub const MAX_SLACK: u32 = 1_000_000_000;

crate::options! {
    /// Rate in bytes per second, [`MIN_RATE`] to [`MAX_RATE`]. It has to be said.
    RATE = 1, rate: u64
        as "rate" [Unit::Rate, "RATE", "a rate, for example 10gbit"] is needed,
        in (MIN_RATE, MAX_RATE), or c"Rate must be between 1 kbit/s and 400 Gbit/s",
        default |said| 0;
    /// Propagation delay in nanoseconds, at most [`MAX_DELAY`].
    DELAY = 2, delay: u64
        as "delay" [Unit::Time, "TIME", "a time, for example 200us"],
        in (0, MAX_DELAY), or c"Delay must be at most 10 s",
        default |said| 0;
    /// Bytes added to each frame, at most [`MAX_OVERHEAD`].
    OVERHEAD = 3, overhead: u32
        as "overhead" [Unit::Bytes, "BYTES", "a number of bytes"] silent 0,
        in (0, MAX_OVERHEAD), or c"Overhead must be at most 1000 bytes",
        default |said| 0;
    /// Fewest bytes that a frame counts for, overhead included, at most [`MAX_MPU`].
    MPU = 4, mpu: u32
        as "mpu" [Unit::Size, "BYTES", "a number of bytes"] silent 0,
        in (0, MAX_MPU), or c"MPU must be at most 2000 bytes",
        default |said| 0;
    /// How late a delivery may be, so that timers fire together, in nanoseconds, at most
    /// [`MAX_SLACK`].
    SLACK = 5, slack: u32
        as "slack" [Unit::Time, "TIME", "a time, for example 60us"] silent 0,
        in (0, MAX_SLACK), or c"Slack must be at most 1 s",
        default |said| 0;
}

impl Config {
    /// The configuration of a new qdisc. The rate has to be said; the rest is 0 if it is not.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if there is no rate, and what [`Options::check`] refuses.
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        if options.rate.is_none() {
            let sentence = c"Rate is required, for example rate 10gbit";
            return Err(Refusal::invalid(sentence));
        }
        Ok(Self::filled(options))
    }

    /// The configuration after a `change`: what the request does not say stays.
    ///
    /// # Errors
    ///
    /// What [`Options::check`] refuses.
    pub fn updated(self, options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        Ok(self.changed(options))
    }
}
