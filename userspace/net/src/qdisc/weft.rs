// SPDX-License-Identifier: MIT OR Apache-2.0

//! weft's own: `wire` and `pfabric`, in the words of their `tc` plugins.

use weft_proto::nla::Refusal;
use weft_proto::{pfabric as proto_pfabric, wire as proto_wire};

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

/// In the words in which the kernel would refuse it.
fn sentence(refusal: Refusal) -> String {
    refusal.message.to_string_lossy().into_owned()
}
