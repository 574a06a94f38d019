// SPDX-License-Identifier: MIT OR Apache-2.0

//! Whether tables, pictures and claims select runs that the plan has. A mistake is reported before
//! the first run, not after the last one.

use std::collections::{BTreeMap, BTreeSet};

use super::description::{Claim, Description, Table, Value, Where};

/// The values of runs that differ only in the seed.
type Values = BTreeMap<String, Value>;

/// The first mistake in what the description selects from these groups of runs: one sentence.
pub(super) fn fault(description: &Description, groups: BTreeSet<Values>) -> Option<String> {
    let groups = Groups(groups);
    let tables = description.tables.iter().map(|table| {
        let fault = groups.lack(&table.selection);
        let fault = fault.or_else(|| groups.fault_of_cells(table));
        fault.map(|fault| format!("table {}: {fault}", table.title))
    });
    let pictures = description.pictures.iter().map(|picture| {
        let fault = groups.lack(&picture.selection);
        fault.map(|fault| format!("picture {}: {fault}", picture.name))
    });
    let curves = description.curves.iter().map(|curves| {
        let fault = groups.lack(&curves.selection);
        fault.map(|fault| format!("picture {}: {fault}", curves.name))
    });
    let pictures = pictures.chain(curves);
    let claims = description.claims.iter().map(|claim| {
        let fault = groups.lack(&claim.selection);
        let fault = fault.or_else(|| groups.fault_of_reference(claim));
        fault.map(|fault| format!("claim {}: {fault}", claim.says))
    });
    tables.chain(pictures).chain(claims).flatten().next()
}

/// Whether a selection includes runs with these values.
pub(super) fn selects(selection: &Where, values: &Values) -> bool {
    selection.iter().all(|(name, wanted)| {
        let value = values.get(name);
        value.is_some_and(|value| wanted.as_slice().contains(value))
    })
}

struct Groups(BTreeSet<Values>);

impl Groups {
    fn selected(&self, selection: &Where) -> impl Iterator<Item = &Values> {
        self.0.iter().filter(|values| selects(selection, values))
    }

    /// A value that no run has, or values that no run has together.
    fn lack(&self, selection: &Where) -> Option<String> {
        let wanted = selection
            .iter()
            .flat_map(|(name, values)| values.as_slice().iter().map(move |value| (name, value)));
        let unknown = wanted
            .clone()
            .find_map(|(name, value)| self.unknown(name, value));
        unknown.or_else(|| {
            let all = wanted.map(|(name, value)| format!("{name} = {value}"));
            let all = all.collect::<Vec<_>>().join(", ");
            let none = self.selected(selection).next().is_none();
            none.then(|| format!("no run has the values of `where` together: {all}"))
        })
    }

    fn unknown(&self, name: &str, value: &Value) -> Option<String> {
        let known: BTreeSet<&Value> = self.0.iter().filter_map(|it| it.get(name)).collect();
        if known.contains(value) {
            return None;
        }
        let known: Vec<&str> = known.into_iter().map(|it| it.0.as_str()).collect();
        let known = known.join(", ");
        Some(format!(
            "no run has {name} = `{value}`: expected one of {known}"
        ))
    }

    /// Runs that a claim refers to and that do not exist.
    fn fault_of_reference(&self, claim: &Claim) -> Option<String> {
        let reference = claim.over.as_ref().or(claim.less.as_ref())?;
        let mut wanted = reference.selection.iter();
        let unknown = wanted.find_map(|(name, value)| self.unknown(name, value));
        unknown.or_else(|| {
            self.selected(&claim.selection).find_map(|values| {
                let mut partner = values.clone();
                partner.extend(reference.selection.clone());
                (!self.0.contains(&partner)).then(|| {
                    let of = |values: &Values| {
                        let each = values.iter().map(|(name, value)| format!("{name} {value}"));
                        each.collect::<Vec<_>>().join(", ")
                    };
                    format!(
                        "there is no run ({}) to compare with that of ({})",
                        of(&partner),
                        of(values)
                    )
                })
            })
        })
    }

    /// Several runs for one cell.
    fn fault_of_cells(&self, table: &Table) -> Option<String> {
        let names = || table.rows.as_slice().iter().chain(&table.columns);
        let mut cells = BTreeSet::new();
        let mut keys = self
            .selected(&table.selection)
            .map(|values| names().map(|name| values.get(name)).collect::<Vec<_>>());
        let twice = keys.any(|key| !cells.insert(key));
        twice.then(|| {
            "there are several runs for one cell: name in rows what they differ in".to_owned()
        })
    }
}
