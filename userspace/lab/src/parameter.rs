// SPDX-License-Identifier: MIT OR Apache-2.0

//! A scheme's parameters: values that a person may set, and their values on a fabric.

use std::fmt;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use weft_topo::{Rate, Topology};
use weft_words::quantity;

use crate::error::usage;
use crate::topology::{self, PathMaxima};

/// The figures from which the fabric's variables follow.
#[derive(Clone, Copy, Debug)]
pub struct FabricFigures {
    /// `$bdp`.
    pub bdp_packets: u64,
    /// `$rtt`, in the machine's ns.
    pub rtt_ns: u64,
    /// `$one_way`, in the machine's ns.
    pub one_way_ns: u64,
    /// `$frame`, in the machine's ns.
    pub frame_ns: u64,
    /// `$switch_hop`, in the machine's ns.
    pub switch_hop_ns: u64,
    /// `$slack`, in the machine's ns.
    pub slack_ns: u64,
    /// `$host_rate`, in the machine's time: the rate of a host's link in bit/s.
    pub host_bits: u64,
    /// The dilation: times of the machine are this many times those of the fabric.
    pub dilation: u32,
}

impl FabricFigures {
    /// The figures of a fabric that has been slowed already, `dilation` times; `maxima` are those
    /// of its paths.
    pub fn of(slowed: &Topology, maxima: PathMaxima, slack_ns: u64, dilation: u32) -> Self {
        Self {
            bdp_packets: maxima.bdp_packets,
            rtt_ns: maxima.base_rtt_ns,
            one_way_ns: maxima.one_way_ns,
            frame_ns: topology::frame_ns(slowed),
            switch_hop_ns: topology::switch_hop_ns(slowed),
            slack_ns,
            host_bits: topology::host_bits(slowed),
            dilation,
        }
    }

    /// Those of pFabric's fabric (its Table 1): links of 10 Gbit/s, four from host to host.
    pub const fn pfabric(dilation: u32) -> Self {
        let slower = dilation as u64;
        Self {
            bdp_packets: 12,
            rtt_ns: 14_600 * slower,
            one_way_ns: 9_600 * slower,
            frame_ns: 1_230 * slower,
            switch_hop_ns: 2_400 * slower,
            slack_ns: 0,
            host_bits: 10_000_000_000 / slower,
            dilation,
        }
    }

    /// One of the times, in the machine's ns.
    pub(crate) fn time(&self, time: FabricTime) -> u64 {
        match time {
            FabricTime::Rtt => self.rtt_ns,
            FabricTime::OneWay => self.one_way_ns,
            FabricTime::Frame => self.frame_ns,
            FabricTime::SwitchHop => self.switch_hop_ns,
        }
    }
}

/// A time that follows from the fabric and has a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FabricTime {
    /// See [`PathMaxima::base_rtt_ns`].
    Rtt,
    /// See [`PathMaxima::one_way_ns`].
    OneWay,
    /// See [`topology::frame_ns`].
    Frame,
    /// See [`topology::switch_hop_ns`].
    SwitchHop,
}

impl FabricTime {
    pub(crate) const ALL: [Self; 4] = [Self::Rtt, Self::OneWay, Self::Frame, Self::SwitchHop];

    /// The variable's name, without the `$`.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rtt => "rtt",
            Self::OneWay => "one_way",
            Self::Frame => "frame",
            Self::SwitchHop => "switch_hop",
        }
    }
}

/// A value that a person may set.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Parameter {
    /// The default.
    pub value: Value,
    /// For a word: the possible ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
    /// A few words.
    #[serde(default)]
    pub about: String,
}

/// A number, a time, a fabric variable or a word.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(u64),
    /// Anything else, as it is written.
    Text(String),
}

