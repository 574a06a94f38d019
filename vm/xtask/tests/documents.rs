// SPDX-License-Identifier: MIT OR Apache-2.0

//! Statements of documents about the source.

#[path = "../../../userspace/lab/tests/documents/block.rs"]
mod block;

use std::fs;
use std::path::Path;

/// The text of all of the project's source files in a folder.
fn source(folder: &Path, text: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name == "target" || name.starts_with('.') {
            continue;
        }
        if path.is_dir() {
            source(&path, text);
        } else if name.ends_with(".rs") {
            *text += &fs::read_to_string(&path).unwrap();
        }
    }
}

/// Renaming a test must not leave a stale name in a document.
#[test]
fn tests_named_in_security_md_exist() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let account = fs::read_to_string(workspace.join("SECURITY.md")).unwrap();
    let mut text = String::new();
    source(&workspace, &mut text);
    let words = account.split('`').skip(1).step_by(2);
    let is_test = |word: &&str| {
        let of_names = |c: char| c.is_ascii_lowercase() || c == '_';
        word.matches('_').count() >= 2 && word.chars().all(of_names)
    };
    let mut named = 0;
    for word in words.filter(is_test) {
        // A test, a part of the guest's tests, or one of Linux's settings.
        let is_there = [format!("fn {word}("), format!("mod {word};")]
            .iter()
            .any(|it| text.contains(it.as_str()));
        assert!(is_there || word == "tcp_orphan_retries", "{word}");
        named += 1;
    }
    assert!(named > 10, "{named}");
}

/// The first and last cell of each row of the table of crates in `docs/architecture.md`.
fn documented_crates(workspace: &Path) -> Vec<(String, Vec<String>)> {
    let page = fs::read_to_string(workspace.join("docs/architecture.md")).unwrap();
    let table = page.split("## Crates").nth(1).unwrap();
    let table = table.split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let dependencies = cells[2].split(", ").filter(|cell| *cell != "–");
        (
            cells[0].trim_matches('`').to_owned(),
            dependencies.map(str::to_owned).collect(),
        )
    })
    .collect()
}

#[test]
fn the_table_of_crates_matches_their_manifests() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = std::process::Command::new(cargo)
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--offline",
        ])
        .current_dir(&workspace)
        .output()
        .unwrap();
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let root = Path::new(metadata["workspace_root"].as_str().unwrap());
    let folder = |path: &serde_json::Value| {
        let path = Path::new(path.as_str().unwrap());
        let path = path.strip_prefix(root).unwrap().to_str().unwrap();
        path.trim_end_matches("/Cargo.toml").to_owned()
    };
    let mut actual = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let dependencies = package["dependencies"].as_array().unwrap();
        let local = dependencies.iter().filter(|it| it["path"].is_string());
        let mut local: Vec<String> = local.map(|it| folder(&it["path"])).collect();
        local.sort();
        local.dedup();
        actual.push((folder(&package["manifest_path"]), local));
    }
    let mut documented = documented_crates(&workspace);
    for (_, dependencies) in &mut documented {
        dependencies.sort();
    }
    actual.sort();
    documented.sort();
    assert_eq!(documented, actual, "docs/architecture.md does not match");
}

/// The newest kept results of `cargo xtask bench arbiter`, and the name of their file.
fn kept_arbiter_results(workspace: &Path) -> (String, serde_json::Value) {
    let entries = fs::read_dir(workspace.join("selftests/bench/results")).unwrap();
    let names = entries.map(|it| it.unwrap().file_name().into_string().unwrap());
    let name = names.filter(|it| it.starts_with("arbiter-")).max().unwrap();
    let path = workspace.join("selftests/bench/results").join(&name);
    let text = fs::read_to_string(path).unwrap();
    (name, serde_json::from_str(&text).unwrap())
}

/// Bits of a packet as the paper counts traffic: a timeslot of 1.2 µs at 10 Gbit/s.
const PACKET_BITS: f64 = 12_000.0;

