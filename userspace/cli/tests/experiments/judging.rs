// SPDX-License-Identifier: MIT OR Apache-2.0

//! Results, tables and claims without a fabric: the results are synthetic.

use std::path::{Path, PathBuf};

use serde_json::Value;
use weft_load::record::{
    Backpressure, Class, Flow, Gate, Hops, Limit, Partial, PortSample, Summary,
};
use weft_load::statistics::Buckets;

use crate::sample::{BUCKETS, Sample, sample};
use crate::{folder, printed, weft};

/// Two loads; the second matches the paper if flows take 1.5 times as long.
const EXPERIMENT: &str = r#"
title = "Load"
source = "A. Author, 2026, Figure 1"
about = "a"
seeds = [1, 2]
[[runs]]
options = "rack:hosts=4 --scheme ./plain --load {load} --flows 4 --warm-up 0"
each.load = [0.2, 0.8]
ideal = "./plain"
[measures]
mean = { of = "slowdown", statistic = "mean" }
short = { of = "time", statistic = "max", up_to = "10kB" }
loss = { of = "loss" }
[[tables]]
title = "Slowdown and time"
measures = ["mean", "short"]
rows = "load"
columns = "scheme"
[[tables]]
title = "Loss"
measures = "loss"
rows = "load"
where = { scheme = "./plain" }
[[claims]]
says = "more load, more time"
paper = "1.5 times"
measure = "mean"
where = { scheme = "./plain", load = 0.8 }
over = { where = { load = 0.2 } }
at_least = 1.4
at_most = 1.6
[[claims]]
says = "near the ideal"
paper = "within a factor of 4"
measure = "mean"
where = { scheme = "./plain" }
over = { where = { scheme = "ideal" } }
at_most = 4
"#;

/// On 10 Gbit/s links with 2 µs each: two simultaneous flows of 5 packets of 1448 B from different
/// hosts to one, and two flows without contention. All four take `slowdown` times the best possible
/// time.
pub(crate) fn result(load: &str, slowdown: f64) -> Sample {
    let mut sample = sample("plain", 1, 4, 1.0);
    let options = format!("rack:hosts=4 --load {load} --flows 4 --warm-up 0");
    sample.header.options = options.split(' ').map(str::to_owned).collect();
    sample.header.topology = "rack:hosts=4".into();
    sample.header.dilation = 1.0;
    sample.header.parameters.clear();
    let flow = |id: u64, src, dst, start_ns| Flow {
        id,
        src,
        dst,
        class: Class::Background,
        warm_up: false,
        start_ns,
        size: 5 * 1448,
        fct_ns: Some((10_000.0 * slowdown) as u64),
        deadline_ns: None,
        priority: None,
        slowdown: Some(slowdown),
        retransmissions: 0,
        spurious: Some(0),
        timeouts: Some(0),
        hops: None,
        partial: None,
    };
    sample.flows = vec![
        flow(0, 1, 0, 0),
        flow(1, 2, 0, 0),
        flow(2, 3, 1, 0),
        flow(3, 1, 2, 900_000),
    ];
    summarize(&mut sample, true);
    sample
}

fn summarize(sample: &mut Sample, valid: bool) {
    let lag = Gate::new(
        "lag",
        Some(if valid { 0.1 } else { 9.0 }),
        Limit::AtMost(0.5),
        "packet times",
    );
    let unfinished = sample
        .flows
        .iter()
        .filter(|flow| flow.fct_ns.is_none())
        .count();
    let ends = Gate::new(
        "flows that did not end",
        Some(unfinished as f64),
        Limit::AtMost(0.0),
        "",
    );
    let buckets = Buckets::new(&BUCKETS).unwrap();
    sample.summary = Summary::new(&sample.flows, &buckets, vec![lag, ends], Some(0.0625));
}

pub(crate) fn place(folder: &Path, load: &str) -> PathBuf {
    let place = folder.join(format!("results/mine/load-{load}"));
    std::fs::create_dir_all(&place).unwrap();
    place
}

/// Judges two results; returns the status and the output.
fn judged(name: &str, results: [Sample; 2]) -> (Option<i32>, String) {
    judged_as(name, EXPERIMENT, results)
}

fn judged_as(name: &str, experiment: &str, results: [Sample; 2]) -> (Option<i32>, String) {
    let folder = folder(name, experiment);
    for (load, mut result) in ["0.2", "0.8"].iter().zip(results) {
        // Both seeds are equal: the interval is a point.
        for seed in [1, 2] {
            result.header.seed = seed;
            result.write(&place(&folder, load));
        }
    }
    let output = weft(&folder, &["run", "./mine.toml", "--judge"]);
    (output.status.code(), printed(&output))
}

/// Judges three seeds of two loads, with slowdown 2 at one and these at the other; returns the
/// status and the judgement.
fn of_three_seeds(folder: &Path, slowdowns: [f64; 3]) -> (Option<i32>, Value) {
    for (seed, slowdown) in (1..).zip(slowdowns) {
        for (load, slowdown) in [("0.2", 2.0), ("0.8", slowdown)] {
            let mut sample = result(load, slowdown);
            sample.header.seed = seed;
            sample.write(&place(folder, load));
        }
    }
    let words = ["run", "./mine.toml", "--judge", "--json", "--seed", "1,2,3"];
    let output = weft(folder, &words);
    let judgement = serde_json::from_str(&printed(&output)).unwrap();
    (output.status.code(), judgement)
}

