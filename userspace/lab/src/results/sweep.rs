// SPDX-License-Identifier: MIT OR Apache-2.0

//! The varied options of a sweep: columns that differ in a load, a parameter or the topology are
//! points of a line.

use std::collections::BTreeMap;

use weft_load::record::Header;

use super::{Group, alike};
use crate::parameter::{rate, time};

/// Columns as points of lines.
#[derive(Debug, PartialEq)]
pub struct Sweep {
    /// The varied options: at least one.
    pub axes: Vec<Axis>,
    /// In the order of their first columns; at least one has several points.
    pub lines: Vec<Line>,
}

/// An option with several values.
#[derive(Debug, PartialEq)]
pub struct Axis {
    /// `load`, `topology`, or a parameter's name.
    pub name: String,
    /// The kind of its values.
    pub kind: Kind,
    /// The values as written, with their places on the axis, in its order.
    pub values: Vec<(String, f64)>,
}

/// The kind of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers.
    Number,
    /// Times, which are in ns.
    Time,
    /// Rates, which are in bit/s.
    Rate,
    /// Any other: counted from 0, in the order of their appearance.
    Words,
}

/// Columns that differ only in the varied options.
#[derive(Debug, PartialEq)]
pub struct Line {
    /// The scheme, and whatever else distinguishes the line.
    pub name: String,
    /// In the order of the columns.
    pub points: Vec<Point>,
}

/// A column.
#[derive(Debug, PartialEq, Eq)]
pub struct Point {
    /// For each axis, the index of the value.
    pub at: Vec<usize>,
    /// The index of the column.
    pub column: usize,
}

const TOPOLOGY: &str = "topology";
const LOAD: &str = "load";

impl Sweep {
    /// The sweep in these columns; `None` if no line would have several points.
    pub fn of(groups: &[Group]) -> Option<Self> {
        let headers: Vec<&Header> = groups.iter().map(|group| &group.runs[0].header).collect();
        let said: Vec<BTreeMap<String, String>> = headers.iter().map(|it| said(it)).collect();
        let mut names: Vec<&String> = Vec::new();
        for name in said.iter().flat_map(BTreeMap::keys) {
            let value = |column: usize| value(name, headers[column], &said[column]);
            let varied = (0..headers.len()).any(|one| {
                let twins = (0..one).filter(|it| headers[*it].scheme == headers[one].scheme);
                twins.map(value).any(|twin| twin != value(one))
            });
            if varied && !names.contains(&name) {
                names.push(name);
            }
        }
        let axis = |name: &&String| {
            let of = |(header, said)| value(name, header, said);
            Axis::new(name, headers.iter().copied().zip(&said).map(of))
        };
        let axes: Vec<Axis> = names.iter().map(axis).collect();
        let mut lines: Vec<(Header, Vec<Point>)> = Vec::new();
        for (column, (header, said)) in headers.iter().zip(&said).enumerate() {
            let at = axes
                .iter()
                .map(|axis| axis.place(&value(&axis.name, header, said)));
            let at: Vec<usize> = at.collect::<Option<_>>()?;
            let rest = without(header, &axes);
            // Two columns that nothing distinguishes are not two values at one place of a line.
            let own = lines.iter_mut().find(|(other, points)| {
                alike::same_but_for_the_seed(other, &rest) && points.iter().all(|it| it.at != at)
            });
            let point = Point { at, column };
            match own {
                Some((_, points)) => points.push(point),
                None => lines.push((rest, vec![point])),
            }
        }
        lines.iter().find(|(_, points)| points.len() > 1)?;
        let names = alike::names(&lines.iter().map(|(header, _)| header).collect::<Vec<_>>());
        let lines = names.into_iter().zip(lines);
        Some(Self {
            axes,
            lines: lines
                .map(|(name, (_, points))| Line { name, points })
                .collect(),
        })
    }
}

