// SPDX-License-Identifier: MIT OR Apache-2.0

//! Experiments as commands: their runs, their errors, and their judgement of results.

#[path = "../../../lab/tests/documents/block.rs"]
mod block;
#[path = "../../../lab/tests/sample/files.rs"]
mod files;
mod judging;
mod keeping;
mod own;
mod refusals;
#[path = "../../../lab/tests/sample/mod.rs"]
mod sample;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn weft(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    command.args(words).current_dir(folder).output().unwrap()
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A folder with the scheme `plain` and an experiment `mine.toml`.
fn folder(name: &str, experiment: &str) -> PathBuf {
    let folder = files::folder(&format!("experiments-{name}"));
    own::write(&folder, experiment);
    folder
}

fn names() -> Vec<String> {
    let list = weft(Path::new("."), &["experiments", "--json"]);
    let list: Value = serde_json::from_str(&printed(&list)).unwrap();
    let names = list.as_array().unwrap().iter();
    names
        .map(|it| it["name"].as_str().unwrap().to_owned())
        .collect()
}

/// Every built-in experiment can be run: each of its runs is a command line of `weft run`. To
/// accept a change, run with `WEFT_BLESS=1` and read the difference.
#[test]
fn each_experiment_plans_its_golden_runs() {
    let names = names();
    assert!(names.contains(&"pfabric-fig4a".to_owned()), "{names:?}");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/experiments/golden");
    for name in &names {
        let output = weft(Path::new("."), &["run", name, "--dry-run"]);
        assert!(output.status.success(), "{name}: {output:?}");
        let plan = printed(&output);
        let path = golden.join(format!("{name}.txt"));
        if std::env::var_os("WEFT_BLESS").is_some() {
            std::fs::write(&path, &plan).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(plan, expected, "{name}: {}", path.display());
    }
    let kept = std::fs::read_dir(golden).unwrap().count();
    assert_eq!(kept, names.len(), "a golden file of no experiment");
}

/// The output of the judgement of kept results, if there are any.
fn kept(name: &str) -> Option<String> {
    let output = weft(Path::new("."), &["run", name, "--kept"]);
    match output.status.code() {
        // 1: a claim does not hold.
        Some(0 | 1) => Some(printed(&output)),
        _ => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(said.contains("has no kept results"), "{name}: {said}");
            None
        }
    }
}

fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Includes the marks: a change to the source that decides results shows here. To accept a change,
/// run with `WEFT_BLESS=1` and read the difference.
#[test]
fn each_experiment_has_a_page_of_its_kept_results() {
    let pages = documents().join("experiments");
    let index = std::fs::read_to_string(pages.join("README.md")).unwrap();
    let scratch = files::folder("experiments-pages");
    let mut found = 0;
    for name in names() {
        assert!(
            index.contains(&format!("]({name}.md)")),
            "{name}: not in the index"
        );
        let path = pages.join(format!("{name}.md"));
        let page = format!("{name}.md");
        if kept(&name).is_some() {
            weft(&scratch, &["run", &name, "--kept", "--page", &page]);
            let current = std::fs::read_to_string(scratch.join(&page)).unwrap();
            if std::env::var_os("WEFT_BLESS").is_some() {
                std::fs::write(&path, &current).unwrap();
            }
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert_eq!(written, current, "{}", path.display());
            found += 1;
        } else {
            let written = std::fs::read_to_string(&path).unwrap();
            let experiment = weft_lab::experiment::named(&name).unwrap().unwrap();
            for finding in experiment.description.findings {
                let says = finding.says.trim().replace('\n', "\n  ");
                assert!(written.contains(&says), "{name}: not on its page: {says}");
            }
        }
    }
    assert!(found > 0);
    let folders = [&scratch, &pages].map(|it| it.join("pictures"));
    if std::env::var_os("WEFT_BLESS").is_some() {
        _ = std::fs::remove_dir_all(&folders[1]);
        std::fs::create_dir_all(&folders[1]).unwrap();
        for (name, content) in files_of(&folders[0]) {
            std::fs::write(folders[1].join(name), content).unwrap();
        }
    }
    let [current, kept] = folders.map(|it| files_of(&it));
    let names = |files: &[(String, Vec<u8>)]| -> Vec<String> {
        files.iter().map(|it| it.0.clone()).collect()
    };
    assert_eq!(names(&kept), names(&current));
    for ((name, kept), (_, current)) in kept.iter().zip(&current) {
        assert!(kept == current, "pictures/{name}: not of kept results");
    }
}

/// To accept a change, run with `WEFT_BLESS=1`.
#[test]
fn the_index_counts_the_claims_that_hold() {
    let path = documents().join("experiments/README.md");
    let current = printed(&weft(Path::new("."), &["experiments", "claims"]));
    block::is_current(&path, "claims", &format!("```console\n{current}```\n"));
    let held = |line: &str| -> u32 {
        let before = line.split(" of ").next().unwrap();
        before.split_whitespace().last().unwrap().parse().unwrap()
    };
    let rows = current.lines().skip(1).take_while(|line| !line.is_empty());
    let rows: Vec<u32> = rows.map(held).collect();
    let (all, papers) = rows.split_last().unwrap();
    assert_eq!(*all, papers.iter().sum::<u32>(), "{current}");
}

#[test]
fn claims_that_do_not_hold_are_listed() {
    let listed = printed(&weft(
        Path::new("."),
        &["experiments", "claims", "bfc-table1", "--open"],
    ));
    let page = std::fs::read_to_string(documents().join("experiments/bfc-table1.md")).unwrap();
    let is_open = |line: &&str| {
        let verdict = line.trim_end().trim_end_matches('†').trim_end();
        verdict.ends_with("DOES NOT HOLD") || verdict.ends_with("UNDECIDED")
    };
    let says = |line: &str| line.split("  ").next().unwrap().to_owned();
    let open: Vec<String> = page.lines().filter(is_open).map(says).collect();
    let blocks: Vec<&str> = listed.trim_end().split("\n\n").collect();
    assert_eq!(blocks.len(), open.len());
    for (block, says) in blocks.iter().zip(&open) {
        let (first, rest) = block.split_once('\n').unwrap();
        assert_eq!(first, format!("bfc-table1: {says}"));
        for word in ["paper", "asked", "measured"] {
            let starts = |line: &str| line.starts_with(&format!("  {word} "));
            assert!(rest.lines().any(starts), "{word}: {block}");
        }
        assert!(
            block.lines().all(|line| line.chars().count() <= 100),
            "{block}"
        );
    }
    assert!(blocks.iter().any(|it| it.contains("\n  cause")), "{listed}");
    let said = |words: &[&str]| printed(&weft(Path::new("."), words));
    let none = said(&["experiments", "claims", "hpcc-queue", "--open"]);
    assert_eq!(none, "all claims of kept results hold\n");
    let none = said(&["experiments", "claims", "pase-fig11"]);
    assert_eq!(none, "Without kept results: pase-fig11\n");
    let other = weft(Path::new("."), &["experiments", "claims", "bfc-table2"]);
    assert!(!other.status.success());
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    assert!(said.contains("`weft experiments` lists them"), "{said}");
}

/// The files of a folder, by their names.
fn files_of(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).unwrap();
    let file = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read(path).unwrap())
    };
    let mut files: Vec<_> = entries.map(file).collect();
    files.sort();
    files
}