/// The words of the first line that begins with `begin`.
fn words<'a>(text: &'a str, begin: &str) -> Vec<&'a str> {
    let line = text.lines().find(|line| line.starts_with(begin));
    line.unwrap_or_else(|| panic!("no {begin}:\n{text}"))
        .split_whitespace()
        .collect()
}

/// 5 packets of 1448 + 52 + 38 B take 6.152 µs. Of two simultaneous flows the second waits that
/// long, so the mean of four slowdowns is 1 + 6.152 / best / 4. The best time is 6.152 µs, plus a
/// packet's 1.2304 for the second link, plus two delays.
#[test]
fn claims_that_hold_are_reported_and_the_ideal_is_computed() {
    let (status, text) = judged("holds", [result("0.2", 2.0), result("0.8", 3.0)]);
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.starts_with("mine: Load\nA. Author, 2026, Figure 1\n\nSlowdown and time\n"),
        "{text}"
    );
    assert!(text.trim_end().ends_with("2 of 2 claims hold"), "{text}");
    let asked = ["1.5", "times", "1.40", "to", "1.60", "1.50", "holds"];
    assert_eq!(words(&text, "more load")[4..], asked);
    assert_eq!(words(&text, "load ")[1..], ["scheme", "./plain", "ideal"]);
    let ideal: f64 = words(&text, "0.2   ")[3].parse().unwrap();
    let best = |delay: f64| 6.152 + 1.2304 + 2.0 * delay;
    let expected = |delay: f64| 1.0 + 6.152 / best(delay) / 4.0;
    // The rack's own delay is between 0 and 10 µs.
    assert!((expected(10.0)..expected(0.0)).contains(&ideal), "{ideal}");
    assert_eq!(words(&text, "0.8   ")[2], "3");
    let time = text
        .lines()
        .find(|line| line.contains("short (µs)"))
        .unwrap();
    assert!(time.contains(" 20 "), "{time}");
    let loss = text
        .lines()
        .skip_while(|line| !line.starts_with("Loss"))
        .nth(2)
        .unwrap();
    assert_eq!(loss.split_whitespace().collect::<Vec<_>>(), ["0.2", "6.25"]);
}

/// A user who compares two schemes has no paper, and no claims.
#[test]
fn an_experiment_may_have_tables_only() {
    let tables = EXPERIMENT.split("[[claims]]").next().unwrap();
    let tables = tables
        .replace("source = \"A. Author, 2026, Figure 1\"\n", "")
        .replace("about = \"a\"\n", "");
    let results = || [result("0.2", 2.0), result("0.8", 3.0)];
    let (status, text) = judged_as("tables", &tables, results());
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.starts_with("mine: Load\n\nSlowdown and time\n"),
        "{text}"
    );
    assert!(text.trim_end().ends_with("no claims to judge"), "{text}");
    assert!(!text.contains("asked"), "{text}");

    let empty = folder("tables-nothing", &tables);
    let output = weft(&empty, &["run", "./mine.toml", "--judge"]);
    assert_eq!(output.status.code(), Some(1), "nothing is measured");
    let text = printed(&output);
    assert!(!text.contains("seed"), "{text}");
    assert!(text.contains("no claims to judge; 4 of 4 runs"), "{text}");

    let folder = folder("tables-page", &tables);
    for (load, mut sample) in ["0.2", "0.8"].into_iter().zip(results()) {
        sample.header.seed = 1;
        sample.write(&place(&folder, load));
    }
    for file in ["page.html", "page.md"] {
        let words = [
            "run",
            "./mine.toml",
            "--judge",
            "--seed",
            "1",
            "--page",
            file,
        ];
        let output = weft(&folder, &words);
        assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
        let page = std::fs::read_to_string(folder.join(file)).unwrap();
        for part in ["Source", "What was run", "Claims", "and claims"] {
            assert!(!page.contains(part), "{part}: {page}");
        }
        assert!(page.contains("Slowdown and time"), "{page}");
    }
}

