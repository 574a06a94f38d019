// SPDX-License-Identifier: MIT OR Apache-2.0

//! The commands `weft compare` and `weft report`: their output, files and errors.

#[path = "../../../lab/tests/sample/files.rs"]
mod files;
#[path = "../../../lab/tests/sample/mod.rs"]
mod sample;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use sample::{Sample, sample};
use serde_json::Value;

fn weft(words: &[&str], files: &[PathBuf]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(words).args(files).output().unwrap()
}

fn printed(words: &[&str], files: &[PathBuf]) -> String {
    let output = weft(words, files);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The error message of a command that fails with exit status 2.
fn refused(words: &[&str], files: &[PathBuf]) -> String {
    let output = weft(words, files);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.lines().count(), 1, "{said}");
    said.trim_end().to_owned()
}

fn written(folder: &Path, samples: &[Sample]) -> Vec<PathBuf> {
    samples.iter().map(|sample| sample.write(folder)).collect()
}

/// The cells of a line; ± belongs to the adjacent numbers.
fn cells(line: &str) -> Vec<String> {
    let line = line.replace(" ± ", "±");
    line.split_whitespace().map(str::to_owned).collect()
}

/// The row of a figure in a section, within a bucket.
fn row<'a>(text: &'a str, section: &str, bucket: &str, figure: &str) -> &'a str {
    let mut lines = text.lines().skip_while(|line| line.trim() != section);
    let bucket_begins = |line: &&str| line.starts_with(&format!("  {bucket} "));
    let begin = lines
        .find(bucket_begins)
        .unwrap_or_else(|| panic!("no {bucket}:\n{text}"));
    let has = |line: &&str| {
        cells(line)
            .iter()
            .any(|cell| cell.trim_end_matches('*') == figure)
    };
    std::iter::once(begin).chain(lines).find(has).unwrap()
}

#[test]
fn a_table_fits_in_a_hundred_columns() {
    let folder = files::folder("compare-text");
    let schemes = [
        "droptail",
        "dctcp",
        "fq_codel",
        "pfabric",
        "pfabric-ecmp",
        "homa",
    ];
    let samples: Vec<Sample> = schemes
        .iter()
        .flat_map(|scheme| [1, 2, 3].map(|seed| sample(scheme, seed, 60, 3.0)))
        .collect();
    let text = printed(&["compare"], &written(&folder, &samples));
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for scheme in schemes {
        let heads = text
            .lines()
            .filter(|line| cells(line).contains(&scheme.to_owned()));
        assert_eq!(heads.count(), 1, "{scheme}:\n{text}");
    }
    assert!(
        text.starts_with("fat-tree:k=4, web-search, load 0.6"),
        "{text}"
    );
    assert!(
        text.contains("seeds 1, 2, 3, run 1000 times slower"),
        "{text}"
    );
    assert!(
        text.contains("the mean over seeds and half of its 95 % confidence interval"),
        "{text}"
    );
}

#[test]
fn times_are_shown_for_the_fabric_the_guest_or_both() {
    let folder = files::folder("compare-times");
    let one = sample("pfabric", 1, 600, 1.2);
    let mean = one.summary.buckets[0].fct_ns.mean;
    let files = written(&folder, &[one]);
    let section = "completion time";
    let both = printed(&["compare", "--times", "both"], &files);
    let fabric = row(&both, section, "0-100 kB", "fabric");
    let guest = row(&both, section, "0-100 kB", "guest");
    let shown = format!("{:.1}", mean / 1e3);
    assert!(
        cells(fabric).ends_with(&["µs".into(), shown.clone()]),
        "{fabric}"
    );
    assert!(cells(guest).ends_with(&["ms".into(), shown]), "{guest}");
    let guest = printed(&["compare", "--times", "guest"], &files);
    assert!(
        guest.contains("guest ms") && !guest.contains("fabric "),
        "{guest}"
    );
    let fabric = printed(&["compare", "--times", "fabric"], &files);
    assert!(
        fabric.contains("fabric µs") && !fabric.contains("guest"),
        "{fabric}"
    );
}

#[test]
fn without_dilation_only_one_time_is_shown() {
    let folder = files::folder("compare-real-time");
    let mut one = sample("pfabric", 1, 60, 1.2);
    one.header.dilation = 1.0;
    let text = printed(&["compare"], &written(&folder, &[one]));
    assert!(
        !text.contains("guest") && !text.contains("slower"),
        "{text}"
    );
}