#[test]
fn the_results_page_has_tables_that_are_kept() {
    let readme = std::fs::read_to_string(documents().join("results.md")).unwrap();
    let kept: Vec<_> = names().iter().filter_map(|name| kept(name)).collect();
    let mut found = 0;
    for block in readme.split("```console\n").skip(1) {
        let table = block.split("```").next().unwrap();
        if !table.starts_with("scheme ") {
            continue;
        }
        let of = kept.iter().find_map(|text| Some((text, text.find(table)?)));
        let (text, place) = of.unwrap_or_else(|| panic!("of no kept result:\n{table}"));
        // The title is in the page's own words, with the mark of the kept results.
        let is_marked = |text: &str| text.trim_end().trim_end_matches(':').ends_with('†');
        let before = &readme[..readme.find(table).unwrap()];
        let title = before.lines().rfind(|line| line.trim_end().ends_with(':'));
        let title = title.unwrap_or_else(|| panic!("no line with a colon before:\n{table}"));
        assert_eq!(is_marked(title), is_marked(&text[..place]), "{title}");
        found += 1;
    }
    assert!(found > 0);
}

/// Whether an excerpt matches a text: a line `…` stands for omitted lines.
fn is_shown(shown: &str, text: &str) -> bool {
    let mut pieces = shown.split("…\n");
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    for piece in pieces {
        match rest.find(piece) {
            Some(place) => rest = &rest[place + piece.len()..],
            None => return false,
        }
    }
    rest.is_empty() || shown.ends_with("…\n")
}

