// SPDX-License-Identifier: MIT OR Apache-2.0

//! The page's numbers beside those of the results: computed here, not by what made the page.

use serde::Deserialize;
use weft_load::record::{BucketSummary, Summary};
use weft_load::statistics;

use crate::sample::{DILATION, Sample};

#[derive(Debug, Deserialize)]
pub(crate) struct Table {
    pub(crate) section: String,
    pub(crate) columns: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct Row {
    bucket: String,
    figure: String,
    unit: String,
    cells: Vec<String>,
}

/// Student's t for 95 % between three values: 97.5 % of the distribution with 2 degrees of freedom
/// is below it.
const T: f64 = 4.302_652_7;

/// A cell is a number, or a mean over three seeds and half of its confidence interval; as many
/// digits as it has are right.
fn is_of(cell: &str, values: &[f64]) -> bool {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let half = T * (squares / 2.0 / 3.0).sqrt();
    let near = |text: &str, value: f64| {
        let decimals = text
            .split_once('.')
            .map_or(0, |(_, decimals)| decimals.len());
        let rounding = 0.500_01 * 10_f64.powi(-(decimals as i32));
        text.parse()
            .is_ok_and(|shown: f64| (shown - value).abs() <= rounding)
    };
    match cell.split_once(" ± ") {
        Some((shown, interval)) => values.len() == 3 && near(shown, mean) && near(interval, half),
        None => values.len() == 1 && near(cell, mean),
    }
}

fn of_bucket<'a>(summary: &'a Summary, bucket: &str) -> &'a BucketSummary {
    let found = summary.buckets.iter().find(|it| it.bucket == bucket);
    found.unwrap_or_else(|| panic!("there is no bucket {bucket}"))
}

fn figure(name: &str, of: &statistics::Summary) -> f64 {
    match name.trim_end_matches('*') {
        "mean" => of.mean,
        "P50" => of.p50,
        "P95" => of.p95,
        "P99" => of.p99,
        "P99.9" => of.p999,
        other => panic!("there is no figure {other}"),
    }
}

/// ns in a unit's name, and whether it is of the slowed fabric.
fn unit(name: &str) -> (f64, bool) {
    let (whose, unit) = name.split_once(' ').unwrap();
    let ns = match unit {
        "ns" => 1.0,
        "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        other => panic!("there is no unit {other}"),
    };
    (ns, whose == "guest")
}

/// Every cell of every table is of the results.
pub(crate) fn are_those_of(tables: &[Table], samples: &[Sample]) {
    let sections: Vec<&str> = tables.iter().map(|table| table.section.as_str()).collect();
    assert_eq!(sections, ["slowdown", "completion time", "whole run"]);
    let mut seen = 0;
    for table in tables {
        // A row without a figure's name is of the one above.
        let mut name = String::new();
        for row in &table.rows {
            if !row.figure.is_empty() {
                name.clone_from(&row.figure);
            }
            assert_eq!(row.cells.len(), table.columns.len(), "{row:?}");
            for (column, cell) in table.columns.iter().zip(&row.cells) {
                let value = |sample: &Sample| value(&table.section, &name, row, sample);
                let runs = samples.iter().filter(|it| it.header.scheme == *column);
                let values: Vec<f64> = runs.map(value).collect();
                assert!(is_of(cell, &values), "{column}, {row:?}: {values:?}");
                seen += 1;
            }
        }
    }
    // 5 buckets with 5 slowdowns and 2 times each, and 6 figures of the whole run.
    assert_eq!(seen, 3 * (5 * (5 + 2) + 6));
}

fn value(section: &str, name: &str, row: &Row, sample: &Sample) -> f64 {
    let summary = &sample.summary;
    let counted = || sample.flows.iter().filter(|flow| !flow.warm_up);
    match (section, name) {
        ("slowdown", _) => figure(name, &of_bucket(summary, &row.bucket).slowdown),
        ("completion time", _) => {
            let (ns, guest) = unit(&row.unit);
            let fabric = figure(name, &of_bucket(summary, &row.bucket).fct_ns) / ns;
            if guest { fabric * DILATION } else { fabric }
        }
        (_, "goodput") => summary.goodput.unwrap() / 1e9,
        (_, "packets lost") => 100.0 * summary.loss.unwrap(),
        (_, "retransmitted") => counted().map(|flow| flow.retransmissions).sum::<u64>() as f64,
        (_, "timeouts") => counted().filter_map(|flow| flow.timeouts).sum::<u64>() as f64,
        (_, "unfinished") => summary.unfinished as f64,
        other => panic!("nobody knows {other:?}"),
    }
}
