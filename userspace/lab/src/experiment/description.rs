// SPDX-License-Identifier: MIT OR Apache-2.0

//! The file that describes an experiment. Those of `userspace/experiments` are in the binary; a
//! person's own file is read from a path. `userspace/experiments/README.md` describes the format.

use std::collections::BTreeMap;
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Result;
use include_dir::{Dir, include_dir};
use serde::{Deserialize, Deserializer, Serialize};
use weft_topo::spec::KINDS;
use weft_words::file::{MIB, SizeLimit};
use weft_words::near::meant;

use super::measure::Measure;
use crate::error::usage;
use crate::gates;

pub(super) static BUILT_IN: Dir<'static> = include_dir!("$CARGO_MANIFEST_DIR/../experiments");

/// An experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The file's name, without `.toml`.
    pub name: String,
    /// The file's content.
    pub text: String,
    /// The parsed content.
    pub description: Description,
}

/// The content of its file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// One line.
    pub title: String,
    /// The paper, its section and figure; empty if there is none.
    #[serde(default)]
    pub source: String,
    /// The paper whose claims these are, by its system and venue, for counts by paper; empty for
    /// weft's own comparisons.
    #[serde(default)]
    pub paper: String,
    /// The paper's method, the method here, and the differences; may be empty.
    #[serde(default)]
    pub about: String,
    /// `None` for the first five, or if nothing is random, the first.
    #[serde(default)]
    pub(crate) seeds: Option<Vec<u64>>,
    /// The memory that a guest needs for a run, in MiB, if it is more than usual.
    #[serde(default)]
    pub(crate) memory: Option<u32>,
    /// Numbers for `{name}` in options, which `--scale` multiplies.
    #[serde(default)]
    pub(crate) scaled: BTreeMap<String, u64>,
    pub(crate) runs: Vec<Runs>,
    pub(crate) measures: BTreeMap<String, Measure>,
    #[serde(default)]
    pub(crate) tables: Vec<Table>,
    #[serde(default)]
    pub(crate) pictures: Vec<Picture>,
    #[serde(default)]
    pub(crate) curves: Vec<Curves>,
    /// The paper's claims; without any, runs are measured and not judged.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// The findings, with their reasons.
    #[serde(default)]
    pub findings: Vec<Finding>,
}

/// A finding, in words.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// Its subject, such as a scheme: a heading, or the first words of `says`.
    pub of: String,
    /// A paragraph.
    pub says: String,
}

impl Finding {
    /// `of`, with a full stop if `says` is a separate sentence.
    #[must_use]
    pub fn lead(&self) -> String {
        let stands_alone = self.says.trim_start().starts_with(char::is_uppercase);
        let stop = if stands_alone { "." } else { "" };
        format!("{}{stop}", self.of)
    }
}

/// The name of the ideal schedule, as a scheme.
pub(crate) const IDEAL: &str = "ideal";

/// Runs that differ in some values.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Runs {
    /// The value of `runs` in selections; needed if there are several.
    #[serde(default)]
    pub(crate) name: Option<String>,
    /// The words after `weft run`; `{name}` is a value of `each` or a number of `scaled`.
    pub(crate) options: String,
    /// Values by name; there is a run for each combination.
    #[serde(default)]
    pub(crate) each: BTreeMap<String, Vec<Value>>,
    /// More words, by the value of `each` whose runs they are for, such as a scheme's parameters.
    #[serde(default)]
    pub(crate) with: BTreeMap<String, String>,
    /// The scheme whose flows also get the ideal schedule, as scheme `ideal`.
    #[serde(default)]
    pub(crate) ideal: Option<String>,
    /// Whether flows have no end.
    #[serde(default)]
    pub(crate) endless: bool,
    /// Exceptional limits of gates, by their names.
    #[serde(default)]
    allow: BTreeMap<String, Allowed>,
}

/// An exceptional limit of a gate.
#[derive(Clone, Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected a limit, or limits by the values of each whose runs they are for"
)]
enum Allowed {
    ForAll(f64),
    ByValue(BTreeMap<String, f64>),
}

