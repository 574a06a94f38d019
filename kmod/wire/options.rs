// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `wire` qdisc: one wire's serialization and propagation.

use crate::common::nla::Refusal;
pub use crate::common::on_wire::{MAX_MPU, MAX_OVERHEAD, MAX_RATE, MIN_RATE};
use crate::common::on_wire::{MPU_RANGE, OVERHEAD_RANGE, RATE_RANGE};
use crate::common::options::Unit;

/// The qdisc's name, as in `tc qdisc add … wire`.
pub const KIND: &str = "wire";

/// The longest propagation delay in nanoseconds: 10 s.
pub const MAX_DELAY: u64 = 10_000_000_000;
/// The largest slack in nanoseconds: 1 s.
pub const MAX_SLACK: u32 = 1_000_000_000;
/// The largest limit in bytes: 4 GB. With the longest packet added, a larger one would not fit into
/// 32 bits, in which the kernel counts backlogs.
pub const MAX_LIMIT: u32 = 4_000_000_000;

crate::options! {
    /// Rate in bytes per second, [`MIN_RATE`] to [`MAX_RATE`]. It is required.
    RATE = 1, rate: u64
        as "rate" [Unit::Rate, "RATE", "a rate, for example 10gbit"] is needed,
        in (MIN_RATE, MAX_RATE), or RATE_RANGE,
        default |said| 0;
    /// Propagation delay in nanoseconds, at most [`MAX_DELAY`].
    DELAY = 2, delay: u64
        as "delay" [Unit::Time, "TIME", "a time, for example 200us"],
        in (0, MAX_DELAY), or c"Delay must be at most 10 s",
        default |said| 0;
    /// Bytes added to each frame, at most [`MAX_OVERHEAD`].
    OVERHEAD = 3, overhead: u32
        as "overhead" [Unit::Bytes, "BYTES", "a number of bytes"] silent 0,
        in (0, MAX_OVERHEAD), or OVERHEAD_RANGE,
        default |said| 0;
    /// Fewest bytes that a frame counts for, overhead included, at most [`MAX_MPU`].
    MPU = 4, mpu: u32
        as "mpu" [Unit::Size, "BYTES", "a number of bytes"] silent 0,
        in (0, MAX_MPU), or MPU_RANGE,
        default |said| 0;
    /// How late a delivery may be, so that timers fire together, in nanoseconds, at most
    /// [`MAX_SLACK`].
    SLACK = 5, slack: u32
        as "slack" [Unit::Time, "TIME", "a time, for example 60us"] silent 0,
        in (0, MAX_SLACK), or c"Slack must be at most 1 s",
        default |said| 0;
    /// The most bytes in flight, at most [`MAX_LIMIT`]; 0: [as many as rate and delay
    /// need](Config::bytes_in_flight).
    LIMIT = 6, limit: u32
        as "limit" [Unit::Size, "BYTES", "a number of bytes"] silent 0,
        in (0, MAX_LIMIT), or c"Limit must be at most 4000000000 bytes",
        default |said| 0;
}

const NS_PER_US: u64 = 1_000;
const US_PER_S: u64 = 1_000_000;
/// Lateness of a timer beyond the slack, in nanoseconds, that the default limit allows for.
const LATENESS: u64 = 10_000_000;
/// The longest packet with segmentation offload, in bytes, rounded up.
const LONGEST: u64 = 1 << 19;

impl Config {
    /// The configuration of a new qdisc. The rate is required; the other options default to 0.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] if there is no rate, or if there is no limit and more bytes would be in flight
    /// than the largest limit allows; and any refusal by [`Options::check`].
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        if options.rate.is_none() {
            let sentence = c"Rate is required, for example rate 10gbit";
            return Err(Refusal::invalid(sentence));
        }
        Self::filled(options).limited()
    }

    /// The configuration after a `change`: options that are not in the request stay.
    ///
    /// # Errors
    ///
    /// Any refusal by [`Options::check`]; and a refusal if, without a limit, more bytes would be in
    /// flight than the largest limit allows.
    pub fn updated(self, options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        self.changed(options).limited()
    }

    /// Refuses a configuration that would need a limit above the largest.
    fn limited(self) -> Result<Self, Refusal> {
        match self.limit {
            0 if self.needed() > MAX_LIMIT.into() => Err(Refusal::invalid(
                c"More than 4 GB would be in flight: lower rate, delay or slack, or set a limit",
            )),
            _ => Ok(self),
        }
    }

    /// How many bytes may be in flight: the limit or, without one, the most that can be in flight
    /// while no timer is later than the slack plus 10 ms.
    pub fn bytes_in_flight(&self) -> u32 {
        match self.limit {
            0 => self.needed().try_into().unwrap_or(MAX_LIMIT),
            limit => limit,
        }
    }

    /// The bytes sent within the delay, the bytes that late timers add, and the packets that are
    /// partly in flight: the one being sent and the one being delivered.
    fn needed(&self) -> u64 {
        let time = self.delay.saturating_add(self.slack.into());
        let time = time.saturating_add(LATENESS).div_ceil(NS_PER_US);
        let bytes = self.rate.saturating_mul(time) / US_PER_S;
        bytes.saturating_add(2 * LONGEST)
    }
}
