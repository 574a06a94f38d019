// SPDX-License-Identifier: MIT OR Apache-2.0

//! The statistics of weft's qdiscs that are figures of their port, as each mechanism's entry says.

use std::sync::LazyLock;

use weft_load::record::PortSample;
use weft_mechanisms::common::mechanism::Qdisc;
use weft_mechanisms::common::statistics::Table;

use super::reading::PortReading;

/// A value's place among the bytes of a qdisc's statistics.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    width: usize,
}

/// Sets a figure of a port.
#[derive(Clone, Copy)]
enum Target {
    Sample(fn(&mut PortSample, u64)),
    Reading(fn(&mut PortReading, u64)),
}

/// The figures of a port that a kind of qdisc reports.
struct Reported {
    kind: &'static str,
    table: &'static Table,
    /// Figures, and the statistics whose sum each is.
    figures: Vec<(Target, Vec<Place>)>,
}

static REPORTED: LazyLock<Vec<Reported>> = LazyLock::new(|| {
    let all = weft_mechanisms::QDISCS.iter();
    all.filter_map(reported).collect()
});

/// The figures of a port, by their names.
fn targets() -> impl Iterator<Item = (&'static str, Target)> {
    let sample = PortSample::STATISTICS.iter();
    let reading = PortReading::STATISTICS.iter();
    sample
        .map(|it| (it.name, Target::Sample(it.set)))
        .chain(reading.map(|it| (it.name, Target::Reading(it.set))))
}

/// The names of the qdisc's statistics whose sum is a figure of its port; none if it reports no
/// such figure.
fn sources(qdisc: &Qdisc, table: &Table, figure: &'static str) -> Vec<&'static str> {
    let mut sums = qdisc.port.sums.iter();
    if let Some((_, sources)) = sums.find(|(name, _)| *name == figure) {
        return sources.to_vec();
    }
    // Of its group, it reports what its statistics have by the same name.
    let name = figure
        .split_once('.')
        .filter(|(group, _)| *group == qdisc.port.group);
    let name = name.map(|(_, name)| name);
    let is_there = |name: &&str| table.figures.iter().any(|it| it.name == *name);
    name.filter(is_there).into_iter().collect()
}

fn reported(qdisc: &'static Qdisc) -> Option<Reported> {
    let table = qdisc.statistics.first()?;
    let figures = targets().filter_map(|(name, target)| {
        let sources = sources(qdisc, table, name).into_iter();
        let places: Vec<Place> = sources.filter_map(|name| place(table, name)).collect();
        (!places.is_empty()).then_some((target, places))
    });
    let figures: Vec<_> = figures.collect();
    (!figures.is_empty()).then_some(Reported {
        kind: qdisc.kind,
        table,
        figures,
    })
}

fn place(table: &Table, name: &str) -> Option<Place> {
    let mut at = if table.tag.is_some() { 4 } else { 0 };
    for figure in table.figures {
        if figure.name == name {
            return Some(Place {
                at,
                width: figure.width,
            });
        }
        at += figure.width * figure.values;
    }
    None
}

impl Place {
    fn value(self, bytes: &[u8]) -> u64 {
        let value = bytes.get(self.at..self.at + self.width).unwrap_or_default();
        match *value {
            [a, b, c, d] => u32::from_ne_bytes([a, b, c, d]).into(),
            _ => value.try_into().map_or(0, u64::from_ne_bytes),
        }
    }
}

/// Adds the statistics of a qdisc, if it is one of these.
pub(super) fn add(port: &mut PortReading, kind: &str, app: &[u8]) {
    let Some(reported) = REPORTED.iter().find(|it| it.kind == kind) else {
        return;
    };
    let tag = app.first_chunk().map(|tag| u32::from_ne_bytes(*tag));
    let is_of_qdisc = reported.table.tag.is_none() || reported.table.tag == tag;
    if !is_of_qdisc || app.len() < reported.table.size() {
        return;
    }
    for (target, places) in &reported.figures {
        let value = places.iter().map(|place| place.value(app)).sum();
        match target {
            Target::Sample(set) => set(&mut port.sample, value),
            Target::Reading(set) => set(port, value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mechanism's entry names figures and statistics as texts.
    #[test]
    fn each_name_in_a_mechanisms_entry_exists() {
        for qdisc in weft_mechanisms::QDISCS {
            let port = qdisc.port;
            let groups = PortSample::STATISTICS
                .iter()
                .filter_map(|it| it.name.split_once('.'));
            let mut groups = groups.map(|(group, _)| group);
            assert!(
                port.group.is_empty() || groups.any(|it| it == port.group),
                "{}",
                qdisc.kind
            );
            for (figure, sources) in port.sums {
                assert!(targets().any(|(name, _)| name == *figure), "{figure}");
                for source in *sources {
                    assert!(place(&qdisc.statistics[0], source).is_some(), "{source}");
                }
            }
        }
    }
}
