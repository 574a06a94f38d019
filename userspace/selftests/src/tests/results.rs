// SPDX-License-Identifier: MIT OR Apache-2.0

//! From a sweep to a page: `weft run` with several schemes and seeds, then `compare`, `export` and
//! `report` on its files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use weft_ktap::{Context, tests};
use weft_load::record::{Flow, PathHop, PortSample, Recorded, measured};

use crate::folder::Folder;
use crate::machine::shell;
use crate::weft::{refusal, require_programs, run, valid, weft};

tests![
    load_is_kept_up_by_default,
    #[once]
    schemes_with_and_without_tags_get_the_same_flows,
    #[once]
    marks_and_detours_are_in_the_results,
    #[once]
    a_packets_path_is_in_the_results,
    #[once]
    listening_to_packets_changes_no_flow,
    #[once]
    a_kernel_that_sends_by_itself_changes_no_flow,
];

const SEEDS: [u64; 2] = [1, 2];
/// One scheme without tags, one with tags.
const SCHEMES: [&str; 2] = ["droptail", "pfabric"];
const RUN: &str = "rack:hosts=3,rate=1gbit --dilation 100 --scheme droptail,pfabric --seed 1,2 \
                   --workload uniform:1kB-60kB --load 0.6 --warm-up 0.2";
const FLOWS: &str = "--flows 100";
/// The 97.5 % quantile of Student's t with one degree of freedom, for two seeds.
const T: f64 = 12.706_204_7;

fn schemes_with_and_without_tags_get_the_same_flows(cx: &Context) -> Result<()> {
    require_programs()?;
    let folder = Folder::new()?;
    let results = folder.path().join("results");
    let place = results.display();
    let run = |flows: &str| format!("run {RUN} {flows} --quiet --out {place}");
    weft(&run(FLOWS))?;
    let paths = SCHEMES
        .map(|scheme| SEEDS.map(|seed| format!("{}/{scheme}-seed{seed}.jsonl", results.display())));
    let read = |path: &String| fs::read(path).with_context(|| path.clone());
    let written: Vec<Vec<u8>> = paths.iter().flatten().map(read).collect::<Result<_>>()?;
    ensure!(
        fs::read_dir(&results)?.count() == written.len(),
        "other files"
    );

    let sentence = refusal(&run("--flows 101"))?;
    ensure!(
        sentence.ends_with("is of another run: --out names another folder"),
        "{sentence}"
    );
    let after: Vec<Vec<u8>> = paths.iter().flatten().map(read).collect::<Result<_>>()?;
    ensure!(after == written, "results were written over");

    let runs = [&paths[0], &paths[1]].map(|of_scheme| of_scheme.each_ref().map(|path| ended(path)));
    let [[a, b], [c, d]] = runs;
    let runs = [[a?, b?], [c?, d?]];
    for ((one, other), seed) in runs[0].iter().zip(&runs[1]).zip(SEEDS) {
        ensure!(one.header.inputs.contains_key("flows"), "no hash of flows");
        ensure!(one.header.inputs.get("flows") == other.header.inputs.get("flows"));
        let same = by_id(one).map(identity).eq(by_id(other).map(identity));
        ensure!(same, "seed {seed}: not the same flows");
    }
    ensure!(
        runs[0][0].flows != runs[0][1].flows,
        "a seed changes nothing"
    );

    let files = paths.concat().join(" ");
    quotients_are_of_pairs(cx, &runs, &files)?;
    every_flow_is_exported(&runs, &files)?;
    the_report_has_its_parts(&folder, &files)
}

fn load_is_kept_up_by_default(_cx: &Context) -> Result<()> {
    require_programs()?;
    let flows = |more: &str| -> Result<(usize, usize)> {
        let run = run(&format!(
            "rack:hosts=3,rate=1gbit --dilation 100 --workload fixed:60kB --load 0.6 --flows 50 --warm-up 0 {more}"
        ))?;
        Ok((measured(&run.flows).count(), run.flows.len()))
    };
    let (own, all) = flows("")?;
    ensure!(own == 50 && all > 50, "{own} of {all}");
    let (own, all) = flows("--no-cool-down")?;
    ensure!(own == 50 && all == 50, "{own} of {all}");
    Ok(())
}