impl Runs {
    /// Exceptional limits of gates, by their names, for the runs with these values. Of several
    /// limits, the largest holds.
    pub(crate) fn allowed(&self, values: &BTreeMap<String, Value>) -> BTreeMap<String, f64> {
        let of = |allowed: &Allowed| match allowed {
            Allowed::ForAll(limit) => Some(*limit),
            Allowed::ByValue(limits) => {
                let limits = values.values().filter_map(|value| limits.get(&value.0));
                limits.copied().max_by(f64::total_cmp)
            }
        };
        let limits = self.allow.iter();
        limits
            .filter_map(|(name, allowed)| Some((name.clone(), of(allowed)?)))
            .collect()
    }

    fn is_value(&self, name: &str) -> bool {
        self.each.values().flatten().any(|value| value.0 == name)
    }

    fn fault_of_allow(&self) -> Option<String> {
        self.allow.iter().find_map(|(gate, allowed)| {
            let limits = match allowed {
                Allowed::ForAll(limit) => vec![*limit],
                Allowed::ByValue(limits) => {
                    if let Some(name) = limits.keys().find(|name| !self.is_value(name)) {
                        return Some(format!("allow.\"{gate}\": no value of each is {name}"));
                    }
                    limits.values().copied().collect()
                }
            };
            let mut limits = limits.into_iter();
            limits.find_map(|limit| gates::fault(&BTreeMap::from([(gate.clone(), limit)])))
        })
    }
}

/// A value in the form of the command line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Value(pub String);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected a text or a number")]
        enum Written {
            Whole(i64),
            Number(f64),
            Text(String),
        }
        Ok(Self(match Written::deserialize(from)? {
            Written::Whole(number) => number.to_string(),
            Written::Number(number) => number.to_string(),
            Written::Text(text) => text,
        }))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One or several.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, expecting = "expected one or a list of them")]
pub(crate) enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::More(more) => more,
        }
    }
}

impl<T> Default for OneOrMore<T> {
    fn default() -> Self {
        Self::More(Vec::new())
    }
}

/// A selection of runs by their values.
pub(crate) type Where = BTreeMap<String, OneOrMore<Value>>;

/// A table of measurements.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    /// One line.
    pub(crate) title: String,
    pub(crate) measures: OneOrMore<String>,
    /// The values that identify a row.
    #[serde(default)]
    pub(crate) rows: OneOrMore<String>,
    /// The value that distinguishes columns; without it, each measure is a column.
    #[serde(default)]
    pub(crate) columns: Option<String>,
    #[serde(default, rename = "where")]
    pub(crate) selection: Where,
}

impl Table {
    /// The value that all of its figures have for a name, if `where` selects one.
    pub(crate) fn selected(&self, name: &str) -> Option<&Value> {
        match self.selection.get(name)?.as_slice() {
            [value] => Some(value),
            _ => None,
        }
    }

    /// Whether it states, for each of its figures, the value of a name.
    pub(crate) fn states(&self, name: &str) -> bool {
        let mut names = self.rows.as_slice().iter().chain(&self.columns);
        names.any(|it| it == name) || self.selected(name).is_some()
    }

    /// Whether it has a measure, and states the values of these names for each of its figures, as
    /// a picture of them needs.
    pub(super) fn shows(&self, measure: &str, names: &[&String]) -> bool {
        let mut measures = self.measures.as_slice().iter();
        measures.any(|it| it == measure) && names.iter().all(|name| self.states(name))
    }
}

/// A picture of one measure against another, with figures from the tables.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Picture {
    /// The end of its file's name.
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    /// The measure of the horizontal axis,
    pub(crate) x: String,
    /// and of the vertical one.
    pub(crate) y: String,
    /// The axis in words, if not the measure's name.
    #[serde(default)]
    pub(crate) x_label: Option<String>,
    #[serde(default)]
    pub(crate) y_label: Option<String>,
    /// Logarithmic axes.
    #[serde(default)]
    pub(crate) log: OneOrMore<AxisName>,
    /// Axes on which larger values are better.
    #[serde(default)]
    pub(crate) higher_is_better: OneOrMore<AxisName>,
    /// The value that distinguishes points.
    #[serde(default = "scheme")]
    pub(crate) points: String,
    /// The value for which there is a separate picture each.
    #[serde(default)]
    pub(crate) choose: Option<String>,
    #[serde(default, rename = "where")]
    pub(crate) selection: Where,
}

