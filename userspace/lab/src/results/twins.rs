// SPDX-License-Identifier: MIT OR Apache-2.0

//! The same flows under two clocks, in pairs of runs: how well the results of the clocks agree.
//!
//! Flows are the same in both runs of a pair: sender, receiver, size, start and path. So the times
//! of a flow can be compared one by one, as long as the fabric is not chaotic: if queues overflow,
//! a packet that comes a microsecond later may be the one that is dropped, and from then on the
//! runs are two samples of the same distribution. Such runs are compared as distributions.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::Serialize;
use weft_load::record::{Flow, Header, Recorded, measured};
use weft_load::statistics::{Sorted, critical_distance, distance};

use super::{Estimate, alike, estimate};
use crate::error::usage;

/// The largest median of flows' differences for an agreement flow by flow.
const MEDIAN: f64 = 0.005;
/// The largest difference of the means over all flows for an agreement.
const MEAN: f64 = 0.01;

/// The degree of agreement between the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// The median difference of the flows and the means are within [`MEDIAN`] and [`MEAN`].
    FlowByFlow,
    /// The distributions are no further apart than two samples of one may be, and each mean is
    /// within [`MEAN`] or differs by less than it does between seeds.
    InDistribution,
    /// Neither.
    None,
}

/// Runs of one scheme and workload under two clocks, a pair for each seed.
#[derive(Clone, Debug, Serialize)]
pub struct Twins {
    /// Their name: the scheme, and if it is not unique, its workload.
    pub name: String,
    /// In the order of the runs.
    pub seeds: Vec<u64>,
    /// The clocks; each difference is the second's value minus the first's.
    pub clocks: [String; 2],
    /// Flows that were measured under both, without those of the warm-up.
    pub flows: u64,
    /// Flows that ended under only one.
    pub alone: u64,
    /// Differences of flows' completion times, without sign and as shares: the median,
    pub median: f64,
    /// the 95th percentile,
    pub p95: f64,
    /// and the median with its sign.
    pub bias: f64,
    /// Means over all flows of all seeds: slowdowns,
    pub slowdown: Means,
    /// and completion times in ns of the fabric.
    pub fct_ns: Means,
    /// The Kolmogorov-Smirnov distance of slowdowns,
    pub distance: f64,
    /// and the distance that two independent samples of one distribution exceed with a probability
    /// of 5 %.
    pub critical_distance: f64,
    /// The conclusion.
    pub agreement: Agreement,
}

/// The mean under each clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Means {
    /// Over all flows of all seeds.
    pub means: [f64; 2],
    /// The second's difference from the first as a share of it: the mean over seeds, which are
    /// paired.
    pub difference: Estimate,
}

impl Means {
    fn new(pairs: &[Pair], of: impl Fn(&Both) -> [f64; 2]) -> Self {
        let mean_of = |flows: &mut dyn Iterator<Item = &Both>, side: usize| {
            let values: Vec<f64> = flows.map(|both| of(both)[side]).collect();
            values.iter().sum::<f64>() / values.len() as f64
        };
        let all = |side| mean_of(&mut pairs.iter().flat_map(|pair| &pair.flows), side);
        let differences = pairs.iter().map(|pair| {
            let mean = |side| mean_of(&mut pair.flows.iter(), side);
            mean(1) / mean(0) - 1.0
        });
        let differences: Vec<f64> = differences.collect();
        Self {
            means: [all(0), all(1)],
            // There is at least one pair.
            difference: estimate(&differences).unwrap_or(Estimate::alone(0.0)),
        }
    }

    /// Whether the difference is within [`MEAN`].
    fn agree(&self) -> bool {
        (self.means[1] / self.means[0] - 1.0).abs() <= MEAN
    }

    /// Whether the difference between seeds is larger than that between clocks.
    fn are_noise(&self) -> bool {
        let half_width = self.difference.half_width;
        half_width.is_some_and(|half| self.difference.value.abs() <= half)
    }
}

/// A flow that ended in both runs.
struct Both {
    fct_ns: [f64; 2],
    slowdown: [f64; 2],
}

/// Two runs of one seed.
struct Pair {
    flows: Vec<Both>,
    alone: u64,
}

