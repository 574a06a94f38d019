// SPDX-License-Identifier: MIT OR Apache-2.0

//! Compares the page's numbers with the results, computed independently of the report.

use serde::Deserialize;
use weft_load::record::{BucketSummary, Flow, Summary};
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

/// Student's t for 95 % with three values: the 97.5 % quantile with 2 degrees of freedom.
const T: f64 = 4.302_652_7;

/// Whether a cell is a number, or a mean over three seeds with half of its confidence interval,
/// correct in all its digits.
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
        None => (values.len() == 1 || half == 0.0) && near(cell, mean),
    }
}

/// Whether a cell is a percentile over all seeds' flows, with an interval if there are several
/// seeds.
fn is_percentile(cell: &str, mut values: Vec<f64>, p: f64, seeds: usize) -> bool {
    values.sort_by(f64::total_cmp);
    let h = p * (values.len() - 1) as f64;
    let (below, above) = (h.floor() as usize, h.ceil() as usize);
    let value = values[below] + (h - h.floor()) * (values[above] - values[below]);
    match cell.split_once(" [") {
        Some((shown, interval)) => {
            let interval = interval.trim_end_matches(']').split_once(", ").unwrap();
            let [low, high]: [f64; 2] = [interval.0, interval.1].map(|it| it.parse().unwrap());
            let shown_value: f64 = shown.parse().unwrap();
            seeds > 1 && low <= shown_value && shown_value <= high && is_of(shown, &[value])
        }
        // All samples may have the same value.
        None => is_of(cell, &[value]),
    }
}

fn of_bucket<'a>(summary: &'a Summary, bucket: &str) -> &'a BucketSummary {
    let found = summary.buckets.iter().find(|it| it.bucket == bucket);
    found.unwrap_or_else(|| panic!("there is no bucket {bucket}"))
}

fn figure(name: &str, of: &statistics::Summary) -> f64 {
    match name.trim_end_matches('*') {
        "mean" => of.mean,
        other => panic!("there is no figure {other}"),
    }
}

/// The unit in ns, and whether it is time of the dilated fabric.
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

/// Every cell of every table matches the results.
pub(crate) fn are_those_of(tables: &[Table], samples: &[Sample]) {
    let sections: Vec<&str> = tables.iter().map(|table| table.section.as_str()).collect();
    assert_eq!(sections, ["slowdown", "completion time", "whole run"]);
    let mut seen = 0;
    for table in tables {
        // A row without a figure's name belongs to the row above.
        let mut name = String::new();
        for row in &table.rows {
            if !row.figure.is_empty() {
                name.clone_from(&row.figure);
            }
            assert_eq!(row.cells.len(), table.columns.len(), "{row:?}");
            for (column, cell) in table.columns.iter().zip(&row.cells) {
                let value = |sample: &Sample| value(&table.section, &name, row, sample);
                let runs = samples.iter().filter(|it| it.header.scheme == *column);
                let runs: Vec<&Sample> = runs.collect();
                let percentile = match name.trim_end_matches('*') {
                    "P50" => Some(0.5),
                    "P95" => Some(0.95),
                    "P99" => Some(0.99),
                    "P99.9" => Some(0.999),
                    _ => None,
                };
                if let Some(p) = percentile {
                    let flows = runs.iter().flat_map(|sample| flows(sample, row));
                    let of = |flow: &Flow| match table.section.as_str() {
                        "slowdown" => flow.slowdown.unwrap(),
                        _ => flow.fct_ns.unwrap() as f64 / unit(&row.unit).0,
                    };
                    let values = flows.map(of).collect();
                    assert!(
                        is_percentile(cell, values, p, runs.len()),
                        "{column}, {row:?}"
                    );
                } else if name == "offered load" {
                    // The samples have no offered load.
                    assert_eq!(cell, "–");
                } else {
                    let values: Vec<f64> = runs.into_iter().map(value).collect();
                    assert!(is_of(cell, &values), "{column}, {row:?}: {values:?}");
                }
                seen += 1;
            }
        }
    }
    // 5 buckets with 5 slowdowns and 2 times each, and 7 figures of the whole run.
    assert_eq!(seen, 3 * (5 * (5 + 2) + 7));
}

/// The measured flows in a row's bucket.
fn flows<'a>(sample: &'a Sample, row: &Row) -> impl Iterator<Item = &'a Flow> {
    let bucket = of_bucket(&sample.summary, &row.bucket);
    let (above, up_to) = (bucket.above, bucket.up_to.unwrap_or(u64::MAX));
    let within = move |flow: &&Flow| !flow.warm_up && flow.size > above && flow.size <= up_to;
    sample.flows.iter().filter(within)
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
        (_, "of these, spurious") => counted().filter_map(|flow| flow.spurious).sum::<u64>() as f64,
        (_, "timeouts") => counted().filter_map(|flow| flow.timeouts).sum::<u64>() as f64,
        (_, "unfinished") => summary.unfinished as f64,
        other => panic!("nobody knows {other:?}"),
    }
}
