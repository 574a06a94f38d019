// SPDX-License-Identifier: MIT OR Apache-2.0

//! `tbf`: a token bucket, with the requests of `tc`.

use super::{Words, units, unknown};
use crate::attributes::Attributes;

const PARMS: u16 = 1;
const RATE64: u16 = 4;
const PRATE64: u16 = 5;
const BURST: u16 = 6;
const PBURST: u16 = 7;
/// `TC_LINKLAYER_ETHERNET`.
const ETHERNET: u8 = 1;

/// `TC_LINKLAYER_ATM`.
const ATM: u8 = 2;
/// Options that `tc` accepts abbreviated, in the order in which it searches them.
const ABBREVIATED: [&str; 6] = [
    "limit",
    "latency",
    "burst",
    "peakrate",
    "overhead",
    "linklayer",
];

/// A link's overhead in addition to a packet.
struct Layer {
    kind: u8,
    overhead: u16,
    mpu: u16,
}

pub(super) fn options(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    const OPTIONS: &str = "rate, burst, limit, latency, peakrate, mtu, overhead, linklayer, mpu";
    let (mut rate, mut burst, mut limit, mut latency) = (None, None, None, None);
    let (mut peak, mut mtu) = (None, None);
    let mut layer = Layer {
        kind: ETHERNET,
        overhead: 0,
        mpu: 0,
    };
    while let Some(word) = words.option()? {
        let whole = ABBREVIATED.iter().find(|whole| whole.starts_with(word));
        match *whole.unwrap_or(&word) {
            "rate" => rate = Some(words.rate(word)?),
            "burst" | "buffer" | "maxburst" if burst.is_none() => {
                burst = Some(size_and_cell(words, word)?);
            }
            "limit" if limit.is_none() => limit = Some(words.size(word)?),
            "latency" if latency.is_none() => latency = Some(words.microseconds(word)?),
            "peakrate" if peak.is_none() => peak = Some(words.rate(word)?),
            "mtu" | "minburst" if mtu.is_none() => mtu = Some(size_and_cell(words, word)?),
            "overhead" => {
                layer.overhead =
                    words.value(word, "bytes, at most 65535", |text| text.parse().ok())?;
            }
            "linklayer" => {
                layer.kind = words.value(word, "ethernet, atm or adsl", |text| match text {
                    "ethernet" => Some(ETHERNET),
                    "atm" | "adsl" => Some(ATM),
                    _ => None,
                })?;
            }
            "mpu" => {
                layer.mpu = words.value(word, "a size of at most 65535 bytes", |text| {
                    units::size(text)?.try_into().ok()
                })?;
            }
            _ => return unknown(word, OPTIONS),
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
            // The bytes that pass in that time, plus the bucket, at either rate.
            let bytes =
                |rate: u64, bucket: u32| rate as f64 * f64::from(latency) / 1e6 + f64::from(bucket);
            let limit = bytes(rate, burst);
            peak.map_or(limit, |(peak, mtu)| limit.min(bytes(peak, mtu))) as u32
        }
        _ => return Err("say one of `limit` and `latency`".to_owned()),
    };
    let mut parms = Vec::with_capacity(36);
    rate_spec(&mut parms, Some((rate, &layer)));
    rate_spec(&mut parms, peak.map(|(peak, _)| (peak, &layer)));
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

/// A size, followed after a `/` by the cell size of `tc`'s former tables, which kernels no longer
/// use.
fn size_and_cell(words: &mut Words<'_>, option: &str) -> Result<u32, String> {
    words.value(option, super::SIZE, |text| {
        let (size, cell) = text.split_once('/').unwrap_or((text, "1"));
        let cell: u32 = cell.parse().ok()?;
        cell.is_power_of_two().then(|| units::size(size))?
    })
}

/// `struct tc_ratespec`.
fn rate_spec(out: &mut Vec<u8>, rate: Option<(u64, &Layer)>) {
    let none = Layer {
        kind: 0,
        overhead: 0,
        mpu: 0,
    };
    let (rate, layer) = rate.unwrap_or((0, &none));
    // The first is cell_log.
    out.extend([0, layer.kind]);
    out.extend(layer.overhead.to_ne_bytes());
    // cell_align.
    out.extend([0, 0]);
    out.extend(layer.mpu.to_ne_bytes());
    out.extend(u32::try_from(rate).unwrap_or(u32::MAX).to_ne_bytes());
}

/// The time of `bytes` in the kernel's ticks of 64 ns (`PSCHED_SHIFT`), computed as in `tc`: in
/// whole microseconds and for at most the 32 bits of the rate.
pub(super) fn ticks(rate: u64, bytes: u32) -> u32 {
    const PER_MICROSECOND: f64 = 1000.0 / 64.0;
    let rate = rate.min(u32::MAX.into()) as f64;
    let microseconds = (1e6 * f64::from(bytes) / rate).floor();
    (microseconds * PER_MICROSECOND) as u32
}