/// One of a picture's axes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AxisName {
    X,
    Y,
}

fn scheme() -> String {
    "scheme".to_owned()
}

/// A picture with a line for each scheme, or other value, with figures from the tables: a measure
/// against a value in which runs differ, or several measures side by side.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Curves {
    /// The end of its file's name.
    pub(crate) name: String,
    /// One line.
    pub(crate) title: String,
    /// The value along the horizontal axis; without it, the measures are.
    #[serde(default)]
    pub(crate) x: Option<String>,
    /// The measure, or those along the horizontal axis.
    pub(crate) y: OneOrMore<String>,
    /// The axis in words, if not the name of the value or measure.
    #[serde(default)]
    pub(crate) x_label: Option<String>,
    #[serde(default)]
    pub(crate) y_label: Option<String>,
    /// Logarithmic axes.
    #[serde(default)]
    pub(crate) log: OneOrMore<AxisName>,
    /// Whether larger values are better.
    #[serde(default)]
    pub(crate) higher_is_better: bool,
    /// The value that distinguishes lines.
    #[serde(default = "scheme")]
    pub(crate) lines: String,
    /// The value for which there is a separate picture each.
    #[serde(default)]
    pub(crate) choose: Option<String>,
    #[serde(default, rename = "where")]
    pub(crate) selection: Where,
}

impl Curves {
    /// The names whose values it needs to know of each figure.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        let distinct = self.x.iter().chain([&self.lines]).chain(&self.choose);
        distinct.chain(self.selection.keys())
    }
}

impl Picture {
    /// The names whose values it needs to know of each figure.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        let distinct = std::iter::once(&self.points).chain(&self.choose);
        distinct.chain(self.selection.keys())
    }
}

/// A claim of the paper, as a limit of a measurement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim, in a few words.
    pub says: String,
    /// The paper's value or words.
    pub(crate) paper: String,
    /// Whether weft chose the limit: the paper has a curve there, words without a number, or
    /// nothing.
    #[serde(default)]
    pub(crate) own_limit: bool,
    pub(crate) measure: String,
    /// All of these runs must satisfy it.
    #[serde(default, rename = "where")]
    pub(crate) selection: Where,
    /// Divides the measurement.
    #[serde(default)]
    pub(crate) over: Option<Reference>,
    /// Is subtracted from the measurement.
    #[serde(default)]
    pub(crate) less: Option<Reference>,
    #[serde(default)]
    pub(crate) at_most: Option<f64>,
    #[serde(default)]
    pub(crate) at_least: Option<f64>,
    /// The expected value: the interval contains it,
    #[serde(default)]
    pub(crate) equals: Option<f64>,
    /// and half of the interval is at most this fraction of it (default: a tenth).
    #[serde(default)]
    pub(crate) to: Option<f64>,
    /// Why it does not hold, or is undecided, and what showed it.
    #[serde(default)]
    cause: Option<String>,
    /// The same, where nothing has shown it yet.
    #[serde(default)]
    suspected: Option<String>,
}

/// Why a claim does not hold, or is undecided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why<'a> {
    /// A cause that was tested.
    Tested(&'a str),
    /// A cause that was not tested, or none.
    Suspected(&'a str),
}

impl<'a> Why<'a> {
    /// The sentences.
    pub fn says(self) -> &'a str {
        let (Self::Tested(says) | Self::Suspected(says)) = self;
        says.trim()
    }

    /// Whether it was tested.
    pub fn is_tested(self) -> bool {
        matches!(self, Self::Tested(_))
    }
}

