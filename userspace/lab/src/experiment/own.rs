// SPDX-License-Identifier: MIT OR Apache-2.0

//! An experiment under schemes of a person's own choice: only these run, and their figures stand
//! beside the kept ones.

use anyhow::{Error, Result, anyhow};

use super::description::{Experiment, OneOrMore, Runs, Value, Where};
use super::judge::{FilledTable, Judgement, Row};
use super::plan::{Asked, plan};
use crate::error::usage;
use crate::run::Run;

const SCHEME: &str = "scheme";

impl Experiment {
    /// The same experiment with only these schemes, in the runs that its own schemes share. It has
    /// no claims, which are about its own schemes, and no findings. Runs that a scheme cannot take,
    /// because they set a parameter that it lacks or have options for each of their own schemes,
    /// are left out: their names and the reasons.
    ///
    /// # Errors
    ///
    /// If no runs differ in their scheme, or none can take these.
    pub fn of_schemes(
        &self,
        schemes: &[String],
        asked: &Asked,
        read: &dyn Fn(&[String]) -> Result<Run>,
    ) -> Result<(Self, Vec<(String, String)>)> {
        let schemes: Vec<Value> = schemes.iter().map(|it| Value(it.clone())).collect();
        let (mut taken, mut left_out) = (Vec::new(), Vec::new());
        let shared = self.description.runs.iter();
        for runs in shared.filter(|runs| runs.each.contains_key(SCHEME)) {
            let name = runs.name.clone().unwrap_or_default();
            let schemes_of = &runs.each[SCHEME];
            if schemes_of.iter().all(|it| runs.with.contains_key(&it.0)) {
                let why = "it has options for each of its own schemes";
                left_out.push((name, anyhow!(why)));
                continue;
            }
            let runs = of_schemes(runs, &schemes);
            match plan(&self.of_runs(vec![runs.clone()], &schemes), asked, read) {
                Ok(_) => taken.push(runs),
                Err(error) => left_out.push((name, error)),
            }
        }
        if taken.is_empty() {
            let Some((_, error)) = left_out.into_iter().next() else {
                return usage(format!(
                    "--scheme: {0} has no runs that differ in their scheme; `weft experiments export {0} mine.toml` \
                     writes a copy to edit",
                    self.name
                ));
            };
            return Err(error);
        }
        let reason = |(name, error): (String, Error)| (name, error.root_cause().to_string());
        let left_out = left_out.into_iter().map(reason).collect();
        Ok((self.of_runs(taken, &schemes), left_out))
    }

    /// With these runs alone, and what shows something of them.
    fn of_runs(&self, runs: Vec<Runs>, schemes: &[Value]) -> Self {
        let fits = |selection: &mut Where| narrow(selection, &runs, schemes);
        let mut description = self.description.clone();
        description.claims.clear();
        description.findings.clear();
        description
            .tables
            .retain_mut(|table| fits(&mut table.selection));
        description
            .pictures
            .retain_mut(|picture| fits(&mut picture.selection));
        description
            .curves
            .retain_mut(|curves| fits(&mut curves.selection));
        description.runs = runs;
        Self {
            name: self.name.clone(),
            text: self.text.clone(),
            description,
        }
    }
}

fn of_schemes(runs: &Runs, schemes: &[Value]) -> Runs {
    let mut runs = runs.clone();
    runs.each.insert(SCHEME.to_owned(), schemes.to_vec());
    let is_there = |ideal: &String| schemes.iter().any(|scheme| scheme.0 == *ideal);
    runs.ideal = runs.ideal.filter(is_there);
    runs
}

/// Selects these schemes in place of others, and leaves out values that no run has. Returns whether
/// every name still has a value.
fn narrow(selection: &mut Where, runs: &[Runs], schemes: &[Value]) -> bool {
    let has = |name: &str, value: &Value| {
        runs.iter().any(|runs| match name {
            "runs" => runs.name.as_ref() == Some(&value.0),
            _ => {
                let values = runs.each.get(name);
                values.is_some_and(|values| values.contains(value))
            }
        })
    };
    for (name, wanted) in selection.iter_mut() {
        let left = match name.as_str() {
            SCHEME => schemes.to_vec(),
            _ => {
                let wanted = wanted.as_slice().iter();
                wanted.filter(|value| has(name, value)).cloned().collect()
            }
        };
        *wanted = OneOrMore::More(left);
    }
    selection
        .values()
        .all(|wanted| !wanted.as_slice().is_empty())
}

