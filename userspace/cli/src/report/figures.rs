// SPDX-License-Identifier: MIT OR Apache-2.0

//! The report's figures: which statistics of which flows and ports are drawn.

mod path;
mod queues;
mod sweeps;
mod switches;

use anyhow::Result;
use weft_load::record::Flow;
use weft_load::statistics::Sorted;

use super::chart::{Axis, Chart, Series, Shape};
use super::ticks::{self, Scale};
use weft_lab::results::Group;

pub(super) use path::path;
pub(super) use queues::queues;
pub(super) use sweeps::sweeps;
pub(super) use switches::held_by_switches;

/// Plots that belong together.
pub(super) struct Figure {
    pub(super) id: String,
    pub(super) title: String,
    pub(super) caption: String,
    /// The legend of all panels. Empty: each panel has one column, which its title names.
    pub(super) legend: Vec<Key>,
    pub(super) panels: Vec<Panel>,
}

/// An entry of a legend; its position determines its style.
pub(super) struct Key {
    pub(super) name: String,
    pub(super) valid: bool,
}

pub(super) struct Panel {
    pub(super) title: String,
    pub(super) svg: String,
}

/// A key for each column.
fn columns(groups: &[Group]) -> Vec<Key> {
    let key = |group: &Group| Key {
        name: group.name.clone(),
        valid: group.valid(),
    };
    groups.iter().map(key).collect()
}

/// A panel with a chart; `None` if the chart has no point.
fn panel(title: impl Into<String>, chart: &Chart) -> Result<Option<Panel>> {
    let title = title.into();
    Ok(chart.svg()?.map(|svg| Panel { title, svg }))
}

/// The title of a panel for a group's first run.
fn of_first_run(group: &Group) -> String {
    let mut title = group.name.clone();
    if group.runs.len() > 1 {
        title.push_str(&format!(", seed {}", group.runs[0].header.seed));
    }
    if !group.valid() {
        title.push_str(" (INVALID)");
    }
    title
}

/// The measured flows of all runs that ended.
fn ended(group: &Group) -> impl Iterator<Item = &Flow> {
    let flows = group.runs.iter().flat_map(|run| &run.flows);
    flows.filter(|flow| !flow.warm_up && flow.fct_ns.is_some())
}

/// The sizes that divide flows into at most `sets` sets of about equal count; each is the largest
/// of its set.
fn quantiles(mut sizes: Vec<u64>, sets: usize) -> Vec<u64> {
    sizes.sort_unstable();
    let set = sizes.len().div_ceil(sets).max(1);
    let mut ends: Vec<u64> = sizes
        .chunks(set)
        .filter_map(|set| set.last().copied())
        .collect();
    ends.dedup();
    ends
}

/// The number of sets of flows by size: ten as in papers, or fewer if a set would have so few flows
/// that its 99th percentile were a single flow.
fn sets(flows: usize) -> usize {
    const ENOUGH: usize = 50;
    (flows / ENOUGH).clamp(4, 10)
}

/// Mean and 99th percentile of slowdowns by flow size.
pub(super) fn slowdown_by_size(groups: &[Group]) -> Result<Figure> {
    let sizes: Vec<u64> = groups
        .iter()
        .flat_map(ended)
        .map(|flow| flow.size)
        .collect();
    let each = sizes.len() / groups.len().max(1);
    let sets = sets(each);
    let ends = quantiles(sizes, sets);
    let title = |statistic: &str| format!("{statistic} slowdown");
    let chart = |label: &str, statistic: fn(&Sorted) -> Option<f64>| {
        let series = groups.iter().enumerate().map(|(column, group)| Series {
            column,
            shape: Shape::Marked,
            points: by_size(group, &ends, statistic),
            bands: Vec::new(),
        });
        let chart = Chart {
            x: Axis {
                label: "flow size".to_owned(),
                scale: Scale::Log,
                name: Box::new(ticks::bytes),
                reaches: Vec::new(),
            },
            y: Axis {
                label: "slowdown".to_owned(),
                scale: Scale::Log,
                name: Box::new(ticks::number),
                reaches: vec![1.0, 2.0],
            },
            reference: Some(1.0),
            series: series.collect(),
        };
        panel(title(label), &chart)
    };
    let mean = chart("Mean", Sorted::mean)?;
    let tail = chart("99th percentile of", |slowdowns| slowdowns.percentile(0.99))?;
    let few = match each / ends.len().max(1) {
        flows if flows < 100 => {
            " Of fewer than 100 flows the 99th percentile is close to the largest value."
        }
        _ => "",
    };
    Ok(Figure {
        id: "slowdown".to_owned(),
        title: "Slowdown by flow size".to_owned(),
        caption: format!(
            "Flows of all seeds in {} sets of about {} by size; a point is at its set's median size. \
             A slowdown of 1 is the best possible time on an idle fabric.{few}",
            ends.len(),
            each / ends.len().max(1),
        ),
        legend: columns(groups),
        panels: mean.into_iter().chain(tail).collect(),
    })
}

/// For each set of flows its median size, and a statistic of its slowdowns.
fn by_size(group: &Group, ends: &[u64], statistic: fn(&Sorted) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut above = 0;
    let mut points = Vec::new();
    for &end in ends {
        let set = || ended(group).filter(|flow| (above + 1..=end).contains(&flow.size));
        let sizes = Sorted::new(set().map(|flow| flow.size as f64));
        let slowdowns = Sorted::new(set().filter_map(|flow| flow.slowdown));
        points.extend(sizes.percentile(0.5).zip(statistic(&slowdowns)));
        above = end;
    }
    points
}