#[test]
fn a_persons_own_scheme_stands_beside_kept_results() {
    let folder = folder("beside-kept", EXPERIMENT);
    let line = ["run", "demo", "--scheme", "./plain"];
    let plan = printed(&weft(&folder, &[&line[..], &["--dry-run"]].concat()));
    assert_eq!(plan.lines().count(), 5, "{plan}");
    let options = plan.split(" --scheme").next().unwrap();
    let options = options.strip_prefix("weft run ").unwrap();
    let topology = options.split(' ').next().unwrap();
    let place = folder.join("results/demo");
    std::fs::create_dir_all(&place).unwrap();
    let judge = |words: &[&str], clock: Option<&str>| {
        for seed in 1..=5 {
            let mut sample = result("0.6", 1.25);
            sample.header.options = options.split(' ').map(str::to_owned).collect();
            sample.header.topology = topology.into();
            sample.header.dilation = 1000.0;
            sample.header.clock = clock.map(str::to_owned);
            sample.header.seed = seed;
            sample.write(&place);
        }
        let output = weft(&folder, &[words, &["--judge"]].concat());
        let said = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
        (printed(&output), said)
    };
    let (text, said) = judge(&line, Some("model"));
    assert_eq!(said, "");
    assert!(
        text.lines()
            .next()
            .unwrap()
            .ends_with("– ./plain beside kept results"),
        "{text}"
    );
    let kept = printed(&weft(&folder, &["run", "demo", "--kept"]));
    let figures = |text: &str, scheme: &str| words(text, scheme).join(" ");
    for scheme in ["droptail", "dctcp", "pfabric"] {
        assert_eq!(figures(&text, scheme), figures(&kept, scheme));
    }
    assert_eq!(words(&text, "./plain")[1], "1.25");
    // A page has the commands of both.
    let page = folder.join("page.html");
    judge(
        &[&line[..], &["--page", "page.html"]].concat(),
        Some("model"),
    );
    let page = std::fs::read_to_string(page).unwrap();
    assert!(
        page.contains("--scheme pfabric --seed 5") && page.contains("--scheme ./plain --seed 5")
    );
    // Without results there is nothing to compare.
    let none = weft(
        &folder,
        &[&line[..], &["--judge", "--out", "none"]].concat(),
    );
    assert_eq!(none.status.code(), Some(1));
    let text = printed(&none);
    assert!(
        text.contains("5 of 5 runs have no results") && !text.contains("pfabric  "),
        "{text}"
    );
    // Other seeds are reported; results of another clock do not compare.
    let (text, said) = judge(&[&line[..], &["--seed", "2,3"]].concat(), Some("model"));
    assert_eq!(said, "weft: kept results are of seeds 1, 2, 3, 4, 5\n");
    assert_eq!(figures(&text, "dctcp"), figures(&kept, "dctcp"));
    let (text, said) = judge(&line, None);
    assert_eq!(said, "weft: kept results are of another clock: left out\n");
    assert!(!text.contains("dctcp "), "{text}");
    let (_, said) = judge(&[&line[..], &["--scale", "1"]].concat(), Some("model"));
    assert_eq!(
        said,
        "weft: kept results are of other numbers of flows: left out\n"
    );
}

#[test]
fn the_ideal_is_a_result_beside_the_others() {
    let folder = folder("ideal", EXPERIMENT);
    for load in ["0.2", "0.8"] {
        result(load, 2.0).write(&place(&folder, load));
    }
    assert!(
        weft(&folder, &["run", "./mine.toml", "--judge"])
            .status
            .code()
            .is_some()
    );
    let compare = [
        "compare",
        "results/mine/load-0.2/plain-seed1.jsonl",
        "results/mine/load-0.2/ideal-seed1.jsonl",
    ];
    let compared = weft(&folder, &compare);
    assert!(compared.status.success(), "{compared:?}");
    let head = printed(&compared);
    assert!(
        head.lines()
            .any(|line| line.split_whitespace().eq(["plain", "ideal"])),
        "{head}"
    );
}

#[test]
fn the_worst_run_decides() {
    let (status, text) = judged("fails", [result("0.2", 2.0), result("0.8", 9.0)]);
    assert_eq!(status, Some(1), "{text}");
    let found = words(&text, "more load");
    assert_eq!(found[found.len() - 4..], ["4.50", "DOES", "NOT", "HOLD"]);
    let found = words(&text, "near the ideal");
    assert_eq!(found[found.len() - 6..][..3], ["at", "load", "0.8"]);
    assert!(text.trim_end().ends_with("0 of 2 claims hold"), "{text}");
}

/// The claim is 1.4 to 1.6, of 2 at the other load: 3 holds, 9 does not, and an interval that
/// contains a limit is undecided.
#[test]
fn a_claim_holds_only_if_its_interval_does() {
    for (name, seeds, verdict) in [
        ("sure", [2.99, 3.0, 3.01], "holds"),
        ("unsure", [2.6, 3.0, 3.4], "undecided"),
        ("surely-not", [8.9, 9.0, 9.1], "fails"),
    ] {
        let folder = folder(&format!("interval-{name}"), EXPERIMENT);
        let (status, judgement) = of_three_seeds(&folder, seeds);
        let claim = &judgement["claims"][0];
        assert_eq!(claim["verdict"], verdict, "{claim}");
        assert_eq!(status, Some(i32::from(verdict != "holds")));
    }
    // One seed allows no statement about others.
    let folder = folder("interval-none", EXPERIMENT);
    for load in ["0.2", "0.8"] {
        result(load, if load == "0.2" { 2.0 } else { 3.0 }).write(&place(&folder, load));
    }
    let output = weft(&folder, &["run", "./mine.toml", "--judge", "--seed", "1"]);
    let text = printed(&output);
    assert!(
        words(&text, "more load").ends_with(&["1.50", "UNDECIDED"]),
        "{text}"
    );
    assert!(
        text.contains("0 of 2 claims hold, 2 are undecided"),
        "{text}"
    );
}

