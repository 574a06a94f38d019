// SPDX-License-Identifier: MIT OR Apache-2.0

//! `tbf`: a token bucket, as `tc` asks for it.

use super::{Words, unknown};
use crate::attributes::Attributes;

const PARMS: u16 = 1;
const RATE64: u16 = 4;
const PRATE64: u16 = 5;
const BURST: u16 = 6;
const PBURST: u16 = 7;
/// `TC_LINKLAYER_ETHERNET`.
const ETHERNET: u8 = 1;

pub(super) fn options(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    const OPTIONS: &str = "rate, burst, limit, latency, peakrate, mtu";
    let (mut rate, mut burst, mut limit, mut latency) = (None, None, None, None);
    let (mut peak, mut mtu) = (None, None);
    while let Some(word) = words.option()? {
        match word {
            "rate" => rate = Some(words.rate(word)?),
            "burst" | "buffer" | "maxburst" if burst.is_none() => burst = Some(words.size(word)?),
            "limit" => limit = Some(words.size(word)?),
            "latency" => latency = Some(words.microseconds(word)?),
            "peakrate" => peak = Some(words.rate(word)?),
            "mtu" | "minburst" if mtu.is_none() => mtu = Some(words.size(word)?),
            word => return unknown(word, OPTIONS),
        }
    }
    let rate = rate.ok_or("`rate` is missing")?;
    let burst = burst
        .filter(|&burst| burst != 0)
        .ok_or("`burst` is missing")?;
    let peak = match (peak, mtu.filter(|&mtu| mtu != 0)) {
        (None, _) => None,
        (Some(_), None) => return Err("`peakrate` needs `mtu`, for example 1514".to_owned()),
        (Some(peak), Some(mtu)) => Some((peak, mtu)),
    };
    let limit = match (limit, latency) {
        (Some(limit), None) => limit,
        (None, Some(latency)) => {
            // What the bucket lets through in that time, and the bucket, at either rate.
            let bytes =
                |rate: u64, bucket: u32| rate as f64 * f64::from(latency) / 1e6 + f64::from(bucket);
            let limit = bytes(rate, burst);
            peak.map_or(limit, |(peak, mtu)| limit.min(bytes(peak, mtu))) as u32
        }
        _ => return Err("say one of `limit` and `latency`".to_owned()),
    };
    let mut parms = Vec::with_capacity(36);
    rate_spec(&mut parms, Some(rate));
    rate_spec(&mut parms, peak.map(|(peak, _)| peak));
    parms.extend(limit.to_ne_bytes());
    parms.extend(ticks(rate, burst).to_ne_bytes());
    parms.extend(peak.map_or(0, |(peak, mtu)| ticks(peak, mtu)).to_ne_bytes());
    let mut options = Attributes::default();
    options.bytes(PARMS, &parms);
    options.u32(BURST, burst);
    if rate > u64::from(u32::MAX) {
        options.u64(RATE64, rate);
    }
    if let Some((peak, mtu)) = peak {
        if peak > u64::from(u32::MAX) {
            options.u64(PRATE64, peak);
        }
        options.u32(PBURST, mtu);
    }
    Ok(Some(options))
}

/// `struct tc_ratespec`.
fn rate_spec(out: &mut Vec<u8>, rate: Option<u64>) {
    let (layer, rate) = match rate {
        Some(rate) => (ETHERNET, u32::try_from(rate).unwrap_or(u32::MAX)),
        None => (0, 0),
    };
    // cell_log, linklayer, overhead, cell_align, mpu.
    out.extend([0, layer, 0, 0, 0, 0, 0, 0]);
    out.extend(rate.to_ne_bytes());
}

/// How long `bytes` take in the kernel's ticks of 64 ns (`PSCHED_SHIFT`); as `tc` has it, in whole
/// microseconds and for at most the 32 bits of the rate.
pub(super) fn ticks(rate: u64, bytes: u32) -> u32 {
    const PER_MICROSECOND: f64 = 1000.0 / 64.0;
    let rate = rate.min(u32::MAX.into()) as f64;
    let microseconds = (1e6 * f64::from(bytes) / rate).floor();
    (microseconds * PER_MICROSECOND) as u32
}
