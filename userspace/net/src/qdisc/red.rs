// SPDX-License-Identifier: MIT OR Apache-2.0

//! `red`: random early detection (S. Floyd, V. Jacobson, "Random early detection gateways for
//! congestion avoidance", IEEE/ACM Transactions on Networking 1(4), 1993).
//!
//! The kernel takes three logarithms and a table, which `tc` computes from the thresholds, the
//! burst and the bandwidth. This module computes them in the same way (iproute2's `tc_red.c`),
//! except where `tc` 6.1 overflows: a probability of 1 does not become 0, and a table for a slow
//! link with a long average does not drop to 31 or 0 halfway.

use super::{Words, tbf, units, unknown};
use crate::attributes::Attributes;

const PARMS: u16 = 1;
const STAB: u16 = 2;
const MAX_P: u16 = 3;
const FLAGS: u16 = 4;

const ECN: u32 = 1;
const HARDDROP: u32 = 2;
const ADAPTIVE: u32 = 4;
const NODROP: u32 = 8;

/// In byte/s, if a line gives no bandwidth.
const DEFAULT_BANDWIDTH: u64 = 1_250_000;
const DEFAULT_PROBABILITY: f64 = 0.02;

pub(super) fn options(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    let (mut limit, mut min, mut max, mut packet, mut burst) = (None, None, None, None, None);
    let (mut bandwidth, mut probability) = (DEFAULT_BANDWIDTH, DEFAULT_PROBABILITY);
    let mut flags = 0;
    while let Some(word) = words.option()? {
        match word {
            "limit" => limit = Some(words.size(word)?),
            "min" => min = Some(words.size(word)?),
            "max" => max = Some(words.size(word)?),
            "avpkt" => packet = Some(words.size(word)?),
            "burst" => burst = Some(words.number(word)?),
            "bandwidth" => bandwidth = words.rate(word)?,
            "probability" => {
                let expected = "a probability from 0 to 1";
                probability = words.value(word, expected, units::probability)?;
            }
            "ecn" => flags |= ECN,
            "harddrop" => flags |= HARDDROP,
            "adaptive" => flags |= ADAPTIVE,
            "nodrop" => flags |= NODROP,
            word => {
                return unknown(
                    word,
                    "limit, min, max, avpkt, burst, bandwidth, probability, ecn, harddrop, \
                     adaptive, nodrop",
                );
            }
        }
    }
    let given = |value: Option<u32>| value.filter(|&value| value != 0);
    let limit = given(limit).ok_or("`limit` is missing")?;
    let packet = given(packet).ok_or("`avpkt` is missing, which `tc qdisc show` does not print")?;
    // The defaults are Sally Floyd's, as in `tc`.
    let max = given(max).unwrap_or_else(|| match given(min) {
        Some(min) => min.saturating_mul(3),
        None => limit / 4,
    });
    let min = given(min).unwrap_or(max / 3);
    let default_burst = || {
        let bytes = 2 * u64::from(min) + u64::from(max);
        (bytes / (3 * u64::from(packet))) as u32
    };
    let burst = given(burst).unwrap_or_else(default_burst);
    if min > max {
        return Err(format!(
            "`min` is {min} bytes and `max` {max}, which is less"
        ));
    }
    let average = log_of_weight(min, burst, packet).ok_or_else(|| {
        format!(
            "a `burst` of {burst} packets does not go with `min` and `avpkt`; try {}",
            1 + min / packet
        )
    })?;
    let slope = log_of_slope(min, max, probability)
        .ok_or("`probability` is too small for the distance of `min` and `max`")?;
    let (cell, damping) =
        idle_damping(average, packet, bandwidth).ok_or("`bandwidth` is too low for `avpkt`")?;

    let mut parms = Vec::with_capacity(16);
    for bytes in [limit, min, max] {
        parms.extend(bytes.to_ne_bytes());
    }
    parms.extend([average, slope, cell, 0]);
    let mut options = Attributes::default();
    options.bytes(PARMS, &parms);
    options.bytes(STAB, &damping);
    options.u32(MAX_P, (probability * 4_294_967_296.0) as u32);
    // `struct nla_bitfield32`: the bits, and the mask of valid ones.
    let meant = ECN | HARDDROP | ADAPTIVE | NODROP;
    options.bytes(FLAGS, &[flags.to_ne_bytes(), meant.to_ne_bytes()].concat());
    Ok(Some(options))
}

/// `Wlog`, where 2^-Wlog is the weight of a packet in the average: the largest weight with which a
/// burst from an empty queue stays below `min`, by Floyd and Jacobson's inequality
/// `burst + 1 - min/packet < (1 - (1 - W)^burst) / W`.
fn log_of_weight(min: u32, burst: u32, packet: u32) -> Option<u8> {
    let excess = f64::from(burst) + 1.0 - f64::from(min) / f64::from(packet);
    if excess < 1.0 {
        return None;
    }
    (1..32_u8).zip(halves()).find_map(|(log, weight)| {
        (excess <= (1.0 - (1.0 - weight).powf(f64::from(burst))) / weight).then_some(log)
    })
}

fn halves() -> impl Iterator<Item = f64> {
    std::iter::successors(Some(0.5), |weight| Some(weight / 2.0))
}

/// `Plog`, where 2^-Plog is `probability / (max - min)`, rounded.
fn log_of_slope(min: u32, max: u32, probability: f64) -> Option<u8> {
    if min == max {
        return Some(0);
    }
    let mut slope = probability / f64::from(max - min);
    (0..32).find(|_| {
        let steep = slope > 1.0;
        slope *= 2.0;
        steep
    })
}

/// `Scell_log`, and the table of the average's decay while the queue is idle: in steps of
/// 2^Scell_log ticks, in powers of two.
fn idle_damping(average: u8, packet: u32, bandwidth: u64) -> Option<(u8, [u8; 256])> {
    /// Beyond this an average of 32 bits has decayed to nothing.
    const MOST: f64 = 31.0;
    // A packet of less than a microsecond counts as one.
    let packet_ticks = f64::from(tbf::ticks(bandwidth, packet).max(15));
    let weight = 1.0 / f64::from(1_u32 << average);
    let decay = -(1.0 - weight).ln() / packet_ticks;
    let cell = (0..32_u8).find(|&cell| MOST / decay / f64::from(1_u32 << cell) < 512.0)?;
    let mut table = [31; 256];
    for (step, entry) in table.iter_mut().enumerate().take(255) {
        let ticks = (step as f64) * f64::from(1_u32 << cell);
        *entry = (ticks * decay).min(MOST) as u8;
    }
    Some((cell, table))
}
