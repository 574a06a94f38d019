// SPDX-License-Identifier: MIT OR Apache-2.0

//! `$name` in a scheme's files.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;

use weft_topo::Wire;

use super::{Parameter, Value};
use crate::error::usage;
use crate::topology::{FRAME, SHORTEST_FRAME};

/// What the fabric's variables come from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fabric {
    /// `$bdp`.
    pub(crate) bdp_packets: u64,
    /// `$rtt`, in the machine's ns.
    pub(crate) rtt_ns: u64,
    /// `$slack`, in the machine's ns.
    pub(crate) slack_ns: u64,
    /// Times of the machine are so many times those of the fabric.
    pub(crate) dilation: u32,
}

/// Names and what stands for them.
#[derive(Clone, Debug)]
pub(crate) struct Variables(BTreeMap<String, String>);

const UNITS: [(&str, u64); 4] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
];

/// ns of a text like `45us`.
fn time(text: &str) -> Option<u64> {
    let (unit, factor) = UNITS
        .into_iter()
        .find(|(unit, _)| text.strip_suffix(unit).is_some_and(is_decimal))?;
    let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
    let ns = number * factor as f64;
    (ns <= 1e18).then_some(ns.round() as u64)
}

fn is_decimal(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// In the largest unit in which it is whole.
pub(crate) fn show_time(ns: u64) -> String {
    let whole = |(_, factor): &&(&str, u64)| ns != 0 && ns.is_multiple_of(*factor);
    match UNITS.iter().rev().find(whole) {
        Some((unit, factor)) => format!("{}{unit}", ns / factor),
        None => format!("{ns}ns"),
    }
}

/// What a parameter takes from the fabric.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OfFabric {
    /// So many bandwidth-delay products.
    Bdp(f64),
    /// So many round-trip times.
    Rtt(f64),
}

/// Of a text like `$bdp` or `1.5 $bdp`.
fn of_fabric(text: &str) -> Option<OfFabric> {
    let (factor, name) = match text.split_once(' ') {
        Some((factor, name)) => (is_decimal(factor).then(|| factor.parse().ok())??, name),
        None => (1.0, text),
    };
    let sound = (0.0..=1e6).contains(&factor) && factor != 0.0;
    match name {
        "$bdp" if sound => Some(OfFabric::Bdp(factor)),
        "$rtt" if sound => Some(OfFabric::Rtt(factor)),
        _ => None,
    }
}

/// Checks a parameter's value.
///
/// # Errors
///
/// If it is nothing that can be filled in.
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
        Value::Text(text) if time(text).is_some() || of_fabric(text).is_some() => Ok(()),
        Value::Text(text) => usage(format!(
            "parameter {name}: `{text}` is neither a number, nor a time such as 45us, nor one of $bdp, $rtt \
             or a multiple of them such as 2 $bdp"
        )),
    }
}

/// A parameter's value on a fabric.
enum OnFabric {
    Number(u64),
    /// The machine's ns.
    Time(u64),
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
    fn on_fabric(&self, fabric: &Fabric) -> OnFabric {
        let text = match self {
            Self::Number(number) => return OnFabric::Number(*number),
            Self::Text(text) => text,
        };
        match of_fabric(text) {
            // Whole packets, rounded up.
            Some(OfFabric::Bdp(factor)) => {
                OnFabric::Number((factor * fabric.bdp_packets as f64).ceil() as u64)
            }
            Some(OfFabric::Rtt(factor)) => {
                OnFabric::Time((factor * fabric.rtt_ns as f64).round() as u64)
            }
            None => match time(text) {
                Some(ns) => OnFabric::Time(ns.saturating_mul(u64::from(fabric.dilation))),
                None => OnFabric::Word(text.clone()),
            },
        }
    }

    /// As a result tells it: times are the fabric's.
    pub(crate) fn told(&self, fabric: &Fabric) -> String {
        match self.on_fabric(fabric) {
            OnFabric::Number(number) => number.to_string(),
            OnFabric::Time(ns) => show_time(ns / u64::from(fabric.dilation)),
            OnFabric::Word(word) => word,
        }
    }
}

impl Variables {
    /// The fabric's and a scheme's.
    ///
    /// # Errors
    ///
    /// If a parameter's value is nothing that can be filled in.
    pub(crate) fn of_fabric(
        parameters: &BTreeMap<String, Parameter>,
        fabric: &Fabric,
    ) -> Result<Self> {
        let mut variables = Self(BTreeMap::new());
        variables.set("bdp", fabric.bdp_packets.to_string());
        variables.set_time("rtt", fabric.rtt_ns);
        variables.set_time("slack", fabric.slack_ns);
        for (name, parameter) in parameters {
            check(name, parameter)?;
            match parameter.value.on_fabric(fabric) {
                OnFabric::Number(number) => variables.set(name, number.to_string()),
                OnFabric::Time(ns) => variables.set_time(name, ns),
                OnFabric::Word(word) => variables.set(name, word),
            }
        }
        Ok(variables)
    }

