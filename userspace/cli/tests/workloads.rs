// SPDX-License-Identifier: MIT OR Apache-2.0

//! `weft workloads` of any workload that `weft run --workload` takes.

#[path = "../../lab/tests/sample/files.rs"]
#[allow(dead_code, unused_imports)]
mod files;
#[path = "../../lab/tests/sample/mod.rs"]
#[allow(dead_code)]
mod sample;

use std::fs;
use std::path::Path;
use std::process::Command;

fn printed(folder: &Path, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weft"));
    let output = command.arg("workloads").args(words).current_dir(folder);
    let output = output.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_table_of_ones_own_is_shown_like_a_published_one() {
    let folder = files::folder("workloads");
    fs::write(folder.join("my.cdf"), "# mine\n1000 0\n3000 1\n").unwrap();
    assert_eq!(printed(&folder, &["./my.cdf"]), "1000 0\n3000 1\n");
    assert_eq!(printed(&folder, &["fixed:1MB"]), "1000000 1\n");
    for (name, mean) in [("./my.cdf", 2000.0), ("fixed:1MB", 1e6)] {
        let json = printed(&folder, &[name, "--json"]);
        let all: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(all.as_array().unwrap().len(), 1);
        assert_eq!(all[0]["mean_bytes"], mean);
    }
    assert!(printed(&folder, &["web-search"]).starts_with('#'));
}