impl Claim {
    /// Why it does not hold, if the experiment says so.
    pub fn why(&self) -> Option<Why<'_>> {
        let tested = self.cause.as_deref().map(Why::Tested);
        tested.or(self.suspected.as_deref().map(Why::Suspected))
    }

    /// The largest half of the interval, as a fraction of the expected value.
    pub(crate) fn to(&self) -> f64 {
        self.to.unwrap_or(0.1)
    }

    /// A limit that no figure, or every figure, satisfies.
    fn fault_of_limits(&self) -> Option<String> {
        let limits = self.at_most.is_some() || self.at_least.is_some();
        if limits == self.equals.is_some() {
            return Some("expected at_most, at_least, or both; or equals".to_owned());
        }
        let named = [
            ("at_most", self.at_most),
            ("at_least", self.at_least),
            ("equals", self.equals),
            ("to", self.to),
        ];
        let mut named = named
            .into_iter()
            .filter_map(|(name, limit)| Some((name, limit?)));
        if let Some((name, limit)) = named.find(|(_, limit)| !limit.is_finite()) {
            return Some(format!("{name} = {limit}: expected a finite number"));
        }
        if let Some((least, most)) = self.at_least.zip(self.at_most)
            && least > most
        {
            return Some(format!(
                "at_least = {least} is more than at_most = {most}: no figure is within both"
            ));
        }
        match (self.to, self.equals) {
            (Some(to), None) => Some(format!(
                "to = {to} needs equals, the value that the interval contains"
            )),
            (Some(to), Some(_)) if !(to > 0.0 && to < 1.0) => Some(format!(
                "to = {to}: expected a fraction above 0 and below 1, such as 0.1"
            )),
            _ => None,
        }
    }
}

/// The partner for a comparison: the run with these values and otherwise the same ones.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reference {
    /// A measure, if it is not the claim's.
    #[serde(default)]
    pub(crate) measure: Option<String>,
    #[serde(default, rename = "where")]
    pub(crate) selection: BTreeMap<String, Value>,
}

/// The largest file of an experiment.
const FILE: SizeLimit = SizeLimit {
    kind: "an experiment or a topology",
    bytes: 4 * MIB,
};

/// The names of the experiments that weft brings.
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = BUILT_IN
        .files()
        .filter_map(|file| file.path().to_str()?.strip_suffix(".toml"))
        .collect();
    names.sort_unstable();
    names
}

/// The experiment of that name or in that file, if it is an experiment and not a topology.
///
/// # Errors
///
/// If it is one, but invalid: the mistake.
pub fn named(text: &str) -> Result<Option<Experiment>> {
    if let Some(file) = BUILT_IN.get_file(format!("{text}.toml")) {
        let content = file.contents_utf8().unwrap_or_default();
        return Experiment::parse(text, text, content).map(Some);
    }
    let kind = text.split(':').next().unwrap_or(text);
    let content = match FILE.read_text(text) {
        Ok(content) => content,
        Err(error) if error.kind() == ErrorKind::FileTooLarge && !KINDS.contains(&kind) => {
            return usage(format!("{text}: {error}"));
        }
        Err(_) => return Ok(None),
    };
    if KINDS.contains(&kind) || !is_meant(&content) {
        // A topology, whose parser reports its mistakes.
        return Ok(None);
    }
    let stem = Path::new(text).file_stem().and_then(|stem| stem.to_str());
    Experiment::parse(stem.unwrap_or(text), text, &content).map(Some)
}

/// Whether a file is meant as an experiment, well-formed or not. A topology has none of these keys.
fn is_meant(content: &str) -> bool {
    const KEYS: [&str; 5] = ["title", "runs", "measures", "tables", "claims"];
    match content.parse::<toml::Table>() {
        Ok(table) => KEYS.iter().any(|key| table.contains_key(*key)),
        Err(_) => content.lines().any(|line| line.trim() == "[[runs]]"),
    }
}

impl Experiment {
    /// The experiment of that name or in that file.
    ///
    /// # Errors
    ///
    /// If there is none, or it is invalid.
    pub fn find(text: &str) -> Result<Self> {
        match named(text)? {
            Some(experiment) => Ok(experiment),
            None => usage(format!(
                "there is no experiment `{text}`{}: expected one of {}, or a file such as ./{text}.toml",
                meant(text, &names()),
                names().join(", ")
            )),
        }
    }

