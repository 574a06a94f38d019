// SPDX-License-Identifier: MIT OR Apache-2.0

//! `NAME=VALUE,NAME=VALUE`: parses and prints the options after the colon of a specification.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use weft_words::near::meant;

use crate::error::Error;
use crate::topology::Wire;
use crate::units::Rate;

pub(crate) struct Options<'a> {
    kind: &'static str,
    given: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    /// Each option of `text` must be one of `known` and must occur once. `None` is a specification
    /// without a colon.
    pub(crate) fn parse(
        kind: &'static str,
        text: Option<&'a str>,
        known: &[&str],
    ) -> Result<Self, Error> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for word in text.into_iter().flat_map(|text| text.split(',')) {
            let option = word
                .split_once('=')
                .filter(|(name, value)| !name.is_empty() && !value.is_empty());
            let Some((name, value)) = option else {
                return Err(Error::new(format!(
                    "\"{word}\" is not an option of {kind}: write NAME=VALUE, NAME being one of \
                     {}",
                    known.join(", ")
                )));
            };
            if !known.contains(&name) {
                return Err(Error::new(format!(
                    "{kind} has no option \"{name}\"{}; known are {}",
                    meant(name, known),
                    known.join(", ")
                )));
            }
            if given.iter().any(|(earlier, _)| *earlier == name) {
                return Err(Error::new(format!(
                    "{kind}: {name} is given twice; give it once"
                )));
            }
            given.push((name, value));
        }
        Ok(Self { kind, given })
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.given
            .iter()
            .find(|(given, _)| *given == name)
            .map(|(_, value)| *value)
    }

    /// A whole number in `range`.
    pub(crate) fn number(
        &self,
        name: &str,
        default: u32,
        range: RangeInclusive<u32>,
    ) -> Result<u32, Error> {
        let Some(text) = self.get(name) else {
            return Ok(default);
        };
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        text.parse()
            .ok()
            .filter(|number| digits && range.contains(number))
            .ok_or_else(|| {
                Error::new(format!(
                    "{}: {name} must be a whole number from {} to {}, not \"{text}\"",
                    self.kind,
                    range.start(),
                    range.end()
                ))
            })
    }

    /// Rate and delay of a layer's links. The rate is `LAYER-rate` of the first layer that has it,
    /// else `rate`; likewise the delay.
    pub(crate) fn wire(&self, layers: &[&str], default: Wire) -> Result<Wire, Error> {
        Ok(Wire {
            rate: self.quantity("rate", layers)?.unwrap_or(default.rate),
            delay: self.quantity("delay", layers)?.unwrap_or(default.delay),
        })
    }

    fn quantity<T: FromStr<Err = Error>>(
        &self,
        what: &str,
        layers: &[&str],
    ) -> Result<Option<T>, Error> {
        let specific = layers.iter().map(|layer| format!("{layer}-{what}"));
        for name in specific.chain([what.to_owned()]) {
            if let Some(text) = self.get(&name) {
                let named = |error| Error::new(format!("{}: {name}: {error}", self.kind));
                return text.parse().map(Some).map_err(named);
            }
        }
        Ok(None)
    }

    /// `oversubscription=N`, which excludes the options in `rates`.
    pub(crate) fn oversubscription(&self, rates: &[&str]) -> Result<Option<u32>, Error> {
        if self.get("oversubscription").is_none() {
            return Ok(None);
        }
        if let Some(rate) = rates.iter().find(|rate| self.get(rate).is_some()) {
            return Err(Error::new(format!(
                "{}: oversubscription sets {rate}; give one of the two",
                self.kind
            )));
        }
        self.number("oversubscription", 1, 1..=1000).map(Some)
    }

    /// The rate of each of `links` links that carry `total` bit/s divided by `ratio`, rounded down
    /// to whole bytes per second.
    pub(crate) fn share(&self, total: u64, links: u64, ratio: u32) -> Result<Rate, Error> {
        let bits = total / (links * u64::from(ratio)) / 8 * 8;
        Rate::new(bits).ok_or_else(|| {
            Error::new(format!(
                "{}: oversubscription={ratio} makes links of {bits} bit/s, which are not between \
                 {} and {}; choose another, or give the rates",
                self.kind,
                Rate::MIN,
                Rate::MAX
            ))
        })
    }
}

/// Prints a specification: only options that differ from their defaults.
pub(crate) struct Specification(Vec<String>);

impl Specification {
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn always(mut self, name: &str, value: u32) -> Self {
        self.0.push(format!("{name}={value}"));
        self
    }

    pub(crate) fn wire(mut self, layer: &str, wire: Wire, default: Wire) -> Self {
        if wire.rate != default.rate {
            self.0.push(format!("{layer}-rate={}", wire.rate));
        }
        if wire.delay != default.delay {
            self.0.push(format!("{layer}-delay={}", wire.delay));
        }
        self
    }

    pub(crate) fn write(self, kind: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(kind)?;
        if !self.0.is_empty() {
            write!(f, ":{}", self.0.join(","))?;
        }
        Ok(())
    }
}