/// A result in which every flow ended.
fn ended(path: &str) -> Result<Recorded> {
    let run = valid(Path::new(path)).with_context(|| path.to_owned())?;
    let unfinished = run.summary.as_ref().map(|summary| summary.unfinished);
    ensure!(unfinished == Some(0), "{path}: {unfinished:?}");
    Ok(run)
}

fn by_id(run: &Recorded) -> impl Iterator<Item = &Flow> {
    let mut flows: Vec<&Flow> = measured(&run.flows).collect();
    flows.sort_unstable_by_key(|flow| flow.id);
    flows.into_iter()
}

fn identity(flow: &Flow) -> (u64, u32, u32, u64) {
    (flow.id, flow.src, flow.dst, flow.size)
}

/// Computes the quotient of the seeds' means and its interval again, independently.
fn quotients_are_of_pairs(cx: &Context, runs: &[[Recorded; 2]; 2], files: &str) -> Result<()> {
    let mean = |run: &Recorded| {
        let slowdowns: Vec<f64> = by_id(run).filter_map(|flow| flow.slowdown).collect();
        slowdowns.iter().sum::<f64>() / slowdowns.len() as f64
    };
    let [first, second] = runs
        .each_ref()
        .map(|of_scheme| of_scheme.each_ref().map(mean));
    let sum = |means: [f64; 2]| means[0] + means[1];
    let quotient = sum(second) / sum(first);
    let moved = |seed: usize| (second[seed] - quotient * first[seed]) / (sum(first) / 2.0);
    let half_width = T * (moved(0) - moved(1)).abs() / 2.0;

    let text = weft(&format!("compare {files}"))?;
    cx.note(text.trim_end());
    for part in [
        "slowdown\n",
        "completion time\n",
        "whole run\n",
        "slowdown, over the first's\n",
    ] {
        let mut lines = text.lines().map(str::trim_end);
        ensure!(lines.any(|line| line == part.trim_end()), "no {part}");
    }
    for word in ["not alike", "INVALID"] {
        ensure!(!text.contains(word), "{word}");
    }
    let json: Value = serde_json::from_str(&weft(&format!("compare --json {files}"))?)?;
    ensure!(
        json["differences"] == Value::Array(Vec::new()),
        "{}",
        json["differences"]
    );
    let columns = json["columns"].as_array().context("no columns")?;
    let named: Vec<&Value> = columns.iter().map(|column| &column["name"]).collect();
    ensure!(named == SCHEMES, "{named:?}");
    ensure!(
        columns
            .iter()
            .all(|column| column["seeds"] == Value::from(SEEDS.to_vec()))
    );
    let buckets = columns[1]["buckets"].as_array().context("no buckets")?;
    let all = buckets
        .iter()
        .find(|it| it["bucket"] == "all")
        .context("not of all flows")?;
    let over = &all["slowdown_over_first"];
    let is = |found: &Value, expected: f64| {
        found
            .as_f64()
            .is_some_and(|found| (found / expected - 1.0).abs() < 1e-6)
    };
    ensure!(
        is(&over["mean"]["value"], quotient) && is(&over["mean"]["half_width"], half_width),
        "{} in place of {quotient} ± {half_width}",
        over["mean"]
    );
    let p99 = |column: &Value| {
        let buckets = column["buckets"].as_array()?;
        let all = buckets.iter().find(|it| it["bucket"] == "all")?;
        all["slowdown"]["p99"]["value"].as_f64()
    };
    let expected = p99(&columns[1]).zip(p99(&columns[0])).map(|(a, b)| a / b);
    let expected = expected.context("no percentile")?;
    ensure!(
        is(&over["p99"]["value"], expected),
        "{} in place of {expected}",
        over["p99"]
    );
    let ends = over["p99"]["low"]
        .as_f64()
        .zip(over["p99"]["high"].as_f64());
    ensure!(
        ends.is_some_and(|(low, high)| low <= expected && expected <= high),
        "{}",
        over["p99"]
    );
    Ok(())
}