impl Judgement {
    /// These figures beside kept ones: each of its tables also gets the rows and columns of the
    /// kept one, except those that it has itself. The kept runs come first.
    #[must_use]
    pub fn beside_kept(mut self, kept: &Self) -> Self {
        let first = kept.runs.len();
        for table in &mut self.tables {
            let own = table.rows.iter_mut().flat_map(|row| &mut row.rests_on);
            own.for_each(|places| *places = places.after(first));
            if let Some(kept) = kept.tables.iter().find(|it| it.title == table.title) {
                join(table, kept);
            }
        }
        self.runs.splice(0..0, kept.runs.iter().cloned());
        self
    }
}

/// Puts the rows of a kept table before a table's own, or its columns if those differ.
fn join(table: &mut FilledTable, kept: &FilledTable) {
    if table.head == kept.head {
        let is_kept = |row: &&Row| table.rows.iter().all(|own| own.labels != row.labels);
        let kept: Vec<Row> = kept.rows.iter().filter(is_kept).cloned().collect();
        table.rows.splice(0..0, kept);
        return;
    }
    let labels = table.rows.first().map_or(0, |row| row.labels.len());
    let (Some(own_names), Some(kept_names)) = (table.head.get(labels..), kept.head.get(labels..))
    else {
        return;
    };
    let is_kept = |place: &usize| !own_names.contains(&kept_names[*place]);
    let places: Vec<usize> = (0..kept_names.len()).filter(is_kept).collect();
    let names: Vec<String> = places.iter().map(|&it| kept_names[it].clone()).collect();
    for row in &mut table.rows {
        let found = kept.rows.iter().find(|it| it.labels == row.labels);
        let cell = |place: &usize| found.and_then(|row| *row.cells.get(*place)?);
        let rests_on = |place: &usize| {
            let places = found.and_then(|row| row.rests_on.get(*place));
            places.cloned().unwrap_or_default()
        };
        row.cells.splice(0..0, places.iter().map(cell));
        row.rests_on.splice(0..0, places.iter().map(rests_on));
    }
    table.head.splice(labels..labels, names);
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::super::plan::tests::run;
    use super::*;

    const EXPERIMENT: &str = r#"
title = "t"
[[runs]]
name = "a"
options = "{hosts} {scheme}"
each.scheme = ["dctcp", "pfabric"]
each.hosts = [2, 3]
with.pfabric = "--set buffer=9"
ideal = "pfabric"
[[runs]]
name = "b"
options = "4 dctcp"
[[runs]]
name = "c"
options = "{hosts} {scheme}"
each.scheme = ["dctcp", "droptail"]
each.hosts = [5]
[measures]
loss = { of = "loss" }
[[tables]]
title = "all"
measures = "loss"
rows = ["runs", "scheme", "hosts"]
[[tables]]
title = "of b"
measures = "loss"
where = { runs = "b" }
[[tables]]
title = "some"
measures = "loss"
rows = ["scheme", "hosts"]
where = { runs = ["a", "b"], scheme = ["dctcp"], hosts = 2 }
[[claims]]
says = "less"
paper = "less"
measure = "loss"
where = { runs = "a", scheme = "pfabric" }
over = { where = { scheme = "dctcp" } }
at_most = 1
"#;

    fn experiment(text: &str) -> Experiment {
        Experiment::parse("x", "x.toml", text).unwrap()
    }

    fn asked() -> Asked {
        Asked {
            scale: None,
            seeds: Some(vec![1]),
            out: "out".into(),
            testbed: "t".to_owned(),
        }
    }

    /// As `plan`'s tests read words; 5 hosts are too many for bfc.
    fn read(words: &[String]) -> Result<Run> {
        match words {
            [hosts, scheme] if hosts == "5" && scheme == "bfc" => usage("no room for bfc"),
            words => Ok(run(words)),
        }
    }

    #[test]
    fn the_runs_that_schemes_share_take_another_scheme_if_they_can() {
        let (bfc, left_out) = experiment(EXPERIMENT)
            .of_schemes(&["bfc".to_owned()], &asked(), &read)
            .unwrap();
        assert_eq!(left_out, [("c".to_owned(), "no room for bfc".to_owned())]);
        let description = bfc.description;
        assert_eq!(description.runs.len(), 1);
        let runs = &description.runs[0];
        assert_eq!(runs.each[SCHEME], [Value("bfc".to_owned())]);
        assert_eq!(runs.each["hosts"].len(), 2);
        assert_eq!(runs.ideal, None);
        assert!(description.claims.is_empty());
        let left: Vec<&str> = description.tables.iter().map(|it| &*it.title).collect();
        assert_eq!(left, ["all", "some"]);
        let some = &description.tables[1].selection;
        let selected = |name: &str| some[name].as_slice().to_vec();
        assert_eq!(selected(SCHEME), [Value("bfc".to_owned())]);
        assert_eq!(selected("runs"), [Value("a".to_owned())]);
        assert_eq!(selected("hosts"), [Value("2".to_owned())]);
    }

    #[test]
    fn the_reason_is_reported_if_no_runs_can() {
        let only_c = EXPERIMENT.replace("each.hosts = [2, 3]", "each.hosts = [5]");
        let only_c = only_c.replace("hosts = 2 }", "hosts = 5 }");
        let error = experiment(&only_c)
            .of_schemes(&["bfc".to_owned()], &asked(), &read)
            .unwrap_err();
        assert_eq!(error.root_cause().to_string(), "no room for bfc");
    }

    #[test]
    fn an_experiment_of_one_scheme_takes_no_other() {
        let text = r#"
            title = "t"
            runs = [{ options = "4 dctcp" }]
            measures.loss = { of = "loss" }
            tables = [{ title = "all", measures = "loss" }]
        "#;
        let error = experiment(text)
            .of_schemes(&["bfc".to_owned()], &asked(), &read)
            .unwrap_err();
        assert!(error.to_string().contains("export x mine.toml"), "{error}");
    }

    fn judgement(head: &[&str], rows: &[(&str, &[f64], &str)], runs: usize) -> Judgement {
        let figure =
            |value: &f64| json!({"value": value, "half_width": null, "low": null, "high": null});
        let row = |(label, values, rests_on): &(&str, &[f64], &str)| {
            let cells: Vec<_> = values.iter().map(figure).collect();
            json!({"labels": [label], "cells": cells, "rests_on": vec![rests_on; values.len()]})
        };
        let rows: Vec<_> = rows.iter().map(row).collect();
        let run = json!({"file": "f", "command": "", "sha256": "", "valid": true, "reasons": []});
        from_value(json!({
            "experiment": "x", "title": "", "source": "", "holds": true, "missing": 0, "seeds": [1],
            "flows": null, "offered": null, "claims": [],
            "tables": [{"title": "t", "head": head, "rows": rows}],
            "runs": vec![run; runs],
        }))
        .unwrap()
    }

    fn shown(judgement: &Judgement) -> Vec<String> {
        let table = &judgement.tables[0];
        let row = |row: &Row| {
            let cells = row.cells.iter().zip(&row.rests_on).map(|(cell, places)| {
                let value = cell.map_or_else(|| "-".to_owned(), |it| it.value.to_string());
                format!("{value}@{places:?}")
            });
            let cells: Vec<String> = cells.collect();
            format!("{} {}", row.labels.join(" "), cells.join(" ")).replace("Places", "")
        };
        std::iter::once(table.head.join(" "))
            .chain(table.rows.iter().map(row))
            .collect()
    }

    #[test]
    fn own_rows_follow_the_kept_ones_and_replace_those_of_the_same_name() {
        let kept = judgement(
            &["scheme", "mean"],
            &[("dctcp", &[3.0], "0-1"), ("bfc", &[2.0], "2")],
            3,
        );
        let own = judgement(
            &["scheme", "mean"],
            &[("dctcp", &[4.0], "0"), ("mine", &[1.0], "1")],
            2,
        );
        let both = own.beside_kept(&kept);
        let expected = [
            "scheme mean",
            "bfc 2@(\"2\")",
            "dctcp 4@(\"3\")",
            "mine 1@(\"4\")",
        ];
        assert_eq!(shown(&both), expected);
        assert_eq!(both.runs.len(), 5);
    }

    #[test]
    fn own_columns_follow_the_kept_ones() {
        let kept = judgement(
            &["load", "dctcp", "bfc"],
            &[("0.2", &[3.0, 2.0], "0"), ("0.4", &[5.0, 4.0], "1")],
            2,
        );
        let own = judgement(
            &["load", "mine"],
            &[("0.2", &[1.0], "0"), ("0.6", &[7.0], "1")],
            2,
        );
        let expected = [
            "load dctcp bfc mine",
            "0.2 3@(\"0\") 2@(\"0\") 1@(\"2\")",
            "0.6 -@(\"\") -@(\"\") 7@(\"3\")",
        ];
        assert_eq!(shown(&own.beside_kept(&kept)), expected);
    }
}
