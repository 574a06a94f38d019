// SPDX-License-Identifier: MIT OR Apache-2.0

//! A measure by its name: one of the figures, or a statistic of ports by its key in samples.

use std::fmt;
use std::sync::LazyLock;

use anyhow::Result;
use serde::de::{Deserialize, Deserializer, EnumAccess, Error, VariantAccess as _, Visitor};
use weft_load::record::statistic::{self, Kind, Unit};
use weft_load::record::{Flow, PortSample};

use super::port::Ports;
use super::table::{Asked, FIGURES, Figure, LEVEL, PORTS, Takes};

/// A measure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    /// One of the figures.
    Figure(&'static Figure),
    /// A statistic of ports: a level over time, in its own unit; or the increase of a counter over
    /// all ports, per ms.
    Port(&'static statistic::Statistic<PortSample>),
}

/// The figures' names.
static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| FIGURES.iter().map(|it| it.name).collect());

impl Of {
    fn find(name: &str) -> Option<Self> {
        let mut statistics = PortSample::STATISTICS.iter();
        let figure = FIGURES.iter().find(|it| it.name == name).map(Self::Figure);
        figure.or_else(|| statistics.find(|it| it.name == name).map(Self::Port))
    }

    pub(in crate::experiment) fn takes(self) -> Takes {
        match self {
            Self::Figure(figure) => figure.takes,
            Self::Port(statistic) => match statistic.kind {
                Kind::Level => LEVEL,
                Kind::Counter => PORTS,
            },
        }
    }

    /// Empty for a number.
    pub(in crate::experiment) fn unit(self) -> &'static str {
        match self {
            Self::Figure(figure) => figure.unit,
            Self::Port(statistic) => match (statistic.kind, statistic.unit) {
                (Kind::Level, unit) => unit.name(),
                (Kind::Counter, Unit::Number) => "per ms",
                (Kind::Counter, Unit::Packets) => "packets per ms",
                (Kind::Counter, Unit::Bytes) => "bytes per ms",
                (Kind::Counter, Unit::Time) => "ns per ms",
            },
        }
    }

    /// The value of a run. `None` if there is nothing to measure.
    ///
    /// # Errors
    ///
    /// If the results have hosts that are not in the topology.
    pub(in crate::experiment) fn value(self, asked: &Asked<'_>) -> Result<Option<f64>> {
        let statistic = match self {
            Self::Figure(figure) => return figure.value(asked),
            Self::Port(statistic) => statistic,
        };
        let Some(ports) = Ports::new(asked.subject, asked.place) else {
            return Ok(None);
        };
        let value = |sample: &PortSample| (statistic.get)(sample).map(|value| value as f64);
        Ok(match statistic.kind {
            Kind::Level => {
                let levels = ports.levels(value);
                levels.and_then(|levels| asked.statistic.over_time(levels))
            }
            Kind::Counter => ports.count(value).map(|count| count / ports.length() * 1e6),
        })
    }

    /// The value of a flow, if its percentiles are of all seeds' flows together.
    pub(in crate::experiment) fn of_flow(self) -> Option<fn(&Flow) -> Option<f64>> {
        match self {
            Self::Figure(figure) => figure.of_flow(),
            Self::Port(_) => None,
        }
    }
}

impl<'de> Deserialize<'de> for Of {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_enum("Of", &NAMES, Enum)
    }
}

struct Enum;

impl<'de> Visitor<'de> for Enum {
    type Value = Of;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a measure")
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Of, A::Error> {
        let (name, variant) = data.variant::<String>()?;
        let of = Of::find(&name).ok_or_else(|| Error::unknown_variant(&name, &NAMES))?;
        variant.unit_variant()?;
        Ok(of)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::block;

    #[test]
    fn each_measure_has_a_unique_name() {
        let statistics = PortSample::STATISTICS.iter().map(|it| it.name);
        let mut names: Vec<&str> = NAMES.iter().copied().chain(statistics).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
    /// With `WEFT_BLESS=1` in the environment, it writes the list of statistics.
    #[test]
    fn readme_lists_each_statistic_and_each_measure() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments/README.md");
        let text = std::fs::read_to_string(&path).unwrap();
        for name in NAMES.iter() {
            let is_listed = text.contains(&format!("`{name}`"));
            assert!(is_listed, "{} lacks `{name}`", path.display());
        }
        let mut list = "| key | kind | unit | meaning |\n|---|---|---|---|\n".to_owned();
        for it in PortSample::STATISTICS {
            let kind = match it.kind {
                Kind::Level => "level",
                Kind::Counter => "counter",
            };
            let (name, unit, about) = (it.name, it.unit.name(), it.about.trim());
            list += &format!("| `{name}` | {kind} | {unit} | {about} |\n");
        }
        block::is_current(&path, "statistics", &list);
    }
}
