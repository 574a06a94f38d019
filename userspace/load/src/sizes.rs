// SPDX-License-Identifier: MIT OR Apache-2.0

//! Flow sizes.
//!
//! A distribution is a list of points of its cumulative distribution function F, linear in between;
//! where two points have the same size, F jumps. A flow's size is F⁻¹(u) for u uniform on [0, 1),
//! rounded to the nearest byte and at least 1. A table in packets is converted to bytes, 1460 per
//! packet, before interpolation, so its flows need not be whole packets.

mod table;

use std::fmt;
use std::str::FromStr;

use chacha20::rand_core::Rng;
use weft_words::near::meant;

use crate::error::{Error, Result, invalid};
use crate::framing::Framing;
use crate::{quantity, random};

use table::Point;
pub use table::{PACKET_PAYLOAD, TABLES, Table};

/// A distribution of flow sizes in bytes, 1 to 2^40.
///
/// Read from text (`web-search`, `fixed:20kB`, `uniform:100kB-500kB`) or from a file with
/// [`Sizes::from_cdf`]; displays as the text that it was read from.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes {
    name: String,
    /// At least one. Sizes never decrease; probabilities increase wherever sizes do not. Only the
    /// last probability is 1.
    points: Vec<Point>,
}

impl Sizes {
    /// A custom table, in the format of this crate's own tables (see [`Table::text`]): a line `unit
    /// bytes` (the default) or `unit packets` (of [`PACKET_PAYLOAD`] bytes), then a line `SIZE
    /// PROBABILITY` for each point; `#` begins a comment. `name` is the table's name in errors and
    /// results.
    ///
    /// # Errors
    ///
    /// With the line's number: sizes that decrease or are above 2^40 B, probabilities that decrease
    /// or are outside [0, 1], a redundant point, points after probability 1, an end before it.
    pub fn from_cdf(name: &str, text: &str) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            points: table::parse(name, text)?,
        })
    }

    /// Every flow has `size` bytes.
    ///
    /// # Errors
    ///
    /// If `size` is 0 or above 2^40.
    pub fn fixed(size: u64) -> Result<Self> {
        check(size)?;
        let size_f = size as f64;
        Ok(Self {
            name: format!("fixed:{size}"),
            points: vec![Point {
                size: size_f,
                probability: 1.0,
            }],
        })
    }

    /// Uniform over the whole numbers of bytes from `min` to `max`, both included.
    ///
    /// # Errors
    ///
    /// If `min` is above `max`, or one is 0 or above 2^40.
    pub fn uniform(min: u64, max: u64) -> Result<Self> {
        check(min)?;
        check(max)?;
        if min > max {
            return invalid(format!(
                "uniform:{min}-{max}: the first size is the smaller one"
            ));
        }
        // Rounding to the nearest number then gives each one an equal share.
        let point = |size, probability| Point { size, probability };
        Ok(Self {
            name: format!("uniform:{min}-{max}"),
            points: vec![point(min as f64 - 0.5, 0.0), point(max as f64 + 0.5, 1.0)],
        })
    }

    /// The text that it was read from.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A flow's size in bytes. One draw.
    pub fn sample(&self, rng: &mut impl Rng) -> u64 {
        let size = self.quantile(random::unit(rng)).round();
        // Where F ends half a byte above the last whole size, u close to 1 may round up to it.
        let largest = (self.max() - 0.5).ceil();
        (size.min(largest) as u64).max(1)
    }

    /// F⁻¹(`p`) in bytes, not rounded: the smallest size such that at least a share `p` of flows is
    /// not larger. A `p` outside [0, 1] counts as the nearer bound.
    #[must_use]
    pub fn quantile(&self, p: f64) -> f64 {
        // Right-continuous, so that u = 0 gives the smallest size that occurs.
        let next = self.points.partition_point(|point| point.probability <= p);
        let next = match self.points.get(next) {
            Some(_) => next,
            None => self.points.len() - 1,
        };
        let above = self.points[next];
        let Some(below) = next.checked_sub(1).map(|index| self.points[index]) else {
            return above.size;
        };
        let share =
            (p.clamp(0.0, 1.0) - below.probability) / (above.probability - below.probability);
        (below.size + share * (above.size - below.size)).min(above.size)
    }

    /// F(`bytes`): the probability of a size of at most `bytes`, before rounding. So the
    /// probability that a flow has at most k bytes is F(k + ½).
    #[must_use]
    pub fn cdf(&self, bytes: f64) -> f64 {
        let next = self.points.partition_point(|point| point.size <= bytes);
        let Some(below) = next.checked_sub(1).map(|index| self.points[index]) else {
            return 0.0;
        };
        let Some(above) = self.points.get(next) else {
            return 1.0;
        };
        let share = (bytes - below.size) / (above.size - below.size);
        below.probability + share * (above.probability - below.probability)
    }

    /// The exact mean of F in bytes. Rounding to the nearest byte does not change it where points
    /// are whole numbers. The minimum of 1 byte adds less than 0.001 B to any table here.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.expectation(|below, above| (below + above) / 2.0, |size| size)
    }

    /// The exact mean of the squares of F, in bytes².
    #[must_use]
    pub fn mean_square(&self) -> f64 {
        let interval = |a: f64, b: f64| (a * a + a * b + b * b) / 3.0;
        self.expectation(interval, |size| size * size)
    }

    /// The exact mean number of packets per flow, for packets of `mss` bytes of payload.
    #[must_use]
    pub fn mean_packets(&self, framing: &Framing) -> f64 {
        let mss = f64::from(framing.mss.get());
        // A size F⁻¹ = x is sent as round(x) bytes, so in ⌈(x - ½)/mss⌉ packets, at least 1.
        // `integral` is the integral of that from 0 to x - ½.
        let integral = |x: f64| {
            let full = (x / mss).floor().max(0.0);
            mss * full * (full + 1.0) / 2.0 + (x - full * mss) * (full + 1.0)
        };
        self.expectation(
            |below, above| (integral(above - 0.5) - integral(below - 0.5)) / (above - below),
            |size| (size.round().max(1.0) / mss).ceil(),
        )
    }

    /// The largest size in bytes.
    #[must_use]
    pub fn max(&self) -> f64 {
        // `points` is never empty.
        self.points.last().map_or(0.0, |point| point.size)
    }

    /// The points of F: bytes and probability, for plots.
    pub fn points(&self) -> impl ExactSizeIterator<Item = (f64, f64)> {
        self.points
            .iter()
            .map(|point| (point.size, point.probability))
    }

    /// The expectation of a function of the size, given its mean over an interval and its value at
    /// a point.
    fn expectation(&self, interval: impl Fn(f64, f64) -> f64, point: impl Fn(f64) -> f64) -> f64 {
        let first = self.points[0];
        let mut sum = first.probability * point(first.size);
        for pair in self.points.windows(2) {
            let [below, above] = [pair[0], pair[1]];
            let mean = if above.size > below.size {
                interval(below.size, above.size)
            } else {
                point(above.size)
            };
            sum += (above.probability - below.probability) * mean;
        }
        sum
    }
}