    /// `place` is the file's name in errors.
    pub(super) fn parse(name: &str, place: &str, text: &str) -> Result<Self> {
        let description: Description = match toml::from_str(text) {
            Ok(description) => description,
            Err(error) => return usage(format!("{place}: {error}{}", cure(&error))),
        };
        let experiment = Self {
            name: name.to_owned(),
            text: text.to_owned(),
            description,
        };
        match experiment.description.fault() {
            Some(sentence) => usage(format!("{place}: {sentence}")),
            None => Ok(experiment),
        }
    }
}

/// What to write instead, if one bracket is missing: the parser only says what it is.
fn cure(error: &toml::de::Error) -> &'static str {
    if error.message() == "invalid type: map, expected a sequence" {
        "runs, tables, pictures, curves, claims and findings have two brackets: [[runs]]"
    } else {
        ""
    }
}

impl Description {
    /// The mistake in it, if it can be found without its runs.
    fn fault(&self) -> Option<String> {
        if self.runs.is_empty() {
            return Some("runs is empty: expected at least one [[runs]]".to_owned());
        }
        if self.seeds.as_ref().is_some_and(Vec::is_empty) {
            return Some("seeds is empty: expected at least one".to_owned());
        }
        if self.tables.is_empty() && self.claims.is_empty() {
            return Some("it shows nothing: expected a [[tables]] or a [[claims]]".to_owned());
        }
        let unnamed = self.runs.iter().filter(|runs| runs.name.is_none()).count();
        if self.runs.len() > 1 && unnamed > 0 {
            return Some("where there are several runs, each has a name".to_owned());
        }
        let mut names = self.runs.iter().flat_map(|runs| {
            let unused = |name: &&String| !runs.options.contains(&format!("{{{name}}}"));
            runs.each.keys().filter(unused)
        });
        if let Some(name) = names.next() {
            return Some(format!(
                "each.{name} is not in the options: expected {{{name}}} there"
            ));
        }
        let mut empty = self.runs.iter().flat_map(|runs| {
            let lists = runs.each.iter();
            lists.filter_map(|(name, values)| values.is_empty().then_some(name))
        });
        if let Some(name) = empty.next() {
            return Some(format!("each.{name} is empty: expected at least one value"));
        }
        let mut others = self.runs.iter().flat_map(|runs| {
            let names = runs.with.keys();
            names.filter(|name| !runs.is_value(name))
        });
        if let Some(name) = others.next() {
            return Some(format!("with.{name}: no value of each is {name}"));
        }
        if let Some(fault) = self.runs.iter().find_map(Runs::fault_of_allow) {
            return Some(fault);
        }
        let measures = self.measures.iter();
        let fault = measures
            .filter_map(|(name, measure)| Some(format!("measure {name}: {}", measure.fault()?)))
            .next();
        fault
            .or_else(|| {
                self.tables
                    .iter()
                    .find_map(|table| self.fault_of_table(table))
            })
            .or_else(|| self.fault_of_names())
            .or_else(|| {
                self.pictures
                    .iter()
                    .find_map(|it| self.fault_of_picture(it))
            })
            .or_else(|| self.curves.iter().find_map(|it| self.fault_of_curves(it)))
            .or_else(|| {
                self.claims
                    .iter()
                    .find_map(|claim| self.fault_of_claim(claim))
            })
    }

    fn fault_of_table(&self, table: &Table) -> Option<String> {
        let names = table.rows.as_slice().iter().chain(&table.columns);
        let selected = table.selection.keys();
        let fault = names.chain(selected).find_map(|name| self.unknown(name));
        let measures = table.measures.as_slice().iter();
        let fault = fault.or_else(|| measures.clone().find_map(|name| self.unmeasured(name)));
        let none = measures.len() == 0;
        fault
            .or_else(|| none.then(|| "it has no measures".to_owned()))
            .map(|fault| format!("table {}: {fault}", table.title))
    }

    /// A name of a picture that is no part of a file's name, or that two have.
    fn fault_of_names(&self) -> Option<String> {
        let letters = |c: char| c.is_ascii_lowercase();
        let plain = |c: char| letters(c) || c.is_ascii_digit() || c == '-';
        let curves = self.curves.iter().map(|it| &it.name);
        let names: Vec<&String> = self
            .pictures
            .iter()
            .map(|it| &it.name)
            .chain(curves)
            .collect();
        names.iter().enumerate().find_map(|(place, name)| {
            // Pictures of tables have numbers as names.
            if !(name.starts_with(letters) && name.chars().all(plain)) {
                return Some(format!(
                    "picture `{name}`: expected a name of a to z, 0 to 9 and -, such as tradeoff"
                ));
            }
            names[..place]
                .contains(name)
                .then(|| format!("picture {name}: there is another of that name"))
        })
    }