/// The traffic in Tbit/s that one processor serves, by the results of a part of the arbiter.
fn rate(results: &serde_json::Value, load: &str, part: &str, subject: &str) -> Option<f64> {
    let setting = format!("256 endpoints, load {load}");
    let mut rows = results[part].as_array()?.iter();
    let row = rows.find(|row| row["setting"] == setting.as_str() && row["subject"] == subject)?;
    let (packets, median_ns) = (row["packets"].as_f64()?, row["median_ns"].as_f64()?);
    Some(packets * PACKET_BITS / median_ns / 1e3)
}

/// The table of rates that follows from kept results.
fn rates(file: &str, results: &serde_json::Value) -> String {
    const PARTS: [(&str, &str); 4] = [
        ("allocation", "max-min 16"),
        ("allocation", "max-min 64"),
        ("paths", "ours, 8 racks, 4 paths"),
        ("comm", "sessions and both"),
    ];
    let mut table = format!(
        "| load (`{file}`) | offered | allocation, batches of 16 | batches of 64 | path selection \
         | protocol and both |\n|---|---|---|---|---|---|\n"
    );
    let settings = results["allocation"].as_array().unwrap().iter();
    let settings = settings.filter_map(|row| row["setting"].as_str());
    let mut loads: Vec<&str> = settings
        .filter_map(|setting| setting.strip_prefix("256 endpoints, load "))
        .collect();
    loads.dedup();
    for load in loads {
        let offered = 256.0 * 0.01 * load.parse::<f64>().unwrap();
        table += &format!("| {load} | {offered:.2} |");
        for (part, subject) in PARTS {
            let served = rate(results, load, part, subject);
            let cell = match served {
                Some(rate) if rate < 1.0 => format!("{rate:.3}"),
                Some(rate) => format!("{rate:.2}"),
                None => "–".to_owned(),
            };
            table += &format!(" {cell} |");
        }
        table.push('\n');
    }
    table
}

#[test]
fn rates_of_fastpass_arbiter_follow_from_the_kept_benchmark() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = workspace.join("docs/experiments/README.md");
    let (file, results) = kept_arbiter_results(&workspace);
    block::is_current(&path, "rates", &rates(&file, &results));
}

/// Numbers in a text.
fn numbers(text: &str) -> Vec<&str> {
    let words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    let words = words.map(|word| word.trim_matches('.'));
    words.filter(|word| !word.is_empty()).collect()
}

/// Each figure in the table of Fastpass's results A to H must stand in its source: the page of the
/// experiment, or the table of the arbiter's rates. A page is left out if its results are not kept
/// or may be stale.
#[test]
fn figures_of_fastpass_results_agree_with_kept_results() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/experiments");
    let index = fs::read_to_string(folder.join("README.md")).unwrap();
    let section = index
        .split("### The paper's results A to H")
        .nth(1)
        .unwrap();
    let (table, rest) = section.split_once("\nD, F and G").unwrap();
    let rates = rest.split("<!-- rates -->").nth(1).unwrap();
    let rates = rates.split("<!-- end -->").next().unwrap();
    let mut compared = String::new();
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(1) {
        let row: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [result, _, source, figures, _] = row[..] else {
            panic!("{row:?}");
        };
        let text = match source.split(['(', ')']).nth(1) {
            Some(page) => fs::read_to_string(folder.join(page)).unwrap(),
            None => rates.to_owned(),
        };
        let is_current = !text.contains('†') && !text.contains("weft keeps no results");
        if !is_current {
            continue;
        }
        let found = numbers(&text);
        for number in numbers(figures) {
            assert!(
                found.contains(&number),
                "{result}: {number} is not in {source}"
            );
        }
        compared += result;
    }
    let is_compared = |result| compared.contains(result);
    assert!(["D", "F", "G"].into_iter().all(is_compared), "{compared}");
}
