// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fq_codel` (RFC 8290).

use super::{Words, units, unknown};
use crate::attributes::Attributes;

const TARGET: u16 = 1;
const LIMIT: u16 = 2;
const INTERVAL: u16 = 3;
const ECN: u16 = 4;
const FLOWS: u16 = 5;
const QUANTUM: u16 = 6;
const CE_THRESHOLD: u16 = 7;
const DROP_BATCH_SIZE: u16 = 8;
const MEMORY_LIMIT: u16 = 9;
const CE_THRESHOLD_SELECTOR: u16 = 10;
const CE_THRESHOLD_MASK: u16 = 11;

pub(super) fn options(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    let mut options = Attributes::default();
    let mut ecn = None;
    // As with `tc`, 0 is the same as no value.
    let put = |options: &mut Attributes, attribute, value| {
        if value != 0 {
            options.u32(attribute, value);
        }
    };
    while let Some(word) = words.option()? {
        match word {
            "limit" => put(&mut options, LIMIT, words.packets(word)?),
            "flows" => put(&mut options, FLOWS, words.number(word)?),
            "quantum" => put(&mut options, QUANTUM, words.bytes(word)?),
            "target" => put(&mut options, TARGET, words.microseconds(word)?),
            "interval" => put(&mut options, INTERVAL, words.microseconds(word)?),
            "ce_threshold" => options.u32(CE_THRESHOLD, words.microseconds(word)?),
            "memory_limit" => options.u32(MEMORY_LIMIT, words.size(word)?),
            "drop_batch" => put(&mut options, DROP_BATCH_SIZE, words.number(word)?),
            "ce_threshold_selector" => {
                let expected = "a value and a mask, for example 0x1/0x3";
                let part = |text: &str| u8::try_from(units::number(text)?).ok();
                let (selector, mask) = words.value(word, expected, |text| {
                    let (selector, mask) = text.split_once('/')?;
                    Some((part(selector)?, part(mask)?))
                })?;
                options.u8(CE_THRESHOLD_SELECTOR, selector);
                options.u8(CE_THRESHOLD_MASK, mask);
            }
            "ecn" | "noecn" if ecn.is_some() => {
                return Err("`ecn` or `noecn`: say one".to_owned());
            }
            "ecn" | "noecn" => ecn = Some(word == "ecn"),
            word => {
                return unknown(
                    word,
                    "limit, flows, target, interval, quantum, ecn, noecn, ce_threshold, \
                     ce_threshold_selector, memory_limit, drop_batch",
                );
            }
        }
    }
    if let Some(ecn) = ecn {
        options.u32(ECN, ecn.into());
    }
    Ok(Some(options))
}
