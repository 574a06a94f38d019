// SPDX-License-Identifier: MIT OR Apache-2.0

//! Results of runs, and their summaries: runs that differ in nothing but the seed form one column.

mod alike;
mod estimate;
mod sweep;
mod twins;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};

use anyhow::Result;
use weft_load::record::{
    BucketSummary, Class, Flow, Recorded, Summary, group_completion_times_ns, measured,
};

pub use alike::{check, conditions, same_but_for_the_seed};
pub use estimate::{Estimate, Pooled, estimate, quotient};
pub(crate) use estimate::{deviation, difference};
pub use sweep::{Axis, Kind, Line, Point, Sweep};
pub use twins::{Agreement, Means, Twins, twins};

use crate::error::usage;

/// The tolerated deviation of the load from the requested one.
const OFF: f64 = 0.02;
/// The confidence for a difference between halves.
const SURE: f64 = 0.99;

/// Runs of one scheme, one for each seed.
pub struct Group {
    /// The name of its column.
    pub name: String,
    /// At least one.
    pub runs: Vec<Recorded>,
    /// By bucket and quantity: a cache, because resampling takes time.
    pooled: RefCell<BTreeMap<(String, What), Pooled>>,
}

/// A quantity that each flow that ended has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// The flow's time as a multiple of the best possible.
    Slowdown,
    /// The flow's time, in ns of the fabric.
    Time,
}

/// A figure of many numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// The mean over seeds of the runs' means.
    Mean,
    /// The number such that this share of all runs' numbers is at most as large.
    Percentile(f64),
    /// The largest of all numbers.
    Max,
}

impl What {
    /// The quantity of a flow.
    pub fn of(self, flow: &Flow) -> Option<f64> {
        match self {
            Self::Slowdown => flow.slowdown,
            Self::Time => Some(flow.fct_ns? as f64),
        }
    }
}

/// Reads result files; `-` is standard input.
///
/// # Errors
///
/// If one cannot be read, is not a result, or belongs to a run that did not end.
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
                Ok(run) => match impossible(&run) {
                    Some(sentence) => usage(format!("{file}: {sentence}")),
                    None => Ok(run),
                },
                Err(weft_load::Error::Io(error)) => usage(format!("{file}: {error}")),
                Err(error) => usage(error.to_string()),
            }
        })
        .collect()
}

/// A value that no run can give.
fn impossible(run: &Recorded) -> Option<String> {
    const MOST: f64 = 1e12;
    run.flows.iter().find_map(|flow| {
        let slowdown = flow.slowdown.filter(|it| !(*it > 0.0 && *it <= MOST));
        let slowdown = slowdown.map(|it| {
            format!(
                "flow {} has a slowdown of {it:e}: expected above 0 to {MOST:e}",
                flow.id
            )
        });
        let ns = flow.fct_ns.and_then(|ns| flow.start_ns.checked_add(ns));
        let ends = flow.fct_ns.is_none() || ns.is_some_and(|ns| ns <= i64::MAX as u64);
        slowdown.or_else(|| (!ends).then(|| format!("flow {} ends after 2^63 ns", flow.id)))
    })
}

/// Groups runs that differ only in the seed, in the order of their first ones.
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
    groups.map(|(name, runs)| Group::new(name, runs)).collect()
}

/// Differences between columns that make their figures incomparable: sentences.
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

impl Group {
    /// Runs that differ in the seed only, at least one.
    pub fn new(name: String, runs: Vec<Recorded>) -> Self {
        Self {
            name,
            runs,
            pooled: RefCell::default(),
        }
    }

    fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.runs.iter().filter_map(|run| run.summary.as_ref())
    }

    fn buckets<'a>(&'a self, bucket: &'a str) -> impl Iterator<Item = &'a BucketSummary> {
        self.summaries()
            .filter_map(move |summary| summary.buckets.iter().find(|it| it.bucket == bucket))
    }

    /// A figure of a bucket's flows.
    pub fn of(&self, what: What, bucket: &str, figure: Figure) -> Option<Estimate> {
        let summaries = self.buckets(bucket).map(|bucket| match what {
            What::Slowdown => bucket.slowdown,
            What::Time => bucket.fct_ns,
        });
        match figure {
            Figure::Mean => estimate(&summaries.map(|it| it.mean).collect::<Vec<_>>()),
            Figure::Max => summaries
                .map(|it| it.max)
                .reduce(f64::max)
                .map(Estimate::alone),
            Figure::Percentile(p) => self.pooled(what, bucket, |pooled| pooled.percentile(p))?,
        }
    }

    /// The same, divided by that of another group. `None` if its runs had other flows.
    pub fn over(&self, other: &Self, what: What, bucket: &str, figure: Figure) -> Option<Estimate> {
        if !self.has_the_flows_of(other) {
            return None;
        }
        let Figure::Percentile(p) = figure else {
            let means = |group: &Self| -> Vec<f64> {
                let all = group.buckets(bucket).map(|it| match what {
                    What::Slowdown => it.slowdown.mean,
                    What::Time => it.fct_ns.mean,
                });
                all.collect()
            };
            return quotient(&means(self), &means(other));
        };
        self.pooled(what, bucket, |a| {
            other.pooled(what, bucket, |b| a.over(b, p))
        })??
    }

    /// Whether its runs had the same seeds in the same order, and the same flows in each.
    fn has_the_flows_of(&self, other: &Self) -> bool {
        let flows = |run: &Recorded| -> Vec<(u64, u32, u32, u64)> {
            let measured = measured(&run.flows);
            let mut all: Vec<_> = measured
                .map(|it| (it.id, it.src, it.dst, it.size))
                .collect();
            all.sort_unstable();
            all
        };
        self.seeds() == other.seeds()
            && self
                .runs
                .iter()
                .zip(&other.runs)
                .all(|(a, b)| flows(a) == flows(b))
    }

    /// Applies `ask` to a bucket's numbers, which are resampled only once.
    fn pooled<T>(&self, what: What, bucket: &str, ask: impl FnOnce(&Pooled) -> T) -> Option<T> {
        let key = (bucket.to_owned(), what);
        if !self.pooled.borrow().contains_key(&key) {
            let bounds = self.buckets(bucket).next()?;
            let bucket = weft_load::statistics::Bucket {
                above: bounds.above,
                up_to: bounds.up_to,
            };
            let value = |flow: &Flow| bucket.contains(flow.size).then(|| what.of(flow)).flatten();
            // The same blocks are drawn for every order of the files.
            let mut runs: Vec<&Recorded> = self.runs.iter().collect();
            runs.sort_by_key(|run| run.header.seed);
            let runs = runs.into_iter().map(|run| run.flows.as_slice());
            let pooled = Pooled::new(runs, |flow| !flow.warm_up, value)?;
            self.pooled.borrow_mut().insert(key.clone(), pooled);
        }
        self.pooled.borrow().get(&key).map(ask)
    }

    /// Sentences about runs that were too short to be steady.
    pub fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        let loads: Vec<_> = self.summaries().filter_map(|it| it.load).collect();
        let n = loads.len() as f64;
        let asked = loads.iter().map(|it| it.asked).sum::<f64>() / n;
        let offered = loads.iter().map(|it| it.offered).sum::<f64>() / n;
        if (offered / asked - 1.0).abs() > OFF {
            doubts.push(format!(
                "{}: the offered load was {offered:.3}, not {asked}: use more flows or seeds",
                self.name
            ));
        }
        let halves: Vec<_> = self.summaries().filter_map(|it| it.halves).collect();
        let differences: Vec<f64> = halves.iter().map(|it| it.second - it.first).collect();
        let agree = match weft_load::statistics::mean_interval(&differences, SURE) {
            Some(interval) if halves.len() > 2 => interval.mean.abs() <= interval.half_width,
            _ => halves.iter().all(|it| it.agree),
        };
        if !agree {
            let mean = |half: fn(&weft_load::statistics::Halves) -> f64| {
                halves.iter().map(half).sum::<f64>() / halves.len() as f64
            };
            doubts.push(format!(
                "{}: not steady, the mean slowdown is {:.3} in the first half of the flows and {:.3} in the \
                 second: use a longer warm-up or more flows",
                self.name,
                mean(|it| it.first),
                mean(|it| it.second)
            ));
        }
        doubts
    }

    /// The number of a bucket's measured flows, in each run.
    pub fn flows(&self, bucket: &str) -> Vec<u64> {
        self.buckets(bucket).map(|it| it.slowdown.count).collect()
    }

    /// A figure of the whole run, over seeds.
    pub fn figure(&self, figure: impl Fn(&Summary) -> Option<f64>) -> Option<Estimate> {
        estimate(&self.summaries().filter_map(figure).collect::<Vec<_>>())
    }

    /// A count, summed over a run's measured flows, over seeds.
    pub fn count(
        &self,
        count: impl Fn(&weft_load::record::Flow) -> Option<u64>,
    ) -> Option<Estimate> {
        let of_run = |run: &Recorded| {
            let measured = measured(&run.flows);
            Some(measured.map(&count).sum::<Option<u64>>()? as f64)
        };
        estimate(&self.runs.iter().map(of_run).collect::<Option<Vec<_>>>()?)
    }

    /// The mean time of a run's incasts or rounds in ns (see [`group_completion_times_ns`]), over
    /// seeds. `None` if some run has none that ended.
    pub fn together(&self, number: fn(Class) -> Option<u64>) -> Option<Estimate> {
        let of_run = |run: &Recorded| {
            let times: Vec<u64> = group_completion_times_ns(&run.flows, number).collect();
            (!times.is_empty()).then(|| times.iter().sum::<u64>() as f64 / times.len() as f64)
        };
        estimate(&self.runs.iter().map(of_run).collect::<Option<Vec<_>>>()?)
    }

    /// The dilation: times of the machine are this many times those of the fabric.
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

    /// The reasons why some of its runs are not credible.
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

