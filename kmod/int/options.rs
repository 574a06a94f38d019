// SPDX-License-Identifier: GPL-2.0-only OR MIT

//! Options of the `int` qdisc: the link that it measures.

use super::meter::Link;
pub use super::meter::MAX_RTT;
use crate::common::nla::Refusal;
pub use crate::common::on_wire::{MAX_MPU, MAX_OVERHEAD, MAX_RATE, MIN_RATE};
use crate::common::on_wire::{MPU_RANGE, OVERHEAD_RANGE, RATE_RANGE};
use crate::common::options::Unit;

crate::options! {
    /// The link's rate in bytes per second, [`MIN_RATE`] to [`MAX_RATE`]. It is required.
    RATE = 1, rate: u64
        as "rate" [Unit::Rate, "RATE", "a rate, for example 10gbit"] is needed,
        in (MIN_RATE, MAX_RATE), or RATE_RANGE,
        default |said| 0;
    /// The base round-trip time of the fabric in ns, 1 to [`MAX_RTT`]. It is required.
    RTT = 2, rtt: u64
        as "rtt" [Unit::Time, "TIME", "a time, for example 20us"] is needed,
        in (1, MAX_RTT), or c"RTT must be between 1 ns and 10 s",
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
}

impl Config {
    /// The configuration of a new qdisc.
    ///
    /// # Errors
    ///
    /// Refusals by [`Options::check`], and one if the rate or the round-trip time is missing.
    pub fn new(options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        if options.rate.is_none() {
            let sentence = c"Rate is required, for example rate 10gbit";
            return Err(Refusal::invalid(sentence));
        }
        if options.rtt.is_none() {
            let sentence = c"RTT is required, for example rtt 15us";
            return Err(Refusal::invalid(sentence));
        }
        Ok(Self::filled(options))
    }

    /// The configuration after a `change`: options that are not in the request stay.
    ///
    /// # Errors
    ///
    /// Refusals by [`Options::check`].
    pub fn updated(self, options: &Options) -> Result<Self, Refusal> {
        options.check()?;
        Ok(self.changed(options))
    }

    /// The link.
    pub fn link(&self) -> Link {
        Link {
            rate: self.rate,
            rtt: self.rtt,
        }
    }
}