    /// These and a port's. `elided`: the ports of the same switch whose packets push nobody back
    /// when they leave by this one.
    pub(crate) fn port<'a>(
        &self,
        dev: &str,
        wire: &Wire,
        elided: impl Iterator<Item = &'a str>,
    ) -> Self {
        let mut variables = self.clone();
        variables.set("dev", dev.to_owned());
        variables.set("rate", wire.rate.to_string());
        variables.set("delay", wire.delay.to_string());
        variables.set_link(wire);
        variables.set_elided(elided);
        variables
    }

    /// What comes of a link's rate and delay: `$hrtt`, the 1-hop round-trip time of a full frame and
    /// a shortest one back.
    pub(crate) fn set_link(&mut self, wire: &Wire) {
        let serialization = wire.rate.serialization_ns(FRAME + SHORTEST_FRAME);
        self.set_time("hrtt", 2 * wire.delay.ns() + serialization);
    }

    /// `$elide`, in the words of tc-bfc(8).
    pub(crate) fn set_elided<'a>(&mut self, ports: impl Iterator<Item = &'a str>) {
        let words: Vec<String> = ports.map(|port| format!("elide {port}")).collect();
        let words = match words.is_empty() {
            true => "noelide".to_owned(),
            false => words.join(" "),
        };
        self.set("elide", words);
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.0.insert(name.to_owned(), value);
    }

    fn set_time(&mut self, name: &str, ns: u64) {
        self.set(name, show_time(ns));
        for (unit, factor) in &UNITS[..3] {
            self.set(&format!("{name}_{unit}"), ns.div_ceil(*factor).to_string());
        }
    }

    /// Puts values in place of names. A name is letters, digits and `_`.
    ///
    /// # Errors
    ///
    /// If there is a name that is not among these.
    pub(crate) fn fill(&self, line: &str) -> Result<String> {
        let mut pieces = line.split('$');
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let end = piece
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(piece.len());
            let (name, rest) = piece.split_at(end);
            let Some(value) = self.0.get(name) else {
                let known: Vec<String> = self.0.keys().map(|name| format!("${name}")).collect();
                return usage(format!(
                    "`${name}` is not known: expected one of {}",
                    known.join(", ")
                ));
            };
            filled.push_str(value);
            filled.push_str(rest);
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_shown() {
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
    fn multiples_of_the_fabrics_figures_are_read() {
        assert_eq!(of_fabric("$bdp"), Some(OfFabric::Bdp(1.0)));
        assert_eq!(of_fabric("1.5 $bdp"), Some(OfFabric::Bdp(1.5)));
        assert_eq!(of_fabric("3 $rtt"), Some(OfFabric::Rtt(3.0)));
        for text in [
            "", "bdp", "2$bdp", "0 $bdp", "-1 $bdp", "x $rtt", "2 $mtu", "1e9 $bdp",
        ] {
            assert_eq!(of_fabric(text), None, "{text}");
        }
    }

    #[test]
    fn a_result_tells_what_a_parameter_was_on_the_fabric() {
        let fabric = Fabric {
            bdp_packets: 13,
            rtt_ns: 14_600_000,
            slack_ns: 0,
            dilation: 1000,
        };
        for (value, expected) in [
            (Value::Number(9), "9"),
            (Value::Text("1.5 $bdp".into()), "20"),
            (Value::Text("$rtt".into()), "14600ns"),
            (Value::Text("10 $rtt".into()), "146us"),
            (Value::Text("0.2ms".into()), "200us"),
        ] {
            assert_eq!(value.told(&fabric), expected, "{value:?}");
        }
    }

    #[test]
    fn a_port_has_its_links_round_trip_and_the_ports_that_are_elided() {
        let wire = Wire {
            rate: "100gbit".parse().unwrap(),
            delay: "1us".parse().unwrap(),
        };
        let line = "$dev $rate $delay $hrtt $hrtt_us $elide";
        let fill = |elided: &[&str]| {
            let variables = Variables(BTreeMap::new()).port("agg0", &wire, elided.iter().copied());
            variables.fill(line).unwrap()
        };
        // 2 µs, and 1538 and 84 bytes at 12.5 bytes a ns.
        assert_eq!(
            fill(&[]),
            "agg0 100Gbit 1us 2130ns 3 noelide".replace('G', "g")
        );
        assert!(fill(&["agg0", "agg1"]).ends_with("3 elide agg0 elide agg1"));
    }

    #[test]
    fn names_end_where_a_word_does() {
        let mut variables = Variables(BTreeMap::new());
        variables.set("rate", "10mbit".into());
        variables.set_time("rto", 45_000_100);
        let line = variables.fill("rate $rate, $rto_ms/$rto_us $rto").unwrap();
        assert_eq!(line, "rate 10mbit, 46/45001 45000100ns");
        assert!(variables.fill("$").is_err());
    }
}
