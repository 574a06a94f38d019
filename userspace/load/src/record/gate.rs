// SPDX-License-Identifier: MIT OR Apache-2.0

//! Validity gates: checks that a run must pass before its numbers count.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A check of the measurement itself: a value and its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// What was measured, for example `timer lateness, 99th percentile`.
    pub name: String,
    /// The value. `None`: it could not be measured, and the gate fails.
    pub measured: Option<f64>,
    /// The limit.
    #[serde(flatten)]
    pub limit: Limit,
    /// The unit of the value and the limit, for example `ns`; empty for a number.
    #[serde(default)]
    pub unit: String,
    /// Whether the gate passed.
    pub ok: bool,
}

/// A limit on a value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "passes", content = "limit", rename_all = "snake_case")]
pub enum Limit {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
}

impl Gate {
    /// Compares the value with the limit.
    #[must_use]
    pub fn new(name: &str, measured: Option<f64>, limit: Limit, unit: &str) -> Self {
        let measured = measured.filter(|measured| measured.is_finite());
        Self {
            name: name.to_owned(),
            measured,
            limit,
            unit: unit.to_owned(),
            ok: measured.is_some_and(|measured| match limit {
                Limit::AtMost(limit) => measured <= limit,
                Limit::AtLeast(limit) => measured >= limit,
            }),
        }
    }

    /// The same gate with another limit.
    #[must_use]
    pub fn within(&self, limit: f64) -> Self {
        let limit = match self.limit {
            Limit::AtMost(_) => Limit::AtMost(limit),
            Limit::AtLeast(_) => Limit::AtLeast(limit),
        };
        Self::new(&self.name, self.measured, limit, &self.unit)
    }
}

/// Rounds to four digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return value;
    }
    // Whole numbers stay unchanged.
    let digits = (3.0 - value.abs().log10().floor()).clamp(0.0, 300.0) as i32;
    let factor = 10_f64.powi(digits);
    (value * factor).round() / factor
}

impl fmt::Display for Gate {
    /// To four digits, for example `timer lateness: 3100 ns, expected at most 1200 ns`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = if self.unit.is_empty() { "" } else { " " };
        write!(f, "{}: ", self.name)?;
        match self.measured {
            Some(measured) => write!(f, "{}{space}{}", rounded(measured), self.unit)?,
            None => f.write_str("not measured")?,
        }
        let (word, limit) = match self.limit {
            Limit::AtMost(limit) => ("at most", limit),
            Limit::AtLeast(limit) => ("at least", limit),
        };
        write!(f, ", expected {word} {limit}{space}{}", self.unit)
    }
}
