// SPDX-License-Identifier: MIT OR Apache-2.0

//! Results of runs, and what several of them come to: runs that differ in nothing but the seed are
//! one column.

mod alike;
mod twins;

use std::fs::File;
use std::io::{self, BufReader};

use anyhow::Result;
use serde::Serialize;
use weft_load::record::{BucketSummary, Recorded, Summary};
use weft_load::statistics::{self, mean_interval};

pub use alike::{check, conditions, same_but_for_the_seed};
pub use twins::{Agreement, Means, Twins, twins};

use crate::error::usage;

/// Of a confidence interval.
const LEVEL: f64 = 0.95;

/// Runs of one scheme, one for each seed.
pub struct Group {
    /// What its column is called.
    pub name: String,
    /// At least one.
    pub runs: Vec<Recorded>,
}

/// A mean over seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Half of the 95 % confidence interval; of one seed there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_width: Option<f64>,
}

/// Reads result files; `-` is standard input.
///
/// # Errors
///
/// If one cannot be read, is no result, or is of a run that did not end.
pub fn read(files: &[String]) -> Result<Vec<Recorded>> {
    files
        .iter()
        .map(|file| {
            let run = match file.as_str() {
                "-" => Recorded::read("standard input", io::stdin().lock()),
                _ => match File::open(file) {
                    Ok(open) => Recorded::read(file, BufReader::new(open)),
                    Err(error) => return usage(format!("{file}: {error}")),
                },
            };
            match run {
                Ok(run) if run.summary.is_none() => usage(format!(
                    "{file}: the run did not end, there is no summary to compare"
                )),
                Ok(run) => Ok(run),
                Err(weft_load::Error::Io(error)) => usage(format!("{file}: {error}")),
                Err(error) => usage(error.to_string()),
            }
        })
        .collect()
}

/// Groups runs by what they ran, in the order of their first ones.
pub fn group(runs: Vec<Recorded>) -> Vec<Group> {
    let mut groups: Vec<Vec<Recorded>> = Vec::new();
    for run in runs {
        match groups
            .iter_mut()
            .find(|group| same_but_for_the_seed(&group[0].header, &run.header))
        {
            Some(group) => group.push(run),
            None => groups.push(vec![run]),
        }
    }
    let headers: Vec<_> = groups.iter().map(|runs| &runs[0].header).collect();
    let names = alike::names(&headers);
    let groups = names.into_iter().zip(groups);
    groups.map(|(name, runs)| Group { name, runs }).collect()
}

/// What differs between columns and should not, if their figures are to be compared: sentences.
pub fn differences(groups: &[Group]) -> Vec<String> {
    let Some((first, others)) = groups.split_first() else {
        return Vec::new();
    };
    let own = all_conditions(first);
    let mut found = Vec::new();
    for other in others {
        for ((what, a), (_, b)) in own.iter().zip(all_conditions(other)) {
            if *a != b {
                found.push(format!(
                    "{what}: {} has {a}, {} has {b}",
                    first.name, other.name
                ));
            }
        }
    }
    found
}

fn all_conditions(group: &Group) -> Vec<(&'static str, String)> {
    let header = &group.runs[0].header;
    let mut all = conditions(header);
    let mut seeds = group.seeds();
    seeds.sort_unstable();
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    all.push(("seeds", seeds.join(", ")));
    let options = alike::others(header);
    let options = match options.is_empty() {
        true => "none".to_owned(),
        false => options.join(" "),
    };
    all.push(("other options", options));
    all
}

/// A statistic of a run, over a group's runs.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
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

impl Estimate {
    /// Both numbers, times a factor.
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            mean: self.mean * factor,
            half_width: self.half_width.map(|half| half * factor),
        }
    }
}