/// Student's interval of a loss goes below 0, however often packets were lost.
#[test]
fn one_occurrence_refutes_a_claim_of_never() {
    let never = EXPERIMENT
        .replace("measure = \"mean\"\nwhere = { scheme = \"./plain\", load = 0.8 }\nover = { where = { load = 0.2 } }\nat_least = 1.4\nat_most = 1.6", "measure = \"timeouts\"\nwhere = { scheme = \"./plain\" }\nat_most = 0")
        .replace("loss = {", "timeouts = { of = \"timeouts\" }\nloss = {");
    for (name, timeouts, verdict) in [("never", 0, "holds"), ("once", 1, "fails")] {
        let folder = folder(&format!("said-{name}"), &never);
        for (seed, load) in [(1, "0.2"), (1, "0.8"), (2, "0.2"), (2, "0.8")] {
            let mut sample = result(load, 2.0);
            sample.header.seed = seed;
            if seed == 2 {
                sample.flows[0].timeouts = Some(timeouts);
            }
            sample.write(&place(&folder, load));
        }
        let output = weft(&folder, &["run", "./mine.toml", "--judge", "--json"]);
        let judgement: Value = serde_json::from_str(&printed(&output)).unwrap();
        let claim = &judgement["claims"][0];
        assert_eq!(claim["verdict"], verdict, "{claim}");
    }
}

#[test]
fn a_claimed_number_must_be_in_a_narrow_interval() {
    let experiment = EXPERIMENT.replace("at_least = 1.4\nat_most = 1.6", "equals = 1.5\nto = 0.1");
    for (name, seeds, verdict) in [
        ("narrow", [2.95, 3.0, 3.05], "holds"),
        ("wide", [2.0, 3.0, 4.0], "undecided"),
        ("off", [3.1, 3.11, 3.12], "fails"),
    ] {
        let folder = folder(&format!("equals-{name}"), &experiment);
        let (_, judgement) = of_three_seeds(&folder, seeds);
        assert_eq!(judgement["claims"][0]["verdict"], verdict, "{name}");
        assert_eq!(judgement["claims"][0]["asked"], "1.50 (to 10 %)");
    }
}

#[test]
fn a_claim_about_an_invalid_run_is_invalid() {
    let mut late = result("0.8", 3.0);
    summarize(&mut late, false);
    let (status, text) = judged("invalid", [result("0.2", 2.0), late]);
    assert_eq!(status, Some(1), "{text}");
    assert!(words(&text, "more load").ends_with(&["INVALID"]), "{text}");
    let reason = "INVALID results/mine/load-0.8/plain-seed1.jsonl: lag: 9 packet times, expected at most 0.5";
    assert!(text.contains(reason), "{text}");
}

#[test]
fn flows_of_an_endless_experiment_need_not_end() {
    let unfinished = || {
        let mut sample = result("0.8", 3.0);
        sample.flows[3].fct_ns = None;
        sample.flows[3].slowdown = None;
        summarize(&mut sample, true);
        sample
    };
    let (status, text) = judged("unfinished", [result("0.2", 2.0), unfinished()]);
    assert_eq!(status, Some(1), "{text}");
    assert!(
        text.contains("flows that did not end: 1, expected at most 0"),
        "{text}"
    );
    let endless = EXPERIMENT.replace("each.load", "endless = true\neach.load");
    let (status, text) = judged_as("endless", &endless, [result("0.2", 2.0), unfinished()]);
    assert_eq!(status, Some(0), "{text}");
}