/// The ns of a text like `45us`.
pub(crate) fn time(text: &str) -> Option<u64> {
    quantity::read(text, quantity::TIMES).ok()
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// A time in the largest unit in which it is whole.
pub fn show_time(ns: u64) -> String {
    quantity::show(ns, quantity::TIMES)
}

/// The bit/s of a text like `5gbit`.
pub(crate) fn rate(text: &str) -> Option<u64> {
    text.parse::<Rate>().ok().map(Rate::bits_per_second)
}

/// A rate in bit/s in a form that `tc` accepts: whole bytes a second, at least one, in the largest
/// unit in which it is whole.
pub(crate) fn show_rate(bits: u64) -> String {
    const UNITS: [(&str, u64); 4] = [
        ("bit", 1),
        ("kbit", 1_000),
        ("mbit", 1_000_000),
        ("gbit", 1_000_000_000),
    ];
    quantity::show((bits / 8 * 8).max(8), &UNITS)
}

/// A parameter's value as a multiple of one of the fabric's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OfFabric {
    /// Of the bandwidth-delay product.
    Bdp(f64),
    /// Of a time.
    Time(f64, FabricTime),
    /// Of the rate of a port's link.
    Rate(f64),
    /// Of the rate of a host's link.
    HostRate(f64),
}

/// The value of a text like `$bdp` or `1.5 $bdp`.
fn of_fabric(text: &str) -> Option<OfFabric> {
    let (factor, name) = match text.split_once(' ') {
        Some((factor, name)) => (is_decimal(factor).then(|| factor.parse().ok())??, name),
        None => (1.0, text),
    };
    let sound = (0.0..=1e6).contains(&factor) && factor != 0.0;
    match name.strip_prefix('$').filter(|_| sound)? {
        "bdp" => Some(OfFabric::Bdp(factor)),
        "rate" => Some(OfFabric::Rate(factor)),
        "host_rate" => Some(OfFabric::HostRate(factor)),
        name => {
            let time = FabricTime::ALL.into_iter().find(|it| it.name() == name);
            time.map(|time| OfFabric::Time(factor, time))
        }
    }
}

/// Checks a parameter's value.
///
/// # Errors
///
/// If it cannot be filled in.
pub(crate) fn check(name: &str, parameter: &Parameter) -> Result<()> {
    if !parameter.words.is_empty() {
        let value = parameter.value.to_string();
        return match parameter.words.contains(&value) {
            true => Ok(()),
            false => usage(format!(
                "parameter {name}: `{value}`: expected one of {}",
                parameter.words.join(", ")
            )),
        };
    }
    match &parameter.value {
        Value::Number(_) => Ok(()),
        Value::Text(text)
            if time(text).is_some() || rate(text).is_some() || of_fabric(text).is_some() =>
        {
            Ok(())
        }
        Value::Text(text) => usage(format!(
            "parameter {name}: `{text}` is neither a number, nor a time such as 45us, nor a rate such as \
             5gbit, nor one of $bdp, $rate, $host_rate, ${} or a multiple of them such as 2 $bdp",
            FabricTime::ALL.map(FabricTime::name).join(", $")
        )),
    }
}

/// The kind of `before`, if `value` is of another kind: a scheme's files use a time as `$name_us`,
/// which a number does not have.
pub(crate) fn differs(before: &Value, value: &Value) -> Option<&'static str> {
    let fabric = FabricFigures::pfabric(1);
    match (before.on_fabric(&fabric), value.on_fabric(&fabric)) {
        (OnFabric::Number(_), OnFabric::Number(_))
        | (OnFabric::Time(_), OnFabric::Time(_))
        | (OnFabric::Rate(_) | OnFabric::OfPort(_), OnFabric::Rate(_) | OnFabric::OfPort(_))
        | (OnFabric::Word(_), _) => None,
        (OnFabric::Number(_), _) => {
            Some("a number such as 24, or a multiple of $bdp such as 2 $bdp")
        }
        (OnFabric::Time(_), _) => Some("a time such as 45us, or a multiple of one such as 2 $rtt"),
        (OnFabric::Rate(_) | OnFabric::OfPort(_), _) => {
            Some("a rate such as 5gbit, or a multiple of one such as 0.5 $rate")
        }
    }
}

/// A parameter's value on a fabric.
pub(crate) enum OnFabric {
    Number(u64),
    /// The machine's ns.
    Time(u64),
    /// The machine's bit/s.
    Rate(u64),
    /// A multiple of the rate of the port.
    OfPort(f64),
    Word(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => text.fmt(f),
        }
    }
}