/// One line per flow, in the order of the files.
fn every_flow_is_exported(runs: &[[Recorded; 2]; 2], files: &str) -> Result<()> {
    let csv = weft(&format!("export --csv {files}"))?;
    let mut lines = csv.lines().map(fields);
    let head = lines.next().context("no head")?;
    let place = |name: &str| {
        head.iter()
            .position(|it| it == name)
            .context("not in the head")
    };
    let of = |line: &[String], name: &str| -> Result<String> { Ok(line[place(name)?].clone()) };
    for run in runs.iter().flatten() {
        for flow in &run.flows {
            let line = lines.next().context("a flow is missing")?;
            ensure!(line.len() == head.len(), "{line:?}");
            let number = |value: Option<f64>| value.map_or_else(String::new, |it| it.to_string());
            for (name, expected) in [
                ("topology", "rack:hosts=3,rate=1gbit".to_owned()),
                ("scheme", run.header.scheme.clone()),
                ("seed", run.header.seed.to_string()),
                ("load", "0.6".to_owned()),
                ("valid", "1".to_owned()),
                ("id", flow.id.to_string()),
                ("measured", u8::from(!flow.warm_up).to_string()),
                ("size", flow.size.to_string()),
                ("fct_ns", number(flow.fct_ns.map(|ns| ns as f64))),
                ("slowdown", number(flow.slowdown)),
            ] {
                let found = of(&line, name)?;
                ensure!(found == expected, "{name}: {found} in place of {expected}");
            }
        }
    }
    ensure!(lines.next().is_none(), "more lines than flows");
    Ok(())
}

/// The fields of a line of CSV without quotes.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match (c, fields.last_mut()) {
            ('"', _) => quoted = !quoted,
            (',', _) if !quoted => fields.push(String::new()),
            (_, Some(field)) => field.push(c),
            (_, None) => {}
        }
    }
    fields
}

fn the_report_has_its_parts(folder: &Folder, files: &str) -> Result<()> {
    let report = |name: &str| -> Result<String> {
        let path = folder.path().join(name);
        weft(&format!("report {files} --out {}", Path::display(&path)))?;
        Ok(fs::read_to_string(path)?)
    };
    let page = report("one.html")?;
    ensure!(
        page == report("other.html")?,
        "the same results give another page"
    );
    for id in ["slowdown", "fct", "queues", "switches"] {
        let figure = page.split(&format!("<figure id=\"{id}\">")).nth(1);
        let figure = figure.and_then(|rest| rest.split("</figure>").next());
        let figure = figure.with_context(|| format!("no figure {id}"))?;
        ensure!(figure.matches("<svg").count() > 1, "{id}: nothing is drawn");
    }
    for id in ["ran", "comparison", "validity", "reproduce"] {
        ensure!(
            page.contains(&format!("<section id=\"{id}\">")),
            "no section {id}"
        );
    }
    for scheme in SCHEMES {
        ensure!(page.contains(scheme), "no {scheme}");
    }
    ensure!(
        !page.contains("INVALID"),
        "it says of a valid run that it is not"
    );
    ensure!(page.trim_end().ends_with("</html>"), "it breaks off");
    Ok(())
}

/// Incasts to one host.
const INCASTS: &str = "leaf-spine:leaves=3,spines=2,hosts=2,rate=1gbit,delay=10us --dilation 100 --only-incast \
                       --incast 50x32kB@10 --incast-arrivals lognormal:0 --incast-to h5 --incast-senders 5 --flows 100 \
                       --warm-up 0";

