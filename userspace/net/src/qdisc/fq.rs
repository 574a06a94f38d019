// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fq`: fair queueing with pacing.

use super::{Words, units, unknown};
use crate::attributes::Attributes;

const PLIMIT: u16 = 1;
const FLOW_PLIMIT: u16 = 2;
const QUANTUM: u16 = 3;
const INITIAL_QUANTUM: u16 = 4;
const RATE_ENABLE: u16 = 5;
const FLOW_DEFAULT_RATE: u16 = 6;
const FLOW_MAX_RATE: u16 = 7;
const BUCKETS_LOG: u16 = 8;
const FLOW_REFILL_DELAY: u16 = 9;
const ORPHAN_MASK: u16 = 10;
const LOW_RATE_THRESHOLD: u16 = 11;
const CE_THRESHOLD: u16 = 12;
const TIMER_SLACK: u16 = 13;
const HORIZON: u16 = 14;
const HORIZON_DROP: u16 = 15;
const PRIOMAP: u16 = 16;
const WEIGHTS: u16 = 17;
const OFFLOAD_HORIZON: u16 = 18;

/// `FQ_BANDS`; the kernel accepts no other number.
const BANDS: u32 = 3;
/// `TC_PRIO_MAX + 1`.
const PRIORITIES: usize = 16;

pub(super) fn options(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    let mut options = Attributes::default();
    let (mut pacing, mut drop) = (None, None);
    while let Some(word) = words.option()? {
        match word {
            "limit" => options.u32(PLIMIT, words.packets(word)?),
            "flow_limit" => options.u32(FLOW_PLIMIT, words.packets(word)?),
            "quantum" => options.u32(QUANTUM, words.bytes(word)?),
            "initial_quantum" => options.u32(INITIAL_QUANTUM, words.bytes(word)?),
            "maxrate" => options.u32(FLOW_MAX_RATE, small_rate(words, word)?),
            "defrate" => options.u32(FLOW_DEFAULT_RATE, small_rate(words, word)?),
            "low_rate_threshold" => options.u32(LOW_RATE_THRESHOLD, small_rate(words, word)?),
            "buckets" => {
                let buckets = words.value(word, "a power of 2", |text| {
                    units::number(text).filter(|buckets| buckets.is_power_of_two())
                })?;
                options.u32(BUCKETS_LOG, buckets.ilog2());
            }
            "refill_delay" => options.u32(FLOW_REFILL_DELAY, words.microseconds(word)?),
            "orphan_mask" => options.u32(ORPHAN_MASK, words.number(word)?),
            "ce_threshold" => options.u32(CE_THRESHOLD, words.microseconds(word)?),
            "timer_slack" => {
                let slack = words.value(word, "a time below 4 s, for example 10us", |text| {
                    units::nanoseconds(text)?.try_into().ok()
                })?;
                options.u32(TIMER_SLACK, slack);
            }
            "horizon" => options.u32(HORIZON, words.microseconds(word)?),
            "offload_horizon" => options.u32(OFFLOAD_HORIZON, words.microseconds(word)?),
            "bands" => options.bytes(PRIOMAP, &priority_map(words)?),
            "weights" => {
                let weights = words.list::<i32>(word, BANDS as usize)?;
                let bytes = weights.iter().flat_map(|weight| weight.to_ne_bytes());
                options.bytes(WEIGHTS, &bytes.collect::<Vec<u8>>());
            }
            "pacing" | "nopacing" if pacing.is_some() => {
                return Err("`pacing` or `nopacing`: say one".to_owned());
            }
            "pacing" | "nopacing" => pacing = Some(word == "pacing"),
            "horizon_cap" | "horizon_drop" if drop.is_some() => {
                return Err("`horizon_cap` or `horizon_drop`: say one".to_owned());
            }
            "horizon_cap" | "horizon_drop" => drop = Some(word == "horizon_drop"),
            word => {
                return unknown(
                    word,
                    "limit, flow_limit, quantum, initial_quantum, maxrate, low_rate_threshold, \
                     buckets, pacing, nopacing, refill_delay, orphan_mask, ce_threshold, \
                     timer_slack, horizon, horizon_cap, horizon_drop, offload_horizon, defrate, bands, \
                     weights",
                );
            }
        }
    }
    if let Some(pacing) = pacing {
        options.u32(RATE_ENABLE, pacing.into());
    }
    if let Some(drop) = drop {
        options.u8(HORIZON_DROP, drop.into());
    }
    Ok(Some(options))
}

/// `3 priomap P0 … P15`, as `struct tc_prio_qopt`.
fn priority_map(words: &mut Words<'_>) -> Result<Vec<u8>, String> {
    let expected = "3 priomap and 16 bands";
    words.value("bands", expected, |text| (text == "3").then_some(()))?;
    words.value("bands 3", expected, |text| {
        (text == "priomap").then_some(())
    })?;
    let map = words.list::<u8>("priomap", PRIORITIES)?;
    if let Some(band) = map.iter().find(|&&band| u32::from(band) >= BANDS) {
        return Err(format!("`priomap` names band {band}, bands are 0 to 2"));
    }
    Ok([&BANDS.to_ne_bytes()[..], &map].concat())
}

/// The largest rate in 32 bits of byte/s, which is 34 Gbit/s.
fn small_rate(words: &mut Words<'_>, option: &str) -> Result<u32, String> {
    words.value(
        option,
        "a rate below 34 Gbit/s, for example 10mbit",
        |text| units::rate(text)?.try_into().ok(),
    )
}