fn check(size: u64) -> Result<()> {
    if (1..=table::MAX_SIZE).contains(&size) {
        return Ok(());
    }
    invalid(format!("a flow of {size} bytes: expected 1 byte to 1 TiB"))
}

impl FromStr for Sizes {
    type Err = Error;

    /// The name of one of [`TABLES`], `fixed:SIZE` or `uniform:MIN-MAX`; [`quantity::bytes`] parses
    /// the sizes.
    fn from_str(text: &str) -> Result<Self> {
        if let Some(size) = text.strip_prefix("fixed:") {
            return Self::fixed(quantity::bytes(size)?);
        }
        if let Some(range) = text.strip_prefix("uniform:") {
            let Some((min, max)) = range.split_once('-') else {
                return invalid(format!(
                    "`{text}`: expected two sizes, for example uniform:100kB-500kB"
                ));
            };
            return Self::uniform(quantity::bytes(min)?, quantity::bytes(max)?);
        }
        match TABLES.iter().find(|table| table.name == text) {
            Some(table) => Self::from_cdf(table.name, table.text),
            None => {
                let names: Vec<_> = TABLES.iter().map(|table| table.name).collect();
                invalid(format!(
                    "there is no workload `{text}`{}: expected {}, fixed:SIZE, uniform:MIN-MAX or \
                     a file",
                    meant(text, &names),
                    names.join(", ")
                ))
            }
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
