// SPDX-License-Identifier: MIT OR Apache-2.0

//! `fq_codel` (RFC 8290).

use super::{Words, unknown};
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

pub(super) fn options(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    let mut options = Attributes::default();
    let mut ecn = None;
    while let Some(word) = words.option()? {
        match word {
            "limit" => options.u32(LIMIT, words.number(word)?),
            "flows" => options.u32(FLOWS, words.number(word)?),
            "quantum" => options.u32(QUANTUM, words.size(word)?),
            "target" => options.u32(TARGET, words.microseconds(word)?),
            "interval" => options.u32(INTERVAL, words.microseconds(word)?),
            "ce_threshold" => options.u32(CE_THRESHOLD, words.microseconds(word)?),
            "memory_limit" => options.u32(MEMORY_LIMIT, words.size(word)?),
            "drop_batch" => options.u32(DROP_BATCH_SIZE, words.number(word)?),
            "ecn" | "noecn" if ecn.is_some() => {
                return Err("`ecn` or `noecn`: say one".to_owned());
            }
            "ecn" | "noecn" => ecn = Some(word == "ecn"),
            word => {
                return unknown(
                    word,
                    "limit, flows, target, interval, quantum, ecn, noecn, ce_threshold, \
                     memory_limit, drop_batch",
                );
            }
        }
    }
    if let Some(ecn) = ecn {
        options.u32(ECN, ecn.into());
    }
    Ok(Some(options))
}
