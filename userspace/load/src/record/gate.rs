// SPDX-License-Identifier: MIT OR Apache-2.0

//! Validity gates: what is asked of a run before its numbers are believed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A measurement of the measurement, and what it may be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    /// What was measured, for example `timer lateness, 99th percentile`.
    pub name: String,
    /// How much. `None`: it could not be measured, which no gate passes.
    pub measured: Option<f64>,
    /// What it may be.
    #[serde(flatten)]
    pub limit: Limit,
    /// Of what was measured and the limit, for example `ns`; empty for a number.
    #[serde(default)]
    pub unit: String,
    /// Whether it is passed.
    pub ok: bool,
}

/// What a measurement may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "passes", content = "limit", rename_all = "snake_case")]
pub enum Limit {
    /// So much or less.
    AtMost(f64),
    /// So much or more.
    AtLeast(f64),
}

impl Gate {
    /// Judges.
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
}

/// To four digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return value;
    }
    // Whole numbers stay as they are.
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
