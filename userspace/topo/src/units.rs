// SPDX-License-Identifier: MIT OR Apache-2.0

//! Rates and delays in the syntax of `tc`: `10gbit`, `2.5us`.

use std::fmt;
use std::str::FromStr;

use weft_words::quantity::{TIMES, Wrong, read, show};

use crate::error::Error;

const RATES: &[(&str, u64)] = &[
    ("bit", 1),
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
];

/// The serialization rate of a link: 1 kbit/s to 400 Gbit/s in whole bytes per second, as in the
/// `wire` qdisc.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// 1 kbit/s.
    pub const MIN: Self = Self(1_000);
    /// 400 Gbit/s.
    pub const MAX: Self = Self(400_000_000_000);

    /// A rate in bit/s, or `None` if it is below [`Rate::MIN`], above [`Rate::MAX`] or no multiple
    /// of 8.
    pub const fn new(bits_per_second: u64) -> Option<Self> {
        if bits_per_second >= Self::MIN.0
            && bits_per_second <= Self::MAX.0
            && bits_per_second.is_multiple_of(8)
        {
            Some(Self(bits_per_second))
        } else {
            None
        }
    }

    /// `n` Gbit/s, for default values.
    ///
    /// # Panics
    ///
    /// If `n` is 0 or more than 400. The compiler evaluates the default values.
    pub(crate) const fn gbit(n: u64) -> Self {
        Self::new(n * 1_000_000_000).expect("1 to 400 Gbit/s")
    }

    /// In bit/s.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// In byte/s.
    pub const fn bytes_per_second(self) -> u64 {
        self.0 / 8
    }

    /// The serialization time of `bytes` in ns, rounded up.
    pub const fn serialization_ns(self, bytes: u64) -> u64 {
        let bit_ns = bytes as u128 * 8 * 1_000_000_000;
        let ns = bit_ns.div_ceil(self.0 as u128);
        if ns > u64::MAX as u128 {
            u64::MAX
        } else {
            ns as u64
        }
    }
}

impl fmt::Display for Rate {
    /// In the largest unit that gives a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(self.0, RATES))
    }
}

impl FromStr for Rate {
    type Err = Error;

    /// A number, which may have decimals, and one of the units bit, kbit, mbit, gbit (powers of
    /// 1000, in any case).
    fn from_str(text: &str) -> Result<Self, Error> {
        match read(text, RATES) {
            Err(Wrong::Form) => Err(Error::new(format!(
                "\"{text}\" is not a rate: write a number and one of bit, kbit, mbit, gbit, for \
                 example 10gbit"
            ))),
            Ok(rate) if (Self::MIN.0..=Self::MAX.0).contains(&rate) => {
                Self::new(rate).ok_or_else(|| {
                    Error::new(format!(
                        "\"{text}\" is no whole number of bytes per second: write a multiple of \
                         8 bit/s"
                    ))
                })
            }
            _ => Err(Error::new(format!(
                "\"{text}\" is not between {} and {}, or not a whole number of bit/s",
                Self::MIN,
                Self::MAX
            ))),
        }
    }
}

/// The propagation delay of a link: 0 to 10 s in whole nanoseconds, as in the `wire` qdisc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delay(u64);

impl Delay {
    /// 10 s.
    pub const MAX: Self = Self(10_000_000_000);

    /// A delay in ns, or `None` if it is above [`Delay::MAX`].
    pub const fn new(ns: u64) -> Option<Self> {
        if ns <= Self::MAX.0 {
            Some(Self(ns))
        } else {
            None
        }
    }

    /// `ns`, for default values.
    pub(crate) const fn of_ns(ns: u64) -> Self {
        Self::new(ns).expect("at most 10 s")
    }

    /// In ns.
    pub const fn ns(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Delay {
    /// In the largest unit that gives a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&show(self.0, TIMES))
    }
}

impl FromStr for Delay {
    type Err = Error;

    /// A number, which may have decimals, and one of the units ns, us, ms, s (in any case).
    fn from_str(text: &str) -> Result<Self, Error> {
        let value = match read(text, TIMES) {
            Err(Wrong::Form) => {
                return Err(Error::new(format!(
                    "\"{text}\" is not a delay: write a number and one of ns, us, ms, s, for \
                     example 200ns"
                )));
            }
            value => value.ok(),
        };
        value.and_then(Self::new).ok_or_else(|| {
            Error::new(format!(
                "\"{text}\" is not between 0ns and {}, or not a whole number of ns",
                Self::MAX
            ))
        })
    }
}
