// SPDX-License-Identifier: MIT OR Apache-2.0

//! Sums of ports' counters over all ports of a run.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap as _, Serializer};

use super::port::PortSample;
use super::statistic::{Statistic, Sum};

/// The sums of counters that have one ([`Statistic::sum`]) and that some port reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums(
    /// By their keys, in the order of the statistics.
    Vec<(&'static str, u64)>,
);

impl Sums {
    /// The counters that have a sum, in order.
    pub fn all() -> impl Iterator<Item = (&'static Statistic<PortSample>, Sum)> {
        let statistics = PortSample::STATISTICS.iter();
        statistics.filter_map(|it| Some((it, it.sum?)))
    }

    /// The increase of all ports' counters between two times. The ports must be the same and in the
    /// same order at both.
    pub fn new<'a>(ports: impl IntoIterator<Item = (&'a PortSample, &'a PortSample)>) -> Self {
        let mut values = vec![None; Self::all().count()];
        for (before, after) in ports {
            for ((it, _), sum) in Self::all().zip(&mut values) {
                if let Some(now) = (it.get)(after) {
                    let before = (it.get)(before).unwrap_or(0);
                    *sum = Some(sum.unwrap_or(0) + now.saturating_sub(before));
                }
            }
        }
        let sums = Self::all().zip(values);
        Self(
            sums.filter_map(|((_, sum), value)| Some((sum.key, value?)))
                .collect(),
        )
    }

    /// The sum with this key, if there is one.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<u64> {
        let found = self.0.iter().find(|(it, _)| *it == key);
        found.map(|(_, value)| *value)
    }

    /// Sets the sum with this key. Ignores a key that no statistic has.
    pub fn set(&mut self, key: &str, value: u64) {
        let mut sums: Vec<(&str, u64)> = Vec::new();
        for (_, sum) in Self::all() {
            let value = if sum.key == key {
                Some(value)
            } else {
                self.get(sum.key)
            };
            sums.extend(value.map(|value| (sum.key, value)));
        }
        self.0 = sums;
    }
}

impl Serialize for Sums {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Sums {
    /// Skips keys that are not sums.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Map;

        impl<'de> Visitor<'de> for Map {
            type Value = Sums;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("sums of ports' counters")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sums, A::Error> {
                let mut sums = Sums::default();
                while let Some(key) = map.next_key::<String>()? {
                    match Sums::all().any(|(_, sum)| sum.key == key) {
                        true => {
                            if let Some(value) = map.next_value::<Option<u64>>()? {
                                sums.set(&key, value);
                            }
                        }
                        false => _ = map.next_value::<IgnoredAny>()?,
                    }
                }
                Ok(sums)
            }
        }

        from.deserialize_map(Map)
    }
}