/// The distribution of flow completion times: of the smallest flows, and of all.
pub(super) fn completion_times(groups: &[Group]) -> Result<Figure> {
    let headers = groups.iter().flat_map(|group| &group.runs);
    let smallest = headers
        .filter_map(|run| run.header.buckets.first().copied())
        .min();
    let mut panels = Vec::new();
    if let Some(end) = smallest {
        let title = format!("Flows up to {}", ticks::bytes(end as f64));
        panels.extend(panel(title, &distribution(groups, end))?);
    }
    panels.extend(panel("All flows", &distribution(groups, u64::MAX))?);
    let mut dilations: Vec<f64> = groups.iter().map(Group::dilation).collect();
    dilations.dedup();
    let guest = match dilations.as_slice() {
        [1.0] => String::new(),
        [dilation] => format!(" In the slowed fabric everything took {dilation} times longer."),
        _ => " The fabrics were slowed by different factors.".to_owned(),
    };
    Ok(Figure {
        id: "fct".to_owned(),
        title: "Flow completion times".to_owned(),
        caption: format!(
            "The fraction of flows that were done within a time of the fabric.{guest}"
        ),
        legend: columns(groups),
        panels,
    })
}

fn distribution(groups: &[Group], up_to: u64) -> Chart {
    const POINTS: usize = 250;
    let times = |group| {
        let flows = ended(group).filter(move |flow| flow.size <= up_to);
        flows.filter_map(|flow| flow.fct_ns).map(|ns| ns as f64)
    };
    let longest = groups.iter().flat_map(times).fold(0.0, f64::max);
    let series = groups.iter().enumerate().map(|(column, group)| {
        let mut points = steps(&Sorted::new(times(group)).cdf(POINTS));
        // All lines have the same length: where others still rise, this one is at its maximum.
        if !points.is_empty() {
            points.push((longest, 1.0));
        }
        Series {
            column,
            shape: Shape::Line,
            points,
            bands: Vec::new(),
        }
    });
    Chart {
        x: Axis {
            label: "flow completion time".to_owned(),
            scale: Scale::Log,
            name: Box::new(ticks::time),
            reaches: Vec::new(),
        },
        y: Axis {
            label: "fraction of flows".to_owned(),
            scale: Scale::Linear,
            name: Box::new(ticks::number),
            reaches: vec![0.0, 1.0],
        },
        reference: None,
        series: series.collect(),
    }
}

/// A distribution's points as steps, from 0.
fn steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut below = 0.0;
    let mut steps = Vec::with_capacity(2 * points.len());
    for &(value, share) in points {
        steps.extend([(value, below), (value, share)]);
        below = share;
    }
    steps
}

#[cfg(test)]
mod tests {
    use weft_load::record::Recorded;

    use super::*;
    use crate::sample::sample;

    fn group(flows: Vec<Flow>) -> Group {
        let run = Recorded {
            header: sample("dctcp", 1, 1, 2.0).header,
            flows,
            ports: Vec::new(),
            path: None,
            summary: None,
        };
        Group::new("dctcp".into(), vec![run])
    }

    fn flows(sizes: impl IntoIterator<Item = u64>) -> Vec<Flow> {
        let template = sample("dctcp", 1, 30, 2.0).flows.pop().unwrap();
        let flow = |size| Flow {
            size,
            slowdown: Some(size as f64),
            ..template.clone()
        };
        sizes.into_iter().map(flow).collect()
    }

    #[test]
    fn sets_of_flows_have_about_equal_sizes() {
        assert_eq!(
            quantiles((1..=100).rev().collect(), 10),
            [10, 20, 30, 40, 50, 60, 70, 80, 90, 100]
        );
        assert_eq!(quantiles(vec![1; 40], 10), [1]);
        assert_eq!(quantiles(vec![5, 1, 3], 10), [1, 3, 5]);
        assert_eq!(quantiles(Vec::new(), 10), [0_u64; 0]);
        assert_eq!([40, 400, 540, 9_000].map(sets), [4, 8, 10, 10]);
    }

    #[test]
    fn each_flow_is_in_one_set_at_its_median_size() {
        let group = group(flows([1, 2, 3, 10, 20, 60]));
        let points = by_size(&group, &[3, 60], Sorted::mean);
        assert_eq!(points, [(2.0, 2.0), (20.0, 30.0)]);
        // A set without a flow of a scheme has no point.
        assert_eq!(by_size(&group, &[60, 100], Sorted::mean).len(), 1);
    }

    #[test]
    fn warm_up_flows_and_unfinished_flows_are_not_drawn() {
        let mut flows = flows([1, 2, 3]);
        flows[0].warm_up = true;
        flows[1].fct_ns = None;
        let group = group(flows);
        let sizes: Vec<u64> = ended(&group).map(|flow| flow.size).collect();
        assert_eq!(sizes, [3]);
    }

    #[test]
    fn a_distribution_rises_from_0_to_1() {
        let points = [(2.0, 0.5), (7.0, 1.0)];
        assert_eq!(
            steps(&points),
            [(2.0, 0.0), (2.0, 0.5), (7.0, 0.5), (7.0, 1.0)]
        );
    }

    #[test]
    fn results_without_flows_have_no_panels() {
        let groups = [group(Vec::new())];
        assert!(slowdown_by_size(&groups).unwrap().panels.is_empty());
        assert!(completion_times(&groups).unwrap().panels.is_empty());
        assert!(queues(&groups).unwrap().panels.is_empty());
    }
}
