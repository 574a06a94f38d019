// SPDX-License-Identifier: MIT OR Apache-2.0

//! The arrival rate that makes a given load.
//!
//! Load is the fraction of a link's rate that is offered to it, on average, in one direction:
//!
//! ```text
//! arrivals per second = load × rate / (share × bits)
//! ```
//!
//! | load of      | rate                                  | share                                     |
//! |--------------|---------------------------------------|-------------------------------------------|
//! | the host link| the sum of a host's links             | of all flows, those of the host where share / rate is largest: [`Pairs::shares`]; 1/hosts for uniform pairs and equal links |
//! | the core     | the sum of the links between the core and the rack with the largest share / rate | of all flows, those that use these links in the busier direction: [`Pairs::busiest_crossing`] |
//!
//! `bits` is the mean size of a flow (or an incast), either of its payload alone, or on the wire:
//! with every header and the gap between frames, as in pFabric's scripts (1500 bytes for 1460 of
//! payload). At 100 % of the wire a link is full; 100 % of payload would exceed the link's rate.
//! Neither counts acknowledgements and retransmissions.
//!
//! [`Pairs::shares`]: crate::pairs::Pairs::shares
//! [`Pairs::busiest_crossing`]: crate::pairs::Pairs::busiest_crossing

use std::fmt;

use crate::error::{Result, invalid};
use crate::framing::Framing;
use crate::sizes::Sizes;

/// The links whose rate the load is a fraction of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadOf {
    /// The links of the host with the largest share / rate.
    Host {
        /// The sum of their rates in bit/s, in one direction.
        rate: f64,
        /// The share of all flows that use them in the busier direction, above 0 and at most 1.
        share: f64,
    },
    /// The links between the core and the rack with the largest share / rate; of all such racks, if
    /// several are equal.
    Core {
        /// The sum of their rates in bit/s, in one direction.
        rate: f64,
        /// The share of all flows that use them in the busier direction, above 0 and at most 1.
        share: f64,
    },
}

/// Which bytes a load counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// Payload of applications.
    Payload,
    /// Bytes on the wire.
    #[default]
    Wire,
}

/// A load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Above 0 and at most 1.
    pub fraction: f64,
    /// The links.
    pub of: LoadOf,
    /// The bytes.
    pub counted: Counted,
}

impl Counted {
    /// Mean bits per flow. On the wire, the framing's minimum is ignored: with weft's tag or TCP's
    /// timestamps no data packet is that short.
    #[must_use]
    pub fn mean_bits(self, sizes: &Sizes, framing: &Framing) -> f64 {
        let added = match self {
            Self::Payload => 0.0,
            Self::Wire => sizes.mean_packets(framing) * f64::from(framing.headers + framing.frame),
        };
        8.0 * (sizes.mean() + added)
    }

    /// The bits of a flow of `bytes`.
    #[must_use]
    pub fn bits(self, bytes: u64, framing: &Framing) -> f64 {
        8.0 * match self {
            Self::Payload => bytes as f64,
            Self::Wire => framing.flow_wire_bytes(bytes) as f64,
        }
    }
}

impl Load {
    /// The load of `bits` of all flows in `ns`, in the sense of [`Load::fraction`]. `None` if `ns`
    /// is 0.
    #[must_use]
    pub fn offered(&self, bits: f64, ns: f64) -> Option<f64> {
        let (LoadOf::Host { rate, share } | LoadOf::Core { rate, share }) = self.of;
        let offered = bits * share * 1e9 / (ns * rate);
        (ns > 0.0).then_some(offered).filter(|it| it.is_finite())
    }

    /// Arrivals per second, if each arrival brings `mean_bits` on average.
    ///
    /// # Errors
    ///
    /// If the load is not above 0 and at most 1, or no flow uses the links.
    pub fn per_second(&self, mean_bits: f64) -> Result<f64> {
        if !(self.fraction > 0.0 && self.fraction <= 1.0) {
            return invalid(format!(
                "load {}: expected a fraction above 0 and at most 1",
                self.fraction
            ));
        }
        let (LoadOf::Host { rate, share } | LoadOf::Core { rate, share }) = self.of;
        let per_second = self.fraction * rate / (share * mean_bits);
        if !(per_second.is_finite() && per_second > 0.0) {
            return invalid(format!(
                "no traffic makes a load of {self}: none of it goes there"
            ));
        }
        Ok(per_second)
    }
}

/// How long, in s, a link of `rate` bit/s at a load of `fraction` needs from empty to steady state:
///
/// ```text
/// E[S²] / (2 E[S]) / (1 - √ρ)²
/// ```
///
/// where S is the time that a flow occupies the link, and ρ is the load of the wire. It is the
/// relaxation time of the M/M/1 queue (Cohen, The Single Server Queue, 1982, §II.2.1: E[S] / (1 -
/// √ρ)²) with the mean remaining time of an active flow in place of the service time; for M/M/1 the
/// two are equal. If the link starts empty, the mean number of active flows is then within 5 % of
/// its limit, for every distribution of sizes here up to a load of 80 %.
#[must_use]
pub fn relaxation_s(
    fraction: f64,
    counted: Counted,
    sizes: &Sizes,
    framing: &Framing,
    rate: f64,
) -> f64 {
    let wire = Counted::Wire.mean_bits(sizes, framing);
    let load = (fraction * wire / counted.mean_bits(sizes, framing)).min(0.99);
    let left = wire * sizes.mean_square() / (2.0 * sizes.mean().powi(2)) / rate;
    left / (1.0 - load.sqrt()).powi(2)
}

impl fmt::Display for LoadOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Host { .. } => "host",
            Self::Core { .. } => "core",
        })
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Payload => "payload",
            Self::Wire => "wire",
        })
    }
}

impl fmt::Display for Load {
    /// For example `0.6 of host links (wire bytes)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} links ({} bytes)",
            self.fraction, self.of, self.counted
        )
    }
}