impl Axis {
    fn new(name: &str, values: impl Iterator<Item = String>) -> Self {
        let mut all: Vec<String> = Vec::new();
        for value in values {
            if !all.contains(&value) {
                all.push(value);
            }
        }
        let kinds = [Kind::Number, Kind::Time, Kind::Rate];
        let fits = |kind: &Kind| all.iter().all(|text| kind.read(text).is_some());
        let kind = kinds.into_iter().find(fits).unwrap_or(Kind::Words);
        let place = |(number, text): (usize, String)| {
            let at = kind.read(&text).unwrap_or(number as f64);
            (text, at)
        };
        let mut values: Vec<_> = all.into_iter().enumerate().map(place).collect();
        values.sort_by(|a, b| a.1.total_cmp(&b.1));
        // 0.2 and 0.20 are the same value.
        values.dedup_by(|a, b| a.1 == b.1);
        Self {
            name: name.to_owned(),
            kind,
            values,
        }
    }

    /// The index of a text among the values.
    fn place(&self, text: &str) -> Option<usize> {
        let read = self.kind.read(text);
        let mut values = self.values.iter();
        values.position(|(own, at)| own == text || read == Some(*at))
    }
}

impl Kind {
    /// A value's place on an axis; words have no place of their own.
    fn read(self, text: &str) -> Option<f64> {
        match self {
            Self::Number => text.parse().ok().filter(|it: &f64| it.is_finite()),
            Self::Time => Some(time(text)? as f64),
            Self::Rate => Some(rate(text)? as f64),
            Self::Words => None,
        }
    }
}