#[test]
fn omitted_output_is_shown_by_a_line_of_its_own() {
    let text = "a\nb\nc\nd\n";
    for shown in ["a\nb\nc\nd\n", "a\n…\nd\n", "a\n…\nc\n…\n", "…\nd\n"] {
        assert!(is_shown(shown, text), "{shown}");
    }
    for shown in [
        "a\nb\n",
        "b\nc\nd\n",
        "a\n…\ne\n",
        "a\n…\nc\n",
        "c\n…\na\n…\n",
    ] {
        assert!(!is_shown(shown, text), "{shown}");
    }
}

/// The page shows the demo's table, once it is kept, and each block that begins like an
/// experiment's.
#[test]
fn the_projects_first_page_shows_experiments_as_they_are_kept() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let blocks = readme.split("```console\n").skip(1);
    let blocks: Vec<&str> = blocks.map(|it| it.split("```").next().unwrap()).collect();
    for name in names() {
        let mut shown = blocks
            .iter()
            .filter(|block| block.starts_with(&format!("{name}: ")))
            .peekable();
        if shown.peek().is_none() && name != "demo" {
            continue;
        }
        let Some(text) = kept(&name) else {
            assert!(shown.next().is_none(), "{name}: nothing is kept of it");
            continue;
        };
        assert!(
            shown.peek().is_some(),
            "{name} is not on the first page:\n{text}"
        );
        for block in shown {
            assert!(
                is_shown(block, &text),
                "{name}: not as it is kept:\n{block}\nkept:\n{text}"
            );
        }
    }
}

/// To accept a change, execute it again (`jupyter nbconvert --execute`) with `weft` in the path.
#[test]
fn the_example_notebook_shows_the_demo_as_it_is_kept() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/python/example.ipynb");
    let notebook = std::fs::read_to_string(path).unwrap();
    let notebook: serde_json::Value = serde_json::from_str(&notebook).unwrap();
    let cells = notebook["cells"].as_array().unwrap();
    let demo = cells.iter().find(|cell| {
        cell["source"][0]
            .as_str()
            .unwrap()
            .starts_with("!weft demo")
    });
    let lines = demo.unwrap()["outputs"][0]["text"].as_array().unwrap();
    let shown: String = lines
        .iter()
        .map(|line| line.as_str().unwrap().replace("\r\n", "\n"))
        .collect();
    assert_eq!(shown, kept("demo").unwrap());
}

#[test]
fn an_experiment_is_shown_and_exported_unchanged() {
    let folder = files::folder("experiments-export");
    let shown = weft(&folder, &["experiments", "show", "pfabric-fig4a"]);
    let export = ["experiments", "export", "pfabric-fig4a", "mine.toml"];
    assert!(weft(&folder, &export).status.success());
    let written = std::fs::read_to_string(folder.join("mine.toml")).unwrap();
    assert_eq!(printed(&shown), written);
    // An existing file is not overwritten.
    let refused = weft(&folder, &export);
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8(refused.stderr).unwrap();
    let expected = "weft: mine.toml exists already: choose the name of a new file\n";
    assert_eq!(said, expected);
    let plan = |name: &str| printed(&weft(&folder, &["run", name, "--dry-run", "--out", "x"]));
    assert_eq!(
        plan("pfabric-fig4a"),
        plan("./mine.toml").replace("x/mine", "x/pfabric-fig4a")
    );
}
