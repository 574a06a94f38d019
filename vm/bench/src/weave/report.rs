// SPDX-License-Identifier: MIT OR Apache-2.0

//! Saved and printed figures.

use serde::Serialize;

use super::Tool;
use super::guest::GuestFigure;
use super::inside::{Measured, Sample};
use super::rest::BUSY;
use super::tools::MBIT;

/// All figures, including the raw samples.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) date: String,
    pub(crate) kernel: String,
    pub(crate) processors: usize,
    pub(crate) iproute2: String,
    /// `null`: not measured.
    pub(crate) mininet: Option<String>,
    /// Rate of all links in Mbit/s.
    pub(crate) rate: u32,
    pub(crate) figures: Vec<Figure>,
    /// Figures of the guest; empty if not requested.
    pub(crate) guest: Vec<GuestFigure>,
    #[serde(flatten)]
    pub(crate) measured: Measured,
}

/// The size of a fat-tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Size {
    pub(crate) hosts: u32,
    pub(crate) switches: u32,
    pub(crate) links: u32,
}

impl Size {
    /// The size with switches of `k` ports.
    pub(crate) fn of(k: u32) -> Self {
        Self {
            hosts: k.pow(3) / 4,
            switches: 5 * k * k / 4,
            links: 3 * k.pow(3) / 4,
        }
    }
}

/// A tool at one size, in seconds.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    pub(crate) k: u32,
    #[serde(flatten)]
    pub(crate) size: Size,
    pub(crate) tool: Tool,
    pub(crate) runs: usize,
    pub(crate) up: Spread,
    pub(crate) down: Spread,
    /// The time that the kernel then needed.
    pub(crate) gone: Spread,
    /// The sum of all three.
    pub(crate) total: Spread,
    /// Ratio of the medians of the totals to weft's; `null` if weft was not measured.
    pub(crate) times_weft: Option<f64>,
}

/// The distribution over repetitions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` without values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (half, odd) = (values.len() / 2, values.len() % 2 == 1);
        Some(Self {
            min: *values.first()?,
            median: match odd {
                true => values[half],
                false => (values[half - 1] + values[half]) / 2.0,
            },
            max: *values.last()?,
        })
    }
}

/// A figure for each k and tool, in the order of their first measurement.
pub(crate) fn figures(samples: &[Sample]) -> Vec<Figure> {
    let mut kinds: Vec<(u32, Tool)> = Vec::new();
    for sample in samples {
        if !kinds.contains(&(sample.k, sample.tool)) {
            kinds.push((sample.k, sample.tool));
        }
    }
    let of = |k, tool| {
        let these = move |sample: &&Sample| (sample.k, sample.tool) == (k, tool);
        samples.iter().filter(these)
    };
    let spread = |k, tool, value: fn(&Sample) -> f64| Spread::of(of(k, tool).map(value));
    let figure = |&(k, tool): &(u32, Tool)| {
        let total = spread(k, tool, Sample::total)?;
        let weft = spread(k, Tool::Weft, Sample::total);
        Some(Figure {
            k,
            size: Size::of(k),
            tool,
            runs: of(k, tool).count(),
            up: spread(k, tool, |sample| sample.up)?,
            down: spread(k, tool, |sample| sample.down)?,
            gone: spread(k, tool, |sample| sample.gone)?,
            total,
            times_weft: weft.map(|weft| total.median / weft.median),
        })
    };
    kinds.iter().filter_map(figure).collect()
}