    fn fault_of_picture(&self, picture: &Picture) -> Option<String> {
        let measures = [&picture.x, &picture.y];
        self.fault_of_shown(&measures, &picture.names().collect::<Vec<_>>())
            .map(|fault| format!("picture {}: {fault}", picture.name))
    }

    /// Figures of measures by these names that no table has.
    fn fault_of_shown(&self, measures: &[&String], names: &[&String]) -> Option<String> {
        let untabled = |measure: &&String| {
            let is_there = self.tables.iter().any(|table| table.shows(measure, names));
            (!is_there).then(|| {
                let by: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
                format!(
                    "no table has `{measure}` by {}: a picture shows figures of tables",
                    by.join(", ")
                )
            })
        };
        let fault = measures.iter().find_map(|name| self.unmeasured(name));
        fault
            .or_else(|| names.iter().find_map(|name| self.unknown(name)))
            .or_else(|| measures.iter().find_map(untabled))
    }

    fn fault_of_curves(&self, curves: &Curves) -> Option<String> {
        let measures = curves.y.as_slice();
        let units: Vec<&str> = measures
            .iter()
            .filter_map(|name| Some(self.measures.get(name)?.unit()))
            .collect();
        let fault = match (&curves.x, measures) {
            (_, []) => Some("y is empty: expected a measure".to_owned()),
            (Some(_), [_, _, ..]) => {
                Some("expected x and one measure y, or measures y without x".to_owned())
            }
            (None, [_]) => Some("expected x, or several measures y side by side".to_owned()),
            _ if units.iter().any(|unit| *unit != units[0]) => {
                Some("its measures have different units".to_owned())
            }
            _ => None,
        };
        let measures: Vec<&String> = measures.iter().collect();
        let names: Vec<&String> = curves.names().collect();
        fault
            .or_else(|| self.fault_of_shown(&measures, &names))
            .map(|fault| format!("picture {}: {fault}", curves.name))
    }

    fn fault_of_claim(&self, claim: &Claim) -> Option<String> {
        let others = claim.over.iter().chain(&claim.less);
        let measures = others.clone().filter_map(|other| other.measure.as_ref());
        let selected = others.flat_map(|other| other.selection.keys());
        std::iter::once(&claim.measure)
            .chain(measures)
            .find_map(|name| self.unmeasured(name))
            .or_else(|| {
                let mut names = claim.selection.keys().chain(selected);
                names.find_map(|name| self.unknown(name))
            })
            .or_else(|| claim.fault_of_limits())
            .or_else(|| {
                let both = claim.over.is_some() && claim.less.is_some();
                both.then(|| "expected over or less".to_owned())
            })
            .or_else(|| {
                let both = claim.cause.is_some() && claim.suspected.is_some();
                both.then(|| "expected cause or suspected".to_owned())
            })
            .map(|fault| format!("claim {}: {fault}", claim.says))
    }

    fn unmeasured(&self, name: &str) -> Option<String> {
        let known: Vec<&str> = self.measures.keys().map(String::as_str).collect();
        (!self.measures.contains_key(name)).then(|| match known.as_slice() {
            [] => format!("there is no measure `{name}`: [measures] is empty"),
            known => format!(
                "there is no measure `{name}`: there is {}",
                known.join(", ")
            ),
        })
    }

    /// An objection to a name of a value in which runs do not differ.
    fn unknown(&self, name: &str) -> Option<String> {
        let each = self.runs.iter().flat_map(|runs| runs.each.keys());
        let mut known: Vec<&str> = each.map(String::as_str).chain(["scheme", "runs"]).collect();
        known.sort_unstable();
        known.dedup();
        (!known.contains(&name)).then(|| {
            format!(
                "runs do not differ in `{name}`: expected one of {}",
                known.join(", ")
            )
        })
    }
}