impl Value {
    pub(crate) fn on_fabric(&self, fabric: &FabricFigures) -> OnFabric {
        let text = match self {
            Self::Number(number) => return OnFabric::Number(*number),
            Self::Text(text) => text,
        };
        match of_fabric(text) {
            // Whole packets, rounded up.
            Some(OfFabric::Bdp(factor)) => {
                OnFabric::Number((factor * fabric.bdp_packets as f64).ceil() as u64)
            }
            Some(OfFabric::Time(factor, time)) => {
                OnFabric::Time((factor * fabric.time(time) as f64).round() as u64)
            }
            Some(OfFabric::Rate(factor)) => OnFabric::OfPort(factor),
            Some(OfFabric::HostRate(factor)) => {
                OnFabric::Rate((factor * fabric.host_bits as f64).round() as u64)
            }
            None => match (time(text), rate(text)) {
                (Some(ns), _) => OnFabric::Time(ns.saturating_mul(fabric.dilation.into())),
                (None, Some(bits)) => OnFabric::Rate(bits / u64::from(fabric.dilation)),
                (None, None) => OnFabric::Word(text.clone()),
            },
        }
    }

    /// The value for a result: times are the fabric's.
    pub fn told(&self, fabric: &FabricFigures) -> String {
        match self.on_fabric(fabric) {
            OnFabric::Number(number) => number.to_string(),
            OnFabric::Time(ns) => show_time(ns / u64::from(fabric.dilation)),
            OnFabric::Word(word) => word,
            // The written form is the fabric's.
            OnFabric::Rate(_) if rate(&self.to_string()).is_some() => self.to_string(),
            OnFabric::Rate(bits) => show_rate(bits.saturating_mul(fabric.dilation.into())),
            // Ports differ.
            OnFabric::OfPort(_) => self.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_printed() {
        for (text, ns) in [
            ("45us", 45_000),
            ("14.6us", 14_600),
            ("2s", 2_000_000_000),
            ("0ns", 0),
        ] {
            assert_eq!(time(text), Some(ns), "{text}");
            assert_eq!(show_time(ns), text.replace("14.6us", "14600ns"));
        }
        for text in ["", "us", "45", "45 us", "-1us", "1e3us", "4x5us"] {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn multiples_of_bdp_rtt_and_rate_are_read() {
        assert_eq!(of_fabric("$bdp"), Some(OfFabric::Bdp(1.0)));
        assert_eq!(of_fabric("1.5 $bdp"), Some(OfFabric::Bdp(1.5)));
        let time = |factor, time| Some(OfFabric::Time(factor, time));
        assert_eq!(of_fabric("3 $rtt"), time(3.0, FabricTime::Rtt));
        assert_eq!(of_fabric("1.03 $frame"), time(1.03, FabricTime::Frame));
        assert_eq!(of_fabric("$one_way"), time(1.0, FabricTime::OneWay));
        assert_eq!(of_fabric("$switch_hop"), time(1.0, FabricTime::SwitchHop));
        assert_eq!(of_fabric("0.5 $rate"), Some(OfFabric::Rate(0.5)));
        for text in [
            "", "$", "bdp", "frame", "$frames", "2$bdp", "0 $bdp", "-1 $bdp", "x $rtt", "2 $mtu",
            "1e9 $bdp",
        ] {
            assert_eq!(of_fabric(text), None, "{text}");
        }
    }

    #[test]
    fn rates_are_whole_bytes_per_second_printed_in_the_largest_unit() {
        for (bits, shown) in [
            (10_000_000_000, "10gbit"),
            (1_500_000, "1500kbit"),
            (1_234_568, "1234568bit"),
            (1_234_567, "1234560bit"),
            (3, "8bit"),
            (0, "8bit"),
        ] {
            assert_eq!(show_rate(bits), shown, "{bits}");
        }
    }

    #[test]
    fn a_result_has_the_value_of_a_parameter_on_the_fabric() {
        let fabric = FabricFigures {
            bdp_packets: 13,
            ..FabricFigures::pfabric(1000)
        };
        for (value, expected) in [
            (Value::Number(9), "9"),
            (Value::Text("1.5 $bdp".into()), "20"),
            (Value::Text("$rtt".into()), "14600ns"),
            (Value::Text("10 $rtt".into()), "146us"),
            (Value::Text("1.03 $frame".into()), "1266ns"),
            (Value::Text("0.2ms".into()), "200us"),
            (Value::Text("5gbit".into()), "5gbit"),
            (Value::Text("0.5 $rate".into()), "0.5 $rate"),
            (Value::Text("0.001 $host_rate".into()), "10mbit"),
        ] {
            assert_eq!(value.told(&fabric), expected, "{value:?}");
        }
    }
}
