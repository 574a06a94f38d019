// SPDX-License-Identifier: MIT OR Apache-2.0

//! The report in a browser, wide and narrow, light and dark. It needs chromium: `cargo xtask test`
//! installs it and runs this; to run it by hand, use `cargo test -p weft-cli --test report`.

mod browser;
mod collection;
#[path = "../../../lab/tests/sample/files.rs"]
mod files;
mod numbers;
#[path = "../experiments/own.rs"]
mod own;
#[path = "../../../lab/tests/sample/mod.rs"]
mod sample;
mod tradeoff;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use browser::Browser;
use sample::{Sample, sample};
use serde::Deserialize;

const SCHEMES: [(&str, f64); 3] = [("droptail", 7.0), ("dctcp", 3.0), ("pfabric", 1.2)];
const DESKTOP: u32 = 1200;
const PHONE: u32 = 360;

/// The results of `inspect.js`.
#[derive(Debug, Deserialize)]
struct Page {
    title: String,
    /// Its background colour.
    page: String,
    tables: Vec<numbers::Table>,
    figures: Vec<Figure>,
    overflowing: Vec<String>,
    wider: f64,
    faint: Vec<String>,
    alarm: String,
    ran: Vec<String>,
    commands: Vec<String>,
    validity: String,
}

#[derive(Debug, Deserialize)]
struct Figure {
    id: String,
    caption: String,
    legend: Vec<Key>,
    panels: Vec<Panel>,
}

#[derive(Debug, Deserialize)]
struct Key {
    name: String,
    colour: String,
    dashes: String,
}

#[derive(Debug, Deserialize)]
struct Panel {
    title: String,
    #[serde(rename = "box")]
    place: Box,
    labels: Vec<String>,
    /// The smallest size of letters on the screen, in px.
    letters: f64,
    outside: Vec<String>,
    crossed: Vec<String>,
    lines: Vec<Line>,
    areas: Vec<String>,
    strays: u32,
}

#[derive(Debug, Deserialize)]
struct Box {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

#[derive(Debug, Deserialize)]
struct Line {
    colour: String,
    dashes: String,
    points: u32,
    width: f64,
    height: f64,
}

/// Three schemes, three seeds, 600 flows.
fn samples() -> Vec<Sample> {
    let seeds = |(scheme, slowness)| (1..=3).map(move |seed| sample(scheme, seed, 600, slowness));
    SCHEMES.into_iter().flat_map(seeds).collect()
}

fn report(folder: &Path, samples: &[Sample]) -> PathBuf {
    let files: Vec<PathBuf> = samples.iter().map(|sample| sample.write(folder)).collect();
    let out = folder.join("report.html");
    let status = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args([
            "report",
            "--title",
            "Three <schemes> & a \"title\"",
            "--out",
        ])
        .arg(&out)
        .args(&files)
        .status();
    assert!(status.unwrap().success());
    out
}

fn inspect(browser: &mut Browser) -> Page {
    let found = browser.evaluate(include_str!("inspect.js"));
    serde_json::from_value(found).unwrap()
}

/// Checks the layout: everything is in its place and readable.
fn is_well_laid_out(page: &Page, what: &str) {
    assert_eq!(page.overflowing, Vec::<String>::new(), "{what}");
    assert!(page.wider <= 0.0, "{what}: {} px too wide", page.wider);
    assert_eq!(page.faint, Vec::<String>::new(), "{what}");
    for figure in &page.figures {
        for panel in &figure.panels {
            let what = format!("{what}: {}, {}", figure.id, panel.title);
            let place = &panel.place;
            assert!(place.right - place.left > 300.0, "{what}: {place:?}");
            assert!(place.bottom - place.top > 180.0, "{what}: {place:?}");
            assert!(panel.letters >= 9.0, "{what}: {} px", panel.letters);
            assert_eq!(panel.outside, Vec::<String>::new(), "{what}");
            assert_eq!(panel.crossed, Vec::<String>::new(), "{what}");
            assert_eq!(panel.strays, 0, "{what}");
            // Several values on each axis, and their unit.
            assert!(panel.labels.len() >= 6, "{what}: {:?}", panel.labels);
        }
    }
}

fn figure<'a>(page: &'a Page, id: &str) -> &'a Figure {
    page.figures.iter().find(|figure| figure.id == id).unwrap()
}