/// Pairs runs that differ in the clock, and in the kernel's release, which depends on it. The clock
/// of the first run is the first of all pairs.
///
/// # Errors
///
/// If a run has no partner or several, if two runs do not have the same flows, or no flow ended in
/// both.
pub fn twins(runs: Vec<Recorded>) -> Result<Vec<Twins>> {
    let Some(first) = runs.first().map(|run| clock(&run.header)) else {
        return Ok(Vec::new());
    };
    let (ours, others): (Vec<_>, Vec<_>) = runs
        .into_iter()
        .partition(|run| clock(&run.header) == first);
    if ours.len() != others.len() {
        return usage(format!(
            "{} runs of clock {first} and {} of another: each needs its twin",
            ours.len(),
            others.len()
        ));
    }
    let mut groups: Vec<(Header, Vec<u64>, String, Vec<Pair>)> = Vec::new();
    for one in &ours {
        let header = plain(&one.header);
        let what = format!("{}, seed {}", header.scheme, header.seed);
        let mut twins = others.iter().filter(|it| plain(&it.header) == header);
        let (Some(other), None) = (twins.next(), twins.next()) else {
            return usage(format!(
                "{what}: expected one run that differs in nothing but the clock"
            ));
        };
        let pair = pair(one, other, &what)?;
        let clock = clock(&other.header);
        let same = groups.iter_mut().find(|(group, _, other, _)| {
            *other == clock && alike::same_but_for_the_seed(group, &header)
        });
        match same {
            Some((_, seeds, _, pairs)) => {
                seeds.push(header.seed);
                pairs.push(pair);
            }
            None => groups.push((header.clone(), vec![header.seed], clock, vec![pair])),
        }
    }
    let headers: Vec<&Header> = groups.iter().map(|(header, ..)| header).collect();
    let names = alike::names(&headers);
    let judged = names.into_iter().zip(&groups);
    Ok(judged
        .map(|(name, (_, seeds, clock, pairs))| {
            judge(name, seeds.clone(), [first.clone(), clock.clone()], pairs)
        })
        .collect())
}

fn clock(header: &Header) -> String {
    header.clock.clone().unwrap_or("not recorded".into())
}

/// Without the fields in which twins differ.
fn plain(header: &Header) -> Header {
    Header {
        clock: None,
        kernel: None,
        ..header.clone()
    }
}

fn pair(one: &Recorded, other: &Recorded, what: &str) -> Result<Pair> {
    let by_id: BTreeMap<u64, &Flow> = other.flows.iter().map(|flow| (flow.id, flow)).collect();
    let same = |a: &Flow, b: &Flow| (a.src, a.dst, a.size) == (b.src, b.dst, b.size);
    let (mut flows, mut alone) = (Vec::new(), 0);
    // Flows that keep up the load go on until the last measured flow ends under that clock.
    for flow in measured(&one.flows) {
        let Some(twin) = by_id.get(&flow.id).filter(|twin| same(flow, twin)) else {
            return usage(format!(
                "{what}: flow {} is not the same in both runs",
                flow.id
            ));
        };
        let figures = |flow: &Flow| Some((flow.fct_ns? as f64, flow.slowdown?));
        match (figures(flow), figures(twin)) {
            (Some(a), Some(b)) => flows.push(Both {
                fct_ns: [a.0, b.0],
                slowdown: [a.1, b.1],
            }),
            (None, None) => {}
            _ => alone += 1,
        }
    }
    if flows.is_empty() {
        return usage(format!("{what}: no flow ended in both runs"));
    }
    Ok(Pair { flows, alone })
}