#[test]
fn missing_results_are_reported_as_not_measured() {
    let folder = folder("missing", EXPERIMENT);
    result("0.2", 2.0).write(&place(&folder, "0.2"));
    let output = weft(&folder, &["run", "./mine.toml", "--judge"]);
    let text = printed(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(
        words(&text, "more load").ends_with(&["NOT", "MEASURED"]),
        "{text}"
    );
    assert!(
        text.contains("0 of 2 claims hold, 1 is undecided; 3 of 4 runs have no results"),
        "{text}"
    );
}

/// As in `weft run mine --judge | head -1`.
#[test]
fn a_reader_that_is_gone_does_not_make_claims_hold() {
    let folder = folder("unread", EXPERIMENT);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(["run", "./mine.toml", "--judge"]);
    let output = command.current_dir(&folder).stdout(writer).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn results_of_another_experiment_are_not_reused() {
    let folder = folder("others", EXPERIMENT);
    let done = || {
        let words = ["run", "./mine.toml", "--dry-run", "--json", "--seed", "1"];
        let plan: Value = serde_json::from_str(&printed(&weft(&folder, &words))).unwrap();
        let runs = plan.as_array().unwrap();
        runs.iter()
            .map(|run| run["done"].as_bool().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(done(), [false, false]);
    let place = place(&folder, "0.8");
    result("0.8", 2.0).write(&place);
    assert_eq!(done(), [false, true]);
    let other = |change: fn(&mut Sample)| {
        let mut sample = result("0.8", 2.0);
        change(&mut sample);
        sample.write(&place)
    };
    other(|sample| sample.header.options.push("--ipv6".into()));
    assert_eq!(done(), [false, false]);
    other(|sample| drop(sample.header.parameters.insert("buffer".into(), "3".into())));
    assert_eq!(done(), [false, false]);
    other(|sample| sample.header.weft = "0.0.1".into());
    assert_eq!(done(), [false, false]);
    for input in ["topology", "scheme", "flows"] {
        let mut sample = result("0.8", 2.0);
        sample.header.inputs.insert(input.into(), "0".repeat(64));
        sample.write(&place);
        assert_eq!(done(), [false, false], "{input}");
        let output = weft(&folder, &["run", "./mine.toml", "--judge"]);
        let text = String::from_utf8(output.stderr).unwrap();
        let said = format!("is not of today's {input}: left out");
        assert!(text.contains(&said), "{text}");
    }
    // An interrupted run: no summary, or a truncated line.
    let path = result("0.8", 2.0).write(&place);
    let text = std::fs::read_to_string(&path).unwrap();
    for kept in [text.trim_end().rfind('\n').unwrap(), text.len() / 2, 0] {
        std::fs::write(&path, &text[..kept]).unwrap();
        assert_eq!(done(), [false, false]);
    }
    std::fs::write(&path, text).unwrap();
    assert_eq!(done(), [false, true]);
    let again = ["run", "./mine.toml", "--dry-run", "--json", "--again"];
    assert!(!printed(&weft(&folder, &again)).contains("true"));
}

#[test]
fn the_busiest_receiver_counts_cool_down_flows_that_ended() {
    let experiment = EXPERIMENT.replace(
        "loss = { of = \"loss\" }",
        "loss = { of = \"utilization\" }\nswitch = { of = \"switch-over\", statistic = \"max\" }",
    );
    let experiment = experiment.replace("measures = \"loss\"", "measures = [\"loss\", \"switch\"]");
    let judged = |name: &str, cool_down: &[Flow]| {
        let mut results = [result("0.2", 2.0), result("0.8", 3.0)];
        for sample in &mut results {
            sample.flows[1].start_ns = 10_000;
            sample.flows.extend_from_slice(cool_down);
        }
        let (_, text) = judged_as(name, &experiment, results);
        text[text.find("Loss\n").unwrap()..].to_owned()
    };
    let kept_up = |fct_ns: Option<u64>| Flow {
        id: 4,
        warm_up: true,
        start_ns: 25_000,
        fct_ns,
        ..result("0.2", 2.0).flows[0].clone()
    };
    let without = judged("busiest", &[]);
    assert!(!without.contains(" –"), "{without}");
    assert_eq!(judged("busiest-under-way", &[kept_up(None)]), without);
    assert_ne!(judged("busiest-ended", &[kept_up(Some(90_000))]), without);
    let measured = Flow {
        warm_up: false,
        ..kept_up(None)
    };
    assert!(judged("busiest-unfinished", &[measured]).contains(" –"));
}

#[test]
fn flows_that_begin_when_others_end_have_no_ideal() {
    let folder = folder("no-ideal", EXPERIMENT);
    let refused = |change: fn(&mut Sample)| {
        let mut sample = result("0.2", 2.0);
        change(&mut sample);
        sample.write(&place(&folder, "0.2"));
        let output = weft(&folder, &["run", "./mine.toml", "--judge", "--seed", "1"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{said}");
        said
    };
    let said = refused(|it| it.header.workload.arrivals = "closed:2".into());
    assert!(said.contains("a closed loop has no ideal"), "{said}");
    let said = refused(|it| it.header.workload.collective = Some("ring:64000000B".into()));
    assert!(said.contains("a collective has no ideal"), "{said}");
    assert!(!place(&folder, "0.2").join("ideal-seed1.jsonl").exists());
}

#[test]
fn seeds_are_averaged() {
    let folder = folder("seeds", EXPERIMENT);
    for load in ["0.2", "0.8"] {
        for (seed, slowdown) in [(1, 2.0), (2, 4.0)] {
            let mut sample = result(load, slowdown);
            sample.header.seed = seed;
            sample.write(&place(&folder, load));
        }
    }
    let output = weft(
        &folder,
        &["run", "./mine.toml", "--judge", "--seed", "1,2", "--json"],
    );
    let judgement: Value = serde_json::from_str(&printed(&output)).unwrap();
    let row = &judgement["tables"][0]["rows"][0];
    assert_eq!(row["labels"], serde_json::json!(["0.2", "mean"]));
    assert_eq!(row["cells"][0]["value"], 3.0);
    assert!(row["cells"][0]["half_width"].as_f64().unwrap() > 1.0);
    assert_eq!(judgement["claims"][0]["measured"]["value"], 1.0);
    assert_eq!(judgement["claims"][0]["verdict"], "fails");
    assert_eq!(judgement["runs"].as_array().unwrap().len(), 4);
    assert_eq!(judgement["holds"], false);
}

#[test]
fn a_claim_may_be_about_a_difference() {
    let short = "measure = \"short\"\nwhere = { scheme = \"./plain\", load = 0.8 }\nless = { where = { load = 0.2 } }";
    let mean = "measure = \"mean\"\nwhere = { scheme = \"./plain\", load = 0.8 }\nover = { where = { load = 0.2 } }";
    let experiment = EXPERIMENT.replace(mean, short).replace(
        "at_least = 1.4\nat_most = 1.6",
        "at_least = 9\nat_most = 11",
    );
    let results = [result("0.2", 2.0), result("0.8", 3.0)];
    // 30 µs minus 20.
    let (status, text) = judged_as("less", &experiment, results);
    assert_eq!(status, Some(0), "{text}");
    let asked = ["1.5", "times", "9", "to", "11", "µs", "10", "µs", "holds"];
    assert_eq!(words(&text, "more load")[4..], asked);

    let both = experiment.replace("less =", "over = { where = { load = 0.2 } }\nless =");
    let folder = folder("less-and-over", &both);
    let output = weft(&folder, &["run", "./mine.toml", "--judge"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("expected over or less"), "{said}");
}

/// Four flows of 5 packets; a retransmission counts as a packet, too.
#[test]
fn detours_are_a_share_of_the_packets_that_flows_sent() {
    let experiment = EXPERIMENT.replace("{ of = \"loss\" }", "{ of = \"detours\" }");
    let with = |load: &str, detours: Option<u64>| {
        let mut sample = result(load, 2.0);
        sample.flows[0].retransmissions = 5;
        if let Some(detours) = detours {
            sample.summary.sums.set("detours", detours);
        }
        sample
    };
    let results = [with("0.2", Some(5)), with("0.8", None)];
    let (_, text) = judged_as("detours", &experiment, results);
    let table: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.starts_with("Loss"))
        .collect();
    assert_eq!(words(&table.join("\n"), "0.2"), ["0.2", "20"]);
    assert!(!words(&table.join("\n"), "0.8").contains(&"0"), "{text}");
}

/// A thousand flows of ten packets; every second flow had one detoured packet, and one flow was not
/// counted. With fewer counted flows there is no result.
#[test]
fn detoured_packets_need_counts_of_all_flows_except_one_in_a_thousand() {
    let experiment = EXPERIMENT.replace("{ of = \"loss\" }", "{ of = \"detoured\" }");
    let with = |load: &str, uncounted: usize| {
        let mut sample = result(load, 2.0);
        let flow = sample.flows[0].clone();
        sample.flows = vec![flow; 1000];
        for (place, flow) in sample.flows.iter_mut().enumerate() {
            let (packets, detoured) = (10, u64::from(place % 2 == 1));
            flow.hops = (place >= uncounted).then_some(Hops { packets, detoured });
        }
        sample
    };
    let (_, text) = judged_as("detoured", &experiment, [with("0.2", 1), with("0.8", 2)]);
    let table = text.split_once("Loss").unwrap().1;
    // 500 of 9,990.
    assert_eq!(words(table, "0.2"), ["0.2", "5.01"]);
    assert_eq!(words(table, "0.8"), ["0.8", "–"]);
}

#[test]
fn several_runs_for_one_cell_are_refused() {
    let experiment = EXPERIMENT.replace("rows = \"load\"\nwhere", "where");
    let folder = folder("cells", &experiment);
    for load in ["0.2", "0.8"] {
        result(load, 2.0).write(&place(&folder, load));
    }
    let output = weft(&folder, &["run", "./mine.toml", "--judge"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("table Loss: there are several runs for one cell"),
        "{said}"
    );
}

/// Two loads; a port's samples are those of the sample, and more.
const PORTS: &str = r#"
title = "Ports"
source = "A. Author, 2026, Figure 2"
about = "a"
seeds = [1, 2]
[[runs]]
options = "rack:hosts=4 --scheme ./plain --load {load} --flows 4 --warm-up 0"
each.load = [0.2, 0.8]
[measures]
"waiting, mean" = { of = "backlog", statistic = "mean", at = "tor0:h0", after = "1us", until = "11us" }
"waiting, largest" = { of = "backlog", statistic = "max", at = "tor0:h0" }
queue = { of = "queue", statistic = "p99", at = "tor0:h0", after = "1us", until = "11us" }
buffer = { of = "buffer", statistic = "p99", after = "1us", until = "11us" }
collisions = { of = "collisions", at = "tor0:h0", until = "10us" }
queues = { of = "queues", statistic = "p50", at = "tor0:h0", after = "1us", until = "11us" }
empty = { of = "empty", at = "tor0:h0", after = "1us", until = "11us" }
busy = { of = "busy", at = "tor0:h0", until = "10us" }
idle = { of = "idle", at = "tor0:h0", until = "10us" }
pauses = { of = "pauses", at = "tor0:h0", after = "2us", until = "10us" }
paused = { of = "paused", at = "tor0:h0" }
nothing = { of = "queue", statistic = "max", at = "tor0:h1" }
[[tables]]
title = "Port"
measures = ["waiting, mean", "waiting, largest", "queue", "queues", "empty", "busy", "idle", "pauses", "paused", "buffer", "collisions"]
rows = "load"
[[claims]]
says = "full"
paper = "always"
measure = "busy"
at_least = 45
[[claims]]
says = "no backpressure"
paper = "none"
measure = "nothing"
at_most = 1
"#;

/// The port to h0 holds 4 packets from 2 µs and 2 from 6 µs, and is empty from 8 µs. The port to h1
/// has no backpressure. The run ends at 20 µs.
fn with_ports(load: &str) -> Sample {
    let mut sample = result(load, 2.0);
    let port = |port: &str, time_ns, packets: u64, busy_ns, backpressure| PortSample {
        time_ns,
        node: "tor0".into(),
        port: port.into(),
        backlog_packets: packets,
        backlog_bytes: packets * 1500,
        busy_ns,
        backpressure,
        ..PortSample::default()
    };
    let told = |occupied, longest, pauses, paused_ns| {
        Some(Backpressure {
            occupied,
            activations: 40 * pauses,
            collisions: 3 * pauses,
            longest,
            pauses_sent: 2 * pauses,
            pauses_received: pauses,
            paused_ns,
            ..Backpressure::default()
        })
    };
    sample.ports = vec![
        port("h0", 2_000, 4, 1_000, told(2, 4_500, 0, 0)),
        port("h1", 2_000, 1, 1_000, None),
        port("h0", 6_000, 2, 5_000, told(1, 3_000, 1, 3_000)),
        port("h0", 8_000, 0, 6_000, told(0, 0, 2, 7_000)),
        port("h0", 20_000, 0, 6_000, told(0, 0, 2, 7_000)),
    ];
    sample
}

#[test]
fn figures_of_ports_are_statistics_over_time() {
    let results = [with_ports("0.2"), with_ports("0.8")];
    let (status, text) = judged_as("ports", PORTS, results);
    assert_eq!(status, Some(1), "{text}");
    // 6 kB for 4 µs of 10, 3 kB for 2; two queues for 4 µs, which is the median, and one for 2. The
    // switch also has the packet to h1. 3 of 40 flows had no queue of their own.
    let row = [
        "0.2", "3", "6", "4.50", "1", "40", "60", "40", "500", "3.50", "7.50", "7.50",
    ];
    assert_eq!(words(&text, "0.2 "), row);
    assert!(words(&text, "full").ends_with(&["holds"]), "{text}");
    let found = words(&text, "no backpressure");
    assert!(found.ends_with(&["NOT", "MEASURED"]), "{text}");
}

#[test]
fn a_port_outside_the_topology_is_refused() {
    let folder = folder("nowhere", &PORTS.replace("tor0:h1", "tor0:h9"));
    let output = weft(&folder, &["run", "./mine.toml", "--dry-run"]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("measure nothing: there is no port `tor0:h9`"),
        "{said}"
    );
}

#[test]
fn the_spread_over_seeds_is_a_figure() {
    let spread = "mean = { of = \"slowdown\", statistic = \"mean\", over_seeds = \"deviation\" }";
    let mean = "mean = { of = \"slowdown\", statistic = \"mean\" }";
    let spread_measure = spread;
    let folder = folder("spread", &EXPERIMENT.replace(mean, spread));
    for load in ["0.2", "0.8"] {
        for (seed, slowdown) in [(1, 2.0), (2, 4.0), (3, 6.0)] {
            let mut sample = result(load, slowdown);
            sample.header.seed = seed;
            sample.write(&place(&folder, load));
        }
    }
    let judge = |seeds| {
        let words = ["run", "./mine.toml", "--judge", "--json", "--seed", seeds];
        let text = printed(&weft(&folder, &words));
        serde_json::from_str::<Value>(&text).unwrap()["tables"][0]["rows"][0]["cells"][0].clone()
    };
    // 2 of chi-square with 2 degrees of freedom: 2.5 % and 97.5 % are 0.050636 and 7.377759.
    let spread = judge("1,2,3");
    assert_eq!(spread["value"], 2.0);
    let close = |end: &Value, expected: f64| {
        assert!((end.as_f64().unwrap() - expected).abs() < 1e-3, "{end}")
    };
    close(&spread["low"], (8.0 / 7.377_759_f64).sqrt());
    close(&spread["high"], (8.0 / 0.050_636_f64).sqrt());
    assert_eq!(judge("1"), Value::Null);
    // Two seeds have a deviation, but no interval: no claim about it is decided.
    let both = judge("1,2");
    assert_eq!(both["value"], 2.0_f64.sqrt());
    assert_eq!((both.get("low"), both.get("high")), (None, None));
    let claim = |limits| {
        let experiment = EXPERIMENT.replace(mean, spread_measure);
        let experiment = experiment.replace("at_least = 1.4\nat_most = 1.6", limits);
        std::fs::write(folder.join("mine.toml"), experiment).unwrap();
        let text = printed(&weft(
            &folder,
            &["run", "./mine.toml", "--judge", "--seed", "1,2"],
        ));
        words(&text, "more load").last().map(|&it| it.to_owned())
    };
    assert_eq!(claim("at_most = 99"), Some("UNDECIDED".to_owned()));
    assert_eq!(claim("at_least = 0.01"), Some("UNDECIDED".to_owned()));
}

/// A long flow in addition to two loads.
const BESIDE: &str = r#"
title = "Beside"
source = "A. Author, 2026, Table 1"
about = "a"
seeds = [1, 2]
[[runs]]
options = "rack:hosts=4 --scheme ./plain --load {load} --flows 4 --warm-up 0"
each.load = [0.2, 0.8]
endless = true
[measures]
"waiting, P99" = { of = "delay", statistic = "p99", class = "background" }
"long flow" = { of = "throughput", statistic = "mean", class = "added" }
"incast" = { of = "throughput", statistic = "mean", class = "incast" }
[[tables]]
title = "Beside"
measures = ["waiting, P99", "long flow"]
rows = "load"
[[claims]]
says = "a half"
paper = "50 %"
measure = "long flow"
where = { load = 0.2 }
at_least = 49.9
at_most = 50.1
[[claims]]
says = "no incast"
paper = "none"
measure = "incast"
at_most = 1
"#;

#[test]
fn a_long_lived_flow_has_a_throughput_and_other_flows_a_delay() {
    let beside = |load, slowdown, times: u64| {
        let mut sample = result(load, slowdown);
        // 100 packets of 1538 B on a link of 1 Gbit/s, times the slowdown.
        sample.flows.push(Flow {
            id: 4,
            class: Class::Added,
            fct_ns: None,
            slowdown: None,
            partial: Some(Partial {
                bytes: 144_800,
                ns: 153_800 * 8 * times,
            }),
            ..sample.flows[0].clone()
        });
        summarize(&mut sample, true);
        sample
    };
    let results = [beside("0.2", 2.0, 2), beside("0.8", 4.0, 8)];
    let (status, text) = judged_as("beside", BESIDE, results);
    assert_eq!(status, Some(1), "{text}");
    assert_eq!(words(&text, "0.2 "), ["0.2", "10", "50"]);
    assert_eq!(words(&text, "0.8 "), ["0.8", "30", "12.5"]);
    assert!(words(&text, "a half").ends_with(&["holds"]), "{text}");
    let found = words(&text, "no incast");
    assert!(found.ends_with(&["NOT", "MEASURED"]), "{text}");
}

#[test]
fn a_gate_may_have_another_limit() {
    let limited = || {
        let mut sample = result("0.8", 3.0);
        let gate = Gate::new(
            "time limited by socket buffers",
            Some(4.5),
            Limit::AtMost(1.0),
            "%",
        );
        let buckets = Buckets::new(&BUCKETS).unwrap();
        sample.summary = Summary::new(&sample.flows, &buckets, vec![gate], Some(0.0));
        sample
    };
    for (name, allowed, status) in [
        ("buffers-none", "", 1),
        (
            "buffers-less",
            "allow.\"time limited by socket buffers\" = 4\n",
            1,
        ),
        (
            "buffers-more",
            "allow.\"time limited by socket buffers\" = 5\n",
            0,
        ),
        (
            "buffers-these",
            "allow.\"time limited by socket buffers\" = { \"0.2\" = 1, \"0.8\" = 5 }\n",
            0,
        ),
        (
            "buffers-others",
            "allow.\"time limited by socket buffers\" = { \"0.2\" = 5 }\n",
            1,
        ),
    ] {
        let experiment = EXPERIMENT.replace("each.load", &format!("{allowed}each.load"));
        let results = [result("0.2", 2.0), limited()];
        let (found, text) = judged_as(name, &experiment, results);
        assert_eq!(found, Some(status), "{text}");
        let invalid = "time limited by socket buffers: 4.5 %, expected at most 1 %";
        assert_eq!(text.contains(invalid), status == 1, "{text}");
    }
}

#[test]
fn flows_may_begin_late_up_to_the_experiments_limit() {
    let late = || {
        let mut sample = result("0.8", 3.0);
        let limit = Limit::AtMost(0.5);
        let gate = Gate::new("generator lag, mean", Some(1.5), limit, "packet times");
        let buckets = Buckets::new(&BUCKETS).unwrap();
        sample.summary = Summary::new(&sample.flows, &buckets, vec![gate], Some(0.0));
        sample
    };
    for (name, allowed, status) in [
        (
            "lag-none",
            "allow.\"time limited by socket buffers\" = 9\n",
            1,
        ),
        ("lag-less", "allow.\"generator lag, mean\" = 1\n", 1),
        ("lag-more", "allow.\"generator lag, mean\" = 2\n", 0),
    ] {
        let experiment = EXPERIMENT.replace("each.load", &format!("{allowed}each.load"));
        let (found, text) = judged_as(name, &experiment, [result("0.2", 2.0), late()]);
        assert_eq!(found, Some(status), "{text}");
    }
}

/// Flows with deadlines, at two loads.
const DEADLINES: &str = r#"
title = "Deadlines"
source = "A. Author, 2026, Figure 2"
about = "a"
seeds = [1, 2]
[[runs]]
options = "rack:hosts=4 --scheme ./plain --load {load} --flows 4 --warm-up 0 --deadline uniform:20us-40us"
each.load = [0.2, 0.8]
[measures]
met = { of = "deadlines" }
"met, to h0" = { of = "deadlines", to = "h0" }
"met, added" = { of = "deadlines", class = "added" }
[[tables]]
title = "Deadlines met"
measures = ["met", "met, to h0", "met, added"]
rows = "load"
[[claims]]
says = "three quarters are met"
paper = "75 %"
measure = "met"
where = { load = 0.8 }
at_least = 74.9
at_most = 75.1
"#;

/// All flows take 20 µs at the lower load and 40 µs at the higher. One in four has a deadline of 30
/// µs, the others 40 µs.
#[test]
fn the_share_of_met_deadlines_is_measured() {
    let with = |load, slowdown| {
        let mut sample = result(load, slowdown);
        let deadline = ["--deadline", "uniform:20us-40us"].map(str::to_owned);
        // Options are repeated in this order: after the load.
        sample.header.options.splice(3..3, deadline);
        for (flow, us) in sample.flows.iter_mut().zip([30, 40, 40, 40]) {
            flow.deadline_ns = Some(us * 1_000);
        }
        summarize(&mut sample, true);
        sample
    };
    let results = [with("0.2", 2.0), with("0.8", 4.0)];
    let (status, text) = judged_as("deadlines", DEADLINES, results);
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(words(&text, "0.2 "), ["0.2", "100", "100", "–"]);
    assert_eq!(words(&text, "0.8 "), ["0.8", "75", "50", "–"]);
    assert!(words(&text, "three").ends_with(&["holds"]), "{text}");
}
