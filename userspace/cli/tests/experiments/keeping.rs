// SPDX-License-Identifier: MIT OR Apache-2.0

//! `--keep`, also of some runs whose others are kept already. The results are synthetic.

use std::path::{Path, PathBuf};

use crate::judging::{place, result};
use crate::{folder, weft};

/// An experiment at these loads, with a claim.
fn experiment(loads: &str, claim: &str) -> String {
    format!(
        r#"
title = "Load"
seeds = [1, 2]
[[runs]]
options = "rack:hosts=4 --scheme ./plain --load {{load}} --flows 4 --warm-up 0"
each.load = {loads}
ideal = "./plain"
[measures]
mean = {{ of = "slowdown", statistic = "mean" }}
loss = {{ of = "loss" }}
[[tables]]
title = "Slowdown"
measures = "mean"
rows = "load"
columns = "scheme"
[[tables]]
title = "Both"
measures = ["mean", "loss"]
rows = ["load", "scheme"]
[[claims]]
says = "more load, more time"
paper = "1.5 times"
measure = "mean"
where = {{ scheme = "./plain", load = 0.8 }}
over = {{ where = {{ load = 0.2 }} }}
at_most = 1.6
{claim}
"#
    )
}

const OF_NEW: &str = "[[claims]]
says = \"half the load\"
paper = \"2\"
measure = \"mean\"
where = { scheme = \"./plain\", load = 0.5 }
at_most = 3";

/// Replaces the folder's experiment.
fn describe(folder: &Path, experiment: &str) {
    std::fs::write(folder.join("mine.toml"), experiment).unwrap();
}

/// Writes both seeds' results at a load.
fn write(folder: &Path, load: &str, slowdown: f64) {
    for seed in [1, 2] {
        let mut result = result(load, slowdown);
        result.header.seed = seed;
        result.header.clock = Some("model".to_owned());
        result.write(&place(folder, load));
    }
}

/// Keeps what is there, in a folder; returns the status and the errors.
fn keep(folder: &Path, into: &str, more: &[&str]) -> (Option<i32>, String) {
    for kind in ["kept", "fingerprints"] {
        std::fs::create_dir_all(folder.join(into).join(kind)).unwrap();
    }
    let words = ["run", "./mine.toml", "--judge", "--keep", into];
    let output = weft(folder, &[&words[..], more].concat());
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

fn kept(folder: &Path, of: &str) -> String {
    std::fs::read_to_string(folder.join(of).join("kept/mine.json")).unwrap()
}

/// A folder in which loads of 0.2 and 0.8 are kept, and of whose results nothing is left.
fn with_kept(name: &str) -> PathBuf {
    let folder = folder(name, &experiment("[0.2, 0.8]", ""));
    write(&folder, "0.2", 2.0);
    write(&folder, "0.8", 3.0);
    let (status, said) = keep(&folder, ".", &[]);
    assert_eq!(status, Some(0), "{said}");
    std::fs::remove_dir_all(folder.join("results")).unwrap();
    folder
}

#[test]
fn only_new_runs_are_added_to_what_is_kept() {
    let folder = with_kept("only-new");
    describe(&folder, &experiment("[0.2, 0.5, 0.8]", OF_NEW));
    write(&folder, "0.5", 2.5);
    let (status, said) = keep(&folder, ".", &["--only-new"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("4 of 6 runs are kept as they were"), "{said}");
    // The same as if all had been run at once.
    write(&folder, "0.2", 2.0);
    write(&folder, "0.8", 3.0);
    let (status, said) = keep(&folder, "whole", &[]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(kept(&folder, "."), kept(&folder, "whole"));
}

#[test]
fn new_results_replace_kept_ones() {
    let folder = with_kept("only-new-again");
    let experiment = experiment("[0.2, 0.8]", "");
    let later = experiment.replace("says = \"more load, more time\"", "says = \"later\"");
    describe(&folder, &later);
    write(&folder, "0.2", 2.0);
    write(&folder, "0.8", 3.0);
    let (status, said) = keep(&folder, ".", &["--only-new"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("0 of 4 runs are kept as they were"), "{said}");
    assert!(kept(&folder, ".").contains("\"later\""));
}

/// Writes that the kept runs at these loads were made from an earlier kernel.
fn make_stale(folder: &Path, loads: &[&str]) {
    let judgement: serde_json::Value = serde_json::from_str(&kept(folder, ".")).unwrap();
    let runs = judgement["runs"].as_array().unwrap().iter();
    let stale = runs.filter_map(|run| {
        let file = run["file"].as_str().unwrap();
        let name = file.strip_prefix("results/mine/").unwrap();
        let is_stale = loads
            .iter()
            .any(|load| name.contains(&format!("load-{load}/")));
        is_stale.then(|| format!("{name:?}: [{}, 1]", run["sha256"]))
    });
    let runs: Vec<String> = stale.collect();
    let parts = r#"{"kernel": "earlier"}"#;
    let all = format!(r#"[{{"parts": {parts}, "runs": {{{}}}}}]"#, runs.join(", "));
    std::fs::write(folder.join("fingerprints/mine.json"), all).unwrap();
}

/// `--only-new` needs results at this load, and there are none.
fn asks_for(folder: &Path, load: &str) {
    let (_, said) = keep(folder, ".", &["--only-new"]);
    let expected = format!("load-{load}/plain-seed1.jsonl has no results");
    assert!(said.contains(&expected), "{said}");
}

#[test]
fn stale_results_are_new_ones_together_with_what_is_compared() {
    // A claim compares loads of 0.2 and 0.8. Nothing is compared with 0.5.
    let experiment = experiment("[0.2, 0.5, 0.8]", "");
    let folder = folder("only-new-stale", &experiment);
    for load in ["0.2", "0.5", "0.8"] {
        write(&folder, load, 2.0);
    }
    let (status, said) = keep(&folder, ".", &[]);
    assert_eq!(status, Some(0), "{said}");
    std::fs::remove_dir_all(folder.join("results")).unwrap();

    make_stale(&folder, &["0.5"]);
    asks_for(&folder, "0.5");
    write(&folder, "0.5", 3.0);
    let (status, said) = keep(&folder, ".", &["--only-new"]);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("4 of 6 runs are kept as they were"), "{said}");

    make_stale(&folder, &["0.2"]);
    write(&folder, "0.2", 3.0);
    asks_for(&folder, "0.8");
    write(&folder, "0.8", 4.0);
    let (status, said) = keep(&folder, ".", &["--only-new"]);
    assert_eq!(status, Some(0), "{said}");
    // The results of load 0.5 are still there, and count as new ones.
    std::fs::remove_dir_all(folder.join("results")).unwrap();
    for (load, mean) in [("0.2", 3.0), ("0.5", 3.0), ("0.8", 4.0)] {
        write(&folder, load, mean);
    }
    let (status, said) = keep(&folder, "whole", &[]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(kept(&folder, "."), kept(&folder, "whole"));
}

#[test]
fn verdicts_on_results_that_are_the_same_again_are_kept() {
    // The claims compare 0.8 with 0.2, and 0.5 with 0.8.
    let over = OF_NEW.to_owned() + "\nover = { where = { load = 0.8 } }";
    for (name, again) in [("same", 3.0), ("other", 4.0)] {
        let experiment = experiment("[0.2, 0.5, 0.8]", &over);
        let folder = folder(&format!("only-new-{name}"), &experiment);
        for (load, mean) in [("0.2", 2.0), ("0.5", 2.5), ("0.8", 3.0)] {
            write(&folder, load, mean);
        }
        let (status, said) = keep(&folder, ".", &[]);
        assert_eq!(status, Some(0), "{said}");
        let before = kept(&folder, ".");
        std::fs::remove_dir_all(folder.join("results")).unwrap();

        make_stale(&folder, &["0.2"]);
        write(&folder, "0.2", 1.9);
        write(&folder, "0.8", again);
        let (status, said) = keep(&folder, ".", &["--only-new"]);
        if name == "other" {
            assert_ne!(status, Some(0), "{said}");
            let expected = "claim half the load: it compares new results with kept ones";
            assert!(said.contains(expected), "{said}");
            assert_eq!(kept(&folder, "."), before);
        } else {
            assert_eq!(status, Some(0), "{said}");
            assert!(said.contains("2 of 6 runs are kept as they were"), "{said}");
            write(&folder, "0.5", 2.5);
            let (status, said) = keep(&folder, "whole", &[]);
            assert_eq!(status, Some(0), "{said}");
            assert_eq!(kept(&folder, "."), kept(&folder, "whole"));
        }
    }
}

#[test]
fn what_does_not_fit_to_kept_results_is_named() {
    let over = OF_NEW.to_owned() + "\nover = { where = { load = 0.2 } }";
    let loads = "[0.2, 0.5, 0.8]";
    let added = experiment(loads, "") + "[measures.short]\nof = \"time\"\nstatistic = \"max\"\n";
    let added = added.replace(
        "measures = [\"mean\", \"loss\"]",
        "measures = [\"mean\", \"loss\", \"short\"]",
    );
    for (name, experiment, expected) in [
        (
            "compared",
            experiment(loads, &over),
            "/load-0.2/plain-seed1.jsonl has no results",
        ),
        (
            "other-claim",
            experiment(loads, "").replace("paper = \"1.5 times\"", "paper = \"other\""),
            "/load-0.2/plain-seed1.jsonl has no results",
        ),
        (
            "other-measure",
            added,
            "table Both, 0.2, ./plain, short (µs): nothing is kept of these runs",
        ),
        (
            "other-options",
            experiment(loads, "").replace("--warm-up 0\"", "--warm-up 0 --patience 9s\""),
            "/load-0.2/plain-seed1.jsonl has no results",
        ),
    ] {
        let folder = with_kept(&format!("only-new-{name}"));
        let before = kept(&folder, ".");
        describe(&folder, &experiment);
        write(&folder, "0.5", 2.5);
        let (status, said) = keep(&folder, ".", &["--only-new"]);
        assert_ne!(status, Some(0), "{name}: {said}");
        assert!(said.contains(expected), "{name}: {said}");
        assert_eq!(kept(&folder, "."), before, "{name}");
    }
}

#[test]
fn only_new_needs_something_kept() {
    let folder = folder("only-new-nothing", &experiment("[0.2, 0.8]", ""));
    for (words, expected) in [
        (&["--only-new"][..], "--keep"),
        (&["--only-new", "--keep", "."], "kept/mine.json"),
        (&["--only-new", "--keep", ".", "--again"], "--again"),
    ] {
        let output = weft(&folder, &[&["run", "./mine.toml"], words].concat());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn nothing_new_changes_nothing() {
    let folder = folder("only-new-none", &experiment("[0.2, 0.8]", ""));
    let brought = Path::new(env!("CARGO_MANIFEST_DIR")).join("../experiments");
    for kind in ["kept", "fingerprints"] {
        std::fs::create_dir_all(folder.join(kind)).unwrap();
    }
    for name in ["demo", "bfc-fig7", "shoot-out-deadlines"] {
        let files = ["kept", "fingerprints"].map(|kind| format!("{kind}/{name}.json"));
        for file in &files {
            std::fs::copy(brought.join(file), folder.join(file)).unwrap();
        }
        // The demo's results are always current. Others may be stale, which is not the question.
        let compared = match name {
            "demo" => &files[..],
            _ => {
                std::fs::write(folder.join(&files[1]), "[]").unwrap();
                &files[..1]
            }
        };
        let output = weft(
            &folder,
            &["run", name, "--judge", "--keep", ".", "--only-new"],
        );
        assert_eq!(output.status.code(), Some(0), "{name}: {output:?}");
        for file in compared {
            let [before, after] = [&brought, &folder].map(|it| std::fs::read(it.join(file)));
            assert!(before.unwrap() == after.unwrap(), "{file}");
        }
    }
}
