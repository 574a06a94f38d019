// SPDX-License-Identifier: MIT OR Apache-2.0

//! `$name` in a scheme's files.

use std::collections::BTreeMap;

use anyhow::Result;
use weft_topo::{Kind, Wire};
use weft_words::quantity::TIMES;

use crate::error::usage;
use crate::parameter::{
    FabricFigures, FabricTime, OnFabric, Parameter, check, show_rate, show_time,
};
use crate::topology::{FRAME, SHORTEST_FRAME};

/// Names and their values.
#[derive(Clone, Debug, Default)]
pub struct Variables {
    values: BTreeMap<String, String>,
    /// Parameters that are multiples of the rate of a port's link.
    of_rate: BTreeMap<String, f64>,
}

impl Variables {
    /// The variables of a fabric and a scheme.
    ///
    /// # Errors
    ///
    /// If a parameter's value cannot be filled in.
    pub fn of_fabric(
        parameters: &BTreeMap<String, Parameter>,
        fabric: &FabricFigures,
    ) -> Result<Self> {
        let mut variables = Self::default();
        variables.set("bdp", fabric.bdp_packets.to_string());
        for time in FabricTime::ALL {
            variables.set_time(time.name(), fabric.time(time));
        }
        variables.set_time("slack", fabric.slack_ns);
        variables.set_rate("host_rate", fabric.host_bits);
        for (name, parameter) in parameters {
            check(name, parameter)?;
            match parameter.value.on_fabric(fabric) {
                OnFabric::Number(number) => variables.set(name, number.to_string()),
                OnFabric::Time(ns) => variables.set_time(name, ns),
                OnFabric::Rate(bits) => variables.set_rate(name, bits),
                OnFabric::OfPort(factor) => {
                    variables.of_rate.insert(name.clone(), factor);
                }
                OnFabric::Word(word) => variables.set(name, word),
            }
        }
        Ok(variables)
    }

    /// These variables and a port's. `elided`: the ports of the same switch whose packets never
    /// cause a pause of their sender when they leave by this port. The port faces a host, unless
    /// [`set_facing`](Self::set_facing) changes that.
    pub fn port<'a>(&self, dev: &str, wire: &Wire, elided: impl Iterator<Item = &'a str>) -> Self {
        let mut variables = self.clone();
        variables.set("dev", dev.to_owned());
        variables.set("rate", wire.rate.to_string());
        variables.set("delay", wire.delay.to_string());
        variables.set_link(wire);
        for (name, factor) in &self.of_rate {
            let bits = factor * wire.rate.bits_per_second() as f64;
            variables.set(name, show_rate(bits as u64));
        }
        variables.set_elided(elided);
        variables.set_facing(Kind::Host);
        variables
    }

    /// Sets the variables that depend on a link's rate and delay: `$hrtt`, the 1-hop round-trip
    /// time of a full frame and a shortest frame back.
    pub fn set_link(&mut self, wire: &Wire) {
        let serialization = wire.rate.serialization_ns(FRAME + SHORTEST_FRAME);
        self.set_time("hrtt", 2 * wire.delay.ns() + serialization);
    }

    /// Sets `$elide`, in the words of tc-bfc(8).
    pub fn set_elided<'a>(&mut self, ports: impl Iterator<Item = &'a str>) {
        let words: Vec<String> = ports.map(|port| format!("elide {port}")).collect();
        let words = match words.is_empty() {
            true => "noelide".to_owned(),
            false => words.join(" "),
        };
        self.set("elide", words);
    }

    /// Sets `$detour_to`, in the words of tc-dibs(8): whether the node at the other end of the
    /// port's link forwards packets.
    pub fn set_facing(&mut self, kind: Kind) {
        let word = match kind {
            Kind::Host => "nodetour-to",
            Kind::Switch => "detour-to",
        };
        self.set("detour_to", word.to_owned());
    }

    /// Sets the value of a name, as a text.
    pub fn set(&mut self, name: &str, value: String) {
        self.values.insert(name.to_owned(), value);
    }

    fn set_time(&mut self, name: &str, ns: u64) {
        self.set(name, show_time(ns));
        for (unit, factor) in &TIMES[..3] {
            self.set(&format!("{name}_{unit}"), ns.div_ceil(*factor).to_string());
        }
    }

    fn set_rate(&mut self, name: &str, bits: u64) {
        self.set(name, show_rate(bits));
        self.set(&format!("{name}_kbit"), bits.div_ceil(1000).to_string());
    }

    /// Replaces names by values. A name is letters, digits and `_`.
    ///
    /// # Errors
    ///
    /// If a name is unknown.
    pub fn fill(&self, line: &str) -> Result<String> {
        let mut pieces = line.split('$');
        let mut filled = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let end = piece
                .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                .unwrap_or(piece.len());
            let (name, rest) = piece.split_at(end);
            let Some(value) = self.values.get(name) else {
                let known: Vec<String> =
                    self.values.keys().map(|name| format!("${name}")).collect();
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
    use crate::parameter::Value;

    #[test]
    fn a_port_has_the_round_trip_of_its_link_and_its_elided_ports() {
        let wire = Wire {
            rate: "100gbit".parse().unwrap(),
            delay: "1us".parse().unwrap(),
        };
        let line = "$dev $rate $delay $hrtt $hrtt_us $elide";
        let fill = |elided: &[&str]| {
            let variables = Variables::default().port("agg0", &wire, elided.iter().copied());
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
    fn rates_are_dilated_and_shares_are_of_the_ports_link() {
        let fabric = FabricFigures::pfabric(1000);
        let parameters = [("cap", "5gbit"), ("half", "0.5 $rate")].map(|(name, value)| {
            let parameter = Parameter {
                value: Value::Text(value.to_owned()),
                words: Vec::new(),
                about: String::new(),
            };
            (name.to_owned(), parameter)
        });
        let variables = Variables::of_fabric(&parameters.into(), &fabric).unwrap();
        assert_eq!(variables.fill("$cap_kbit").unwrap(), "5000");
        // A share depends on a port; a host's TCP and the routing have none.
        assert!(variables.fill("$half").is_err());
        for (rate, expected) in [("10mbit", "5mbit 5mbit"), ("40mbit", "5mbit 20mbit")] {
            let wire = Wire {
                rate: rate.parse().unwrap(),
                delay: "0ns".parse().unwrap(),
            };
            let port = variables.port("p", &wire, [].into_iter());
            assert_eq!(port.fill("$cap $half").unwrap(), expected);
        }
    }

    #[test]
    fn packets_are_detoured_only_to_ports_that_face_a_switch() {
        let mut variables = Variables::default();
        for (kind, word) in [(Kind::Host, "nodetour-to"), (Kind::Switch, "detour-to")] {
            variables.set_facing(kind);
            assert_eq!(variables.fill("$detour_to").unwrap(), word);
        }
    }

    #[test]
    fn a_variables_name_ends_where_its_word_ends() {
        let mut variables = Variables::default();
        variables.set("rate", "10mbit".into());
        variables.set_time("rto", 45_000_100);
        let line = variables.fill("rate $rate, $rto_ms/$rto_us $rto").unwrap();
        assert_eq!(line, "rate 10mbit, 46/45001 45000100ns");
        assert!(variables.fill("$").is_err());
    }
}
