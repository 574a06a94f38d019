// SPDX-License-Identifier: MIT OR Apache-2.0

//! The figures of a table.

use std::collections::BTreeMap;

use anyhow::Result;

use super::group::Group;
use super::{FilledTable, Places, Row};
use crate::error::usage;
use crate::experiment::description::{Table, Value};
use crate::experiment::measure::Measure;
use crate::experiment::selected::selects;
use crate::results::Estimate;

/// The distinct ones, in their order.
pub(in crate::experiment) fn distinct<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut kept = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}

/// A row's values, which distinguish it from other rows.
type Key = Vec<Option<Value>>;

/// The groups of runs in a table.
struct Cells<'a> {
    table: &'a Table,
    measures: &'a BTreeMap<String, Measure>,
    groups: Vec<&'a Group<'a>>,
}

impl Cells<'_> {
    fn key(&self, group: &Group<'_>) -> Key {
        let names = self.table.rows.as_slice().iter();
        names.map(|name| group.values.get(name).cloned()).collect()
    }

    /// The figure of the one group that belongs to a row and, if there are columns, to a column.
    fn cell(
        &self,
        row: &Key,
        column: Option<(&str, &Value)>,
        name: &str,
    ) -> Result<(Option<Estimate>, Places)> {
        let mut found = self.groups.iter().filter(|group| {
            let fits = |(name, value): (&str, &Value)| group.values.get(name) == Some(value);
            self.key(group) == *row && column.is_none_or(fits)
        });
        match (found.next(), found.next()) {
            (Some(_), Some(_)) => usage(format!(
                "table {}: there are several runs for one cell: name in rows what they differ in",
                self.table.title
            )),
            (Some(group), None) => {
                let figure = group.figure(&self.measures[name])?;
                Ok((figure, Places::new(group.places.clone())))
            }
            (None, _) => Ok((None, Places::default())),
        }
    }
}

pub(super) fn measured(
    table: &Table,
    measures: &BTreeMap<String, Measure>,
    all: &[Group<'_>],
) -> Result<FilledTable> {
    let groups = all
        .iter()
        .filter(|group| selects(&table.selection, group.values));
    let cells = Cells {
        table,
        measures,
        groups: groups.collect(),
    };
    let keys = distinct(cells.groups.iter().map(|group| cells.key(group)));
    let names = table.measures.as_slice();
    let mut head: Vec<String> = table.rows.as_slice().to_vec();
    let mut rows = Vec::new();
    let labels = |key: &Key| -> Vec<String> {
        let shown =
            |value: &Option<Value>| value.as_ref().map_or_else(String::new, |it| it.0.clone());
        key.iter().map(shown).collect()
    };
    if let Some(column) = &table.columns {
        let values = cells
            .groups
            .iter()
            .filter_map(|group| group.values.get(column));
        let values = distinct(values);
        head.push(column.clone());
        head.extend(values.iter().map(|value| value.0.clone()));
        for key in &keys {
            for name in names {
                let figures = values
                    .iter()
                    .map(|value| cells.cell(key, Some((column, value)), name));
                let mut labels = labels(key);
                labels.push(measures[name].label(name));
                rows.push(Row::new(labels, figures)?);
            }
        }
    } else {
        head.extend(names.iter().map(|name| measures[name].label(name)));
        for key in &keys {
            let figures = names.iter().map(|name| cells.cell(key, None, name));
            rows.push(Row::new(labels(key), figures)?);
        }
    }
    Ok(FilledTable {
        title: table.title.clone(),
        head,
        rows,
    })
}
