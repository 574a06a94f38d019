// SPDX-License-Identifier: MIT OR Apache-2.0

//! Dilation: the same fabric, with every time multiplied by one factor.
//!
//! A machine that cannot forward 10 Gbit/s can forward 10 Mbit/s. With rates divided and delays
//! multiplied by the same factor, everything takes that many times as long and nothing else
//! changes. The idea is that of D. Gupta et al., "To infinity and beyond: time-warped network
//! emulation", NSDI 2006.
//! emulation", NSDI 2006.

use std::num::NonZeroU32;

use crate::error::Error;
use crate::topology::{Bisection, Topology};
use crate::units::{Delay, Rate};

impl Topology {
    /// This fabric with every rate divided and every delay multiplied by `factor`; 1 changes
    /// nothing. The title stays the same, because it names the emulated fabric.
    ///
    /// # Errors
    ///
    /// If a rate does not divide into whole bytes per second or falls below [`Rate::MIN`], or a
    /// delay exceeds [`Delay::MAX`]. Rounding would make a link slower than the others.
    pub fn dilated(mut self, factor: NonZeroU32) -> Result<Self, Error> {
        let factor = u64::from(factor.get());
        for link in &mut self.links {
            let bits = link.wire.rate.bits_per_second();
            let divides = bits.is_multiple_of(factor);
            let rate = Rate::new(bits / factor).filter(|_| divides).ok_or_else(|| {
                Error::new(format!(
                    "A rate of {} slowed {factor} times is below {}, or no whole number of bytes \
                     per second; choose another factor or rate",
                    link.wire.rate,
                    Rate::MIN
                ))
            })?;
            let ns = link.wire.delay.ns().checked_mul(factor);
            let delay = ns.and_then(Delay::new).ok_or_else(|| {
                Error::new(format!(
                    "A delay of {} slowed {factor} times is above {}; choose a smaller factor or \
                     delay",
                    link.wire.delay,
                    Delay::MAX
                ))
            })?;
            link.wire.rate = rate;
            link.wire.delay = delay;
        }
        self.bisection = self.bisection.map(|bisection| Bisection {
            offered: bisection.offered / factor,
            carried: bisection.carried / factor,
        });
        Ok(self)
    }
}