/// The report as text.
pub(crate) fn table(report: &Report) -> String {
    let mininet = report.mininet.as_ref();
    let mut text = format!(
        "Linux {}, {} processors, iproute2 {}{}, {}\n\
         {MBIT} Mbit/s tbf at each port; seconds until built, removed, and out of the kernel\n",
        report.kernel,
        report.processors,
        report.iproute2,
        mininet.map_or(String::new(), |version| format!(", Mininet {version}")),
        report.date
    );
    let others = report.measured.others;
    if others > BUSY {
        text += &format!(
            "NOT TO BE QUOTED: other work took {:.0} % of the processors between the runs\n",
            others * 100.0
        );
    }
    let mut k = None;
    for figure in &report.figures {
        if k != Some(figure.k) {
            k = Some(figure.k);
            let Size {
                hosts,
                switches,
                links,
            } = figure.size;
            text += &format!(
                "\nk={}: {hosts} hosts, {switches} switches, {links} links\n{:20}{:>5}{:>9}{:>9}{:>9}{:>9} |{:>8}{:>8}{:>8}\n",
                figure.k, "", "runs", "min", "median", "max", "× weft", "up", "down", "gone"
            );
        }
        let ratio = figure.times_weft.map_or("-".into(), |ratio| {
            format!("{ratio:.*}", if ratio < 9.95 { 1 } else { 0 })
        });
        let Spread { min, median, max } = figure.total;
        text += &format!(
            "{:20}{:>5}{min:>9.3}{median:>9.3}{max:>9.3}{ratio:>9} |{:>8.3}{:>8.3}{:>8.3}\n",
            figure.tool.name(),
            figure.runs,
            figure.up.median,
            figure.down.median,
            figure.gone.median
        );
    }
    if let Some(wait) = Spread::of(report.measured.wait.iter().copied()) {
        text += &format!(
            "\nup, down, gone: medians. gone is {:.3} (at least {:.3}) with nothing to remove.\n",
            wait.median, wait.min
        );
    }
    if !report.guest.is_empty() {
        text += "\nweft in the guest, virtual seconds (10^9 instructions)\n";
        text += &format!("{:20}{:>5}{:>9}{:>9}\n", "", "k", "up", "down");
        for figure in &report.guest {
            let GuestFigure {
                k,
                scheme,
                up,
                down,
            } = figure;
            text += &format!("{scheme:20}{k:>5}{up:>9.3}{down:>9.3}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(tool: Tool, up: f64) -> Sample {
        Sample {
            tool,
            k: 4,
            up,
            down: 0.25,
            gone: 0.25,
        }
    }

    #[test]
    fn a_fat_tree_has_as_many_nodes_and_links_as_the_paper_says() {
        let size = Size {
            hosts: 128,
            switches: 80,
            links: 384,
        };
        assert_eq!(Size::of(8), size);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_two() {
        let spread = Spread::of([4.0, 1.0, 2.0, 8.0]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 3.0, 8.0));
        assert_eq!(Spread::of([2.0, 9.0, 1.0]).unwrap().median, 2.0);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn figures_cover_all_phases_and_are_compared_with_weft() {
        let samples = [
            sample(Tool::Weft, 0.5),
            sample(Tool::Mininet, 9.5),
            sample(Tool::Weft, 1.5),
        ];
        let figures = figures(&samples);
        assert_eq!((figures[0].tool, figures[0].runs), (Tool::Weft, 2));
        assert_eq!(figures[0].total.median, 1.5);
        assert_eq!(figures[0].times_weft, Some(1.0));
        assert_eq!(figures[1].times_weft, Some(10.0 / 1.5));
    }

    #[test]
    fn the_table_has_a_line_for_each_tool() {
        let measured = Measured {
            wait: vec![0.01],
            others: 0.01,
            samples: vec![sample(Tool::Weft, 0.5), sample(Tool::Mininet, 9.5)],
        };
        let mut report = Report {
            date: "2026-01-31".into(),
            kernel: "7.2".into(),
            processors: 2,
            iproute2: "6.1.0".into(),
            mininet: Some("2.3.0".into()),
            rate: MBIT,
            figures: figures(&measured.samples),
            guest: Vec::new(),
            measured,
        };
        let text = table(&report);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[3], "k=4: 16 hosts, 20 switches, 48 links");
        assert_eq!(
            lines[6],
            "Mininet                 1   10.000   10.000   10.000       10 |   9.500   0.250   0.250"
        );
        assert!(!text.contains("QUOTED"));
        report.measured.others = 0.42;
        assert!(table(&report).contains("other work took 42 %"));
    }
}