impl Group {
    fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.runs.iter().filter_map(|run| run.summary.as_ref())
    }

    fn buckets<'a>(&'a self, bucket: &'a str) -> impl Iterator<Item = &'a BucketSummary> {
        self.summaries()
            .filter_map(move |summary| summary.buckets.iter().find(|it| it.bucket == bucket))
    }

    /// Over seeds, a figure of a bucket's slowdowns.
    pub fn slowdown(
        &self,
        bucket: &str,
        figure: impl Fn(&statistics::Summary) -> f64,
    ) -> Option<Estimate> {
        let values = self.buckets(bucket).map(|bucket| figure(&bucket.slowdown));
        estimate(&values.collect::<Vec<_>>())
    }

    /// Over seeds, a figure of a bucket's flow completion times, in ns of the fabric.
    pub fn fct_ns(
        &self,
        bucket: &str,
        figure: impl Fn(&statistics::Summary) -> f64,
    ) -> Option<Estimate> {
        let values = self.buckets(bucket).map(|bucket| figure(&bucket.fct_ns));
        estimate(&values.collect::<Vec<_>>())
    }

    /// How many of a bucket's flows were measured, in each run.
    pub fn flows(&self, bucket: &str) -> Vec<u64> {
        self.buckets(bucket).map(|it| it.slowdown.count).collect()
    }

    /// Over seeds, a figure of the whole run.
    pub fn figure(&self, figure: impl Fn(&Summary) -> Option<f64>) -> Option<Estimate> {
        estimate(&self.summaries().filter_map(figure).collect::<Vec<_>>())
    }

    /// Over seeds, a count of each of a run's flows that were measured, summed up.
    pub fn count(&self, count: impl Fn(&weft_load::record::Flow) -> u64) -> Option<Estimate> {
        let of_run = |run: &Recorded| {
            let measured = run.flows.iter().filter(|flow| !flow.warm_up);
            measured.map(&count).sum::<u64>() as f64
        };
        estimate(&self.runs.iter().map(of_run).collect::<Vec<_>>())
    }

    /// Times of the machine are so many times those of the fabric.
    pub fn dilation(&self) -> f64 {
        self.runs[0].header.dilation
    }

    /// In the order of the files.
    pub fn seeds(&self) -> Vec<u64> {
        self.runs.iter().map(|run| run.header.seed).collect()
    }

    /// Whether every run passed its gates.
    pub fn valid(&self) -> bool {
        self.summaries().all(|summary| summary.valid)
    }

    /// Why some of its runs are not to be believed.
    pub fn reasons(&self) -> Vec<String> {
        let mut reasons = Vec::new();
        for run in &self.runs {
            for reason in run.summary.iter().flat_map(Summary::reasons) {
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
pub fn buckets(groups: &[Group]) -> Vec<String> {
    let mut buckets: Vec<(bool, u64, String)> = Vec::new();
    for bucket in groups
        .iter()
        .flat_map(Group::summaries)
        .flat_map(|summary| &summary.buckets)
    {
        let all = bucket.above == 0 && bucket.up_to.is_none();
        let entry = (all, bucket.above, bucket.bucket.clone());
        if !buckets.contains(&entry) {
            buckets.push(entry);
        }
    }
    buckets.sort();
    buckets.into_iter().map(|(_, _, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_load::record::Header;

    use crate::sample::{Sample, sample};

    fn run(sample: Sample) -> Recorded {
        Recorded {
            header: sample.header,
            flows: sample.flows,
            ports: sample.ports,
            summary: Some(sample.summary),
        }
    }

    #[test]
    fn an_estimate_of_several_seeds_has_students_interval() {
        assert_eq!(estimate(&[]), None);
        let one = estimate(&[3.0]).unwrap();
        assert_eq!((one.mean, one.half_width), (3.0, None));
        // 97.5 % of Student's t with 2 degrees of freedom is below 4.3027; the standard deviation
        // is 1.
        let three = estimate(&[1.0, 2.0, 3.0]).unwrap();
        let expected = 4.302_652_7 / 3_f64.sqrt();
        assert_eq!(three.mean, 2.0);
        assert!(
            (three.half_width.unwrap() - expected).abs() < 1e-6,
            "{three:?}"
        );
        let scaled = three.scaled(10.0);
        assert_eq!(scaled.mean, 20.0);
        assert_eq!(scaled.half_width, three.half_width.map(|half| 10.0 * half));
    }

    #[test]
    fn runs_that_differ_in_the_seed_are_one_group() {
        let mut runs = Vec::new();
        for (scheme, seed) in [("dctcp", 2), ("pfabric", 1), ("dctcp", 1)] {
            runs.push(run(sample(scheme, seed, 30 + seed, 2.0)));
        }
        // How many flows there were follows from the seed; what was asked for does not.
        for run in &mut runs {
            run.header.options.clear();
        }
        let mut other = runs[0].clone();
        other.header.workload.load = Some("0.8 of host links (wire bytes)".into());
        runs.push(other);
        let groups = group(runs);
        let found: Vec<_> = groups
            .iter()
            .map(|it| (it.name.as_str(), it.seeds()))
            .collect();
        let expected = [
            ("dctcp load 0.6 of host links (wire bytes)", vec![2, 1]),
            ("pfabric", vec![1]),
            ("dctcp load 0.8 of host links (wire bytes)", vec![2]),
        ];
        assert_eq!(found, expected);
    }

    fn header(words: &str) -> Header {
        let mut header = sample("dctcp", 1, 10, 2.0).header;
        header.options = words.split(' ').map(str::to_owned).collect();
        header
    }

    #[test]
    fn differences_are_of_what_both_should_share() {
        let group = |name: &str, header: Header| Group {
            name: name.to_owned(),
            runs: vec![Recorded {
                header,
                flows: Vec::new(),
                ports: Vec::new(),
                summary: None,
            }],
        };
        let mut other = header("rack:hosts=4 --set buffer=9 --connection pair");
        other.scheme = "pfabric".into();
        other.parameters.insert("buffer".into(), "9".into());
        other.seed = 2;
        let groups = [group("a", header("rack:hosts=4")), group("b", other)];
        let expected = [
            "seeds: a has 1, b has 2",
            "other options: a has none, b has --connection pair",
        ];
        assert_eq!(differences(&groups), expected);
        assert_eq!(differences(&groups[..1]), Vec::<String>::new());
    }

    #[test]
    fn another_clock_is_never_passed_over_in_silence() {
        let groups = [("a", "model"), ("b", "virtual")].map(|(name, clock)| Group {
            name: name.to_owned(),
            runs: vec![Recorded {
                header: Header {
                    clock: Some(clock.to_owned()),
                    ..header("rack:hosts=4")
                },
                flows: Vec::new(),
                ports: Vec::new(),
                summary: None,
            }],
        });
        let expected = ["clock: a has model, b has virtual"];
        assert_eq!(differences(&groups), expected);
    }

    #[test]
    fn a_bucket_that_one_seed_has_not_is_estimated_from_the_others() {
        let mut runs = [1, 2].map(|seed| run(sample("dctcp", seed, 100, 2.0)));
        let buckets = &mut runs[0].summary.as_mut().unwrap().buckets;
        let place = buckets
            .iter()
            .position(|it| it.bucket == "1-10 MB")
            .unwrap();
        buckets.remove(place);
        let left = runs[1].summary.as_ref().unwrap().buckets[place].clone();
        let groups = group(runs.into());
        assert_eq!(groups.len(), 1);
        let found = groups[0].slowdown("1-10 MB", |it| it.p99).unwrap();
        assert_eq!((found.mean, found.half_width), (left.slowdown.p99, None));
        assert_eq!(groups[0].flows("1-10 MB"), [left.slowdown.count]);
        assert_eq!(groups[0].fct_ns("5 GB", |it| it.mean), None);
        let names = ["0-100 kB", "100 kB-1 MB", "1-10 MB", ">10 MB", "all"];
        assert_eq!(super::buckets(&groups), names);
    }

    #[test]
    fn what_warms_up_is_not_counted() {
        let mut sample = sample("dctcp", 1, 100, 2.0);
        for flow in &mut sample.flows {
            flow.timeouts = if flow.warm_up { 1_000 } else { 2 };
        }
        let groups = group(vec![run(sample)]);
        assert_eq!(groups[0].count(|flow| flow.timeouts).unwrap().mean, 180.0);
    }

    #[test]
    fn an_invalid_run_of_several_makes_its_group_invalid_and_is_named() {
        let mut samples = [1, 2].map(|seed| sample("dctcp", seed, 50, 2.0));
        samples[1].summarize(false);
        let groups = group(samples.map(run).into());
        assert!(!groups[0].valid());
        let reasons = groups[0].reasons();
        assert_eq!(reasons.len(), 1, "{reasons:?}");
        assert!(
            reasons[0].starts_with("dctcp (seed 2): generator lag"),
            "{reasons:?}"
        );
    }
}
