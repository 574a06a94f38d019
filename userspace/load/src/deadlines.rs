// SPDX-License-Identifier: MIT OR Apache-2.0

//! Deadlines of flows.
//!
//! D2TCP (SIGCOMM 2012) and PASE (SIGCOMM 2014): uniform from 5 to 25 ms.

use std::fmt;
use std::str::FromStr;

use chacha20::rand_core::Rng;
use weft_ebpf_common::sockopt::MAX_DEADLINE_IN;
use weft_words::quantity;

use crate::error::{Error, Result, invalid};
use crate::random;

/// A distribution of deadlines, in whole ns from 1 ns to a day.
///
/// Read from text (`fixed:20ms`, `uniform:5ms-25ms`); displays as the text that it was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlines {
    name: String,
    min_ns: u64,
    max_ns: u64,
}

impl Deadlines {
    /// A flow's deadline in ns, from the smallest to the largest, both included. One draw.
    pub fn sample(&self, rng: &mut impl Rng) -> u64 {
        let width = (self.max_ns - self.min_ns + 1) as f64;
        // Where a width has no exact f64, u close to 1 may give one more than the largest.
        let more = (random::unit(rng) * width) as u64;
        (self.min_ns + more).min(self.max_ns)
    }

    /// The largest deadline in ns.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }
}

fn time(whole: &str, text: &str) -> Result<u64> {
    match quantity::read(text, quantity::TIMES) {
        Ok(ns @ 1..=MAX_DEADLINE_IN) => Ok(ns),
        _ => invalid(format!(
            "`{whole}`: `{text}` is no time from 1ns to a day, such as 20ms"
        )),
    }
}

impl FromStr for Deadlines {
    type Err = Error;

    /// `fixed:TIME` or `uniform:MIN-MAX`; a time is a decimal number with the unit ns, us, ms or s.
    fn from_str(text: &str) -> Result<Self> {
        let (min, max) = match (text.strip_prefix("fixed:"), text.strip_prefix("uniform:")) {
            (Some(one), _) => (one, one),
            (None, Some(range)) => range.split_once('-').unwrap_or(("", range)),
            (None, None) => {
                return invalid(format!(
                    "`{text}`: expected fixed:TIME or uniform:MIN-MAX, for example uniform:5ms-25ms"
                ));
            }
        };
        let (min_ns, max_ns) = (time(text, min)?, time(text, max)?);
        if min_ns > max_ns {
            return invalid(format!("`{text}`: the first time is the shorter one"));
        }
        Ok(Self {
            name: text.to_owned(),
            min_ns,
            max_ns,
        })
    }
}

impl fmt::Display for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
