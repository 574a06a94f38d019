// SPDX-License-Identifier: MIT OR Apache-2.0

//! Tables of flow sizes: the published ones, and a parser for files of points.

use weft_ebpf_common::sockopt::MAX_FLOW_SIZE;

use crate::error::{Error, Result};
use crate::lines::{Line, empty, lines};

/// A point of a distribution function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    /// Bytes.
    pub(super) size: f64,
    /// Probability of a size of at most this.
    pub(super) probability: f64,
}

/// Payload in bytes per packet, for tables that count packets: Ethernet's 1500 less 40 of TCP/IP.
pub const PACKET_PAYLOAD: u32 = 1460;

/// Largest size in bytes: the largest that can be declared on a socket.
pub(super) const MAX_SIZE: u64 = MAX_FLOW_SIZE;

/// A published distribution.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// Its name, for example `web-search`.
    pub name: &'static str,
    /// The file, with its source, unit and points.
    pub text: &'static str,
}

impl Table {
    /// The lines of its head: what was measured, and where that was published.
    pub fn about(&self) -> impl Iterator<Item = &'static str> {
        self.text
            .lines()
            .skip(1)
            .map_while(|line| line.strip_prefix("# "))
    }
}

macro_rules! tables {
    ($($name:literal)*) => {
        /// The published distributions.
        pub const TABLES: &[Table] = &[$(Table {
            name: $name,
            text: include_str!(concat!("../../workloads/", $name, ".cdf")),
        }),*];
    };
}

tables! {
    "web-search"
    "web-search-pfabric"
    "data-mining"
    "data-mining-pfabric"
    "facebook-hadoop"
    "google-all-rpc"
    "ali-storage-2019"
    "uniform-short"
}

pub(super) fn parse(name: &str, text: &str) -> Result<Vec<Point>> {
    let mut unit = None;
    let mut points: Vec<Point> = Vec::new();
    for line in lines(name, text) {
        if line.words[0] == "unit" {
            if unit.is_some() || !points.is_empty() {
                return Err(line.error("the unit is said once, before the points"));
            }
            unit = Some(match line.exactly("`unit bytes` or `unit packets`")? {
                [_, "bytes"] => 1.0,
                [_, "packets"] => f64::from(PACKET_PAYLOAD),
                [_, other] => {
                    return Err(line.error(format!(
                        "unknown unit `{other}`: expected bytes or packets (of {PACKET_PAYLOAD} \
                         bytes of payload)"
                    )));
                }
            });
            continue;
        }
        let point = point(&line, unit.unwrap_or(1.0))?;
        if let Some(last) = points.last() {
            follows(&line, last, &point)?;
        }
        points.push(point);
    }
    match points.last() {
        None => Err(empty(name, "points: expected lines `SIZE PROBABILITY`")),
        Some(last) if last.probability < 1.0 => Err(Error::File {
            file: name.to_owned(),
            message: format!("ends at probability {}, not at 1", last.probability),
        }),
        Some(_) => Ok(points),
    }
}

fn point(line: &Line<'_>, unit: f64) -> Result<Point> {
    let [size, probability] = line.exactly("`SIZE PROBABILITY`")?;
    let number = |word: &str, what| match word.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(line.error(format!("{what} `{word}` is not a number"))),
    };
    let bytes = number(size, "size")? * unit;
    if !(0.0..=MAX_SIZE as f64).contains(&bytes) {
        return Err(line.error(format!("size `{size}` is not between 0 and 1 TiB")));
    }
    let probability = number(probability, "probability")?;
    if !(0.0..=1.0).contains(&probability) {
        return Err(line.error(format!(
            "probability {probability} is not between 0 and 1 (divide per cent by 100)"
        )));
    }
    Ok(Point {
        size: bytes,
        probability,
    })
}

fn follows(line: &Line<'_>, last: &Point, next: &Point) -> Result<()> {
    let message = if last.probability >= 1.0 {
        "there is a point after probability 1, which must be the last"
    } else if next.size < last.size {
        "the size is smaller than the line before's"
    } else if next.probability < last.probability {
        "the probability is smaller than the line before's"
    } else if next == last {
        "the point is the line before's again"
    } else {
        return Ok(());
    };
    Err(line.error(message))
}
