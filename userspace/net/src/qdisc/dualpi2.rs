// SPDX-License-Identifier: MIT OR Apache-2.0

//! `dualpi2` (RFC 9332), with the words of iproute2 6.18. An older `tc` does not know it.

use super::{Words, units, unknown};
use crate::attributes::Attributes;

const LIMIT: u16 = 1;
const MEMORY_LIMIT: u16 = 2;
const TARGET: u16 = 3;
const TUPDATE: u16 = 4;
const ALPHA: u16 = 5;
const BETA: u16 = 6;
const STEP_THRESH_PKTS: u16 = 7;
const STEP_THRESH_US: u16 = 8;
const MIN_QLEN_STEP: u16 = 9;
const COUPLING: u16 = 10;
const DROP_OVERLOAD: u16 = 11;
const DROP_EARLY: u16 = 12;
const C_PROTECTION: u16 = 13;
const ECN_MASK: u16 = 14;
const SPLIT_GSO: u16 = 15;

/// The gains are in Hz, counted in 2^-8.
const GAIN: f32 = 256.0;
const MOST_GAIN: f32 = 16_777_215.0;
/// The largest error of a gain that `tc qdisc show` prints, in 2^-8 Hz.
const SHOWN: f32 = 0.001;

/// The longest round-trip time in typical ones, if a line gives only one of the two.
const TYPICAL_TO_MAX: u32 = 6;

pub(super) fn options(words: &mut Words<'_>) -> Result<Option<Attributes>, String> {
    let mut options = Attributes::default();
    let (mut typical, mut max) = (0, 0);
    let (mut target, mut update, mut alpha, mut beta) = (0, 0, None, None);
    // As with `tc`, 0 is the same as no value.
    let put = |options: &mut Attributes, attribute, value| {
        if value != 0 {
            options.u32(attribute, value);
        }
    };
    while let Some(word) = words.option()? {
        match word {
            "limit" => put(&mut options, LIMIT, words.packets(word)?),
            "memlimit" => put(&mut options, MEMORY_LIMIT, words.bytes(word)?),
            "target" => target = words.microseconds(word)?,
            "tupdate" => update = words.microseconds(word)?,
            "alpha" => alpha = Some(gain(words, word)?),
            "beta" => beta = Some(gain(words, word)?),
            "typical_rtt" => typical = words.microseconds(word)?,
            "max_rtt" => max = words.microseconds(word)?,
            "step_thresh" => {
                let expected = "a time or a number of packets, for example 1ms or 5p";
                let (attribute, value) = words.value(word, expected, |text| {
                    let packets = |text: &str| units::number(text.strip_suffix('p')?);
                    let time = units::microseconds(text).map(|us| (STEP_THRESH_US, us));
                    time.or_else(|| Some((STEP_THRESH_PKTS, packets(text)?)))
                })?;
                put(&mut options, attribute, value);
            }
            "min_qlen_step" => options.u32(MIN_QLEN_STEP, words.packets(word)?),
            "coupling_factor" => {
                let factor = words.value(word, "a number up to 255", |text| {
                    u8::try_from(units::number(text)?).ok()
                })?;
                options.u8(COUPLING, factor);
            }
            "classic_protection" => {
                let percent = words.value(word, "a percentage, for example 10%", |text| {
                    let percent = units::number(text.strip_suffix('%').unwrap_or(text))?;
                    u8::try_from(percent).ok().filter(|&it| it <= 100)
                })?;
                options.u8(C_PROTECTION, percent);
            }
            "overflow" | "drop_on_overload" => {
                options.u8(DROP_OVERLOAD, (word == "drop_on_overload").into());
            }
            "drop_dequeue" | "drop_enqueue" => {
                options.u8(DROP_EARLY, (word == "drop_enqueue").into());
            }
            "l4s_ect" => options.u8(ECN_MASK, 1),
            "any_ect" => options.u8(ECN_MASK, 3),
            "split_gso" | "no_split_gso" => options.u8(SPLIT_GSO, (word == "split_gso").into()),
            word => {
                return unknown(
                    word,
                    "limit, memlimit, coupling_factor, step_thresh, min_qlen_step, drop_on_overload, \
                     overflow, drop_enqueue, drop_dequeue, classic_protection, max_rtt, typical_rtt, \
                     target, tupdate, alpha, beta, l4s_ect, any_ect, split_gso, no_split_gso",
                );
            }
        }
    }
    if (typical, max) != (0, 0) {
        let control = Control::of(typical, max)?;
        (target, update) = (control.target, control.update);
        (alpha, beta) = (Some(control.alpha), Some(control.beta));
    }
    put(&mut options, TUPDATE, update);
    put(&mut options, TARGET, target);
    for (attribute, gain) in [(ALPHA, alpha), (BETA, beta)] {
        if let Some(gain) = gain {
            options.u32(attribute, gain);
        }
    }
    Ok(Some(options))
}

fn gain(words: &mut Words<'_>, option: &str) -> Result<u32, String> {
    let expected = "a number of Hz from 0 to 16777215";
    let gain: f32 = words.value(option, expected, |text| {
        let gain = text.parse().ok();
        gain.filter(|gain| (0.0..=MOST_GAIN).contains(gain))
    })?;
    // `tc` cuts the fraction off. The six decimals of `tc qdisc show` can be just below a whole
    // number of 2^-8 Hz, which they stand for.
    let (exact, whole) = (gain * GAIN, (gain * GAIN).round());
    let is_whole = (exact - whole).abs() < SHOWN;
    Ok(if is_whole { whole } else { exact } as u32)
}

/// The PI controller for round-trip times in µs (RFC 9332, Appendix A.1).
struct Control {
    target: u32,
    update: u32,
    alpha: u32,
    beta: u32,
}

impl Control {
    fn of(typical: u32, max: u32) -> Result<Self, String> {
        let (typical, max) = match (typical, max) {
            (0, max) => ((max / TYPICAL_TO_MAX).max(1), max),
            (typical, 0) => (typical, typical.saturating_mul(TYPICAL_TO_MAX)),
            (typical, max) if typical > max => {
                return Err(format!(
                    "`typical_rtt` is {typical} µs, longer than `max_rtt`, {max} µs"
                ));
            }
            both => both,
        };
        let longest = f64::from(max);
        let update = f64::from(typical).min(longest / 3.0).max(1.0) as u32;
        // The factors are of single precision in `tc`.
        let alpha = f64::from(update) / longest / longest * 1e6 * f64::from(0.1_f32);
        let beta = f64::from(0.3_f32) / longest * 1e6;
        let gain = f64::from(GAIN);
        if beta > f64::from(MOST_GAIN) || alpha * gain < 1.0 || beta * gain < 1.0 {
            return Err(format!(
                "a `max_rtt` of {max} µs gives a gain that the kernel cannot represent"
            ));
        }
        Ok(Self {
            target: typical,
            update,
            alpha: (alpha * gain) as u32,
            beta: (beta * gain) as u32,
        })
    }
}
