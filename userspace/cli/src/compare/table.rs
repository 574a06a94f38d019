// SPDX-License-Identifier: MIT OR Apache-2.0

//! The comparison as tables, for a terminal (`weft compare`, `weft run`) and for a page (`weft
//! report`).

mod number;

use super::Times;
use crate::cures;
use crate::output;
use number::Unit;
use weft_lab::results::{self, Estimate, Figure, Group, What};
use weft_load::record::{Class, Sums};

pub(crate) use number::{show, show_beside};
pub(crate) use weft_lab::number::digits;

/// Width of a terminal in columns.
const WIDTH: usize = 100;

/// Rows of one kind of figures.
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) blocks: Vec<Block>,
}

/// Rows of one size bucket, or of the whole run.
pub(crate) struct Block {
    /// Name of the bucket; empty: all flows of the run.
    pub(crate) bucket: String,
    /// Number of flows.
    pub(crate) flows: String,
    pub(crate) rows: Vec<Row>,
}

/// A figure with its values in every group.
pub(crate) struct Row {
    pub(crate) figure: String,
    pub(crate) unit: String,
    pub(crate) cells: Vec<String>,
}

/// A figure of a distribution: its name, the share of flows beyond it, and its accessor.
type Named = (&'static str, f64, Figure);

const MEAN: Named = ("mean", 1.0, Figure::Mean);
const P50: Named = ("P50", 0.5, Figure::Percentile(0.5));
const P95: Named = ("P95", 0.05, Figure::Percentile(0.95));
const P99: Named = ("P99", 0.01, Figure::Percentile(0.99));
const P999: Named = ("P99.9", 0.001, Figure::Percentile(0.999));

/// The meaning of `*` at a percentile.
pub(crate) const FEW: &str =
    "* of so few flows, of all seeds together, that it is little more than the largest value";
/// The meaning of intervals.
pub(crate) const INTERVALS: &str =
    "A ± B: the mean over seeds and half of its 95 % confidence interval (Student's t)
A [L, H]: of all seeds' flows together, and the 95 % interval of a bootstrap of their blocks";

/// All tables.
pub(crate) fn sections(groups: &[Group], times: Times) -> Vec<Section> {
    vec![
        Section {
            title: "slowdown",
            blocks: blocks(groups, |bucket| slowdowns(groups, bucket)),
        },
        Section {
            title: "completion time",
            blocks: blocks(groups, |bucket| completion_times(groups, bucket, times)),
        },
        Section {
            title: "whole run",
            blocks: vec![Block {
                bucket: String::new(),
                flows: String::new(),
                rows: whole_run(groups),
            }],
        },
    ]
}

fn blocks(groups: &[Group], rows: impl Fn(&str) -> Vec<Row>) -> Vec<Block> {
    let block = |bucket: String| Block {
        flows: flows(groups, &bucket),
        rows: rows(&bucket),
        bucket,
    };
    results::buckets(groups).into_iter().map(block).collect()
}

/// The number of flows in all runs of a group; a range if groups differ.
fn flows(groups: &[Group], bucket: &str) -> String {
    let all = |group: &Group| group.flows(bucket).iter().sum::<u64>();
    let least = groups.iter().map(all).min().unwrap_or(0);
    let most = groups.iter().map(all).max().unwrap_or(0);
    match (least == most, most) {
        (true, 1) => "1 flow".to_owned(),
        (true, _) => format!("{most} flows"),
        (false, _) => format!("{least}-{most} flows"),
    }
}

/// A percentile's name, with `*` if some group has no flow beyond it.
fn name(groups: &[Group], bucket: &str, (name, beyond, _): Named) -> String {
    let mut counts = groups
        .iter()
        .map(|group| group.flows(bucket).iter().sum::<u64>());
    let few = counts.any(|count| (count as f64 * beyond) < 1.0);
    format!("{name}{}", if few { "*" } else { "" })
}

fn slowdowns(groups: &[Group], bucket: &str) -> Vec<Row> {
    let row = |figure: Named| {
        let estimate = |group: &Group| group.of(What::Slowdown, bucket, figure.2);
        Row {
            figure: name(groups, bucket, figure),
            unit: String::new(),
            cells: groups.iter().map(|group| show(estimate(group))).collect(),
        }
    };
    [MEAN, P50, P95, P99, P999].into_iter().map(row).collect()
}

fn completion_times(groups: &[Group], bucket: &str, times: Times) -> Vec<Row> {
    let slowed = groups.iter().any(|group| group.dilation() != 1.0);
    let whose: &[(&str, bool)] = match times {
        Times::Both if slowed => &[("fabric ", false), ("guest ", true)],
        Times::Guest if slowed => &[("guest ", true)],
        Times::Fabric if slowed => &[("fabric ", false)],
        _ => &[("", false)],
    };
    let mut rows = Vec::new();
    for figure in [MEAN, P99] {
        for (number, (whose, guest)) in whose.iter().enumerate() {
            let ns = |group: &Group| {
                let scale = if *guest { group.dilation() } else { 1.0 };
                Some(group.of(What::Time, bucket, figure.2)?.scaled(scale))
            };
            let estimates: Vec<Option<Estimate>> = groups.iter().map(ns).collect();
            let unit = Unit::of(&estimates);
            let shown = |it: &Option<Estimate>| show(it.map(|it| it.scaled(1.0 / unit.ns)));
            rows.push(Row {
                figure: match number {
                    0 => name(groups, bucket, figure),
                    _ => String::new(),
                },
                unit: format!("{whose}{}", unit.name),
                cells: estimates.iter().map(shown).collect(),
            });
        }
    }
    rows
}

/// A figure of a whole run.
#[derive(Clone, Copy)]
pub(crate) struct OfRun {
    /// Its name.
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    /// Whether it is omitted if no group has it.
    rare: bool,
    how: How,
}

/// The source of a figure.
#[derive(Clone, Copy)]
enum How {
    By(fn(&Group) -> Option<Estimate>),
    /// The sum of a counter of ports, by its key. `None` if no run has any.
    Sum(&'static str),
}

impl OfRun {
    const fn new(
        title: &'static str,
        unit: &'static str,
        of: fn(&Group) -> Option<Estimate>,
    ) -> Self {
        Self {
            title,
            unit,
            rare: false,
            how: How::By(of),
        }
    }

    const fn rare(self) -> Self {
        Self { rare: true, ..self }
    }

    pub(crate) fn of(&self, group: &Group) -> Option<Estimate> {
        match self.how {
            How::By(of) => of(group),
            How::Sum(key) => {
                let all = group.figure(|it| it.sums.get(key).map(|it| it as f64));
                all.filter(|it| it.value > 0.0)
            }
        }
    }
}

/// Figures of a whole run before the sums of ports' counters.
const LOAD: [OfRun; 3] = [
    OfRun::new("offered load", "", |group| {
        group.figure(|it| it.load.map(|load| load.offered))
    }),
    OfRun::new("goodput", "Gbit/s", |group| {
        Some(group.figure(|it| it.goodput)?.scaled(1e-9))
    }),
    OfRun::new("packets lost", "%", |group| {
        Some(group.figure(|it| it.loss)?.scaled(100.0))
    }),
];

/// Figures after them.
const FLOWS: [OfRun; 7] = [
    OfRun::new("retransmitted", "segments", |group| {
        group.count(|flow| Some(flow.retransmissions))
    }),
    OfRun::new("of these, spurious", "segments", |group| {
        group.count(|flow| flow.spurious)
    }),
    OfRun::new("timeouts", "", |group| group.count(|flow| flow.timeouts)),
    OfRun::new("unfinished", "flows", |group| {
        group.figure(|it| Some(it.unfinished as f64))
    }),
    OfRun::new("deadlines met", "%", |group| {
        Some(group.figure(|it| it.deadlines_met)?.scaled(100.0))
    })
    .rare(),
    OfRun::new("incasts' mean", "µs", |group| {
        Some(group.together(Class::incast)?.scaled(1e-3))
    })
    .rare(),
    OfRun::new("rounds' mean", "µs", |group| {
        Some(group.together(Class::round)?.scaled(1e-3))
    })
    .rare(),
];

/// All figures of a whole run.
pub(crate) fn of_run() -> impl Iterator<Item = OfRun> {
    let sums = Sums::all().map(|(statistic, sum)| OfRun {
        title: sum.title,
        unit: statistic.unit.name(),
        rare: true,
        how: How::Sum(sum.key),
    });
    LOAD.into_iter().chain(sums).chain(FLOWS)
}

fn whole_run(groups: &[Group]) -> Vec<Row> {
    let row = |figure: OfRun| Row {
        figure: figure.title.to_owned(),
        unit: figure.unit.to_owned(),
        cells: groups.iter().map(|group| show(figure.of(group))).collect(),
    };
    let has =
        |figure: &OfRun| !figure.rare || groups.iter().any(|group| figure.of(group).is_some());
    of_run().filter(has).map(row).collect()
}

/// Slowdowns divided by the first group's slowdowns, for the same flows. `None`: there is only one
/// group, or the flows differ.
fn quotients(groups: &[Group]) -> Option<Section> {
    let (first, others) = groups
        .split_first()
        .filter(|(_, others)| !others.is_empty())?;
    let row = |bucket: &str, figure: Named| Row {
        figure: name(groups, bucket, figure),
        unit: String::new(),
        cells: std::iter::once("1".to_owned())
            .chain(
                others
                    .iter()
                    .map(|it| show(it.over(first, What::Slowdown, bucket, figure.2))),
            )
            .collect(),
    };
    let blocks = blocks(groups, |bucket| {
        [MEAN, P99].map(|figure| row(bucket, figure)).into()
    });
    let has_any = blocks.iter().flat_map(|block| &block.rows);
    let mut others = has_any.flat_map(|row| &row.cells[1..]);
    others.any(|cell| cell != "–").then_some(Section {
        title: "slowdown, over the first's",
        blocks,
    })
}

/// Whether some percentile rests on too few flows.
pub(crate) fn has_few(sections: &[Section]) -> bool {
    let blocks = sections.iter().flat_map(|section| &section.blocks);
    blocks
        .flat_map(|block| &block.rows)
        .any(|row| row.figure.ends_with('*'))
}

/// The description of the runs, the tables, and warnings about their validity.
pub(crate) fn text(groups: &[Group], times: Times) -> String {
    let mut text = String::new();
    text.push_str(&wrapped(&parts(groups)));
    for difference in results::differences(groups) {
        text.push_str(&format!("not alike: {difference}\n"));
    }
    let reasons: Vec<String> = groups.iter().flat_map(Group::reasons).collect();
    for reason in &reasons {
        text.push_str(&format!("INVALID: {reason}\n"));
    }
    for cure in cures::of(&reasons) {
        text.push_str(&format!("cure: {cure}\n"));
    }
    for doubt in groups.iter().flat_map(Group::doubts) {
        text.push_str(&format!("too short: {doubt}\n"));
    }
    let mut rest = groups;
    while !rest.is_empty() {
        let (shown, taken) = widest(rest, times);
        text.push('\n');
        text.push_str(&shown);
        rest = &rest[taken..];
    }
    if groups.iter().any(|group| group.runs.len() > 1) {
        text.push_str(INTERVALS);
        text.push('\n');
    }
    if has_few(&sections(groups, times)) {
        text.push_str(FEW);
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text
}

/// The tables of as many groups as fit the width, and the number of these groups.
fn widest(groups: &[Group], times: Times) -> (String, usize) {
    let mut taken = groups.len();
    loop {
        let shown = render(&groups[..taken], times);
        let width = shown.lines().map(|line| line.chars().count()).max();
        if width <= Some(WIDTH) || taken == 1 {
            return (shown, taken);
        }
        taken -= 1;
    }
}

fn render(groups: &[Group], times: Times) -> String {
    let mut head = vec![String::new(), String::new(), String::new()];
    head.extend(groups.iter().map(|group| match group.valid() {
        true => group.name.clone(),
        false => format!("{}\nINVALID", group.name),
    }));
    let mut rows = Vec::new();
    for section in sections(groups, times).into_iter().chain(quotients(groups)) {
        let mut title = vec![section.title.to_owned()];
        title.resize(head.len(), String::new());
        rows.push(title);
        for block in section.blocks {
            let labels = [block.bucket, block.flows].into_iter();
            let mut labels = labels.chain(std::iter::repeat(String::new()));
            for row in block.rows {
                let label = labels.next().unwrap_or_default();
                let mut line = vec![format!("  {label}"), row.figure, row.unit];
                line.extend(row.cells);
                rows.push(line);
            }
        }
        rows.push(vec![String::new(); head.len()]);
    }
    output::table(head, rows) + "\n"
}

/// A description of the runs in a sentence, without parts that differ between groups.
pub(crate) fn what_ran(groups: &[Group]) -> String {
    parts(groups).join(", ")
}

fn parts(groups: &[Group]) -> Vec<String> {
    let mut all = groups.iter().map(parts_of);
    let first = all.next().unwrap_or_default();
    all.fold(first, |mut common, other| {
        common.retain(|part| other.contains(part));
        common
    })
}

/// The parts of the description of a column's runs.
fn parts_of(group: &Group) -> Vec<String> {
    let header = &group.runs[0].header;
    let workload = &header.workload;
    let mut parts = vec![header.topology.clone()];
    if !workload.sizes.is_empty() {
        parts.push(workload.sizes.clone());
    }
    if let Some(load) = &workload.load {
        parts.push(format!("load {load}"));
    }
    if !workload.arrivals.is_empty() {
        parts.push(format!("{} arrivals", workload.arrivals));
    }
    if !workload.pairs.is_empty() {
        parts.push(format!("{} pairs", workload.pairs));
    }
    if let Some(collective) = &workload.collective {
        parts.push(format!("rounds of {collective}"));
    }
    if let Some(incast) = &workload.incast {
        parts.push(format!("incasts {incast}"));
    }
    if !workload.added.is_empty() {
        parts.push(format!("added {}", workload.added.join(", ")));
    }
    if let Some(deadline) = &workload.deadline {
        parts.push(format!("deadlines {deadline}"));
    }
    if let Some(count) = workload.priorities {
        parts.push(format!("{count} priorities"));
    }
    parts.push(format!("{} flows", workload.flows));
    let seeds = group.seeds();
    parts.push(format!(
        "seed{} {}",
        if seeds.len() == 1 { "" } else { "s" },
        {
            let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
            seeds.join(", ")
        }
    ));
    if header.dilation != 1.0 {
        parts.push(format!("run {} times slower", header.dilation));
    }
    parts.push(format!("weft {}", header.weft));
    if let Some(kernel) = &header.kernel {
        parts.push(format!("Linux {kernel}"));
    }
    if let Some(clock) = &header.clock {
        parts.push(format!("{clock} clock"));
    }
    parts
}

/// Parts separated by commas, in lines that fit the width.
fn wrapped(parts: &[String]) -> String {
    let mut text = String::new();
    let mut column = 0;
    for (place, part) in parts.iter().enumerate() {
        let comma = if place + 1 < parts.len() { "," } else { "" };
        let width = part.chars().count() + comma.len();
        if column > 0 && column + 1 + width > WIDTH {
            text.push('\n');
            column = 0;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(part);
        text.push_str(comma);
        column += width;
    }
    text + "\n"
}