#[test]
fn json_has_unrounded_numbers_of_every_seed() {
    let folder = files::folder("compare-json");
    let samples = [1, 2, 3].map(|seed| sample("dctcp", seed, 600, 3.0));
    let json = printed(&["compare", "--json"], &written(&folder, &samples));
    let json: Value = serde_json::from_str(&json).unwrap();
    let column = &json["columns"][0];
    assert_eq!(column["name"], "dctcp");
    assert_eq!(column["seeds"], serde_json::json!([1, 2, 3]));
    assert_eq!(column["valid"], true);
    let first = &column["buckets"][0];
    assert_eq!(first["bucket"], "0-100 kB");
    let close = |value: &Value, expected: f64| {
        let value = value.as_f64().unwrap();
        assert!((value / expected - 1.0).abs() < 1e-6, "{value} {expected}");
    };
    let means = samples.map(|it| it.summary.buckets[0].slowdown.mean);
    let mean = means.iter().sum::<f64>() / 3.0;
    let variance = means.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 2.0;
    close(&first["slowdown"]["mean"]["value"], mean);
    // Student's t with 2 degrees of freedom.
    let half = 4.302_652_729_9 * (variance / 3.0).sqrt();
    close(&first["slowdown"]["mean"]["half_width"], half);
    let fabric = first["fct_fabric_ns"]["p99"]["value"].as_f64().unwrap();
    close(&first["fct_guest_ns"]["p99"]["value"], 1000.0 * fabric);
}

#[test]
fn a_percentile_of_few_flows_is_marked() {
    let folder = files::folder("compare-few");
    let files = written(&folder, &[sample("dctcp", 1, 600, 3.0)]);
    let text = printed(&["compare"], &files);
    let marked = |figure: &str| {
        let row = row(&text, "slowdown", "all", figure);
        cells(row).iter().any(|cell| cell.ends_with('*'))
    };
    // 540 flows: five are beyond the 99th percentile, none beyond the 99.9th.
    assert!(!marked("P99") && marked("P99.9"), "{text}");
    assert!(text.contains("* of so few flows"), "{text}");
}

#[test]
fn an_invalid_run_says_so_above_the_table_and_in_its_column() {
    let folder = files::folder("compare-invalid");
    let mut samples = [sample("droptail", 1, 60, 3.0), sample("dctcp", 1, 60, 3.0)];
    samples[0].summarize(false);
    let text = printed(&["compare"], &written(&folder, &samples));
    let reason = "INVALID: droptail (seed 1): generator lag, mean: 4.177 packet times";
    assert!(text.contains(reason), "{text}");
    assert!(text.find("INVALID") < text.find("slowdown"), "{text}");
    let head = text
        .lines()
        .position(|line| cells(line) == ["droptail", "dctcp"]);
    let below = text.lines().nth(head.unwrap() + 1).unwrap();
    assert_eq!(below.trim(), "INVALID");
}