#[test]
fn a_report_shows_all_measurements_on_every_screen() {
    let folder = files::folder("report");
    let samples = samples();
    let file = report(&folder, &samples);
    let size = fs::metadata(&file).unwrap().len();
    assert!(size < 500_000, "{size} bytes");

    let mut browser = Browser::start(&folder);
    let mut pages = Vec::new();
    for (width, dark) in [
        (DESKTOP, false),
        (DESKTOP, true),
        (PHONE, false),
        (PHONE, true),
    ] {
        browser.look(width, dark);
        browser.open(&file);
        let what = format!("{width} px, {}", if dark { "dark" } else { "light" });
        let page = inspect(&mut browser);
        is_well_laid_out(&page, &what);
        assert!(
            browser.complaints().is_empty(),
            "{:?}",
            browser.complaints()
        );
        let requests = browser.requests();
        assert!(
            requests.iter().all(|url| url.starts_with("file://")),
            "{requests:?}"
        );
        assert_eq!(requests.len(), 1, "{requests:?}");
        pages.push(page);
    }
    assert_eq!(pages[0].page, "rgb(255, 255, 255)");
    assert_eq!(pages[1].page, "rgb(20, 23, 28)");

    let page = &pages[0];
    assert_eq!(page.title, "Three <schemes> & a \"title\"");
    numbers::are_those_of(&page.tables, &samples);
    figures_have_every_scheme(page);
    assert_eq!(page.alarm, "");
    for said in [
        "topology: fat-tree:k=4",
        "flow sizes: web-search",
        "load: 0.6 of host links (wire bytes)",
        "flows: 600",
        "seeds: 1, 2, 3",
        "weft: 0.1.0",
        "kernel: Linux 7.2.12+deb14-amd64",
        "pfabric: buffer 150",
    ] {
        assert!(
            page.ran.contains(&said.to_owned()),
            "{said}: {:?}",
            page.ran
        );
    }
    assert_eq!(
        page.commands[2],
        "weft run fat-tree:k=4 --dilation 1000 --workload web-search --load 0.6 --flows 600 \
         --scheme pfabric --seed 1,2,3 --out results"
    );
}

/// Every figure and panel has each scheme in its own colour.
fn figures_have_every_scheme(page: &Page) {
    let legend = &figure(page, "slowdown").legend;
    let names: Vec<&str> = legend.iter().map(|key| key.name.as_str()).collect();
    assert_eq!(names, SCHEMES.map(|(name, _)| name));
    for distinct in [
        |key: &Key| key.colour.clone(),
        |key: &Key| key.dashes.clone(),
    ] {
        let all: BTreeSet<String> = legend.iter().map(distinct).collect();
        assert_eq!(all.len(), SCHEMES.len(), "{legend:?}");
    }
    let colours: Vec<&str> = legend.iter().map(|key| key.colour.as_str()).collect();
    let dashes: Vec<&str> = legend.iter().map(|key| key.dashes.as_str()).collect();

    for (id, panels, points) in [
        (
            "slowdown",
            ["Mean slowdown", "99th percentile of slowdown"],
            10..=10,
        ),
        ("fct", ["Flows up to 100 kB", "All flows"], 200..=501),
    ] {
        let figure = figure(page, id);
        assert!(!figure.caption.is_empty());
        let titles: Vec<&str> = figure.panels.iter().map(|it| it.title.as_str()).collect();
        assert_eq!(titles, panels);
        for panel in &figure.panels {
            let lines = &panel.lines;
            let shown: Vec<&str> = lines.iter().map(|line| line.colour.as_str()).collect();
            assert_eq!(shown, colours, "{}", panel.title);
            let dashed: Vec<&str> = lines.iter().map(|line| line.dashes.as_str()).collect();
            assert_eq!(dashed, dashes, "{}", panel.title);
            for line in lines {
                assert!(points.contains(&line.points), "{}: {line:?}", panel.title);
                assert!(
                    line.width > 500.0 && line.height > 50.0,
                    "{}: {line:?}",
                    panel.title
                );
            }
        }
    }
    let slowdown = &figure(page, "slowdown").panels[0];
    for label in ["10 kB", "100 kB", "1 MB", "10 MB", "flow size", "slowdown"] {
        assert!(
            slowdown.labels.iter().any(|it| it == label),
            "{label}: {:?}",
            slowdown.labels
        );
    }

    let queues = figure(page, "queues");
    assert_eq!(queues.panels.len(), SCHEMES.len());
    for ((panel, (name, _)), colour) in queues.panels.iter().zip(SCHEMES).zip(colours) {
        assert_eq!(panel.title, format!("{name}, seed 1"));
        let [line] = panel.lines.as_slice() else {
            panic!("{:?}", panel.lines)
        };
        assert_eq!(
            (line.colour.as_str(), line.dashes.as_str()),
            (colour, "none")
        );
        assert!((100..=301).contains(&line.points), "{line:?}");
        assert_eq!(panel.areas, [colour]);
        // All have the same axes, and 4.5 MB in a host count for no switch.
        assert_eq!(panel.labels, queues.panels[0].labels);
        assert!(
            panel.labels.contains(&"100".to_owned()),
            "{:?}",
            panel.labels
        );
        assert!(
            !panel.labels.iter().any(|label| label.ends_with('k')),
            "{:?}",
            panel.labels
        );
    }
}