/// Results of incasts, and their file; they may be invalid.
fn incasts(scheme: &str, options: &str, folder: &Folder) -> Result<(Recorded, PathBuf)> {
    let results = folder.path().join("results");
    let words = format!(
        "run {INCASTS} {options} --scheme {scheme} --quiet --out {}",
        results.display()
    );
    let output = crate::weft::command(&words).output()?;
    let path = results.join(format!("{scheme}-seed1.jsonl"));
    let file = File::open(&path).with_context(|| format!("{output:?}"))?;
    let run = Recorded::read(scheme, BufReader::new(file))?;
    Ok((run, path))
}

/// A detoured packet goes back and forth; other packets take no more hops than necessary.
fn a_packets_path_is_in_the_results(cx: &Context) -> Result<()> {
    for (scheme, detours) in [("dibs", true), ("cubic-codel", false)] {
        let folder = Folder::new()?;
        let (run, file) = incasts(scheme, "--follow h5 --hops", &folder)?;
        let path = run.path.as_ref().context("there is no path")?;
        let hops: Vec<&str> = path.hops.iter().map(|hop| hop.to.as_str()).collect();
        cx.note(format!(
            "{scheme}: {} of {} packets; {hops:?}",
            path.detoured, path.packets
        ));
        ensure!(path.missed == 0, "{} were missed", path.missed);
        // All flows are to this host. One value counts the nodes on a packet's path, the other is
        // its remaining hop limit.
        let counted = run.flows.iter().filter_map(|flow| flow.hops);
        let (packets, detoured) = counted.fold((0, 0), |(packets, detoured), hops| {
            (packets + hops.packets, detoured + hops.detoured)
        });
        ensure!(
            (packets, detoured) == (path.packets, path.detoured),
            "by their hops {detoured} of {packets}, by their paths {} of {}",
            path.detoured,
            path.packets
        );
        // 100 flows of at least 22 segments.
        ensure!(path.packets >= 2_200, "{} packets", path.packets);
        ensure!(
            (path.detoured > 0) == detours && path.detoured < path.packets,
            "{} of {} were detoured",
            path.detoured,
            path.packets
        );
        ensure!(
            (hops.len() > 4) == detours && path.hops.iter().any(|hop| hop.detour) == detours,
            "{:?}",
            path.hops
        );
        let follow_each_other =
            |pair: &[PathHop]| pair[0].to == pair[1].from && pair[0].after_ns < pair[1].after_ns;
        ensure!(
            path.hops.windows(2).all(follow_each_other)
                && path.hops[0].from.starts_with('h')
                && hops.last() == Some(&"h5"),
            "{:?}",
            path.hops
        );
        let page = folder.path().join("report.html");
        weft(&format!(
            "report {} --out {}",
            file.display(),
            page.display()
        ))?;
        let page = fs::read_to_string(page)?;
        let title = format!("{} hops to h5", hops.len());
        ensure!(
            page.contains("<figure id=\"path\">") && page.contains(&title),
            "it is not drawn"
        );
    }
    let said = refusal(&format!("run {INCASTS} --follow leaf0"))?;
    ensure!(said.contains("no host `leaf0`"), "{said}");
    Ok(())
}

/// The flows of a run, without the counts of their packets.
fn flows_alone(options: &str) -> Result<Vec<Flow>> {
    let folder = Folder::new()?;
    let results = folder.path().join("results");
    weft(&format!(
        "run fat-tree:k=4 --dilation 1000 --workload uniform:1kB-60kB --load 0.6 --flows 400 --quiet {options} \
         --out {}",
        results.display()
    ))?;
    let path = results.join("droptail-seed1.jsonl");
    let flows = ended(&path.display().to_string())?.flows.into_iter();
    Ok(flows.map(|flow| Flow { hops: None, ..flow }).collect())
}