#[test]
fn columns_of_one_scheme_are_distinguished() {
    let folder = files::folder("compare-twins");
    let first = sample("dctcp", 1, 60, 3.0);
    let mut second = first.clone();
    second
        .header
        .parameters
        .insert("buffer".into(), "300".into());
    let mut third = first.clone();
    third
        .header
        .options
        .extend(["--connection".into(), "pair".into()]);
    let mut files = Vec::new();
    for (place, sample) in [first, second, third].into_iter().enumerate() {
        let folder = folder.join(place.to_string());
        fs::create_dir(&folder).unwrap();
        files.push(sample.write(&folder));
    }
    let json = printed(&["compare", "--json"], &files);
    let json: Value = serde_json::from_str(&json).unwrap();
    let names: Vec<&Value> = json["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["name"])
        .collect();
    let expected = [
        "dctcp buffer=150",
        "dctcp buffer=300",
        "dctcp --connection pair buffer=150",
    ];
    assert_eq!(names, expected);
    let text = printed(&["compare"], &files);
    assert!(text.contains("not alike: other options: "), "{text}");
}

#[test]
fn impossible_figures_are_refused() {
    let folder = files::folder("compare-impossible");
    for (slowdown, said) in [(1e300, "1e300"), (-1.0, "-1e0"), (0.0, "0e0")] {
        let mut sample = sample("dctcp", 1, 60, 3.0);
        sample.flows[7].slowdown = Some(slowdown);
        let file = sample.write(&folder);
        let said = format!(
            "weft: {}: flow 7 has a slowdown of {said}: expected above 0 to 1e12",
            file.display()
        );
        assert_eq!(refused(&["compare"], &[file]), said);
    }
    let mut sample = sample("dctcp", 1, 60, 3.0);
    sample.flows[7].fct_ns = Some(u64::MAX);
    let said = refused(&["compare"], &[sample.write(&folder)]);
    assert!(said.ends_with("flow 7 ends after 2^63 ns"), "{said}");
}

#[test]
fn files_that_are_not_results_are_refused() {
    let folder = files::folder("compare-refused");
    let good = sample("dctcp", 1, 60, 3.0);
    let good_file = good.write(&folder);
    let write = |name: &str, content: &[u8]| {
        let path = folder.join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let result = fs::read_to_string(&good_file).unwrap();
    let head = result.lines().next().unwrap();
    let cut = &result[..result.len() - 40];
    let unfinished = &result[..result.trim_end().rfind('\n').unwrap() + 1];
    for (name, content, said) in [
        (
            "notes.txt",
            b"# Notes\n".as_slice(),
            "notes.txt:1: expected value: is this a weft result?",
        ),
        (
            "other.json",
            b"{\"flows\": []}\n",
            "other.json:1: missing field `record`: is this a weft result?",
        ),
        ("empty.jsonl", b"", "empty.jsonl: holds no result"),
        (
            "binary",
            b"\x7fELF\xff\xfe",
            "binary: stream did not contain valid UTF-8",
        ),
        (
            "cut.jsonl",
            cut.as_bytes(),
            "the line is cut off: was the run interrupted?",
        ),
        (
            "unfinished.jsonl",
            unfinished.as_bytes(),
            "unfinished.jsonl: the run did not end, there is no summary to compare",
        ),
        (
            "newer.jsonl",
            head.replace("\"format\":1", "\"format\":2").as_bytes(),
            "newer.jsonl:1: written by a newer weft: this one reads format 1 and older",
        ),
    ] {
        let file = write(name, content);
        for command in ["compare", "report"] {
            let sentence = refused(&[command], &[good_file.clone(), file.clone()]);
            assert!(sentence.ends_with(said), "{name}: {sentence}");
        }
    }
    let missing = refused(&["compare"], &[folder.join("missing.jsonl")]);
    assert!(missing.contains("missing.jsonl: No such file"), "{missing}");
}

#[test]
fn incomparable_results_are_refused() {
    let folder = files::folder("compare-unlike");
    let mut samples = vec![sample("dctcp", 1, 60, 3.0), sample("pfabric", 1, 60, 3.0)];
    samples[1].header.topology = "fat-tree:k=8".into();
    let files = written(&folder, &samples);
    let sentence = refused(&["compare"], &files);
    assert!(
        sentence.contains("dctcp-seed1.jsonl is of fat-tree:k=4"),
        "{sentence}"
    );
    assert!(
        sentence.contains("pfabric-seed1.jsonl of fat-tree:k=8"),
        "{sentence}"
    );
    let text = printed(&["compare", "--mixed"], &files);
    let said = "not alike: topology: dctcp has fat-tree:k=4, pfabric has fat-tree:k=8";
    assert!(text.contains(said), "{text}");

    let twice = [files[0].clone(), files[0].clone()];
    let sentence = refused(&["compare"], &twice);
    assert!(
        sentence.contains("are both dctcp with seed 1"),
        "{sentence}"
    );
}

#[test]
fn a_report_is_byte_identical_for_the_same_results_and_loads_nothing() {
    let folder = files::folder("report-bytes");
    let samples = [sample("dctcp", 1, 300, 3.0), sample("pfabric", 1, 300, 1.2)];
    let files = written(&folder, &samples);
    let page = printed(&["report", "--out", "-"], &files);
    assert_eq!(page, printed(&["report", "--out", "-"], &files));
    for loader in ["<script", "<link", "<img", "@import", "url(", " src="] {
        assert!(!page.contains(loader), "{loader}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn more_columns_than_a_figure_holds_are_refused() {
    let folder = files::folder("report-many");
    let samples: Vec<Sample> = (0..8)
        .map(|n| sample(&format!("s{n}"), 1, 20, 2.0))
        .collect();
    let sentence = refused(&["report"], &written(&folder, &samples));
    assert!(
        sentence.contains("8 columns are too many for one figure"),
        "{sentence}"
    );
}

#[test]
fn the_same_flows_under_two_clocks_are_compared_one_by_one() {
    let folder = files::folder("compare-by-flow");
    let under = |clock: &str, slower: f64| {
        let mut run = sample("dctcp", 1, 60, 3.0);
        run.header.clock = Some(clock.into());
        for flow in &mut run.flows {
            flow.slowdown = flow.slowdown.map(|slowdown| slowdown * slower);
            flow.fct_ns = flow.fct_ns.map(|ns| (ns as f64 * slower) as u64);
        }
        let folder = folder.join(clock);
        fs::create_dir_all(&folder).unwrap();
        run.write(&folder)
    };
    let reference = under("instructions", 1.0);
    let near = [reference.clone(), under("model", 1.002)];
    let text = printed(&["compare", "--by-flow"], &near);
    let row = text.lines().find(|line| line.starts_with("dctcp")).unwrap();
    assert!(row.contains("flow by flow"), "{text}");
    assert!(row.contains("+0.20 %"), "{text}");
    let far = [reference, under("real", 1.5)];
    let output = weft(&["compare", "--by-flow", "--json"], &far);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found[0]["agreement"], "none", "{found}");
    assert_eq!(found[0]["clocks"][1], "real", "{found}");
    let alone = refused(&["compare", "--by-flow"], &near[..1]);
    assert!(alone.contains("its twin"), "{alone}");
}

#[test]
fn met_deadlines_are_shown_if_flows_have_any() {
    let folder = files::folder("compare-deadlines");
    let with = |scheme, every: usize| {
        let mut sample = sample(scheme, 1, 60, 1.5);
        sample.header.workload.deadline = Some("fixed:5ms".to_owned());
        let measured = sample.flows.iter_mut().filter(|flow| !flow.warm_up);
        for (place, flow) in measured.enumerate() {
            let late = place % every == 0;
            flow.deadline_ns = flow.fct_ns.map(|ns| ns - u64::from(late));
        }
        sample.summarize(true);
        sample
    };
    // Of 54, every second one is late, or every third.
    let files = written(&folder, &[with("dctcp", 2), with("pase", 3)]);
    let text = printed(&["compare"], &files);
    assert!(text.contains("deadlines fixed:5ms"), "{text}");
    let met = text
        .lines()
        .find(|line| line.contains("deadlines met"))
        .unwrap();
    assert!(
        cells(met).ends_with(&["%".into(), "50".into(), "66.7".into()]),
        "{met}"
    );
    let none = printed(
        &["compare"],
        &written(&folder, &[sample("dctcp", 1, 60, 1.5)]),
    );
    assert!(!none.contains("deadlines"), "{none}");
}

#[test]
fn priorities_are_a_condition_of_a_run() {
    let folder = files::folder("compare-priorities");
    let with = |scheme, count: Option<u8>| {
        let mut sample = sample(scheme, 1, 60, 1.5);
        sample.header.workload.priorities = count;
        sample
    };
    let both = [with("dctcp", Some(4)), with("bfc", Some(4))];
    let text = printed(&["compare"], &written(&folder, &both));
    assert!(text.contains("4 priorities"), "{text}");
    let one = [with("dctcp", None), with("bfc", Some(4))];
    let text = printed(&["compare"], &written(&folder, &one));
    let expected = "priorities: dctcp has none, bfc has 4";
    assert!(text.contains(expected), "{text}");
    let none = [with("dctcp", None), with("bfc", None)];
    let text = printed(&["compare"], &written(&folder, &none));
    assert!(!text.contains("priorities"), "{text}");
}

#[test]
fn flows_are_exported_once() {
    let folder = files::folder("compare-export-twice");
    let one = sample("dctcp", 1, 20, 2.0).write(&folder);
    let copy = folder.join("copy.jsonl");
    fs::copy(&one, &copy).unwrap();
    for files in [[&one, &one], [&one, &copy]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
        let output = command.args(["export", "--csv"]).args(files).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty());
        let said = String::from_utf8(output.stderr).unwrap();
        let expected = "are the same result: name it once\n";
        assert!(said.ends_with(expected), "{said}");
    }
}

#[test]
fn flows_are_exported_as_a_table() {
    let folder = files::folder("compare-export");
    let mut samples = [sample("dctcp", 1, 60, 3.0), sample("pfabric", 1, 60, 2.0)];
    samples[1].flows[9].timeouts = None;
    samples[1].flows[9].deadline_ns = Some(7_000);
    samples[1].flows[9].priority = Some(3);
    let text = printed(&["export", "--csv"], &written(&folder, &samples));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 120);
    let head: Vec<&str> = lines[0].split(',').collect();
    let column = |name: &str| head.iter().position(|it| *it == name).unwrap();
    for (line, flow) in lines[1..]
        .iter()
        .zip(samples.iter().flat_map(|it| &it.flows))
    {
        let cells: Vec<&str> = line.split(',').collect();
        assert_eq!(cells.len(), head.len());
        assert_eq!(cells[column("slowdown")].parse().ok(), flow.slowdown);
        assert_eq!(cells[column("fct_ns")].parse().ok(), flow.fct_ns);
        assert_eq!(cells[column("timeouts")].parse().ok(), flow.timeouts);
        assert_eq!(cells[column("deadline_ns")].parse().ok(), flow.deadline_ns);
        assert_eq!(cells[column("priority")].parse().ok(), flow.priority);
        assert_eq!(
            cells[column("measured")],
            if flow.warm_up { "0" } else { "1" }
        );
    }
}
