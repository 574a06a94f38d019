// SPDX-License-Identifier: MIT OR Apache-2.0

//! Start times of flows that wait for no other flow.

use std::fmt;
use std::str::FromStr;

use chacha20::rand_core::Rng;

use crate::error::{Error, Result, invalid};
use crate::random;

/// A renewal process: independent times between arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Process {
    /// Exponential times (pFabric, PASE).
    Poisson,
    /// Exponential times, stratified together with the flows' sizes (Cochran, Sampling Techniques,
    /// chapter 5), so that their sums are close to their means even in a short run. Of `n` measured
    /// flows, one has a size between the quantiles 0 and 1/n of the distribution, one between 1/n
    /// and 2/n, and so on, in random order. No paper uses it. [`generate`](crate::generate)
    /// implements it.
    Balanced,
    /// Log-normal times (BFC, NSDI 2022, section 6: sigma 2). The underlying normal distribution
    /// has mean ln(mean) - sigma²/2, so that the mean does not depend on sigma.
    LogNormal {
        /// Standard deviation of the underlying normal distribution, 0 to [`MAX_SIGMA`].
        sigma: f64,
    },
}

/// Sigma if the text gives none.
pub const DEFAULT_SIGMA: f64 = 2.0;
/// Largest sigma. At 4, one in 3000 of the times makes up half the sum; with a larger sigma, no run
/// is long enough to reach the mean.
pub const MAX_SIGMA: f64 = 4.0;

impl Process {
    /// The time to the next arrival, in units of the mean.
    pub fn sample(&self, rng: &mut impl Rng) -> f64 {
        match *self {
            Self::Poisson | Self::Balanced => random::exponential(rng),
            Self::LogNormal { sigma } => {
                libm::exp(sigma * random::normal(rng) - sigma * sigma / 2.0)
            }
        }
    }

    fn check(&self) -> Result<()> {
        match *self {
            Self::LogNormal { sigma } if !(0.0..=MAX_SIGMA).contains(&sigma) => {
                invalid(format!("sigma {sigma}: expected 0 to {MAX_SIGMA}"))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Process {
    type Err = Error;

    /// `poisson`, `balanced`, `lognormal` or `lognormal:SIGMA`.
    fn from_str(text: &str) -> Result<Self> {
        let process = match text.split_once(':') {
            None if text == "poisson" => Self::Poisson,
            None if text == "balanced" => Self::Balanced,
            None if text == "lognormal" => Self::LogNormal {
                sigma: DEFAULT_SIGMA,
            },
            Some(("lognormal", sigma)) => match sigma.parse() {
                Ok(sigma) => Self::LogNormal { sigma },
                Err(_) => return invalid(format!("sigma `{sigma}` is not a number")),
            },
            _ => {
                return invalid(format!(
                    "unknown arrivals `{text}`: expected poisson, balanced, lognormal or lognormal:SIGMA"
                ));
            }
        };
        process.check()?;
        Ok(process)
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson => f.write_str("poisson"),
            Self::Balanced => f.write_str("balanced"),
            Self::LogNormal { sigma } => write!(f, "lognormal:{sigma}"),
        }
    }
}

/// The arrival times of a process with `rate` arrivals per second.
#[derive(Debug)]
pub(crate) struct Clock<R> {
    process: Process,
    mean_ns: f64,
    now_ns: f64,
    rng: R,
}

impl<R: Rng> Clock<R> {
    pub(crate) fn new(process: Process, rate: f64, rng: R) -> Result<Self> {
        process.check()?;
        if !(rate.is_finite() && rate > 0.0) {
            return invalid(format!("{rate} arrivals per second: expected more than 0"));
        }
        Ok(Self {
            process,
            mean_ns: 1e9 / rate,
            now_ns: 0.0,
            rng,
        })
    }

    /// The next arrival in ns since the run began.
    pub(crate) fn next_ns(&mut self) -> u64 {
        self.now_ns += self.mean_ns * self.process.sample(&mut self.rng);
        self.now_ns.round() as u64
    }
}