/// Under the model clock a failed system call takes a microsecond, and a look at the clock a
/// nanosecond: a listener that did either would delay flows.
fn listening_to_packets_changes_no_flow(cx: &Context) -> Result<()> {
    let alone = flows_alone("")?;
    let is_exact = shell("uname -r")?.contains("model");
    for options in ["--hops", "--follow h0", "--hops --follow h9"] {
        let listened = flows_alone(options)?;
        let pairs = alone.iter().zip(&listened);
        let differing = pairs.clone().filter(|(flow, other)| flow != other).count();
        cx.note(format!(
            "{options}: {differing} of {} flows differ",
            alone.len()
        ));
        ensure!(alone.len() == listened.len(), "{options}");
        ensure!(
            pairs
                .into_iter()
                .all(|(flow, other)| identity(flow) == identity(other)),
            "{options}: other flows"
        );
        ensure!(!is_exact || differing == 0, "{options}: {differing} flows");
    }
    Ok(())
}

/// Where packets of different flows do not leave at the same instant, nothing shows who moves a
/// flow's bytes. Most of the flows' bytes are in flows that the kernel moves.
fn a_kernel_that_sends_by_itself_changes_no_flow(cx: &Context) -> Result<()> {
    let folder = Folder::new()?;
    let flows = |options: &str| -> Result<Vec<Flow>> {
        let results = folder.path().join(format!("results{options}"));
        weft(&format!(
            "run rack:hosts=4 --dilation 1000 --scheme dctcp --load 0.4 --flows 50 --quiet {options} --out {}",
            results.display()
        ))?;
        let path = results.join("dctcp-seed1.jsonl");
        Ok(ended(&path.display().to_string())?.flows)
    };
    let (alone, pumped) = (flows("")?, flows("--pump")?);
    let pairs = alone.iter().zip(&pumped);
    ensure!(
        alone.len() == pumped.len()
            && pairs
                .clone()
                .all(|(flow, other)| identity(flow) == identity(other)),
        "other flows"
    );
    let large = alone.iter().filter(|flow| flow.size >= 64 << 10).count();
    let differing = pairs.filter(|(flow, other)| flow != other).count();
    cx.note(format!(
        "{differing} of {} flows differ, {large} of 64 KiB or more",
        alone.len()
    ));
    ensure!(large > 20, "{large} flows of 64 KiB or more");
    let is_exact = shell("uname -r")?.contains("model");
    ensure!(!is_exact || differing == 0, "{differing} flows");
    Ok(())
}

/// All flows go to one host, and its port acts as its scheme says: it detours and marks, or only
/// marks.
fn marks_and_detours_are_in_the_results(cx: &Context) -> Result<()> {
    for (scheme, detours) in [("dibs", true), ("cubic-codel", false)] {
        let folder = Folder::new()?;
        let (run, path) = incasts(scheme, "", &folder)?;
        let summary = run.summary.as_ref().context("it did not end")?;
        // The last sample of a port has the totals of its run.
        let mut ports: BTreeMap<(&str, &str), &PortSample> = BTreeMap::new();
        for port in &run.ports {
            ports.insert((&port.node, &port.port), port);
        }
        let marks: u64 = ports.values().map(|port| port.marks).sum();
        ensure!(
            marks > 0 && summary.sums.get("marks") == Some(marks),
            "{scheme}: {marks}, {:?}",
            summary.sums
        );
        let told = ports.values().filter_map(|port| port.detours);
        let (sent, received) = told.fold((0, 0), |(sent, received), port| {
            (sent + port.sent, received + port.received)
        });
        cx.note(format!("{scheme}: {marks} marks, {sent} detours"));
        ensure!(
            summary.sums.get("detours") == detours.then_some(sent),
            "{scheme}: {:?}",
            summary.sums
        );
        ensure!(
            (sent > 0) == detours && sent == received,
            "{scheme}: {sent} sent, {received} received"
        );
        let table = weft(&format!("compare {}", path.display()))?;
        let has = |word: &str| {
            table
                .lines()
                .any(|line| line.trim_start().starts_with(word))
        };
        ensure!(has("marked") && has("detoured") == detours, "{table}");
    }
    Ok(())
}