/// The names of all buckets that occur in some run, small sizes first, all last.
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
            path: None,
            summary: Some(sample.summary),
        }
    }

    #[test]
    fn runs_that_differ_in_the_seed_are_one_group() {
        let mut runs = Vec::new();
        for (scheme, seed) in [("dctcp", 2), ("pfabric", 1), ("dctcp", 1)] {
            runs.push(run(sample(scheme, seed, 30 + seed, 2.0)));
        }
        // The number of flows depends on the seed; the options do not.
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
    fn a_comparison_lists_the_differences_of_shared_inputs() {
        let group = |name: &str, header: Header| {
            let run = Recorded {
                header,
                flows: Vec::new(),
                ports: Vec::new(),
                path: None,
                summary: None,
            };
            Group::new(name.to_owned(), vec![run])
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
    fn another_clock_is_always_reported() {
        let groups = [("a", "model"), ("b", "instructions")].map(|(name, clock)| {
            let run = Recorded {
                header: Header {
                    clock: Some(clock.to_owned()),
                    ..header("rack:hosts=4")
                },
                flows: Vec::new(),
                ports: Vec::new(),
                path: None,
                summary: None,
            };
            Group::new(name.to_owned(), vec![run])
        });
        let expected = ["clock: a has model, b has instructions"];
        assert_eq!(differences(&groups), expected);
    }

    #[test]
    fn a_bucket_that_one_seed_lacks_is_estimated_from_the_others() {
        let mut runs = [1, 2].map(|seed| run(sample("dctcp", seed, 100, 2.0)));
        let buckets = &mut runs[0].summary.as_mut().unwrap().buckets;
        let place = buckets
            .iter()
            .position(|it| it.bucket == "1-10 MB")
            .unwrap();
        buckets.remove(place);
        let left = runs[1].summary.as_ref().unwrap().buckets[place].clone();
        // The same as in a file: the first run has no such flow.
        let mut flows = std::mem::take(&mut runs[0].flows);
        flows.retain(|flow| !(1_000_001..=10_000_000).contains(&flow.size));
        runs[0].flows = flows;
        let groups = group(runs.into());
        assert_eq!(groups.len(), 1);
        let mean = groups[0]
            .of(What::Slowdown, "1-10 MB", Figure::Mean)
            .unwrap();
        assert_eq!((mean.value, mean.half_width), (left.slowdown.mean, None));
        let found = groups[0]
            .of(What::Slowdown, "1-10 MB", Figure::Percentile(0.99))
            .unwrap();
        assert_eq!(found.value, left.slowdown.p99);
        assert_eq!(groups[0].flows("1-10 MB"), [left.slowdown.count]);
        assert_eq!(groups[0].of(What::Time, "5 GB", Figure::Mean), None);
        let names = ["0-100 kB", "100 kB-1 MB", "1-10 MB", ">10 MB", "all"];
        assert_eq!(super::buckets(&groups), names);
    }

    #[test]
    fn flows_of_the_warm_up_are_not_counted() {
        let mut sample = sample("dctcp", 1, 100, 2.0);
        for flow in &mut sample.flows {
            flow.timeouts = Some(if flow.warm_up { 1_000 } else { 2 });
        }
        let groups = group(vec![run(sample)]);
        assert_eq!(groups[0].count(|flow| flow.timeouts).unwrap().value, 180.0);
    }

    #[test]
    fn percentiles_cover_the_flows_of_all_seeds_and_quotients_are_paired() {
        let mut runs = Vec::new();
        for scheme in ["slow", "fast"] {
            for seed in 1..=3 {
                let mut sample = sample(scheme, seed, 400, 3.0);
                for flow in &mut sample.flows {
                    // Each flow of one takes half the time of the other's.
                    let factor = if scheme == "slow" { 2.0 } else { 1.0 };
                    flow.slowdown = flow.slowdown.map(|it| it * factor);
                }
                sample.summarize(true);
                runs.push(run(sample));
            }
        }
        let groups = group(runs);
        let p99 = Figure::Percentile(0.99);
        let found = groups[0].of(What::Slowdown, "all", p99).unwrap();
        let flows = groups[0].runs.iter().flat_map(|run| measured(&run.flows));
        let all = flows.filter_map(|flow| flow.slowdown);
        let all = weft_load::statistics::Sorted::new(all);
        assert_eq!(Some(found.value), all.percentile(0.99));
        assert!(found.low.unwrap() < found.value && found.value < found.high.unwrap());
        // Each figure is uncertain, but their ratio of two is not.
        for figure in [p99, Figure::Mean] {
            let twice = groups[0]
                .over(&groups[1], What::Slowdown, "all", figure)
                .unwrap();
            assert!((twice.value - 2.0).abs() < 1e-9, "{twice:?}");
            assert!(twice.high.unwrap() - twice.low.unwrap() < 1e-9, "{twice:?}");
        }
        let mut backwards = groups[0].runs.clone();
        backwards.reverse();
        let backwards = group(backwards);
        assert_eq!(backwards[0].of(What::Slowdown, "all", p99), Some(found));
        let mut other = run(sample("other", 1, 400, 3.0));
        other.flows[100].size += 1;
        let other = group(vec![other]);
        assert_eq!(groups[0].over(&other[0], What::Slowdown, "all", p99), None);
    }

    #[test]
    fn a_run_that_is_too_short_is_reported() {
        let with = |seed, offered| {
            let mut sample = sample("dctcp", seed, 400, 3.0);
            let asked = 0.6;
            sample.summary.load = Some(weft_load::record::OfferedLoad { asked, offered });
            run(sample)
        };
        let groups = group(vec![with(1, 0.55), with(2, 0.66)]);
        assert_eq!(groups[0].doubts(), [""; 0]);
        let groups = group(vec![with(1, 0.55), with(2, 0.6)]);
        let doubts = groups[0].doubts();
        assert_eq!(doubts.len(), 1, "{doubts:?}");
        assert!(doubts[0].starts_with("dctcp: the offered load was 0.575, not 0.6"));
        let mut worse = sample("dctcp", 1, 400, 3.0);
        for (place, flow) in worse.flows.iter_mut().enumerate() {
            flow.slowdown = flow.slowdown.map(|it| it + place as f64 / 50.0);
        }
        worse.summarize(true);
        let doubts = group(vec![run(worse)])[0].doubts();
        assert!(
            doubts[0].starts_with("dctcp: not steady, the mean slowdown is "),
            "{doubts:?}"
        );
    }

    #[test]
    fn one_invalid_run_makes_its_group_invalid_and_is_named() {
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