#[test]
fn an_invalid_run_cannot_be_overlooked() {
    let folder = files::folder("report-invalid");
    let mut samples = vec![
        sample("droptail", 1, 60, 7.0),
        sample("pfabric", 1, 60, 1.2),
    ];
    samples[1].summarize(false);
    let file = report(&folder, &samples);
    let mut browser = Browser::start(&folder);
    browser.look(PHONE, false);
    browser.open(&file);
    let page = inspect(&mut browser);
    is_well_laid_out(&page, "invalid");
    assert!(page.alarm.starts_with("INVALID"), "{}", page.alarm);
    let reason = "pfabric (seed 1): generator lag, mean: 4.177 packet times, \
                  expected at most 0.5 packet times";
    assert!(page.alarm.contains(reason), "{}", page.alarm);
    for table in &page.tables {
        assert_eq!(table.columns, ["droptail", "pfabric INVALID"]);
    }
    for id in ["slowdown", "fct"] {
        let legend = &figure(&page, id).legend;
        let names: Vec<&str> = legend.iter().map(|key| key.name.as_str()).collect();
        assert_eq!(names, ["droptail", "pfabric INVALID"]);
    }
    let titles = figure(&page, "queues")
        .panels
        .iter()
        .map(|it| it.title.as_str());
    assert_eq!(
        titles.collect::<Vec<_>>(),
        ["droptail", "pfabric (INVALID)"]
    );
    assert!(page.validity.contains("4.18 INVALID"), "{}", page.validity);
}

/// The sample at a load, with larger slowdowns at higher loads.
fn at_load(scheme: &str, slowness: f64, seed: u64, load: &str, words: &str) -> Sample {
    let value: f64 = load.parse().unwrap();
    let mut sample = sample(scheme, seed, 300, 1.0 + slowness * value);
    let options =
        format!("fat-tree:k=4 --dilation 1000 --workload web-search --load {load}{words}");
    sample.header.options = options.split(' ').map(str::to_owned).collect();
    sample.header.workload.load = Some(format!("{load} of host links (wire bytes)"));
    sample
}

/// Writes each sample to its own folder, and creates a report of all.
fn sweep_report(folder: &Path, samples: &[Sample]) -> PathBuf {
    let mut files = Vec::new();
    for (number, sample) in samples.iter().enumerate() {
        let own = folder.join(number.to_string());
        fs::create_dir_all(&own).unwrap();
        files.push(sample.write(&own));
    }
    let out = folder.join("report.html");
    let output = Command::new(env!("CARGO_BIN_EXE_weft"))
        .args(["report", "--out"])
        .arg(&out)
        .args(&files)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    out
}

fn titles(figure: &Figure) -> Vec<&str> {
    figure.panels.iter().map(|it| it.title.as_str()).collect()
}

/// More columns than one figure can distinguish, but few lines.
#[test]
fn a_sweep_is_drawn_over_the_varied_option_with_confidence_intervals() {
    const LOADS: [&str; 4] = ["0.8", "0.2", "0.4", "0.6"];
    let folder = files::folder("report-sweep");
    let mut samples = Vec::new();
    for (scheme, slowness) in [("dctcp", 6.0), ("pfabric", 1.0)] {
        for load in LOADS {
            let seeds = (1..=3).map(|seed| at_load(scheme, slowness, seed, load, ""));
            samples.extend(seeds);
        }
    }
    let file = sweep_report(&folder, &samples);
    let mut browser = Browser::start(&folder);
    for (width, dark) in [(DESKTOP, false), (PHONE, true)] {
        browser.look(width, dark);
        browser.open(&file);
        let page = inspect(&mut browser);
        is_well_laid_out(&page, &format!("sweep, {width} px"));
        let ids: Vec<&str> = page.figures.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(ids, ["sweep-slowdown-1", "sweep-fct-1", "sweep-run-1"]);
        let slowdown = figure(&page, "sweep-slowdown-1");
        let names: Vec<&str> = slowdown.legend.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["dctcp", "pfabric"]);
        let colours: Vec<&str> = slowdown
            .legend
            .iter()
            .map(|it| it.colour.as_str())
            .collect();
        assert_eq!(titles(slowdown)[0], "Mean slowdown, flows of 0-100 kB");
        assert_eq!(
            titles(slowdown)[9],
            "99th percentile of slowdown, all flows"
        );
        let run = figure(&page, "sweep-run-1");
        assert!(titles(run).contains(&"Goodput"), "{:?}", titles(run));
        for panel in slowdown
            .panels
            .iter()
            .chain(&figure(&page, "sweep-fct-1").panels)
        {
            let shown: Vec<&str> = panel.lines.iter().map(|it| it.colour.as_str()).collect();
            assert_eq!(shown, colours, "{}", panel.title);
            assert!(
                panel.lines.iter().all(|it| it.points == 4),
                "{:?}",
                panel.lines
            );
            // A band and four markers per line.
            let of = |colour: &str| panel.areas.iter().filter(|it| *it == colour).count();
            assert_eq!(colours.iter().map(|it| of(it)).collect::<Vec<_>>(), [5, 5]);
            assert!(
                panel.labels.contains(&"load".to_owned()),
                "{:?}",
                panel.labels
            );
        }
        // Varied options are not reported as differences.
        assert!(
            !page.ran.iter().any(|it| it.contains("Not everything")),
            "{:?}",
            page.ran
        );
        assert_eq!(page.tables[0].columns.len(), 8);
    }
    sweep_values_are_those_of_the_table(&fs::read_to_string(&file).unwrap(), &samples);
}

