// SPDX-License-Identifier: MIT OR Apache-2.0

//! Results of runs, and what several of them come to: runs that differ in nothing but the seed are
//! one column.

use std::fs::File;
use std::io::{self, BufReader};

use anyhow::Result;
use serde::Serialize;
use weft_load::record::{Header, Run};
use weft_load::statistics::{self, mean_interval};

use crate::error::usage;

/// Of a confidence interval.
const LEVEL: f64 = 0.95;

/// Runs of one scheme, one for each seed.
pub(crate) struct Group {
    /// What its column is called.
    pub(crate) name: String,
    pub(crate) runs: Vec<Run>,
}

/// A mean over seeds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Estimate {
    pub(crate) mean: f64,
    /// Half of the 95 % confidence interval; of one seed there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) half_width: Option<f64>,
}

/// Reads result files; `-` is standard input.
///
/// # Errors
///
/// If one cannot be read, is no result, or is of a run that did not end.
pub(crate) fn read(files: &[String]) -> Result<Vec<Run>> {
    files
        .iter()
        .map(|file| {
            let run = match file.as_str() {
                "-" => Run::read("standard input", io::stdin().lock()),
                _ => match File::open(file) {
                    Ok(open) => Run::read(file, BufReader::new(open)),
                    Err(error) => return usage(format!("{file}: {error}")),
                },
            };
            match run {
                Ok(run) if run.summary.is_none() => usage(format!(
                    "{file}: the run did not end, there is no summary to compare"
                )),
                Ok(run) => Ok(run),
                Err(error) => usage(error.to_string()),
            }
        })
        .collect()
}

/// What must be equal for two runs to differ in the seed only.
fn same_but_for_the_seed(a: &Header, b: &Header) -> bool {
    let (mut a, mut b) = (a.clone(), b.clone());
    (a.seed, b.seed) = (0, 0);
    // A number of flows that follows from the seed.
    (a.workload.flows, b.workload.flows) = (0, 0);
    a == b
}

/// Groups runs by what they ran, in the order of their first ones.
pub(crate) fn group(runs: Vec<Run>) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for run in runs {
        match groups
            .iter_mut()
            .find(|group| same_but_for_the_seed(&group.runs[0].header, &run.header))
        {
            Some(group) => group.runs.push(run),
            None => groups.push(Group {
                name: run.header.scheme.clone(),
                runs: vec![run],
            }),
        }
    }
    // Two columns of one scheme are told apart by what differs.
    for index in 0..groups.len() {
        let twins = groups
            .iter()
            .filter(|other| other.name == groups[index].name);
        if twins.count() > 1 {
            let header = &groups[index].runs[0].header;
            let load = header.workload.load.as_deref().unwrap_or("");
            let load = load.split(' ').next().unwrap_or("");
            groups[index].name = format!(
                "{} {} {} {load}",
                header.scheme, header.topology, header.workload.sizes
            )
            .trim_end()
            .to_owned();
        }
    }
    groups
}

/// What differs between columns and should not, if their figures are to be compared: sentences.
pub(crate) fn differences(groups: &[Group]) -> Vec<String> {
    let Some((first, others)) = groups.split_first() else {
        return Vec::new();
    };
    let header = &first.runs[0].header;
    let mut found = Vec::new();
    for other in others {
        let its = &other.runs[0].header;
        let mut differ = |what: &str, a: &dyn ToString, b: &dyn ToString| {
            let (a, b) = (a.to_string(), b.to_string());
            if a != b {
                found.push(format!("{} has {what} {a}, {} {b}", first.name, other.name));
            }
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_else(|| "none".into());
        differ("topology", &header.topology, &its.topology);
        differ("workload", &header.workload.sizes, &its.workload.sizes);
        differ(
            "arrivals",
            &header.workload.arrivals,
            &its.workload.arrivals,
        );
        differ("pairs", &header.workload.pairs, &its.workload.pairs);
        differ(
            "load",
            &text(&header.workload.load),
            &text(&its.workload.load),
        );
        differ(
            "incasts",
            &text(&header.workload.incast),
            &text(&its.workload.incast),
        );
        differ("dilation", &header.dilation, &its.dilation);
        let seeds = |group: &Group| {
            let mut seeds: Vec<u64> = group.runs.iter().map(|run| run.header.seed).collect();
            seeds.sort_unstable();
            format!("{seeds:?}")
        };
        differ("seeds", &seeds(first), &seeds(other));
    }
    found
}

/// A statistic of a run, over a group's runs.
pub(crate) fn estimate(values: &[f64]) -> Option<Estimate> {
    if values.is_empty() {
        return None;
    }
    Some(match mean_interval(values, LEVEL) {
        Some(interval) => Estimate {
            mean: interval.mean,
            half_width: Some(interval.half_width),
        },
        None => Estimate {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            half_width: None,
        },
    })
}

impl Group {
    /// Over seeds, a figure of a bucket's slowdowns.
    pub(crate) fn slowdown(
        &self,
        bucket: &str,
        figure: impl Fn(&statistics::Summary) -> f64,
    ) -> Option<Estimate> {
        let buckets = self.runs.iter().filter_map(|run| run.summary.as_ref());
        let values: Vec<f64> = buckets
            .filter_map(|summary| summary.buckets.iter().find(|it| it.bucket == bucket))
            .map(|bucket| figure(&bucket.slowdown))
            .collect();
        estimate(&values)
    }

    /// Over seeds, a figure of the whole run.
    pub(crate) fn figure(
        &self,
        figure: impl Fn(&weft_load::record::Summary) -> Option<f64>,
    ) -> Option<Estimate> {
        let summaries = self.runs.iter().filter_map(|run| run.summary.as_ref());
        estimate(&summaries.filter_map(figure).collect::<Vec<_>>())
    }

    /// Why some of its runs are not to be believed.
    pub(crate) fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for run in &self.runs {
            for reason in run
                .summary
                .iter()
                .flat_map(weft_load::record::Summary::reasons)
            {
                reasons.push(format!(
                    "{} (seed {}): {reason}",
                    self.name, run.header.seed
                ));
            }
        }
        reasons
    }
}

/// The names of all buckets that some run has, small sizes first, all last.
pub(crate) fn buckets(groups: &[Group]) -> Vec<String> {
    let mut buckets: Vec<(u64, bool, String)> = Vec::new();
    for run in groups.iter().flat_map(|group| &group.runs) {
        for bucket in run.summary.iter().flat_map(|summary| &summary.buckets) {
            let all = bucket.above == 0 && bucket.up_to.is_none();
            let entry = (bucket.above, all, bucket.bucket.clone());
            if !buckets.contains(&entry) {
                buckets.push(entry);
            }
        }
    }
    buckets.sort_by_key(|(above, all, _)| (*all, *above));
    buckets.into_iter().map(|(_, _, name)| name).collect()
}