fn judge(name: String, seeds: Vec<u64>, clocks: [String; 2], pairs: &[Pair]) -> Twins {
    let all = || pairs.iter().flat_map(|pair| &pair.flows);
    let differences = || all().map(|both| both.fct_ns[1] / both.fct_ns[0] - 1.0);
    // There is at least one flow.
    let percentile = |sorted: Sorted, p| sorted.percentile(p).unwrap_or(f64::NAN);
    let absolute = Sorted::new(differences().map(f64::abs));
    let slowdowns = |side: usize| Sorted::new(all().map(|both| both.slowdown[side]));
    let flows = all().count();
    let (slowdown, fct_ns) = (
        Means::new(pairs, |both| both.slowdown),
        Means::new(pairs, |both| both.fct_ns),
    );
    let means = [&slowdown, &fct_ns];
    let alone = pairs.iter().map(|pair| pair.alone).sum();
    let distance = distance(&slowdowns(0), &slowdowns(1)).unwrap_or(f64::NAN);
    let critical_distance = critical_distance(flows, flows);
    let median = percentile(absolute.clone(), 0.5);
    let agreement = if alone == 0 && median <= MEDIAN && means.iter().all(|it| it.agree()) {
        Agreement::FlowByFlow
    } else if distance <= critical_distance && means.iter().all(|it| it.agree() || it.are_noise()) {
        Agreement::InDistribution
    } else {
        Agreement::None
    };
    Twins {
        name,
        seeds,
        clocks,
        flows: flows as u64,
        alone,
        median,
        p95: percentile(absolute, 0.95),
        bias: percentile(Sorted::new(differences()), 0.5),
        slowdown,
        fct_ns,
        distance,
        critical_distance,
        agreement,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::sample;

    /// A run of the sample's flows, each slower by the share that its number gives.
    fn run(seed: u64, clock: &str, slower: impl Fn(u64) -> f64) -> Recorded {
        let sample = sample("dctcp", seed, 200, 3.0);
        let mut run = Recorded {
            header: sample.header,
            flows: sample.flows,
            ports: Vec::new(),
            path: None,
            summary: Some(sample.summary),
        };
        run.header.clock = Some(clock.into());
        run.header.kernel = Some(format!("7.2.12-{clock}"));
        for flow in &mut run.flows {
            let factor = 1.0 + slower(flow.id);
            flow.slowdown = flow.slowdown.map(|slowdown| slowdown * factor);
            flow.fct_ns = flow.fct_ns.map(|ns| (ns as f64 * factor).round() as u64);
        }
        run
    }

    fn both(slower: impl Fn(u64, u64) -> f64) -> Vec<Recorded> {
        let runs = (1..=3).flat_map(|seed| {
            let other = run(seed, "model", |id| slower(seed, id));
            [run(seed, "instructions", |_| 0.0), other]
        });
        runs.collect()
    }

    fn judged(slower: impl Fn(u64, u64) -> f64) -> Twins {
        let mut all = twins(both(slower)).unwrap();
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    #[test]
    fn flows_are_compared_one_by_one() {
        let twins = judged(|_, id| if id.is_multiple_of(2) { 0.002 } else { -0.004 });
        assert_eq!((twins.flows, twins.alone), (3 * 180, 0));
        assert_eq!(twins.clocks, ["instructions", "model"]);
        assert_eq!(twins.seeds, [1, 2, 3]);
        // Times are whole nanoseconds.
        assert!((twins.p95 - 0.004).abs() < 1e-4, "{twins:?}");
        assert!(twins.median > 0.0019 && twins.median < 0.0041, "{twins:?}");
        assert_eq!(twins.agreement, Agreement::FlowByFlow);
    }

    #[test]
    fn a_bias_of_all_flows_prevents_agreement_flow_by_flow() {
        let twins = judged(|_, _| 0.006);
        assert!((twins.bias - 0.006).abs() < 1e-4, "{twins:?}");
        assert!((twins.slowdown.difference.value - 0.006).abs() < 1e-9);
        assert_ne!(twins.agreement, Agreement::FlowByFlow);
    }

    #[test]
    fn symmetric_noise_agrees_in_distribution() {
        let twins = judged(|seed, id| {
            if (id + seed).is_multiple_of(2) {
                0.1
            } else {
                -0.1
            }
        });
        assert!((twins.median - 0.1).abs() < 1e-3, "{twins:?}");
        assert_eq!(twins.agreement, Agreement::InDistribution, "{twins:?}");
    }

    #[test]
    fn another_distribution_or_mean_prevents_agreement() {
        // All of them twice as slow.
        let twins = judged(|_, _| 1.0);
        assert!(twins.distance > twins.critical_distance, "{twins:?}");
        assert_eq!(twins.agreement, Agreement::None);
        // A few flows are much slower, with every seed: nearly the same distribution, but another
        // mean.
        let twins = judged(|_, id| if id.is_multiple_of(20) { 9.0 } else { 0.0 });
        assert!(twins.distance < twins.critical_distance, "{twins:?}");
        assert_eq!(twins.agreement, Agreement::None, "{twins:?}");
    }

    #[test]
    fn a_flow_that_ended_under_one_clock_only_is_counted() {
        let mut runs = both(|_, _| 0.0);
        runs[1].flows[150].fct_ns = None;
        let twins = twins(runs).unwrap().remove(0);
        assert_eq!((twins.flows, twins.alone), (3 * 180 - 1, 1));
        assert_eq!(twins.agreement, Agreement::InDistribution);
    }

    #[test]
    fn background_flows_need_no_twin() {
        let mut runs = both(|_, _| 0.0);
        // A cool-down lasts until the last flow ends under that clock.
        runs[0].flows[199].warm_up = true;
        runs[1].flows.pop();
        let twins = twins(runs).unwrap().remove(0);
        assert_eq!((twins.flows, twins.alone), (3 * 180 - 1, 0));
    }

    #[test]
    fn results_that_are_no_pair_are_refused() {
        let mut lonely = both(|_, _| 0.0);
        lonely.pop();
        assert!(twins(lonely).unwrap_err().to_string().contains("its twin"));
        let mut others = both(|_, _| 0.0);
        others[5].header.seed = 9;
        let error = twins(others).unwrap_err().to_string();
        assert!(error.contains("dctcp, seed 3"), "{error}");
        let mut changed = both(|_, _| 0.0);
        changed[1].flows[27].size += 1;
        let error = twins(changed).unwrap_err().to_string();
        assert!(error.contains("flow 27 is not the same"), "{error}");
    }
}