/// Each line's points are its seeds' means, in the order of the loads, at positions proportional to
/// their logarithms.
fn sweep_values_are_those_of_the_table(page: &str, samples: &[Sample]) {
    let figure = page.split("id=\"sweep-slowdown-1\"").nth(1).unwrap();
    let panel = figure
        .split("<p>Mean slowdown, all flows</p>")
        .nth(1)
        .unwrap();
    let lines = panel
        .split("</svg>")
        .next()
        .unwrap()
        .split("<polyline")
        .skip(1);
    let points = |line: &str| -> Vec<(f64, f64)> {
        let points = line
            .split("points=\"")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap();
        let points = points.split_whitespace().map(|point| {
            let (x, y) = point.split_once(',').unwrap();
            (x.parse().unwrap(), y.parse().unwrap())
        });
        points.collect()
    };
    let lines: Vec<Vec<(f64, f64)>> = lines.map(points).filter(|it| it.len() == 4).collect();
    let [one, other] = &lines[..] else {
        panic!("{} lines", lines.len())
    };
    let mean = |scheme: &str, load: &str| {
        let load = format!("{load} of host links (wire bytes)");
        let runs = samples.iter().filter(|it| {
            it.header.scheme == scheme && it.header.workload.load.as_ref() == Some(&load)
        });
        let means = runs.map(|it| it.summary.buckets.last().unwrap().slowdown.mean);
        means.sum::<f64>() / 3.0
    };
    let expected =
        ["dctcp", "pfabric"].map(|it| ["0.2", "0.4", "0.6", "0.8"].map(|load| mean(it, load)));
    // Two points determine the linear map of logarithms, and all points follow it.
    let (a, b) = (expected[0][0].ln(), expected[0][3].ln());
    let y = |value: f64| one[0].1 + (value.ln() - a) / (b - a) * (one[3].1 - one[0].1);
    for (line, values) in [(one, expected[0]), (other, expected[1])] {
        for (point, value) in line.iter().zip(values) {
            assert!((point.1 - y(value)).abs() < 3.0, "{point:?}, {}", y(value));
        }
        let steps: Vec<f64> = line.windows(2).map(|it| it[1].0 - it[0].0).collect();
        assert!(
            steps
                .iter()
                .all(|it| (it - steps[0]).abs() < 2.0 && *it > 0.0),
            "{steps:?}"
        );
    }
}

#[test]
fn each_value_of_a_second_varied_option_has_its_own_plot() {
    let folder = files::folder("report-sweeps");
    let mut samples = Vec::new();
    for set in ["mark=9", "mark=65"] {
        for load in ["0.2", "0.6"] {
            samples.push(at_load("dctcp", 6.0, 1, load, &format!(" --set {set}")));
        }
    }
    let file = sweep_report(&folder, &samples);
    let mut browser = Browser::start(&folder);
    browser.look(DESKTOP, false);
    browser.open(&file);
    let page = inspect(&mut browser);
    is_well_laid_out(&page, "two axes");
    let expected = [
        "Mean slowdown, all flows, mark 9",
        "Mean slowdown, all flows, mark 65",
    ];
    assert_eq!(titles(figure(&page, "sweep-slowdown-1"))[..2], expected);
    let by_mark = titles(figure(&page, "sweep-slowdown-2"));
    assert_eq!(
        by_mark,
        [
            "Mean slowdown, all flows, load 0.2",
            "Mean slowdown, all flows, load 0.6",
            "99th percentile of slowdown, all flows, load 0.2",
            "99th percentile of slowdown, all flows, load 0.6",
        ]
    );
    // Four columns are few enough for the other figures.
    for id in ["slowdown", "fct", "queues"] {
        assert!(!figure(&page, id).panels.is_empty());
    }
}
