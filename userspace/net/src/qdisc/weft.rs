// SPDX-License-Identifier: MIT OR Apache-2.0

//! weft's own: `wire`, `pfabric` and `bfc`, in the words of their `tc` plugins.

use weft_core::bfc::options as proto_bfc;
use weft_core::common::nla::Refusal;
use weft_core::pfabric::options as proto_pfabric;
use weft_core::wire::options as proto_wire;

use super::{Words, units, unknown};
use crate::attributes::Attributes;

/// `wire rate RATE [ delay TIME ] [ overhead BYTES ] [ mpu BYTES ] [ slack TIME ]`.
pub(super) fn wire(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    let mut options = proto_wire::Options::default();
    while let Some(word) = words.option()? {
        match word {
            "rate" => options.rate = Some(words.rate(word)?),
            "delay" => {
                let expected = "a time, for example 200us";
                options.delay = Some(words.value(word, expected, units::nanoseconds)?);
            }
            "overhead" => options.overhead = Some(words.size(word)?),
            "mpu" => options.mpu = Some(words.size(word)?),
            "slack" => {
                let expected = "a time, for example 60us";
                let time = words.value(word, expected, units::nanoseconds)?;
                // Out of range in the same words, not cut off.
                options.slack = Some(u32::try_from(time).unwrap_or(u32::MAX));
            }
            word => return unknown(word, "rate, delay, overhead, mpu, slack"),
        }
    }
    proto_wire::Config::new(&options).map_err(sentence)?;
    let mut attributes = Attributes::default();
    options.put(&mut attributes).map_err(|_| "too long")?;
    Ok(Some(attributes))
}

/// `pfabric [ limit PACKETS ] [ limit_bytes BYTES ] [ starvation | nostarvation ]`.
pub(super) fn pfabric(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    let mut options = proto_pfabric::Options::default();
    while let Some(word) = words.option()? {
        match word {
            "limit" => options.limit = Some(words.number(word)?),
            "limit_bytes" => options.limit_bytes = Some(words.size(word)?),
            "starvation" | "nostarvation" => {
                if options.starvation_prevention.is_some() {
                    return Err("`starvation` or `nostarvation`: say one".to_owned());
                }
                options.starvation_prevention = Some(word == "starvation");
            }
            word => return unknown(word, "limit, limit_bytes, starvation, nostarvation"),
        }
    }
    proto_pfabric::Config::new(&options).map_err(sentence)?;
    let mut attributes = Attributes::default();
    options.put(&mut attributes).map_err(|_| "too long")?;
    Ok(Some(attributes))
}

/// `bfc rate RATE hrtt TIME …`, see tc-bfc(8).
pub(super) fn bfc(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    const TIME: &str = "a time, for example 20us";
    let mut options = proto_bfc::Options::default();
    while let Some(word) = words.option()? {
        match word {
            "rate" => options.rate = Some(words.rate(word)?),
            "hrtt" => options.hrtt = Some(words.value(word, TIME, units::nanoseconds)?),
            "th" => options.th = Some(words.size(word)?),
            "queues" => options.queues = Some(words.number(word)?),
            "factor" => options.factor = Some(words.number(word)?),
            "assign" => {
                let expected = "dynamic, stochastic or single";
                options.assign = Some(words.value(word, expected, |text| match text {
                    "dynamic" => Some(proto_bfc::Assign::Dynamic),
                    "stochastic" => Some(proto_bfc::Assign::Stochastic),
                    "single" => Some(proto_bfc::Assign::Single),
                    _ => None,
                })?);
            }
            "scheduler" => {
                options.scheduler = Some(words.value(word, "fq or srf", |text| match text {
                    "fq" => Some(proto_bfc::Scheduler::Fq),
                    "srf" => Some(proto_bfc::Scheduler::Srf),
                    _ => None,
                })?);
            }
            // Out of range in the same words, not cut off.
            "classes" => {
                let number = words.number(word)?;
                options.classes = Some(number.try_into().unwrap_or(u8::MAX));
            }
            "incast" => options.incast = Some(words.number(word)?),
            "sample" => {
                let percent = |text: &str| units::number(text.strip_suffix('%').unwrap_or(text));
                let number = words.value(word, "a percentage", percent)?;
                options.sample = Some(number.try_into().unwrap_or(u8::MAX));
            }
            "sticky" => {
                let expected = "a time, for example 20us, or auto";
                options.sticky = Some(words.value(word, expected, |text| match text {
                    "auto" => Some(proto_bfc::STICKY_AUTO),
                    text => units::nanoseconds(text),
                })?);
            }
            "limit" => options.limit = Some(words.size(word)?),
            "buffer" => options.buffer = Some(words.size(word)?),
            "refresh" => options.refresh = Some(words.value(word, TIME, units::nanoseconds)?),
            "quantum" => options.quantum = Some(words.size(word)?),
            "elide" => words.port(word, proto_bfc::attr::ELIDE)?,
            "noelide" => {}
            word => {
                return unknown(
                    word,
                    "rate, hrtt, th, queues, factor, assign, scheduler, classes, incast, sample, \
                     sticky, limit, buffer, refresh, quantum, elide, noelide",
                );
            }
        }
    }
    if let Some((_, ports)) = &words.ports {
        if words.seen.contains(&"noelide") {
            return Err("`elide` or `noelide`: say one".to_owned());
        }
        if ports.len() > proto_bfc::MAX_ELIDED {
            return Err("At most 64 devices can be elided".to_owned());
        }
    }
    proto_bfc::Config::new(&options).map_err(sentence)?;
    let mut attributes = Attributes::default();
    options.put(&mut attributes).map_err(|_| "too long")?;
    Ok(Some(attributes))
}

/// In the words in which the kernel would refuse it.
fn sentence(refusal: Refusal) -> String {
    refusal.message.to_string_lossy().into_owned()
}