/// The options of the command line that a sweep may vary.
fn said(header: &Header) -> BTreeMap<String, String> {
    let mut said = BTreeMap::from([(TOPOLOGY.to_owned(), header.topology.clone())]);
    for option in alike::options(header) {
        let words = option.split_once(' ');
        let setting = match words {
            Some(("--load", value)) => Some((LOAD, value)),
            Some(("--set", setting)) => setting.split_once('='),
            _ => None,
        };
        said.extend(setting.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
    said
}

/// An option's value, whether the command line gave it or not.
fn value(name: &str, header: &Header, said: &BTreeMap<String, String>) -> String {
    let load = || header.workload.load.as_deref()?.split(' ').next();
    let known = match name {
        LOAD => load(),
        _ => header.parameters.get(name).map(String::as_str),
    };
    let value = said.get(name).map(String::as_str).or(known);
    value.unwrap_or("none").to_owned()
}

/// The header without the varied options and their consequences.
fn without(header: &Header, axes: &[Axis]) -> Header {
    let mut rest = header.clone();
    let varied = |name: &str| axes.iter().any(|axis| axis.name == name);
    let mut words = header.options.iter();
    rest.options.clear();
    while let Some(word) = words.next() {
        let is_set = |value: Option<&String>| {
            let name = value.and_then(|it| it.split_once('='));
            name.is_some_and(|(name, _)| varied(name))
        };
        match word.as_str() {
            "--load" if varied(LOAD) => drop(words.next()),
            "--set" if is_set(words.as_slice().first()) => drop(words.next()),
            _ => rest.options.push(word.clone()),
        }
    }
    if varied(LOAD) {
        rest.workload.load = None;
    }
    if varied(TOPOLOGY) {
        rest.topology.clear();
        rest.options = rest.options.split_off(1.min(rest.options.len()));
    }
    // Parameters follow from each other and from the topology, and the length of a warm-up follows
    // from the load. Explicit settings are among the options.
    if axes.iter().any(|axis| axis.name != LOAD) {
        rest.parameters.clear();
    }
    rest.workload.warm_up = 0.0;
    rest.inputs.clear();
    rest
}

#[cfg(test)]
mod tests {
    use weft_load::record::Recorded;

    use super::*;
    use crate::sample::sample;

    /// A column of a scheme with options besides the topology.
    fn column(scheme: &str, words: &str) -> Group {
        let sample = sample(scheme, 1, 10, 2.0);
        let mut header = sample.header;
        header.options = words.split(' ').map(str::to_owned).collect();
        header.topology = header.options[0].clone();
        let mut options = header.options.iter();
        if options.any(|word| word == "--load") {
            let load = options.next().unwrap();
            header.workload.load = Some(format!("{load} of host links (wire bytes)"));
            header.workload.warm_up = load.parse::<f64>().unwrap() / 2.0;
        }
        header.inputs.insert("flows".into(), words.into());
        let run = Recorded {
            header,
            flows: sample.flows,
            ports: sample.ports,
            path: None,
            summary: Some(sample.summary),
        };
        Group::new(format!("{scheme} {words}"), vec![run])
    }

    /// The names of axes with their values, and of lines with the columns at their places.
    fn found(columns: &[(&str, &str)]) -> Option<(Vec<String>, Vec<String>)> {
        let groups: Vec<Group> = columns
            .iter()
            .map(|(scheme, words)| column(scheme, words))
            .collect();
        let sweep = Sweep::of(&groups)?;
        let axes = sweep.axes.iter().map(|axis| {
            let values: Vec<&str> = axis.values.iter().map(|it| it.0.as_str()).collect();
            format!("{} {:?} {}", axis.name, axis.kind, values.join(","))
        });
        let lines = sweep.lines.iter().map(|line| {
            let points = line
                .points
                .iter()
                .map(|it| format!("{:?}{}", it.at, it.column));
            format!("{}: {}", line.name, points.collect::<Vec<_>>().join(" "))
        });
        Some((axes.collect(), lines.collect()))
    }

    #[test]
    fn loads_are_an_axis_and_schemes_are_lines() {
        let (axes, lines) = found(&[
            ("dctcp", "x --load 0.4"),
            ("pfabric", "x --load 0.4"),
            ("dctcp", "x --load 0.2"),
            ("pfabric", "x --load 0.2"),
            ("pfabric", "x --load 0.60"),
        ])
        .unwrap();
        assert_eq!(axes, ["load Number 0.2,0.4,0.60"]);
        assert_eq!(lines, ["dctcp: [1]0 [0]2", "pfabric: [1]1 [0]3 [2]4"]);
    }

    #[test]
    fn each_of_several_options_is_an_axis() {
        let (axes, lines) = found(&[
            ("dctcp", "x --set mark=9 --load 0.2 --set rto=1ms"),
            ("dctcp", "x --set mark=9 --load 0.2 --set rto=50us"),
            ("dctcp", "y --set mark=9 --load 0.4 --set rto=50us"),
            // The sample run has a buffer of 150.
            (
                "dctcp",
                "x --set mark=9 --load 0.4 --set rto=1ms --set buffer=24",
            ),
        ])
        .unwrap();
        let expected = [
            "load Number 0.2,0.4",
            "rto Time 50us,1ms",
            "topology Words x,y",
            "buffer Number 24,150",
        ];
        let mut sorted = axes.clone();
        sorted.sort();
        let mut all = expected.map(str::to_owned).to_vec();
        all.sort();
        assert_eq!(sorted, all);
        assert_eq!(lines.len(), 1);
    }

    #[test]
    fn another_difference_makes_another_line() {
        let (_, lines) = found(&[
            ("dctcp", "x --load 0.2"),
            ("dctcp", "x --load 0.4"),
            ("dctcp", "x --load 0.2 --ipv6"),
            ("dctcp", "x --load 0.2"),
        ])
        .unwrap();
        assert_eq!(
            lines,
            ["dctcp: [0]0 [1]1", "dctcp --ipv6: [0]2", "dctcp (2): [0]3"]
        );
    }

    #[test]
    fn an_option_that_differs_only_between_schemes_is_not_a_sweep() {
        assert_eq!(found(&[("dctcp", "x --load 0.2")]), None);
        assert_eq!(
            found(&[("dctcp", "x --load 0.2"), ("pfabric", "x --load 0.4")]),
            None
        );
        assert_eq!(
            found(&[("dctcp", "x --load 0.2"), ("dctcp", "x --load 0.4 --ipv6")]),
            None
        );
    }
}
